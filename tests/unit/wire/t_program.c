/* dev/program: what is refused before anything runs, and in what words. */
#include "dev_test.h"

#include "wire/frame.h"
#include "wire/wire.h"

#define N 4096

static struct nodes v;
static struct list l;
static struct node *d = &v.node[0]; /* rank 0 of communicator 1, of two */
static uint64_t a, b;

/* The list must be refused with rc and a sentence with these words; then it is emptied. */
static void
refused(uint64_t comm, enum rc want, const char *words)
{
	struct program *p = NULL;
	struct err err = {0};
	enum rc rc = list_build(d, comm, &l, &p, &err);

	ok(rc == want && strstr(err.text, words), "%s", rc == RC_OK ? words : err.text);
	if (rc == RC_OK)
		program_free(p);
	l.n = 0;
}

static void
accepted(const char *what)
{
	struct program *p = NULL;
	struct err err = {0};

	ok(list_build(d, 1, &l, &p, &err) == RC_OK, "%s %s", what, err.text);
	program_free(p);
	l.n = 0;
}

static GpuSim__Coll *
allreduce(uint64_t send, uint64_t recv, uint64_t nelem)
{
	return list_coll(&l, 0, GPUSIM_ALLREDUCE, send, recv, nelem);
}

static void
test_ops(void)
{
	uint64_t end = devmem_max(d->mem);

	refused(9, RC_NOTFOUND, "no communicator 9");
	list_memset(&l, STREAM_MAX, a, 0, 1);
	refused(1, RC_INVAL, "op 0 (memset): stream 64");
	list_memset(&l, 0, a, 0, 1);
	list_memset(&l, 0, end - 1, 0, 2);
	refused(1, RC_INVAL, "op 1 (memset): address 0x");
	list_memset(&l, 0, UINT64_MAX, 0, UINT64_MAX);
	refused(1, RC_INVAL, "is outside");
	list_copy(&l, 0, a, 1, 1);
	refused(1, RC_INVAL, "op 0 (copy): source");
	list_copy(&l, 0, 1, a, 1);
	refused(1, RC_INVAL, "op 0 (copy): destination");
	list_add(&l, 0, GPU_SIM__OP__KIND__NOT_SET);
	refused(1, RC_INVAL, "unknown kind");
	list_launch(&l, 0, "frobnicate", NULL, 0);
	refused(1, RC_NOTFOUND, "op 0 (frobnicate): no kernel 'frobnicate'");
	list_launch(&l, 0, "fill", NULL, 0);
	refused(1, RC_INVAL, "op 0 (fill): ");
	list_launch(&l, 0, "fill", NULL, WIRE_MAX_ARGS + 1);
	refused(1, RC_INVAL, "33 arguments");
	list_memset(&l, 0, end, 0, 0);
	list_copy(&l, 0, 0, 0, 0);
	accepted("no bytes may be anywhere");
	accepted("an empty list");
}

static void
test_events(void)
{
	uint64_t i;

	list_event(&l, 0, 1, RECORD);
	list_event(&l, 1, 2, RECORD);
	list_event(&l, 1, 1, RECORD);
	refused(1, RC_INVAL, "ops 0 and 2 record the same event");
	for (i = 0; i < EVENT_MAX; i++)
		list_event(&l, 0, 100 + i, WAIT);
	refused(1, RC_BUSY, "1024 events");
}

static void
test_collectives(void)
{
	GpuSim__Coll *c;

	allreduce(a, b, 8);
	refused(0, RC_INVAL, "needs a communicator");
	allreduce(a, b, UINT64_MAX);
	refused(1, RC_INVAL, "send buffer");
	allreduce(a, b, UINT64_MAX)->dtype = GPU_SIM__DATA_TYPE__F64;
	refused(1, RC_INVAL, "too many for any memory");
	allreduce(a, devmem_max(d->mem) - 4, 8);
	refused(1, RC_INVAL, "op 0 (allreduce): receive buffer");
	allreduce(a, a + 4, 8);
	refused(1, RC_INVAL, "overlap");
	allreduce(a, b, 8)->dtype = (GpuSim__DataType)77;
	refused(1, RC_INVAL, "unknown type 77");
	allreduce(a, b, 8)->redop = (GpuSim__ReduceOp)77;
	refused(1, RC_INVAL, "operation 77");
	allreduce(a, b, 8)->redop = (GpuSim__ReduceOp)-1;
	refused(1, RC_INVAL, "operation -1");
	allreduce(a, b, 8)->algo = (char *)"magic";
	refused(1, RC_INVAL, "'magic'");
	allreduce(a, b, 8)->chunkbytes = FRAME_PAYLOAD_MAX + 1;
	refused(1, RC_INVAL, "chunk of");
	allreduce(a, b, 8)->coll = (GpuSim__Collective)99;
	refused(1, RC_INVAL, "unknown collective");
	allreduce(a, b, 8)->opoffset = FRAME_OP_MAX;
	refused(1, RC_INVAL, "bad operation number");
	allreduce(a, b, 8)->p2p = 1;
	refused(1, RC_INVAL, "bad pair number");
	list_coll(&l, 0, GPUSIM_BROADCAST, a, b, 8)->root = 2;
	refused(1, RC_INVAL, "op 0 (broadcast): broadcast: no root rank 2");
	c = list_coll(&l, 0, GPUSIM_SEND, a, 0, 8);
	c->root = 0;
	refused(1, RC_INVAL, "its own peer");
	c = list_coll(&l, 0, GPUSIM_SEND, a, 0, 8);
	c->root = 2;
	c->p2p = 1;
	refused(1, RC_INVAL, "no peer rank 2");
	c = list_coll(&l, 0, GPUSIM_SEND, a, 0, 8);
	c->root = 1;
	c->p2p = FRAME_SENDRECV_MAX;
	refused(1, RC_INVAL, "bad pair number");
	list_coll(&l, 0, GPUSIM_ALLTOALL, a, b, 7);
	refused(1, RC_INVAL, "do not divide");
	list_coll(&l, 0, GPUSIM_ALLTOALL, a, a, 8);
	refused(1, RC_INVAL, "overlap");
	list_coll(&l, 0, GPUSIM_ALLGATHER, a + 1, a, 8);
	refused(1, RC_INVAL, "overlap");
	list_coll(&l, 0, GPUSIM_REDUCESCATTER, a, a + 3, 8);
	refused(1, RC_INVAL, "overlap");
	list_coll(&l, 0, GPUSIM_BARRIER, 0, 0, 3);
	refused(1, RC_INVAL, "does not accept elements");
}

static void
test_places(void)
{
	allreduce(a, a, 8);
	list_coll(&l, 1, GPUSIM_ALLGATHER, a, a, 8);
	list_coll(&l, 2, GPUSIM_REDUCESCATTER, a, a, 8);
	list_coll(&l, 3, GPUSIM_GATHER, a, a, 8);
	list_coll(&l, 4, GPUSIM_SCATTER, a, a, 8);
	accepted("in place, as plan.h has it");
	list_coll(&l, 0, GPUSIM_REDUCE, a, 0, 8)->root = 1;
	list_coll(&l, 0, GPUSIM_GATHER, a, 0, 8)->root = 1;
	list_coll(&l, 0, GPUSIM_BROADCAST, 0, a, 8)->root = 1;
	list_coll(&l, 0, GPUSIM_SCATTER, 0, a, 8)->root = 1;
	list_coll(&l, 0, GPUSIM_BARRIER, 0, 0, 0);
	allreduce(0, 0, 0);
	accepted("a rank needs no buffer that it does not use");
}

/* ---- memory */

static void
test_bounds(void)
{
	struct program *p[1000];
	struct err err = {0};
	unsigned n = 0;
	enum rc rc = RC_OK;
	uint64_t big = node_alloc(d, 2u << 20), out = node_alloc(d, 2u << 20);

	for (unsigned i = 0; i < 3; i++)
		allreduce(big, out, 1u << 20)->chunkbytes = 1;
	refused(1, RC_INVAL, "messages in one list");
	ok(d->held == 0, "what was refused holds nothing");
	while (rc == RC_OK && n < 1000) {
		allreduce(big, out, 1u << 18)->chunkbytes = 1;
		rc = list_build(d, 1, &l, &p[n], &err);
		n += rc == RC_OK;
		l.n = 0;
	}
	ok(rc == RC_BUSY && n > 1 && d->held <= PROGRAMS_MAX_HELD, "%s", err.text);
	while (n)
		program_free(p[--n]);
	ok(d->held == 0, "and all of it comes back");
}

static void
test_scratch(void)
{
	struct program *p;
	struct err err = {0};
	bool shared;

	list_coll(&l, 0, GPUSIM_REDUCESCATTER, a, b, 100)->algo = (char *)"naive";
	list_coll(&l, 0, GPUSIM_REDUCESCATTER, a, b, 1000)->algo = (char *)"naive";
	list_coll(&l, 1, GPUSIM_REDUCESCATTER, a, b, 100)->algo = (char *)"naive";
	must(list_build(d, 1, &l, &p, &err), &err);
	l.n = 0;
	shared = p->inst[0].coll.base[PLAN_TMP] == p->inst[1].coll.base[PLAN_TMP];
	ok(p->inst[0].coll.plan.ntmp && shared &&
	       p->inst[0].coll.base[PLAN_TMP] != p->inst[2].coll.base[PLAN_TMP],
	   "collectives of a stream share their scratch, streams do not");
	program_free(p);
}

static void
test_numbers(void)
{
	struct program *p;
	struct err err = {0};

	list_coll(&l, 0, GPUSIM_BARRIER, 0, 0, 0)->opoffset = 9;
	must(list_build(d, 1, &l, &p, &err), &err);
	l.n = 0;
	ok(program_check_numbers(p, 0, 10, 1000, &err) == RC_OK &&
	       program_check_numbers(p, FRAME_OP_MAX - 10, 0, 1, &err) == RC_OK &&
	       program_check_numbers(p, 0, FRAME_OP_MAX - 10, 2, &err) == RC_OK,
	   "numbers below the limit");
	ok(program_check_numbers(p, FRAME_OP_MAX - 9, 0, 1, &err) == RC_INVAL &&
	       program_check_numbers(p, UINT64_MAX, 0, 1, &err) == RC_INVAL &&
	       program_check_numbers(p, 0, UINT64_MAX, 2, &err) == RC_INVAL &&
	       program_check_numbers(p, 0, 1u << 30, 1ull << 40, &err) == RC_INVAL,
	   "past it: %s", err.text);
	program_free(p);
}

static void
test_transfer(void)
{
	struct program *p;
	struct err err = {0};

	ok(program_build_transfer(&d->env, GPUSIM_SEND, 1, 1, a, 8, 1, &p, &err) == RC_OK,
	   "a transfer");
	program_free(p);
	ok(program_build_transfer(&d->env, GPUSIM_SEND, 1, 0, a, 8, 1, &p, &err) == RC_INVAL, "%s",
	   err.text);
	ok(program_build_transfer(&d->env, GPUSIM_SEND, 1, 7, a, 8, 1, &p, &err) == RC_INVAL, "%s",
	   err.text);
	ok(program_build_transfer(&d->env, GPUSIM_RECV, 1, 1, 5, 8, 1, &p, &err) == RC_INVAL, "%s",
	   err.text);
	ok(program_build_transfer(&d->env, GPUSIM_RECV, 2, 1, a, 8, 1, &p, &err) == RC_NOTFOUND,
	   "%s", err.text);
	ok(d->held == 0, "nothing is left");
}

int
main(void)
{
	nodes_open(&v, 2, 8u << 20);
	nodes_attach(&v, 1, 1, 2, 20000);
	a = node_alloc(d, N);
	b = node_alloc(d, N);
	test_ops();
	test_events();
	test_collectives();
	test_places();
	test_bounds();
	test_scratch();
	test_numbers();
	test_transfer();
	program_free(NULL);
	ok(nodes_close(&v), "no program is left");
	return tap_done();
}
