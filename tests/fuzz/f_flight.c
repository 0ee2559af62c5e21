/* Fuzz a recorder's area: bytes overwrite parts of an area that a process wrote, then all of it is read. */
#include <string.h>

#include "flight/read.h"
#include "flight/write.h"

#include "fuzz.h"

#define RECORDS	   256u
#define AREA_BYTES FLIGHT_AREA_BYTES(2, RECORDS)

static _Alignas(4096) unsigned char area[AREA_BYTES];

static void
fill(void)
{
	struct flight_identity who = {.device_id = 1, .name = "gpudev"};
	struct flight_writer w;
	struct flight *f;
	struct err err;

	memset(area, 0, sizeof area);
	require(flight_open(area, sizeof area, RECORDS, &who, NULL, NULL, &f, &err) == RC_OK);
	require(flight_take(f, FLIGHT_STREAM, 0, 0, 0, "stream 0", &w));
	for (int i = 0; i < 300; i++)
		flight_mark(&w, &(struct flight_mark){.what = FLIGHT_MARK_ABORT, .at = 5}, "why");
	flight_close(f);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct flight_bytes bytes = {area, sizeof area};
	struct flight_source s = flight_bytes_source(&bytes);
	static union flight_record r[2 * RECORDS];
	struct flight_header h;
	struct flight_ring ring;
	struct buf copy = {0};
	struct err err;
	char text[64];

	fill();
	/* Pieces: two bytes of offset, one of length, the bytes. */
	while (n > 3) {
		size_t at = (size_t)(data[0] | data[1] << 8) * 8 % sizeof area, len = data[2];

		data += 3;
		n -= 3;
		len = len < n ? len : n;
		len = len < sizeof area - at ? len : sizeof area - at;
		memcpy(area + at, data, len);
		data += len;
		n -= len;
	}
	if (flight_read_header(&s, &h, &err) == RC_OK)
		for (uint32_t i = 0; i < h.nrings; i++) {
			uint64_t next = 0, lost = 0, bad = 0;
			size_t got = 0;

			flight_read_ring(&s, &h, i, &ring, &err);
			if (flight_read_records(&s, &h, i, &next, r, 2 * RECORDS, &got, &lost, &bad,
						&err) != RC_OK)
				continue;
			require(got <= 2 * RECORDS);
			for (size_t k = 0; k < got; k++)
				if (r[k].kind == FLIGHT_MARK)
					flight_text(r, got, k, text, sizeof text);
		}
	flight_copy(&s, &copy, &err);
	buf_fini(&copy);
	return 0;
}
