/*
 * members NRANKS ROUNDS SEED, members 4 wrong, members 4 hold POLICY - collectives of some ranks in lists and
 * graphs of a communicator of all.
 *
 * A round is a list of random collectives of random, overlapping groups on a few streams, beside collectives
 * of all ranks and sends, run by a submit, as a group or as a graph. Small whole numbers are compared with
 * their sums on the host; other floats bit by bit with the same collective of a communicator that is split
 * from this one.
 *
 * wrong prints the error of each wrong call. hold says "ready", reads a line, runs a list with groups tp0
 * (ranks 0, 1) and tp1 (ranks 2, 3), and prints its result.
 */
#include <gpusim.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_RANKS 16
#define MOST_OPS   12
#define MOST_ELEMS 6000
#define ROOM	   (MOST_ELEMS * sizeof(float))

struct op {
	enum gpusim_coll coll;
	enum gpusim_redop redop;
	uint32_t members[MOST_RANKS], n, root;
	uint64_t nelem;
	int deterministic;
	unsigned stream;
	bool all, whole; /* all ranks, members not given; whole numbers */
	bool in_place;
};

struct world {
	struct gpusim *g;
	struct gpusim_comm *comm;
	uint32_t nranks;
	struct gpusim_addr base[MOST_RANKS];
	uint64_t random;
	float in[MOST_OPS][MOST_RANKS][MOST_ELEMS]; /* by place */
};

static struct world w;

static _Noreturn void
die(const char *what)
{
	fprintf(stderr, "members: %s: %s\n", what, gpusim_error());
	exit(1);
}

static uint32_t
any(uint32_t n)
{
	w.random = w.random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(w.random >> 33) % n;
}

static struct gpusim_addr
buffer(uint32_t rank, size_t op, bool out)
{
	return (struct gpusim_addr){w.base[rank].addr + (2 * op + out) * ROOM};
}

static uint64_t
part(const struct op *o, uint32_t r)
{
	return r * o->nelem / o->n;
}

/* The elements of a place's input and output; 0: none. */
static void
shape(const struct op *o, uint32_t r, uint64_t *in, uint64_t *out)
{
	uint64_t own = part(o, r + 1) - part(o, r);

	*in = *out = o->nelem;
	switch (o->coll) {
	case GPUSIM_ALLGATHER:
	case GPUSIM_GATHER:
		*in = own;
		break;
	case GPUSIM_REDUCESCATTER:
	case GPUSIM_SCATTER:
		*out = own;
		break;
	default:
		break;
	}
	if (r != o->root && (o->coll == GPUSIM_REDUCE || o->coll == GPUSIM_GATHER))
		*out = 0;
	if (r != o->root && (o->coll == GPUSIM_BROADCAST || o->coll == GPUSIM_SCATTER))
		*in = 0;
}

static float
folded(const struct op *o, size_t k, uint64_t i)
{
	float sum = w.in[k][0][i];

	for (uint32_t r = 1; r < o->n; r++) {
		float x = w.in[k][r][i];

		sum = o->redop == GPUSIM_SUM ? sum + x : x > sum ? x : sum;
	}
	return sum;
}

/* Element i of the output of place r. */
static float
expected(const struct op *o, size_t k, uint32_t r, uint64_t i)
{
	uint64_t each = o->nelem / o->n;
	uint32_t q = 0;

	switch (o->coll) {
	case GPUSIM_ALLREDUCE:
	case GPUSIM_REDUCE:
		return folded(o, k, i);
	case GPUSIM_REDUCESCATTER:
		return folded(o, k, part(o, r) + i);
	case GPUSIM_BROADCAST:
		return w.in[k][o->root][i];
	case GPUSIM_SCATTER:
		return w.in[k][o->root][part(o, r) + i];
	case GPUSIM_ALLTOALL:
		return w.in[k][i / each][r * each + i % each];
	default: /* allgather, gather */
		while (part(o, q + 1) <= i)
			q++;
		return w.in[k][q][i - part(o, q)];
	}
}

static void
choose(struct op *o, bool in_place)
{
	static const enum gpusim_coll colls[] = {
	    GPUSIM_ALLREDUCE, GPUSIM_ALLREDUCE, GPUSIM_REDUCESCATTER, GPUSIM_ALLGATHER,
	    GPUSIM_BROADCAST, GPUSIM_REDUCE,	GPUSIM_ALLTOALL,      GPUSIM_GATHER,
	    GPUSIM_SCATTER,   GPUSIM_BARRIER};
	static const uint64_t sizes[] = {0, 1, 3, 16, 17, 500, 2048, 6000};

	*o = (struct op){.coll = colls[any(10)], .deterministic = (int)any(2), .stream = any(3)};
	o->all = any(5) == 0;
	o->whole = any(3) != 0;
	o->n = o->all ? w.nranks : 1 + any(w.nranks);
	for (uint32_t r = 0; r < w.nranks; r++)
		o->members[r] = r;
	for (uint32_t r = 0; r < w.nranks && !o->all; r++) {
		uint32_t q = r + any(w.nranks - r), t = o->members[r];

		o->members[r] = o->members[q];
		o->members[q] = t;
	}
	o->root = any(o->n);
	o->redop = any(2) ? GPUSIM_SUM : GPUSIM_MAX;
	o->nelem = sizes[any(8)];
	if (o->coll == GPUSIM_ALLTOALL)
		o->nelem -= o->nelem % o->n;
	if (o->coll == GPUSIM_BARRIER)
		o->nelem = 0;
	o->in_place =
	    in_place && any(3) == 0 && (o->coll == GPUSIM_ALLREDUCE || o->coll == GPUSIM_BROADCAST);
}

/* Fill the inputs of operation k, and its outputs with what it must overwrite. */
static void
fill(const struct op *o, size_t k)
{
	static float none[MOST_ELEMS];

	for (uint32_t r = 0; r < o->n; r++) {
		struct gpusim_device d = gpusim_comm_device(w.comm, o->members[r]);

		for (uint64_t i = 0; i < o->nelem; i++)
			w.in[k][r][i] = o->whole ? (float)any(1000) : (float)any(1u << 24) / 3e5f;
		memset(none, 0xff, sizeof none);
		if (gpusim_memcpy_h2d(w.g, d, buffer(o->members[r], k, true), none, ROOM) ||
		    gpusim_memcpy_h2d(w.g, d, buffer(o->members[r], k, false), w.in[k][r], ROOM))
			die("memcpy");
	}
}

static void
describe(const struct op *o, size_t k, struct gpusim_addr *send, struct gpusim_addr *recv,
	 struct gpusim_collective *c)
{
	*c = (struct gpusim_collective){GPUSIM_COLLECTIVE_INIT, .coll = o->coll,
					.dtype = GPUSIM_F32,	.redop = o->redop,
					.nelem = o->nelem,	.root = o->root,
					.send = send,		.recv = recv,
					.stream = {o->stream},	.deterministic = o->deterministic};
	for (uint32_t r = 0; r < o->n; r++) {
		uint64_t in, out;

		shape(o, r, &in, &out);
		send[r] = in ? buffer(o->members[r], k, false) : (struct gpusim_addr){0};
		recv[r] = out ? buffer(o->members[r], k, !o->in_place) : (struct gpusim_addr){0};
		if (o->in_place && o->coll == GPUSIM_BROADCAST)
			send[r] = recv[r];
	}
	if (!o->all) {
		c->members = o->members;
		c->nmembers = o->n;
		c->group = k % 2 ? "odd" : NULL;
	}
}

/* The outputs of operation k, by place, one after the other. */
static float *
outputs(const struct op *o, size_t k)
{
	float *v = calloc(o->n, ROOM);

	for (uint32_t r = 0; r < o->n && v; r++)
		if (gpusim_memcpy_d2h(w.g, v + (size_t)r * MOST_ELEMS,
				      gpusim_comm_device(w.comm, o->members[r]),
				      buffer(o->members[r], k, !o->in_place), ROOM))
			die("memcpy");
	return v;
}

static void
complain(const struct op *o, size_t k, uint32_t r, uint64_t i, float is, float must)
{
	fprintf(stderr,
		"operation %zu: collective %d of %u members, %" PRIu64
		" elements, deterministic %d: member %u (rank %u) element %" PRIu64
		" is %.9g, not %.9g\n",
		k, o->coll, o->n, o->nelem, o->deterministic, r, o->members[r], i, (double)is,
		(double)must);
	exit(1);
}

/* The same operation by a communicator of its own. */
static void
run_split(const struct op *o, size_t k)
{
	struct gpusim_addr send[MOST_RANKS], recv[MOST_RANKS];
	struct gpusim_collective c;
	struct gpusim_split *split;
	int color[MOST_RANKS], key[MOST_RANKS] = {0};
	size_t n;

	for (uint32_t r = 0; r < w.nranks; r++)
		color[r] = -1;
	for (uint32_t r = 0; r < o->n; r++) {
		color[o->members[r]] = 0;
		key[o->members[r]] = (int)r;
	}
	if (gpusim_comm_split_all(w.comm, color, key, NULL, &split, &n) || n != 1)
		die("split");
	describe(o, k, send, recv, &c);
	c.members = NULL;
	c.nmembers = 0;
	if (gpusim_collective(split[0].comm, &c, GPUSIM_SYNC))
		die("split's collective");
	gpusim_comm_destroy(split[0].comm);
	free(split);
}

static void
check(const struct op *o, size_t k)
{
	float *v = outputs(o, k), *s = NULL;

	if (!o->whole) {
		float *in = &w.in[k][0][0];

		for (uint32_t r = 0; r < o->n; r++)
			if (gpusim_memcpy_h2d(w.g, gpusim_comm_device(w.comm, o->members[r]),
					      buffer(o->members[r], k, false),
					      in + (size_t)r * MOST_ELEMS, ROOM))
				die("memcpy");
		run_split(o, k);
		s = outputs(o, k);
	}
	for (uint32_t r = 0; r < o->n; r++) {
		uint64_t in, out;

		shape(o, r, &in, &out);
		for (uint64_t i = 0; i < out && o->coll != GPUSIM_BARRIER; i++) {
			size_t at = (size_t)r * MOST_ELEMS + i;
			float must = s ? s[at] : expected(o, k, r, i);

			if (memcmp(&v[at], &must, sizeof must) != 0)
				complain(o, k, r, i, v[at], must);
		}
	}
	free(v);
	free(s);
}

/* A rank sends a byte to its neighbour, as a pipeline's stages do. */
static void
add_ring(struct gpusim_ops *ops)
{
	struct gpusim_addr none = buffer(0, MOST_OPS, false);

	for (uint32_t r = 0; r < w.nranks; r++)
		for (int half = 0; half < 2; half++) {
			struct gpusim_addr at = {w.base[r].addr + (none.addr - w.base[0].addr) +
						 (uint64_t)half * 64};
			const struct gpusim_collective c = {
			    GPUSIM_COLLECTIVE_INIT,
			    .coll = half ? GPUSIM_RECV : GPUSIM_SEND,
			    .dtype = GPUSIM_U8,
			    .nelem = 64,
			    .rank = r,
			    .root = (r + (half ? w.nranks - 1 : 1)) % w.nranks,
			    .send = &at,
			    .recv = &at};

			gpusim_ops_collective(ops, &c);
		}
}

static void
play(void)
{
	struct op op[MOST_OPS];
	struct gpusim_addr send[MOST_RANKS], recv[MOST_RANKS];
	struct gpusim_ops *ops = gpusim_ops_new(w.nranks);
	struct gpusim_graph graph;
	unsigned way = any(3); /* a list, a group, a graph */
	size_t n = 1 + any(MOST_OPS);
	enum gpusim_rc rc = way == 1 ? gpusim_group_start(w.comm) : GPUSIM_OK;

	for (size_t k = 0; k < n; k++) {
		struct gpusim_collective c;

		choose(&op[k], way != 2);
		fill(&op[k], k);
		describe(&op[k], k, send, recv, &c);
		if (way != 1)
			gpusim_ops_collective(ops, &c);
		else if (rc == GPUSIM_OK)
			rc = gpusim_collective(w.comm, &c, GPUSIM_ASYNC);
		if (way != 1 && w.nranks > 1 && any(6) == 0)
			add_ring(ops);
	}
	if (way == 1) {
		rc = rc ? rc : gpusim_group_end(w.comm, GPUSIM_SYNC);
	} else if (way == 0) {
		rc = gpusim_submit(w.comm, ops, GPUSIM_SYNC, NULL);
	} else {
		rc = gpusim_graph_create(w.comm, ops, &graph);
		if (rc == GPUSIM_OK)
			rc = gpusim_graph_launch(w.comm, graph, 0, 5, GPUSIM_SYNC, NULL);
		if (rc == GPUSIM_OK)
			rc = gpusim_graph_destroy(w.comm, graph);
	}
	if (rc != GPUSIM_OK)
		die(way == 2 ? "graph" : "list");
	gpusim_ops_free(ops);
	for (size_t k = 0; k < n; k++)
		check(&op[k], k);
}

/* Add an all-reduce of members, with root, on some ranks of the list. */
static void
add(struct gpusim_ops *ops, const uint32_t *members, uint32_t n, const char *group, uint32_t root)
{
	struct gpusim_addr at[MOST_RANKS];
	struct gpusim_collective c = {GPUSIM_COLLECTIVE_INIT,
				      .coll = root ? GPUSIM_BROADCAST : GPUSIM_ALLREDUCE,
				      .dtype = GPUSIM_F32,
				      .nelem = MOST_ELEMS,
				      .root = root,
				      .send = at,
				      .recv = at,
				      .members = members,
				      .nmembers = n,
				      .group = group};

	for (uint32_t r = 0; r < n; r++)
		at[r] = buffer((members && n <= w.nranks ? members[r] : r) % w.nranks, 0, false);
	gpusim_ops_collective(ops, &c);
}

static int
hold(void)
{
	const uint32_t tp[2][2] = {{0, 1}, {2, 3}};
	struct gpusim_ops *ops = gpusim_ops_new(w.nranks);
	enum gpusim_rc rc;

	add(ops, tp[0], 2, "tp0", 0);
	add(ops, tp[1], 2, "tp1", 0);
	printf("ready\n");
	fflush(stdout);
	getchar();
	rc = gpusim_submit(w.comm, ops, GPUSIM_SYNC, NULL);
	printf("%d %s\n", rc, rc ? gpusim_error() : "");
	gpusim_ops_free(ops);
	return 0;
}

static void
print_result(struct gpusim_ops *ops)
{
	printf("%s\n", gpusim_submit(w.comm, ops, GPUSIM_SYNC, NULL) ? gpusim_error() : "no error");
	gpusim_ops_free(ops);
}

/* What the interface refuses. */
static int
wrong(void)
{
	static const uint32_t twice[] = {1, 2, 1}, none[] = {0, 4}, some[] = {0, 2};
	struct gpusim_ops *one;
	const struct gpusim_collective send = {
	    GPUSIM_COLLECTIVE_INIT, .coll = GPUSIM_SEND, .dtype = GPUSIM_U8, .nelem = 1, .root = 1,
	    .send = &w.base[0],	    .members = some,	 .nmembers = 2};
	const struct {
		const uint32_t *members;
		uint32_t n, root;
		const char *group;
	} v[] = {{twice, 3, 0, NULL}, {none, 2, 0, NULL}, {NULL, 2, 0, NULL},
		 {some, 5, 0, NULL},  {some, 2, 2, NULL}, {some, 2, 0, "sixteen letters!"}};

	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		struct gpusim_ops *ops = gpusim_ops_new(w.nranks);

		add(ops, v[i].members, v[i].n, v[i].group, v[i].root);
		print_result(ops);
	}
	one = gpusim_ops_new(w.nranks);
	gpusim_ops_collective(one, &send);
	print_result(one);
	one = gpusim_ops_new(w.nranks);
	gpusim_ops_label(one, (struct gpusim_stream){3}, "twenty-seven letters, no more");
	print_result(one);
	one = gpusim_ops_new(w.nranks);
	gpusim_ops_label(one, (struct gpusim_stream){64}, "F 0");
	print_result(one);
	return 0;
}

int
main(int argc, char **argv)
{
	struct gpusim_comm_config config = {GPUSIM_COMM_CONFIG_INIT, .op_timeout_ms = 60000};
	const char *mode = argc > 2 ? argv[2] : "";
	unsigned long rounds = argc == 4 ? strtoul(argv[2], NULL, 10) : 0;

	w.nranks = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	if (w.nranks == 0 || w.nranks > MOST_RANKS)
		return 2;
	w.random = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;
	if (strcmp(mode, "hold") == 0 && gpusim_on_failure_parse(argv[3], &config.on_failure))
		die("policy");
	if (gpusim_open(NULL, &w.g) || gpusim_comm_init_all(w.g, w.nranks, NULL, &config, &w.comm))
		die("begin");
	for (uint32_t r = 0; r < w.nranks; r++)
		if (gpusim_malloc(w.g, gpusim_comm_device(w.comm, r), (2 * MOST_OPS + 1) * ROOM,
				  GPUSIM_LEASE, &w.base[r]))
			die("malloc");
	if (strcmp(mode, "hold") == 0)
		return hold();
	if (strcmp(mode, "wrong") == 0)
		return wrong();
	for (unsigned long i = 0; i < rounds; i++)
		play();
	printf("%lu rounds of %u ranks\n", rounds, w.nranks);
	gpusim_comm_destroy(w.comm);
	gpusim_close(w.g);
	return 0;
}
