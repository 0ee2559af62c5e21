/* Fuzz a report: the input with a valid head, and a packed one with overwritten bytes. A report
 * that is read can be freed. */
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "flight/write.h"
#include "view/world.h"
#include "wire/crc32c.h"

#include "../unit/world_test.h"
#include "fuzz.h"

enum { HEAD = 24 };

/* Of two devices, of which one has records. */
static void
make_report(struct buf *out)
{
	static struct area a;
	struct world *w = world_of_two();
	struct buf areas[3] = {{0}};
	struct flight_writer writer;
	struct err err;

	area_open(&a, 1);
	require(flight_take(a.flight, FLIGHT_STREAM, 0, 0, 0, "stream 0", &writer));
	for (int i = 0; i < 20; i++)
		flight_mark(&writer, &(struct flight_mark){.what = FLIGHT_MARK_ABORT, .at = 5},
			    "why");
	require(flight_copy(&a.source, &areas[0], &err) == RC_OK);
	require(world_pack(w, 1, 7, "why", areas, out, &err) == RC_OK);
	buf_fini(&areas[0]);
	world_free(w);
	area_close(&a);
}

static void
read_report(const void *data, size_t n)
{
	struct world *w = NULL;
	struct err err = {0};

	if (world_unpack(data, n, &w, &err) == RC_OK) {
		require(w->report != 0 && w->status);
		for (size_t i = 0; i < w->ndevices; i++)
			if (w->device[i].recorder)
				read_all(w->device[i].recorder->ring,
					 w->device[i].recorder->nrings *
					     sizeof *w->device[i].recorder->ring);
	} else {
		require(err.rc != RC_OK && err.text[0]);
	}
	world_free(w);
}

static void
put_head(struct buf *b)
{
	unsigned char *at = (unsigned char *)b->data;

	memcpy(at, "gpusimR1", 8);
	put64(at + 8, b->len - HEAD);
	put64(at + 16, crc32c(at + HEAD, b->len - HEAD));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct buf report;
	struct buf b = {0};

	if (!report.data)
		make_report(&report);
	read_report(data, size);
	require(buf_add(&b, report.data, HEAD) && buf_add(&b, data, size));
	put_head(&b);
	read_report(b.data, b.len);
	b.len = 0;
	require(buf_add(&b, report.data, report.len));
	while (size > 4) {
		size_t at = (data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16) % b.len;
		size_t n = data[3] < size - 4 ? data[3] : size - 4;

		n = n < b.len - at ? n : b.len - at;
		memcpy(b.data + at, data + 4, n);
		data += 4 + n;
		size -= 4 + n;
	}
	put_head(&b);
	read_report(b.data, b.len);
	buf_fini(&b);
	return 0;
}
