/* Fuzz data frames from a peer: rejected, or packed again into the same header. */
#include <stdlib.h>
#include <string.h>

#include "wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A header is rejected with a message, or packed again the same; the payload is read if there is one. */
static enum rc
look(const unsigned char *data, size_t size)
{
	unsigned char again[FRAME_HEADER];
	struct frame f;
	struct err err = {0};

	if (frame_unpack(data, &f, &err) != RC_OK) {
		if (err.rc == RC_OK || !err.text[0])
			abort();
		return err.rc;
	}
	frame_pack(&f, again);
	if (memcmp(again, data, FRAME_HEADER) != 0 || f.nbytes > FRAME_PAYLOAD_MAX)
		abort();
	if (f.nbytes <= size - FRAME_HEADER)
		frame_check(&f, data + FRAME_HEADER, &err);
	return RC_OK;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char *copy;
	uint32_t crc;

	if (size < FRAME_HEADER || look(data, size) == RC_OK)
		return 0;
	/* Get past the header's own checksum, which no mutation guesses. */
	copy = malloc(size);
	memcpy(copy, data, size);
	crc = frame_crc(copy, 56);
	for (int i = 0; i < 4; i++)
		copy[56 + i] = (unsigned char)(crc >> 8 * i);
	look(copy, size);
	free(copy);
	return 0;
}
