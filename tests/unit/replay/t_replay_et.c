/* Chakra's execution traces, written byte by byte: contents, checks, every truncation and many
 * kinds of damage. */
#include <string.h>

#include "chance.h"
#include "replay/et.h"
#include "tap.h"

/* A trace of one node: id 5, name "n", all-gather of 300 bytes of the group "g", duration 7, with
 * the given dependencies. */
static size_t
write_trace(unsigned char *to, int dep)
{
	static const unsigned char begin[] = {
	    2,	10, 0,					/* metadata with an empty version */
	    74, 8,  5,	18, 1,	 'n', 24,  7,	56,  7, /* id, name, type, duration */
	    82, 13, 10, 9,  'c', 'o', 'm', 'm', '_', 't', 'y', 'p', 'e', 72,  2,      /* int64 */
	    82, 14, 10, 9,  'c', 'o', 'm', 'm', '_', 's', 'i', 'z', 'e', 104, 172, 2, /* uint64 */
	    82, 13, 10, 7,  'p', 'g', '_', 'n', 'a', 'm', 'e', 234, 1,	 1,   'g'};
	size_t n = sizeof begin;

	memcpy(to, begin, n);
	if (dep >= 0) {
		to[n++] = 42; /* packed */
		to[n++] = 1;
		to[n++] = (unsigned char)dep;
	}
	to[3] = (unsigned char)(n - 4);
	return n;
}

static enum rc
read_ranks(struct et_job *job, uint32_t nranks, int dep, struct err *err)
{
	unsigned char bytes[128];
	size_t n = write_trace(bytes, dep);
	enum rc rc = RC_OK;

	*err = (struct err){0};
	*job = (struct et_job){.rank = calloc(nranks, sizeof *job->rank), .nranks = nranks};
	for (uint32_t r = 0; r < nranks && rc == RC_OK; r++)
		rc = et_read(job, r, bytes, n, err);
	return rc == RC_OK ? et_check(job, err) : rc;
}

int
main(void)
{
	struct et_job job;
	struct err err;
	const struct et_node *n;
	unsigned char bytes[128], bad[128];
	size_t size;
	int refused = 0;
	uint64_t seed = 3;

	ok(read_ranks(&job, 2, -1, &err) == RC_OK, "two ranks: %s", err.text);
	n = &job.rank[1].node[0];
	ok(n->id == 5 && strcmp(n->name, "n") == 0 && n->type == ET_COLL && n->duration_us == 7 &&
	       n->coll == GPUSIM_ALLGATHER && n->nbytes == 300,
	   "id, name, type, duration, collective and size are read");
	ok(job.ngroups == 1 && job.group[0].nranks == 2 && n->group == 0, "and the group");
	ok(et_room(&job) == 4096, "the room");
	et_job_fini(&job);
	ok(read_ranks(&job, 1, 5, &err) == RC_BADDATA && strstr(err.text, "waits for itself"),
	   "a node that waits for itself: %s", err.text);
	et_job_fini(&job);
	ok(read_ranks(&job, 1, 6, &err) == RC_BADDATA && strstr(err.text, "which does not exist"),
	   "a node that waits for none: %s", err.text);
	et_job_fini(&job);
	size = write_trace(bytes, 5);
	for (size_t k = 0; k < size; k++) {
		unsigned char *exact = malloc(k + 1);

		memcpy(exact, bytes, k);
		err = (struct err){0};
		job = (struct et_job){.rank = calloc(1, sizeof *job.rank), .nranks = 1};
		refused += et_read(&job, 0, exact, k, &err) == RC_BADDATA && err.text[0];
		et_job_fini(&job);
		free(exact);
	}
	ok(refused == (int)size, "%d of %zu cuts are refused", refused, size);
	for (int i = 0; i < 20000; i++) {
		memcpy(bad, bytes, size);
		for (int k = 0; k < 3; k++)
			bad[xorshift_star(&seed) % size] =
			    (unsigned char)(xorshift_star(&seed) >> 32);
		err = (struct err){0};
		job = (struct et_job){.rank = calloc(1, sizeof *job.rank), .nranks = 1};
		if (et_read(&job, 0, bad, size, &err) == RC_OK)
			et_check(&job, &err);
		et_job_fini(&job);
	}
	ok(true, "damaged traces are read without harm");
	return tap_done();
}
