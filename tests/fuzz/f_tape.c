/* Fuzz a recording's file: rejected with a message, or a story whose operations are in units. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/le.h"
#include "replay/replay.h"
#include "tape/tape.h"
#include "wire/crc32c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
put(FILE *f, const unsigned char *body, uint32_t n)
{
	unsigned char head[TAPE_RECORD];

	put32(head, n);
	put32(head + 4, crc32c(body, n));
	put32(head + 8, crc32c(head, 8));
	fwrite(head, 1, sizeof head, f);
	fwrite(body, 1, n, f);
}

/* The input is bodies, a length of two bytes before each: checksums would keep the fuzzer out. */
static void
write_file(const char *path, const uint8_t *data, size_t size)
{
	unsigned char head[TAPE_HEAD] = TAPE_MAGIC;
	FILE *f = fopen(path, "w");

	if (!f)
		abort();
	put32(head + 8, TAPE_VERSION);
	fwrite(head, 1, sizeof head, f);
	while (size >= 2) {
		uint32_t n = data[0] | (uint32_t)data[1] << 8;

		data += 2;
		size -= 2;
		n = n < size ? n : (uint32_t)size;
		put(f, data, n);
		data += n;
		size -= n;
	}
	fclose(f);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char dir[] = "/tmp/gpusim-fuzz.XXXXXX", path[64];
	struct story *s = NULL;
	struct err err = {0};

	if (!path[0]) {
		if (!mkdtemp(dir))
			abort();
		snprintf(path, sizeof path, "%s/device-0.rec", dir);
	}
	write_file(path, data, size);
	if (story_read(dir, &s, &err) != RC_OK) {
		if (!err.text[0])
			abort();
		return 0;
	}
	story_units(s);
	if (s->nops && (!s->nunits || s->unit[s->nunits] != s->nops))
		abort();
	if (replay_room(s) < REPLAY_ROOM_MIN)
		abort();
	for (size_t i = 0; i < s->nops; i++) {
		unsigned char *room =
		    s->op[i].in_bytes < 1 << 20 ? malloc(s->op[i].in_bytes + 1) : NULL;

		if (room)
			story_input(s, &s->op[i], false, room, &err);
		free(room);
	}
	story_free(s);
	return 0;
}
