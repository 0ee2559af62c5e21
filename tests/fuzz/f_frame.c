/* Data frames from a peer: refused, or what is packed again is the same header. */
#include <stdlib.h>
#include <string.h>

#include "wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char header[FRAME_HEADER];
	struct frame f;
	struct err err;

	if (frame_unpack(data, size, &f, &err) == RC_OK) {
		frame_pack(&f, header);
		if (f.nbytes != size - FRAME_HEADER || memcmp(header, data, FRAME_HEADER) != 0)
			abort();
		return 0;
	}
	if (err.rc == RC_OK || !err.text[0])
		abort();
	/* Get past the header's own checksum, which no mutation guesses. */
	if (size >= FRAME_HEADER) {
		unsigned char *copy = malloc(size);
		uint32_t crc;

		memcpy(copy, data, size);
		crc = frame_crc(copy, 56);
		for (int i = 0; i < 4; i++)
			copy[56 + i] = (unsigned char)(crc >> 8 * i);
		frame_unpack(copy, size, &f, &err);
		free(copy);
	}
	return 0;
}
