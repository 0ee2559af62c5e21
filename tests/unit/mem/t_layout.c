/*
 * The drawings of bytes in the rooms' READMEs say what the code does: each row is made here from the
 * code's own offsets and has to stand in the README, and the README has no other row.
 */
#include <stddef.h>
#include <string.h>

#include "mem/cmdq.h"
#include "mem/devmem.h"
#include "mem/devmem_file.h"
#include "tap.h"
#include "wire/frame.h"
#include "xport/peermem_impl.h"

/* One row: offset, bytes (0: not said), name. */
struct row {
	uint64_t at, nbytes;
	const char *name;
};

#define FIELD(type, field)                                                              \
	{                                                                               \
		offsetof(struct type, field), sizeof(((struct type *)0)->field), #field \
	}
#define ROWS(v) (sizeof(v) / sizeof(v)[0])

/* The text of a README from the line "drawing: NAME" to the end of its block; the caller's. */
static char *
drawing(const char *path, const char *name)
{
	static char text[1 << 16];
	char head[64], *begin, *end;
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;

	if (f)
		fclose(f);
	text[n] = '\0';
	snprintf(head, sizeof head, "drawing: %s\n", name);
	begin = strstr(text, head);
	end = begin ? strstr(begin, "```") : NULL;
	if (!end)
		tap_bail(path);
	*end = '\0';
	return begin + strlen(head);
}

/* A row is a line that begins with a number. */
static size_t
count_rows(const char *text)
{
	size_t n = 0;

	for (const char *p = text; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
		n += p[strspn(p, " ")] >= '0' && p[strspn(p, " ")] <= '9';
	return n;
}

static void
check(const char *path, const char *name, const struct row *v, size_t n)
{
	const char *text = drawing(path, name);
	bool same = count_rows(text) == n;
	char want[128];

	if (!same)
		printf("# %zu rows, not %zu\n", count_rows(text), n);
	for (size_t i = 0; i < n; i++) {
		size_t len = v[i].nbytes
				 ? (size_t)snprintf(want, sizeof want, "%9llu %9llu  %s",
						    (unsigned long long)v[i].at,
						    (unsigned long long)v[i].nbytes, v[i].name)
				 : (size_t)snprintf(want, sizeof want, "%9llu %9s  %s",
						    (unsigned long long)v[i].at, "", v[i].name);
		const char *p = strstr(text, want);

		if (!p || (p[len] != '\n' && p[len] != ' ')) {
			printf("# no row: %s\n", want);
			same = false;
		}
	}
	ok(same, "%s: %s", path, name);
}

static void
test_peermem(void)
{
	static const struct row block[] = {
	    FIELD(peermem_block, magic),
	    FIELD(peermem_block, comm),
	    FIELD(peermem_block, coordinator),
	    FIELD(peermem_block, epoch),
	    FIELD(peermem_block, rank),
	    FIELD(peermem_block, nranks),
	    FIELD(peermem_block, sleepers),
	    FIELD(peermem_block, moves),
	    FIELD(peermem_block, gave_up),
	    FIELD(peermem_block, reason),
	    {sizeof(struct peermem_block), 0, "slot sets"},
	};
	static const struct row set[] = {
	    FIELD(slot_page, arrival),
	    FIELD(slot_page, call),
	    FIELD(slot_page, share),
	    {sizeof(struct slot_page), sizeof(struct peermem_count), "taken"},
	};
	static const struct row slot[] = {
	    FIELD(peermem_slot, seq),  FIELD(peermem_slot, offset), FIELD(peermem_slot, nbytes),
	    FIELD(peermem_slot, kind), FIELD(peermem_slot, bytes),
	};
	static const struct row arrival[] = {
	    FIELD(peermem_arrival, seq),  FIELD(peermem_arrival, in),
	    FIELD(peermem_arrival, out),  FIELD(peermem_arrival, nbytes),
	    FIELD(peermem_arrival, kind), FIELD(peermem_arrival, bytes),
	};
	static const struct row pair[] = {
	    FIELD(peermem_pair_slot, seq),    FIELD(peermem_pair_slot, op),
	    FIELD(peermem_pair_slot, mark),   FIELD(peermem_pair_slot, offset),
	    FIELD(peermem_pair_slot, nbytes), FIELD(peermem_pair_slot, chunk),
	    FIELD(peermem_pair_slot, bytes),
	};

	check("lib/transport/xport/README.md", "control block", block, ROWS(block));
	check("lib/transport/xport/README.md", "slot set", set, ROWS(set));
	check("lib/transport/xport/README.md", "slot", slot, ROWS(slot));
	check("lib/transport/xport/README.md", "arrival", arrival, ROWS(arrival));
	check("lib/transport/xport/README.md", "pair slot", pair, ROWS(pair));
}

static void
test_memory_file(void)
{
	static const struct row header[] = {
	    FIELD(devmem_header, magic),       FIELD(devmem_header, device_id),
	    FIELD(devmem_header, nbytes),      FIELD(devmem_header, state),
	    FIELD(devmem_header, incarnation), FIELD(devmem_header, scratch),
	    FIELD(devmem_header, coordinator), FIELD(devmem_header, recorder_bytes),
	};
	uint64_t n = 1 << 20, memory = devmem_file_offset(DEVMEM_FIRST),
		 own = devmem_file_offset(DEVMEM_FIRST + n), table = devmem_map_bytes(n);
	const struct row file[] = {
	    {0, sizeof(struct devmem_header), "header"},
	    {memory, n, "memory"},
	    {own, devmem_own_bytes(n), "the device's own"},
	    {table, devmem_file_bytes(n) - table, "table of allocations"},
	    {devmem_recorder_offset(n), 0, "recorder"},
	};

	const struct row queue[] = {
	    FIELD(cmdq_page, magic),	     FIELD(cmdq_page, id),
	    FIELD(cmdq_page, size),	     FIELD(cmdq_page, pid),
	    FIELD(cmdq_page, closed),	     FIELD(cmdq_page, tail),
	    FIELD(cmdq_page, head),	     FIELD(cmdq_page, device_sleeps),
	    FIELD(cmdq_page, client_sleeps), FIELD(cmdq_page, error),
	    FIELD(cmdq_page, ext),	     FIELD(cmdq_page, command),
	};

	check("lib/device/mem/README.md", "command queue", queue, ROWS(queue));
	check("lib/device/mem/README.md", "memory file", file, ROWS(file));
	check("lib/device/mem/README.md", "header", header, ROWS(header));
}

/* Where a field is in a packed header: the bytes that change with it, but for the header's own crc. */
static struct row
packed(const char *name, const struct frame *f)
{
	unsigned char empty[FRAME_HEADER], full[FRAME_HEADER];
	struct row r = {.name = name};

	frame_pack(&(struct frame){0}, empty);
	frame_pack(f, full);
	while (r.at < 60 && empty[r.at] == full[r.at])
		r.at++;
	while (r.at + r.nbytes < 60 && empty[r.at + r.nbytes] != full[r.at + r.nbytes])
		r.nbytes++;
	return r;
}

static void
test_frame(void)
{
	const struct row header[] = {
	    {0, 4, "magic"},
	    {4, 1, "version"},
	    packed("kind", &(struct frame){.kind = (enum frame_kind)0xff}),
	    packed("whole", &(struct frame){.whole = true}),
	    packed("comm", &(struct frame){.comm = UINT64_MAX}),
	    packed("device", &(struct frame){.device = UINT64_MAX}),
	    packed("op", &(struct frame){.op = UINT64_MAX}),
	    packed("seq", &(struct frame){.seq = UINT32_MAX}),
	    packed("epoch", &(struct frame){.epoch = UINT32_MAX}),
	    packed("dst", &(struct frame){.dst = UINT32_MAX}),
	    packed("src", &(struct frame){.src = UINT32_MAX}),
	    packed("nbytes", &(struct frame){.nbytes = UINT32_MAX}),
	    packed("crc", &(struct frame){.crc = UINT32_MAX}),
	    packed("mark", &(struct frame){.mark = UINT32_MAX}),
	    {60, 4, "header's crc"},
	    {FRAME_HEADER, 0, "payload"},
	};

	check("lib/transport/wire/README.md", "frame", header, ROWS(header));
}

int
main(void)
{
	test_peermem();
	test_memory_file();
	test_frame();
	return tap_done();
}
