/*
 * sweep - random collectives through the public API, each against an exact reference.
 *
 *	usage: sweep [--no-mapped] [CASES [SEED]]	under gpuctl run -n 8
 *
 * Every row of the table of algorithms is swept, except send and recv, and with --no-mapped those that need
 * mapped memory. Case i is made from SEED + i alone, and a case that fails is printed with its seed: `sweep
 * 1 SEED` runs it again. Values are small integers, so that every type represents every result exactly.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/plan.h"
#include "gpusim.h"
#include "mem/dtype.h"
#include "mem/number.h"
#include "mem/redop.h"

#define RANKS_MAX 8
#define GUARD	  64 /* bytes after each buffer that must not change */

struct sweep_case {
	uint64_t seed;
	const struct plan_algo *algo;
	bool choose; /* leave the choice of the algorithm to the coordinator */
	enum gpusim_dtype dtype;
	enum gpusim_redop redop;
	uint32_t nranks, root, stream;
	uint64_t nelem, chunk_bytes;
	bool in_place;
};

/* One rank's memory: both buffers in one allocation. Counts are elements. */
struct rank {
	struct gpusim_addr addr;
	size_t in, out; /* bytes from there */
	uint64_t nin, nout;
	unsigned char *data, *expect;
};

static bool no_mapped; /* leave out algorithms that need mapped memory */
static uint64_t rng;

static uint64_t
pick(uint64_t n)
{
	uint64_t z = rng += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) % n;
}

static bool
is_swept(const struct plan_algo *row)
{
	return !coll_is_sendrecv(row->coll) && !(no_mapped && plan_algo_mapped(row));
}

/* In turn, so that as many cases as there are rows sweep them all. */
static const struct plan_algo *
algo_of(uint64_t seed)
{
	const struct plan_algo *row;
	uint64_t n = 0, k;

	for (row = plan_algos; row->name; row++)
		n += is_swept(row);
	k = seed % n;
	for (row = plan_algos; !is_swept(row) || k-- > 0; row++)
		continue;
	return row;
}

static const char *
name_of(const struct sweep_case *c)
{
	return c->choose ? "auto" : c->algo->name;
}

static void
part_of(const struct sweep_case *c, uint32_t r, uint64_t *off, uint64_t *count)
{
	*off = r * c->nelem / c->nranks;
	*count = (r + 1ull) * c->nelem / c->nranks - *off;
}

static union number
input_value(const struct sweep_case *c)
{
	return number_of(c->dtype, 1 + (int64_t)pick((uint64_t)redops[c->redop].small));
}

/* Rank r's factor of premulsum. */
static union number
factor(const struct sweep_case *c, uint32_t r)
{
	return number_of(c->dtype, 1 + (int64_t)((c->seed + r) % 3));
}

/* The value of a rank's element in the reduction. */
static union number
summand(const struct sweep_case *c, const union number *value, uint32_t r, uint64_t i)
{
	return number_enter(c->dtype, c->redop, value[r * c->nelem + i], factor(c, r));
}

static union number
reduced(const struct sweep_case *c, const union number *value, uint64_t i)
{
	union number n = summand(c, value, 0, i);

	for (uint32_t r = 1; r < c->nranks; r++)
		n = number_fold(c->dtype, c->redop, n, summand(c, value, r, i));
	return number_finish(c->dtype, c->redop, n, c->nranks);
}

/* Element i of rank r's output. */
static union number
expected(const struct sweep_case *c, const union number *value, uint32_t r, uint64_t i)
{
	uint64_t off, count, block = c->nelem / c->nranks;
	uint32_t q = 0;

	part_of(c, r, &off, &count);
	switch (c->algo->coll) {
	case GPUSIM_ALLREDUCE:
	case GPUSIM_REDUCE:
		return reduced(c, value, i);
	case GPUSIM_REDUCESCATTER:
		return reduced(c, value, off + i);
	case GPUSIM_BROADCAST:
		return value[c->root * c->nelem + i];
	case GPUSIM_SCATTER:
		return value[c->root * c->nelem + off + i];
	case GPUSIM_ALLTOALL:
		return value[i / block * c->nelem + r * block + i % block];
	default: /* the gathers: from the owner of the part, in which it is element i - off */
		for (part_of(c, q, &off, &count); i >= off + count; part_of(c, q, &off, &count))
			q++;
		return value[q * c->nelem + i - off];
	}
}

/* The ranks that have each buffer, and its place if in place. */
static void
lay_out(const struct sweep_case *c, uint32_t r, struct rank *k)
{
	enum gpusim_coll coll = c->algo->coll;
	size_t elem = dtype_size(c->dtype);
	bool root = r == c->root;
	uint64_t off, part;

	part_of(c, r, &off, &part);
	k->nin = coll == GPUSIM_ALLGATHER || coll == GPUSIM_GATHER ? part : c->nelem;
	k->nout = coll == GPUSIM_REDUCESCATTER || coll == GPUSIM_SCATTER ? part : c->nelem;
	if (!root && (coll == GPUSIM_BROADCAST || coll == GPUSIM_SCATTER))
		k->nin = 0;
	if (!root && (coll == GPUSIM_REDUCE || coll == GPUSIM_GATHER))
		k->nout = 0;
	k->in = 0;
	k->out = c->nelem * elem + GUARD;
	if (!c->in_place || k->nin == 0 || k->nout == 0)
		return;
	if (coll == GPUSIM_ALLGATHER || coll == GPUSIM_GATHER)
		k->in = k->out + off * elem;
	else if (coll == GPUSIM_REDUCESCATTER || coll == GPUSIM_SCATTER)
		k->out = k->in + off * elem;
	else
		k->out = k->in;
}

static size_t
nbytes_of(const struct sweep_case *c)
{
	return 2 * (c->nelem * dtype_size(c->dtype) + GUARD);
}

static void
make_case(uint64_t seed, struct sweep_case *c)
{
	static const uint64_t counts[] = {0, 1, 2, 3, 7, 63, 1000, 4099, 70001, 300007};

	rng = seed;
	*c = (struct sweep_case){.seed = seed, .algo = algo_of(seed)};
	c->dtype = (enum gpusim_dtype)pick(GPUSIM_NDTYPES);
	do
		c->redop = (enum gpusim_redop)pick(GPUSIM_NREDOPS);
	while (!redop_takes(c->redop, c->dtype));
	c->nranks = 1 + (uint32_t)pick(RANKS_MAX);
	c->root = (uint32_t)pick(c->nranks);
	c->stream = (uint32_t)pick(64);
	c->nelem = counts[pick(sizeof counts / sizeof counts[0])];
	if (c->algo->coll == GPUSIM_ALLTOALL)
		c->nelem -= c->nelem % c->nranks;
	if (c->algo->coll == GPUSIM_BARRIER)
		c->nelem = 0;
	/* Down to one element a message, if that makes at most some dozens. */
	if (pick(2)) {
		c->chunk_bytes = (c->nelem / (1 + pick(40)) + 1) * dtype_size(c->dtype);
		if (c->chunk_bytes > 1u << 20)
			c->chunk_bytes = 1u << 20;
	}
	c->in_place = c->algo->coll != GPUSIM_ALLTOALL && pick(2);
	c->choose = pick(4) == 0;
}

static void
describe(const struct sweep_case *c)
{
	printf("seed %" PRIu64 ": %s %s %s %s, %u ranks, %" PRIu64
	       " elements, root %u, chunk %" PRIu64 ", stream %u, %s\n",
	       c->seed, coll_name(c->algo->coll), name_of(c), dtype_name(c->dtype),
	       redop_name(c->redop), c->nranks, c->nelem, c->root, c->chunk_bytes, c->stream,
	       c->in_place ? "in place" : "out of place");
}

/* The inputs on the devices, and the expected results. False: gpusim_error has the reason. */
static bool
upload(struct gpusim *g, struct gpusim_comm *comm, const struct sweep_case *c, struct rank *rank)
{
	size_t n = nbytes_of(c), elem = dtype_size(c->dtype);
	union number *value = calloc(c->nranks * c->nelem + 1, sizeof *value);
	bool good = true;

	for (uint64_t i = 0; i < c->nranks * c->nelem; i++)
		value[i] = input_value(c);
	for (uint32_t r = 0; r < c->nranks && good; r++) {
		struct rank *k = &rank[r];

		lay_out(c, r, k);
		k->data = malloc(n);
		k->expect = malloc(n);
		memset(k->data, 0xa5, n);
		for (uint64_t i = 0; i < k->nin; i++)
			number_put(c->dtype, k->data + k->in + i * elem, value[r * c->nelem + i]);
		memcpy(k->expect, k->data, n);
		for (uint64_t i = 0; i < k->nout; i++)
			number_put(c->dtype, k->expect + k->out + i * elem,
				   expected(c, value, r, i));
		good =
		    gpusim_malloc(g, gpusim_comm_device(comm, r), n, GPUSIM_LEASE, &k->addr) == 0 &&
		    gpusim_memcpy_h2d(g, gpusim_comm_device(comm, r), k->addr, k->data, n) == 0;
	}
	free(value);
	return good;
}

static bool
download(struct gpusim *g, struct gpusim_comm *comm, const struct sweep_case *c, struct rank *rank)
{
	size_t n = nbytes_of(c), at = 0;

	for (uint32_t r = 0; r < c->nranks; r++) {
		struct rank *k = &rank[r];

		if (gpusim_memcpy_d2h(g, k->data, gpusim_comm_device(comm, r), k->addr, n) != 0)
			return false;
		if (!memcmp(k->data, k->expect, n))
			continue;
		while (k->data[at] == k->expect[at])
			at++;
		printf("rank %u: byte %zu is %02x, not %02x (in at %zu, out at %zu)\n", r, at,
		       k->data[at], k->expect[at], k->in, k->out);
		return false;
	}
	return true;
}

static bool
run_case(struct gpusim *g, struct gpusim_comm *comm, const struct sweep_case *c)
{
	struct rank rank[RANKS_MAX] = {{.data = NULL}};
	struct gpusim_addr send[RANKS_MAX] = {{0}}, recv[RANKS_MAX] = {{0}};
	struct gpusim_collective op = {GPUSIM_COLLECTIVE_INIT,
				       .coll = c->algo->coll,
				       .dtype = c->dtype,
				       .redop = c->redop,
				       .algo = name_of(c),
				       .nelem = c->nelem,
				       .root = c->root,
				       .send = send,
				       .recv = recv,
				       .stream = {c->stream},
				       .chunk_bytes = c->chunk_bytes};
	bool good = upload(g, comm, c, rank);
	unsigned char scalar[8 * RANKS_MAX];

	for (uint32_t r = 0; r < c->nranks; r++)
		number_put(c->dtype, scalar + r * dtype_size(c->dtype), factor(c, r));
	op.scalar = scalar;
	for (uint32_t r = 0; r < c->nranks; r++) {
		if (rank[r].nin)
			send[r] = gpusim_addr_add(rank[r].addr, rank[r].in);
		if (rank[r].nout)
			recv[r] = gpusim_addr_add(rank[r].addr, rank[r].out);
	}
	good = good && gpusim_collective(comm, &op, GPUSIM_SYNC) == 0 && download(g, comm, c, rank);
	for (uint32_t r = 0; r < c->nranks; r++) {
		if (rank[r].addr.addr &&
		    gpusim_free(g, gpusim_comm_device(comm, r), rank[r].addr) != 0)
			good = false;
		free(rank[r].data);
		free(rank[r].expect);
	}
	if (!good) {
		describe(c);
		printf("%s\n", gpusim_error());
	}
	return good;
}

/* Run the case on a communicator of its size: *comm, or a new one in its place. */
static bool
run_on(struct gpusim *g, struct gpusim_comm **comm, const struct sweep_case *c)
{
	const struct gpusim_comm_config lease = {GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE};

	if (gpusim_comm_count(*comm) != c->nranks) {
		gpusim_comm_destroy(*comm);
		*comm = NULL;
		if (gpusim_comm_init_all(g, c->nranks, NULL, &lease, comm) != 0) {
			describe(c);
			printf("%s\n", gpusim_error());
			return false;
		}
	}
	return run_case(g, *comm, c);
}

int
main(int argc, char **argv)
{
	unsigned long n, failed = 0;
	struct gpusim_comm *comm = NULL;
	struct gpusim *g;
	uint64_t seed;

	no_mapped = argc > 1 && strcmp(argv[1], "--no-mapped") == 0;
	argc -= no_mapped;
	argv += no_mapped;
	n = argc > 1 ? strtoul(argv[1], NULL, 0) : 200;
	seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	if (gpusim_open(NULL, &g) != 0) {
		fprintf(stderr, "sweep: %s\n", gpusim_error());
		return 1;
	}
	for (unsigned long i = 0; i < n && failed < 3; i++) {
		struct sweep_case c;

		make_case(seed + i, &c);
		failed += !run_on(g, &comm, &c);
	}
	gpusim_comm_free(comm);
	gpusim_close(g);
	if (failed == 0)
		printf("%lu cases from seed %" PRIu64 " are right\n", n, seed);
	return failed ? 1 : 0;
}
