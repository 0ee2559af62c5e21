/* dev/pairs: sends and receives that run together, in any order, in both directions. */
#include "chance.h"
#include "dev_test.h"

#define BIG (5u << 20) /* bytes: more than a window of chunks */

static struct nodes v;
static struct list la, lb;
static uint64_t rng = 1181783497276652981ull;

static uint64_t
pick(uint64_t n)
{
	return (xorshift(&rng) >> 11) % n;
}

static void
fill(unsigned char *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(i * 131 + (i >> 9) + seed);
}

static bool
holds(const unsigned char *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != (unsigned char)(i * 131 + (i >> 9) + seed))
			return false;
	return true;
}

static unsigned char *
host(unsigned r, uint64_t addr, size_t n)
{
	return devmem_at(v.node[r].mem, addr, n);
}

static void
add(struct list *l, enum gpusim_coll way, uint32_t peer, uint64_t op, uint64_t addr, uint64_t n)
{
	GpuSim__Coll *c = list_coll(l, 0, way, addr, addr, n);

	c->root = peer;
	c->opoffset = op;
}

/* Both lists at once; true when both ended well. */
static bool
run_both(uint64_t comm, uint64_t first_op)
{
	struct ending a = ENDING, b = ENDING;

	node_run(&v.node[0], comm, &la, first_op, &a);
	node_run(&v.node[1], comm, &lb, first_op, &b);
	if (ending_wait(&a) != RC_OK)
		printf("# rank 0: %s\n", a.result.err.text);
	if (ending_wait(&b) != RC_OK)
		printf("# rank 1: %s\n", b.result.err.text);
	return a.result.err.rc == RC_OK && b.result.err.rc == RC_OK;
}

static void
reset(void)
{
	la.n = lb.n = 0;
}

/* Each sends to the other first: with either alone in a row both would wait for ever. */
static void
test_exchange(void)
{
	uint64_t out[2], in[2];

	reset();
	for (unsigned r = 0; r < 2; r++) {
		out[r] = node_alloc(&v.node[r], BIG);
		in[r] = node_alloc(&v.node[r], BIG);
		fill(host(r, out[r], BIG), BIG, r);
		memset(host(r, in[r], BIG), 0, BIG);
	}
	add(&la, GPUSIM_SEND, 1, 0, out[0], BIG);
	add(&la, GPUSIM_RECV, 1, 1, in[0], BIG);
	add(&lb, GPUSIM_SEND, 0, 1, out[1], BIG);
	add(&lb, GPUSIM_RECV, 0, 0, in[1], BIG);
	ok(run_both(1, 0) && holds(host(0, in[0], BIG), BIG, 1) &&
	       holds(host(1, in[1], BIG), BIG, 0),
	   "%u bytes each way at once, sends first on both", BIG);
	for (unsigned r = 0; r < 2; r++) {
		devmem_free(v.node[r].mem, out[r], NULL);
		devmem_free(v.node[r].mem, in[r], NULL);
	}
}

/* n transfers of mixed sizes and directions; the second rank's list is in a random order. */
static void
test_order(const char *what, unsigned n, size_t most, uint64_t first_op)
{
	uint64_t base[2] = {node_alloc(&v.node[0], n * most), node_alloc(&v.node[1], n * most)};
	unsigned *order = calloc(n, sizeof *order);
	size_t *size = calloc(n, sizeof *size);
	bool good;

	reset();
	for (unsigned i = 0; i < n; i++) {
		unsigned j = (unsigned)pick(i + 1);

		order[i] = order[j];
		order[j] = i;
		size[i] = pick(10) ? (size_t)pick(most) : 0;
		fill(host(i % 2, base[i % 2] + i * most, most), size[i], i);
		memset(host(1 - i % 2, base[1 - i % 2] + i * most, most), 0, most);
	}
	for (unsigned i = 0; i < n; i++) {
		unsigned k = order[i];

		add(&la, i % 2 ? GPUSIM_RECV : GPUSIM_SEND, 1, i, base[0] + i * most, size[i]);
		add(&lb, k % 2 ? GPUSIM_SEND : GPUSIM_RECV, 0, k, base[1] + k * most, size[k]);
	}
	good = run_both(1, first_op);
	for (unsigned i = 0; i < n && good; i++)
		if (!holds(host(1 - i % 2, base[1 - i % 2] + i * most, most), size[i], i)) {
			printf("# transfer %u of %zu bytes is wrong\n", i, size[i]);
			good = false;
		}
	ok(good, "%s", what);
	free(order);
	free(size);
	devmem_free(v.node[0].mem, base[0], NULL);
	devmem_free(v.node[1].mem, base[1], NULL);
}

/* A hundred small sends to one who has not begun: more than may wait there early. */
static void
test_late_receiver(void)
{
	enum { N = XPORT_EARLY_OPS + 50 };
	uint64_t from = node_alloc(&v.node[0], N), to = node_alloc(&v.node[1], N);
	struct ending a = ENDING, b = ENDING, e[2] = {ENDING, ENDING};
	bool good;

	reset();
	fill(host(0, from, N), N, 9);
	for (unsigned i = 0; i < N; i++) {
		add(&la, GPUSIM_SEND, 1, i, from + i, 1);
		add(&lb, GPUSIM_RECV, 0, i, to + i, 1);
	}
	node_run(&v.node[0], 1, &la, 100000, &a);
	/* A trip through the same connection: what was sent before it has arrived. */
	la.n = 0;
	list_coll(&la, 1, GPUSIM_BARRIER, 0, 0, 0);
	for (unsigned r = 0; r < 2; r++)
		node_run(&v.node[r], 1, &la, 200000, &e[r]);
	good = ending_wait(&e[0]) == RC_OK && ending_wait(&e[1]) == RC_OK;
	node_run(&v.node[1], 1, &lb, 100000, &b);
	good &= ending_wait(&a) == RC_OK && ending_wait(&b) == RC_OK;
	ok(good && holds(host(1, to, N), N, 9), "%d sends to one who begins late: %s%s", N,
	   a.result.err.text, b.result.err.text);
}

static void
test_failures(void)
{
	uint64_t at[2] = {node_alloc(&v.node[0], BIG), node_alloc(&v.node[1], BIG)};
	struct ending a = ENDING, b = ENDING;

	/* More is sent than received: by whole chunks, which no single chunk betrays. */
	reset();
	add(&la, GPUSIM_SEND, 1, 0, at[0], 4u << 18);
	add(&lb, GPUSIM_RECV, 0, 0, at[1], 2u << 18);
	node_run(&v.node[0], 1, &la, 300000, &a);
	node_run(&v.node[1], 1, &lb, 300000, &b);
	ending_wait(&b);
	ok(ending_wait(&a) != RC_OK && strstr(a.result.err.text, "send: ") &&
	       strstr(a.result.err.text, "disagree"),
	   "a receive that is too short fails the send: %s", a.result.err.text);
	/* Other sizes are seen at once, by the receiver; the sender hears it. */
	a = b = (struct ending)ENDING;
	reset();
	add(&la, GPUSIM_SEND, 1, 0, at[0], 1000);
	add(&lb, GPUSIM_RECV, 0, 0, at[1], 999);
	node_run(&v.node[0], 1, &la, 300001, &a);
	node_run(&v.node[1], 1, &lb, 300001, &b);
	ok(ending_wait(&b) == RC_BADDATA && strstr(b.result.err.text, "recv: rank 0 sent 1000"),
	   "%s", b.result.err.text);
	ok(ending_wait(&a) == RC_ABORTED && strstr(a.result.err.text, "rank 1") &&
	       strstr(a.result.err.text, "1000"),
	   "%s", a.result.err.text);
	/* A peer that never comes: the stuck one is named, and what it drags along has its reason.
	 */
	nodes_attach(&v, 1, 2, 2, 100);
	a = b = (struct ending)ENDING;
	reset();
	add(&la, GPUSIM_SEND, 1, 0, at[0], 0);
	add(&la, GPUSIM_RECV, 1, 1, at[0], 10);
	node_run(&v.node[0], 1, &la, 0, &a);
	ok(ending_wait(&a) == RC_TIMEOUT &&
	       strstr(a.result.err.text, "recv: no progress for 0.1s: nothing from rank 1 (device "
					 "00000000000000d1)"),
	   "%s", a.result.err.text);
	add(&lb, GPUSIM_SEND, 0, 1, at[1], 10);
	node_run(&v.node[1], 1, &lb, 0, &b);
	ok(ending_wait(&b) == RC_ABORTED && strstr(b.result.err.text, "gave up"),
	   "who comes after that hears it: %s", b.result.err.text);
}

static void
test_all(enum nodes_way way)
{
	nodes_open_by(&v, 2, 64u << 20, way);
	nodes_attach(&v, 1, 1, 2, 20000);
	test_exchange();
	test_order("two hundred transfers, each side in an order of its own", 200, 3000, 1000);
	test_order("twenty large ones", 20, 1u << 20, 2000);
	test_order("as many as a list holds", 4096, 16, 10000);
	test_late_receiver();
	test_failures();
	ok(nodes_close(&v), "no program is left");
}

int
main(void)
{
	test_all(NODES_BY_SOCKETS);
	test_all(NODES_BY_MEMORY);
	return tap_done();
}
