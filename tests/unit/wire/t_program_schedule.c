/* dev/program: what a device makes of schedules that no coordinator would send. */
#include "dev_test.h"

#include "base/le.h"
#include "coll/schedule.h"
#include "wire/wire.h"

#define N	    4096
#define NCHUNKS	    2
#define STEP_AT	    112 /* where steps begin in a packed schedule, 32 bytes each */
#define FIELD(k, f) (STEP_AT + 32 * (k) + 4 * (f))

enum field { KIND, PEER, ROUND, SRC_AT, DST_AT, WITH_AT, CHUNK, COUNT }; /* of a step */
enum head { MAGIC, COLL, RANK, NRANKS, ROOT, CHUNKS, SCRATCH, INTERVAL, NSTEP };

static struct nodes v;
static struct list l;
static struct node *d = &v.node[0]; /* rank 0 of communicator 1, of two */
static uint64_t a, b;
static struct buf good; /* rank 0's schedule: chunk 0 is summed here, chunk 1 there */

static void
append(struct schedule *s, struct schedule_step x)
{
	x.count = 1;
	if (!schedule_append(s, x))
		tap_bail("out of memory");
}

static void
make_good(void)
{
	struct schedule s = {.name = "mine",
			     .digest = 7,
			     .coll = GPUSIM_ALLREDUCE,
			     .nranks = 2,
			     .nchunks = NCHUNKS,
			     .scratch = 1,
			     .interval = 1};
	const unsigned in = PLAN_IN, out = PLAN_OUT;

	append(&s, (struct schedule_step){
		       .kind = STEP_SEND, .src = in, .peer = 1, .src_at = 1, .chunk = 1});
	append(&s, (struct schedule_step){.kind = STEP_RECV_REDUCE,
					  .flags = SCHEDULE_LAST,
					  .src = in,
					  .dst = out,
					  .peer = 1});
	append(&s, (struct schedule_step){.kind = STEP_SEND, .src = out, .peer = 1, .round = 1});
	append(&s,
	       (struct schedule_step){
		   .kind = STEP_RECV, .dst = out, .dst_at = 1, .chunk = 1, .peer = 1, .round = 1});
	if (!schedule_pack(&s, &good))
		tap_bail("out of memory");
	free(s.step);
}

static GpuSim__Coll *
call(const struct buf *schedule, uint64_t nelem)
{
	GpuSim__Coll *c = list_coll(&l, 0, GPUSIM_ALLREDUCE, a, b, nelem);

	c->algo = (char *)"mine";
	c->schedule = (ProtobufCBinaryData){schedule->len, (uint8_t *)schedule->data};
	return c;
}

/* The list must be refused with a sentence that has these words, NULL: taken. Then it is emptied. */
static void
built(const char *words, const char *what)
{
	struct program *p = NULL;
	struct err err = {0};
	enum rc rc = list_build(d, 1, &l, &p, &err);

	ok(words ? rc != RC_OK && strstr(err.text, words) : rc == RC_OK, "%s: %s", what,
	   rc == RC_OK ? "taken" : err.text);
	if (rc == RC_OK)
		program_free(p);
	l.n = 0;
}

/* The good one with other numbers, one after the other. */
static void
test_numbers(void)
{
	static const struct {
		size_t at;
		uint32_t value;
		const char *words, *what;
	} cases[] = {
	    {FIELD(0, PEER), 2, "step 0: no such peer", "a message to rank n"},
	    {FIELD(0, PEER), 0, "step 0: no such peer", "one to itself"},
	    {FIELD(0, SRC_AT), NCHUNKS, "source out of bounds", "a source behind the input"},
	    {FIELD(0, SRC_AT), 0, "source out of bounds", "a source of another chunk"},
	    {FIELD(0, SRC_AT), UINT32_MAX, "source out of bounds", "a source far away"},
	    {FIELD(3, DST_AT), NCHUNKS, "destination out of bounds",
	     "a destination behind the output"},
	    {FIELD(3, CHUNK), UINT32_MAX, "no such chunk", "a chunk that there is not"},
	    {FIELD(3, COUNT), 2, "no such chunk", "too many chunks"},
	    {FIELD(3, COUNT), UINT32_MAX, "no such chunk", "a huge count"},
	    {FIELD(3, COUNT), 0, "a bad count", "a count of nothing"},
	    {FIELD(2, ROUND), UINT32_MAX, "round out of bounds", "a round too far"},
	    {FIELD(3, ROUND), 0, "comes after a later round", "a round that has been"},
	    {FIELD(0, KIND), 99, "unknown kind", "a step of no kind"},
	    {FIELD(0, KIND), 0xf << 16 | STEP_SEND, "source out of bounds",
	     "a buffer that there is not"},
	    {FIELD(1, KIND), 0xff << 8 | STEP_RECV_REDUCE, "unknown flags",
	     "flags that there are not"},
	    {4 * NRANKS, 3, "for 3 ranks, not 2", "a schedule for others"},
	    {4 * NRANKS, UINT32_MAX, "a bad schedule", "one for too many"},
	    {4 * RANK, 1, "rank 1 step 0", "another rank's"},
	    {4 * COLL, GPUSIM_BARRIER, "a bad schedule", "a collective that has none"},
	    {4 * COLL, GPUSIM_REDUCE, "", "another collective's"},
	    {4 * CHUNKS, 0, "a bad schedule", "no chunks"},
	    {4 * CHUNKS, UINT32_MAX, "a bad schedule", "too many chunks"},
	    {4 * SCRATCH, UINT32_MAX, "a bad schedule", "too much scratch"},
	    {4 * INTERVAL, 0, "a bad schedule", "no pace"},
	    {4 * NSTEP, 5, "a bad schedule", "more steps than there are"},
	    {4 * NSTEP, UINT32_MAX, "a bad schedule", "a number of steps that overflows"},
	    {4 * MAGIC, 0, "a bad schedule", "other bytes"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf bad = {0};

		if (!buf_add(&bad, good.data, good.len))
			tap_bail("out of memory");
		put32((unsigned char *)bad.data + cases[i].at, cases[i].value);
		call(&bad, N);
		built(cases[i].words, cases[i].what);
		buf_fini(&bad);
	}
}

static void
test_sizes(void)
{
	struct buf bad = {0};

	for (size_t n = 1; n < good.len; n += 13) {
		struct buf cut = {.data = good.data, .len = n};
		struct program *p = NULL;
		struct err err = {0};

		call(&cut, N);
		if (list_build(d, 1, &l, &p, &err) != RC_BADDATA)
			tap_bail("a schedule was taken that ends too soon");
		l.n = 0;
	}
	ok(true, "schedules that end too soon");
	buf_add(&bad, good.data, good.len);
	put32((unsigned char *)bad.data + 4 * SCRATCH, SCHEDULE_MAX_SCRATCH);
	call(&bad, N);
	built("scratch", "scratch that the device has not");
	memcpy(bad.data, good.data, good.len);
	put32((unsigned char *)bad.data + FIELD(2, ROUND), SCHEDULE_MAX_ROUNDS - 1);
	put32((unsigned char *)bad.data + FIELD(3, ROUND), SCHEDULE_MAX_ROUNDS - 1);
	call(&bad, N)->chunkbytes = 4;
	built("", "rounds that take for ever with short messages");
	call(&good, UINT64_MAX / 8);
	built("send buffer", "a vector that no buffer holds");
	call(&good, 0);
	built(NULL, "an empty vector");
	call(&good, 1);
	built(NULL, "one element");
	buf_fini(&bad);
}

static void
test_references(void)
{
	static const struct buf none;

	call(&good, N);
	call(&none, N)->scheduleof = 1;
	call(&none, 3)->scheduleof = 1;
	built(NULL, "operations that name an earlier one's schedule");
	call(&none, N)->scheduleof = 1;
	built("op 0 carries no schedule for this algorithm", "its own");
	call(&none, N)->scheduleof = 2;
	call(&good, N);
	built("op 1 carries no schedule for this algorithm", "a later one's");
	call(&good, N);
	call(&none, N)->scheduleof = UINT32_MAX;
	built("carries no schedule for this algorithm", "one that there is not");
	list_memset(&l, 0, a, 0, 4);
	call(&none, N)->scheduleof = 1;
	built("op 0 carries no schedule for this algorithm", "a memset's");
	call(&good, N);
	call(&none, N)->scheduleof = 1;
	call(&none, N)->scheduleof = 2;
	built("op 1 carries no schedule for this algorithm", "one that itself names another's");
	call(&good, N);
	call(&good, N)->scheduleof = 1;
	built("op 0 carries no schedule for this algorithm", "one with a schedule");
	call(&good, N);
	list_coll(&l, 0, GPUSIM_BROADCAST, a, b, N)->scheduleof = 1;
	built("algorithm mine is for allreduce, not ", "another collective");
}

int
main(void)
{
	nodes_open(&v, 2, 4 << 20);
	nodes_attach(&v, 1, 1, 2, 20000);
	a = node_alloc(d, N * 4);
	b = node_alloc(d, N * 4);
	make_good();
	call(&good, N);
	built(NULL, "a schedule as the coordinator sends it");
	test_numbers();
	test_sizes();
	test_references();
	buf_fini(&good);
	ok(nodes_close(&v), "nothing is left of what was refused");
	return tap_done();
}
