/*
 * dev/collective: every collective over both transports, against a naive exact reference.
 *
 * Each algorithm runs at every rank count with sampled types, operations, counts, roots, places,
 * chunks and streams; GPUSIM_SWEEP=N takes N samples of each instead.
 */
#include "chance.h"
#include "dev_test.h"
#include "mem/number.h"
#include "mem/redop.h"

#define GUARD	  64 /* bytes around each buffer that nobody may touch */
#define NELEM_MAX 70001
#define SAMPLES	  (SANITIZED ? 2 : 6)

static uint64_t rng = 88172645463325252ull;

static uint64_t
pick(uint64_t n)
{
	return (xorshift(&rng) >> 11) % n;
}

struct sample {
	const struct plan_algo *algo;
	enum gpusim_dtype dtype;
	enum gpusim_redop redop;
	uint32_t nranks, root, stream;
	uint64_t nelem, chunk_bytes;
	bool in_place;
};

/* Where a rank's buffers are, in bytes from its arena; SIZE_MAX: it has none. */
struct place {
	size_t in, out;
	uint64_t nin, nout; /* elements */
};

static unsigned char *arena[NODES_MAX], *expect[NODES_MAX];
static uint64_t arena_addr[NODES_MAX];
static size_t arena_bytes;
static union number *value; /* of the sample's inputs: [rank][element] */
static uint64_t next_op[NODES_MAX + 1];

/* Numbers whose reduction over 8 ranks is exact in every type, in f32 for those that are shorter. */
static union number
input_value(const struct sample *s)
{
	return number_of(s->dtype, 1 + (int64_t)pick((uint64_t)redops[s->redop].small));
}

/* Rank r's factor of premulsum. */
static union number
factor(const struct sample *s, uint32_t r)
{
	return number_of(s->dtype, 1 + (int64_t)((s->nelem + r) % 3));
}

/* What a rank's element enters the reduction as. */
static union number
summand(const struct sample *s, uint32_t r, uint64_t i)
{
	return number_enter(s->dtype, s->redop, value[r * s->nelem + i], factor(s, r));
}

/* The reduction of all ranks' element i. */
static union number
reduced(const struct sample *s, uint64_t i)
{
	union number n = summand(s, 0, i);

	for (uint32_t r = 1; r < s->nranks; r++)
		n = number_fold(s->dtype, s->redop, n, summand(s, r, i));
	return number_finish(s->dtype, s->redop, n, s->nranks);
}

static struct place
place_of(const struct sample *s, uint32_t r)
{
	size_t elem = dtype_size(s->dtype), second = GUARD + s->nelem * elem + GUARD;
	struct place p = {GUARD, second, s->nelem, s->nelem};
	uint64_t off, part;

	plan_part(s->nelem, s->nranks, r, &off, &part);
	switch (s->algo->coll) {
	case GPUSIM_BROADCAST:
		p.nin = r == s->root ? s->nelem : 0;
		break;
	case GPUSIM_REDUCE:
		p.nout = r == s->root ? s->nelem : 0;
		break;
	case GPUSIM_ALLGATHER:
	case GPUSIM_GATHER:
		p.nin = part;
		if (s->algo->coll == GPUSIM_GATHER && r != s->root)
			p.nout = 0;
		break;
	case GPUSIM_REDUCESCATTER:
	case GPUSIM_SCATTER:
		p.nout = part;
		if (s->algo->coll == GPUSIM_SCATTER && r != s->root)
			p.nin = 0;
		break;
	default:
		break;
	}
	if (!s->in_place || p.nin == 0 || p.nout == 0)
		return p;
	if (s->algo->coll == GPUSIM_ALLGATHER || s->algo->coll == GPUSIM_GATHER)
		p.in = p.out + off * elem;
	else if (s->algo->coll == GPUSIM_REDUCESCATTER || s->algo->coll == GPUSIM_SCATTER)
		p.out = p.in + off * elem;
	else
		p.out = p.in;
	return p;
}

/* What rank r's output element i is. */
static union number
expected(const struct sample *s, uint32_t r, uint64_t i)
{
	uint64_t off, part, block = s->nelem / s->nranks;

	plan_part(s->nelem, s->nranks, r, &off, &part);
	switch (s->algo->coll) {
	case GPUSIM_ALLREDUCE:
	case GPUSIM_REDUCE:
		return reduced(s, i);
	case GPUSIM_REDUCESCATTER:
		return reduced(s, off + i);
	case GPUSIM_BROADCAST:
		return value[s->root * s->nelem + i];
	case GPUSIM_SCATTER:
		return value[s->root * s->nelem + off + i];
	case GPUSIM_ALLTOALL:
		return value[i / block * s->nelem + r * block + i % block];
	default: /* gathers: the value of the part's owner, at its place in the whole */
		for (uint32_t q = 0; q < s->nranks; q++) {
			plan_part(s->nelem, s->nranks, q, &off, &part);
			if (i >= off && i < off + part)
				return value[q * s->nelem + i - off];
		}
		abort();
	}
}

static void
prepare(const struct sample *s)
{
	size_t elem = dtype_size(s->dtype);

	for (uint64_t i = 0; i < s->nranks * s->nelem; i++)
		value[i] = input_value(s);
	for (uint32_t r = 0; r < s->nranks; r++) {
		struct place p = place_of(s, r);

		memset(arena[r], 0xa5, 3 * GUARD + 2 * s->nelem * elem);
		for (uint64_t i = 0; i < p.nin; i++)
			number_put(s->dtype, arena[r] + p.in + i * elem, value[r * s->nelem + i]);
		memcpy(expect[r], arena[r], 3 * GUARD + 2 * s->nelem * elem);
		for (uint64_t i = 0; i < p.nout; i++)
			number_put(s->dtype, expect[r] + p.out + i * elem, expected(s, r, i));
	}
}

static void
describe(const struct sample *s)
{
	printf("# %s %s %s %s, %u ranks, %" PRIu64 " elements, root %u, chunk %" PRIu64
	       ", stream %u, %s\n",
	       coll_name(s->algo->coll), s->algo->name, dtype_name(s->dtype), redop_name(s->redop),
	       s->nranks, s->nelem, s->root, s->chunk_bytes, s->stream,
	       s->in_place ? "in place" : "out of place");
}

static bool
compare(const struct sample *s)
{
	size_t n = 3 * GUARD + 2 * s->nelem * dtype_size(s->dtype), at = 0;
	struct place p;

	for (uint32_t r = 0; r < s->nranks; r++) {
		if (!memcmp(arena[r], expect[r], n))
			continue;
		while (arena[r][at] == expect[r][at])
			at++;
		p = place_of(s, r);
		describe(s);
		printf("# rank %u: byte %zu is %02x, not %02x (in at %zu, out at %zu)\n", r, at,
		       arena[r][at], expect[r][at], p.in, p.out);
		return false;
	}
	return true;
}

static bool
run_sample(struct nodes *v, const struct sample *s)
{
	static struct list l[NODES_MAX];
	struct ending e[NODES_MAX];
	bool good = true;

	prepare(s);
	for (uint32_t r = 0; r < s->nranks; r++) {
		struct place p = place_of(s, r);
		uint64_t at = arena_addr[r];
		GpuSim__Coll *c;

		e[r] = (struct ending)ENDING;
		l[r].n = 0;
		/* A rank without a buffer says 0. */
		c = list_coll(&l[r], s->stream, s->algo->coll, p.nin ? at + p.in : 0,
			      p.nout ? at + p.out : 0, s->nelem);
		c->algo = (char *)s->algo->name;
		c->dtype = (GpuSim__DataType)s->dtype;
		c->redop = (GpuSim__ReduceOp)s->redop;
		number_put(s->dtype, &c->scalar, factor(s, r));
		c->root = s->root;
		c->chunkbytes = s->chunk_bytes;
		node_run(&v->node[r], s->nranks, &l[r], next_op[s->nranks], &e[r]);
	}
	next_op[s->nranks]++;
	for (uint32_t r = 0; r < s->nranks; r++)
		if (ending_wait(&e[r]) != RC_OK && good) {
			describe(s);
			printf("# rank %u: %s\n", r, e[r].result.err.text);
			good = false;
		}
	return good && compare(s);
}

static struct sample
make_sample(const struct plan_algo *algo, uint32_t nranks)
{
	static const uint64_t counts[] = {0, 1, 2, 3, 7, 64, 1000, 4099, NELEM_MAX};
	struct sample s = {.algo = algo, .nranks = nranks};
	size_t elem;

	s.dtype = (enum gpusim_dtype)pick(GPUSIM_NDTYPES);
	do
		s.redop = (enum gpusim_redop)pick(GPUSIM_NREDOPS);
	while (!redop_takes(s.redop, s.dtype));
	s.root = (uint32_t)pick(nranks);
	s.stream = (uint32_t)pick(3);
	s.nelem = counts[pick(9)];
	if (algo->coll == GPUSIM_ALLTOALL)
		s.nelem -= s.nelem % nranks;
	if (algo->coll == GPUSIM_BARRIER)
		s.nelem = 0;
	elem = dtype_size(s.dtype);
	/* Down to one element a message where that does not make too many. */
	s.chunk_bytes = pick(2) ? (s.nelem / (1 + pick(40)) + 1) * elem : 0;
	s.in_place = algo->coll != GPUSIM_ALLTOALL && pick(2);
	return s;
}

/* Every algorithm that the transport can run, 1 to NODES_MAX ranks. */
static void
sweep(enum nodes_way way, unsigned samples)
{
	static struct nodes v;
	const char *by = way == NODES_BY_MEMORY ? "memory" : "sockets";

	memset(next_op, 0, sizeof next_op);
	nodes_open_by(&v, NODES_MAX, 2 * arena_bytes, way);
	for (uint32_t r = 0; r < NODES_MAX; r++) {
		nodes_attach(&v, r + 1, 1, r + 1, 20000);
		arena_addr[r] = node_alloc(&v.node[r], arena_bytes);
		arena[r] = devmem_at(v.node[r].mem, arena_addr[r], arena_bytes);
	}
	for (const struct plan_algo *a = plan_algos; a->name; a++) {
		bool good = true;

		if (coll_is_sendrecv(a->coll) || (way == NODES_BY_SOCKETS && plan_algo_mapped(a)))
			continue;
		for (uint32_t p = 1; p <= NODES_MAX && good; p++)
			for (unsigned k = 0; k < samples && good; k++) {
				struct sample s = make_sample(a, p);

				good = run_sample(&v, &s);
			}
		ok(good, "%s, %s: 1 to %d ranks by %s", coll_name(a->coll), a->name, NODES_MAX, by);
	}
	ok(nodes_close(&v), "no program is left");
}

int
main(void)
{
	const char *more = getenv("GPUSIM_SWEEP");
	unsigned samples = more ? (unsigned)strtoul(more, NULL, 10) : SAMPLES;

	arena_bytes = 3 * GUARD + 2 * NELEM_MAX * 8;
	value = calloc(NODES_MAX * NELEM_MAX, sizeof *value);
	for (uint32_t r = 0; r < NODES_MAX; r++)
		expect[r] = malloc(arena_bytes);
	sweep(NODES_BY_SOCKETS, samples);
	sweep(NODES_BY_MEMORY, samples);
	for (uint32_t r = 0; r < NODES_MAX; r++)
		free(expect[r]);
	free(value);
	return tap_done();
}
