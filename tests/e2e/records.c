/*
 * records FILE - prints the recorder in a device's memory file, also of a dead device: a line for each ring
 * and each record, oldest first. Intervals are checked: they are whole, and those of a ring nest.
 *
 *	ring stream 0 used 12 records, 0 overwritten, 0 bad
 *	op allreduce #3 of 1, 8 elements, rank 0 of 2, rc 0
 *	wait step 2 for 1
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coll/plan.h"
#include "flight/read.h"
#include "mem/devmem_file.h"
#include "wire/frame.h"

#define MOST (FLIGHT_RECORDS_MAX + 64)

static int bad;

static void
must(enum rc rc, const struct err *err)
{
	if (rc == RC_OK)
		return;
	printf("records: %s\n", err->text);
	exit(1);
}

static void
print_op(const struct flight_op *o)
{
	printf("op %s #%" PRIu64 " of %" PRIu64 ", %" PRIu64 " elements, rank %u of %u, rc %u%s\n",
	       coll_name((enum gpusim_coll)o->coll), frame_op_shown(o->seq), o->comm, o->count,
	       o->rank, o->nranks, o->result, o->end ? "" : ", at hand");
}

static void
print(const union flight_record *r, size_t n, size_t i)
{
	char text[FLIGHT_TEXTS_MAX * FLIGHT_TEXT_BYTES + 1];

	if (r[i].kind == FLIGHT_OP)
		print_op(&r[i].op);
	else if (r[i].kind == FLIGHT_WAIT || r[i].kind == FLIGHT_STEP)
		printf("%s step %u for %u, %" PRIu64 " bytes\n", flight_kind_name(r[i].kind),
		       r[i].step.step, r[i].step.peer - 1, r[i].step.bytes);
	else if (r[i].kind == FLIGHT_KERNEL)
		printf("kernel %s, %u bytes of arguments\n", r[i].kernel.name,
		       r[i].kernel.argbytes);
	else if (r[i].kind == FLIGHT_COPY || r[i].kind == FLIGHT_PAUSE)
		printf("%s %u, %" PRIu64 " bytes\n", flight_kind_name(r[i].kind), r[i].copy.what,
		       r[i].copy.nbytes);
	else if (r[i].kind == FLIGHT_MARK) {
		flight_text(r, n, i, text, sizeof text);
		printf("mark %s, comm %" PRIu64 ", step %u: %s\n", flight_mark_name(r[i].mark.what),
		       r[i].mark.comm, r[i].mark.step, text);
	}
}

/* Intervals are recorded as they end, so each is inside, after, or around those before it. */
static void
check_nesting(const union flight_record *r, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = i; k-- > 0 && i - k < 64;) {
			const struct flight_op *a = &r[k].op, *b = &r[i].op;

			if (r[i].kind == FLIGHT_MARK || r[i].kind == FLIGHT_TEXT || !b->end ||
			    r[k].kind == FLIGHT_MARK || r[k].kind == FLIGHT_TEXT || !a->end)
				continue;
			if (a->end > b->begin && a->begin < b->begin) {
				printf("records: number %zu crosses number %zu\n", i, k);
				bad = 1;
			}
		}
}

static void
print_ring(const struct flight_source *s, const struct flight_header *h, uint32_t i)
{
	union flight_record *r = calloc(MOST, sizeof *r);
	uint64_t next = 0, lost = 0, left_out = 0;
	struct flight_ring ring;
	struct err err;
	size_t n = 0;

	if (!r || flight_read_ring(s, h, i, &ring, &err) != RC_OK) {
		free(r);
		return;
	}
	must(flight_read_records(s, h, i, &next, r, MOST, &n, &lost, &left_out, &err), &err);
	printf("ring %s %" PRIu64 " %s %zu records, %" PRIu64 " overwritten, %" PRIu64 " bad\n",
	       flight_ring_name(ring.kind), ring.id,
	       atomic_load(&ring.state) == FLIGHT_RING_USED ? "used" : "ended", n,
	       atomic_load(&ring.head) - n, left_out);
	for (size_t k = 0; k < n; k++)
		print(r, n, k);
	if (atomic_load(&ring.live.turn) & 1)
		print_op(&ring.live.op);
	check_nesting(r, n);
	free(r);
}

int
main(int argc, char **argv)
{
	struct flight_file file = {.fd = argc > 1 ? open(argv[1], O_RDONLY) : -1};
	struct flight_source s = flight_file_source(&file);
	struct flight_header h;
	struct devmem_header d;
	struct err err = {0};

	if (file.fd < 0 || pread(file.fd, &d, sizeof d, 0) != (ssize_t)sizeof d) {
		fprintf(stderr, "usage: records FILE\n");
		return 2;
	}
	must(devmem_file_recorder(argv[1], file.fd, d.device_id, &file.offset, &file.nbytes, &err),
	     &err);
	must(flight_read_header(&s, &h, &err), &err);
	for (uint32_t i = 0; i < h.nrings; i++)
		print_ring(&s, &h, i);
	return bad;
}
