/*
 * A queue from one to many: every message once while all live; what a taker that is killed had waiting
 * is lost, which is why whoever puts must be able to put again; and what comes from strangers.
 */
#include "net_test.h"

#include "net/queue.h"

#define MANY 1000

static struct net_queue *
serve(const char *addr)
{
	struct net_queue *q = NULL;
	struct err err = {0};

	if (net_queue_serve(addr, &q, &err) != RC_OK)
		printf("# %s\n", err.text);
	return q;
}

static struct net_queue *
join(const char *addr)
{
	struct net_queue *q = NULL;
	struct err err = {0};

	if (net_queue_join(addr, &q, &err) != RC_OK)
		printf("# %s\n", err.text);
	return q;
}

static void
test_order(const char *addr, const char *name)
{
	struct net_queue *q = serve(addr), *t = join(net_queue_address(q));
	struct err err = {0};
	bool good = true;
	uint32_t got;
	size_t n;

	for (uint32_t i = 0; i < MANY && good; i++) {
		good = net_queue_put(q, &i, sizeof i, LONG_MS, &err) == RC_OK &&
		       net_queue_take(t, &got, sizeof got, &n, LONG_MS, &err) == RC_OK &&
		       n == sizeof got && got == i;
	}
	ok(good, "%s: one taker gets all messages, in order", name);
	ok(net_queue_take(t, &got, sizeof got, &n, 1, &err) == RC_TIMEOUT, "%s: then there is none",
	   name);
	net_queue_close(t);
	net_queue_close(q);
}

/* Whoever has room gets one: all of them, each once. */
static void
test_many(void)
{
	struct net_queue *q = serve(net_ipc("many")), *t[3];
	static unsigned seen[MANY];
	unsigned all = 0, once = 0;
	struct err err = {0};
	uint32_t put = 0;

	for (unsigned k = 0; k < 3; k++)
		t[k] = join(net_queue_address(q));
	while (all < MANY) {
		uint32_t got;
		size_t n;

		if (put < MANY && net_queue_put(q, &put, sizeof put, 1, &err) == RC_OK)
			put++;
		for (unsigned k = 0; k < 3; k++)
			if (net_queue_take(t[k], &got, sizeof got, &n, 0, &err) == RC_OK) {
				seen[got % MANY]++;
				all++;
			}
	}
	for (unsigned i = 0; i < MANY; i++)
		once += seen[i] == 1;
	ok(once == MANY, "three takers: every message goes to one of them");
	for (unsigned k = 0; k < 3; k++)
		net_queue_close(t[k]);
	net_queue_close(q);
}

/* A taker that never takes; it says its address once it is there. */
static int
sink_child(const char *addr)
{
	struct net_queue *t = join(addr);

	child_serve(t ? addr : "");
}

/* Put again until it comes: what is written to a connection that ends is lost. */
static bool
gets_through(struct net_queue *q, struct net_queue *t, uint32_t value)
{
	uint64_t end = deadline_in_ms(LONG_MS);
	struct err err = {0};
	uint32_t got = 0;
	size_t n;

	while (got != value && deadline_left_ms(end) > 0) {
		net_queue_put(q, &value, sizeof value, 100, &err);
		net_queue_take(t, &got, sizeof got, &n, 100, &err);
	}
	return got == value;
}

static void
test_killed(void)
{
	const char *addr = net_ipc("killed");
	struct net_queue *q = serve(addr), *t;
	struct child c = child_start("sink", addr);
	struct err err = {0};
	uint32_t i = 7;

	ok(net_queue_put(q, &i, sizeof i, LONG_MS, &err) == RC_OK, "a message waits at a taker");
	child_kill(&c);
	t = join(addr);
	ok(gets_through(q, t, 8), "killed: who comes after it gets what is put then");
	net_queue_close(t);
	net_queue_close(q);
}

static void
test_nobody(void)
{
	struct net_queue *q = serve(net_ipc("nobody")), *second = NULL;
	char big[NET_QUEUE_MAX + 1] = {0};
	struct err err = {0};

	ok(net_queue_put(q, big, 8, 1, &err) == RC_TIMEOUT, "nobody takes: the time is up");
	ok(net_queue_put(q, big, sizeof big, 1, &err) == RC_INVAL, "a message that is too long");
	ok(net_queue_serve(net_queue_address(q), &second, &err) == RC_BUSY && !second,
	   "an address that is taken");
	net_queue_close(q);
	net_queue_close(NULL);
}

/* A server that says it sends 2^64-40 bytes, and one that sends more than the taker has room for. */
static void
test_hostile(void)
{
	const char *addr = net_ipc("liar");
	int srv = raw_listen(addr), fd;
	struct net_queue *t = join(addr), *q;
	struct err err = {0};
	char small[4], big[64] = {0};
	size_t n;

	fd = accept(srv, NULL, NULL);
	ok(raw_handshake(fd, SP_PUSH) && raw_head(fd, true, UINT64_MAX - 39), "a liar claims much");
	ok(recv(fd, small, 1, 0) == 0, "... and is dropped");
	close(fd);
	close(srv);
	net_queue_close(t);
	clear_ipc(addr);
	q = serve(net_ipc("large"));
	t = join(net_queue_address(q));
	ok(net_queue_put(q, big, sizeof big, LONG_MS, &err) == RC_OK &&
	       net_queue_take(t, small, sizeof small, &n, LONG_MS, &err) == RC_BADDATA,
	   "a message longer than there is room for");
	net_queue_close(t);
	net_queue_close(q);
}

/* A taker that sends what nobody asked for, a lot of it, to who serves. */
static void
test_rude(void)
{
	const char *addr = net_ipc("rude");
	struct net_queue *q = serve(addr), *t;
	int fd = raw_connect(addr);
	char got;

	raw_handshake(fd, SP_PULL);
	raw_head(fd, true, UINT64_MAX - 39);
	ok(recv(fd, &got, 1, 0) <= 0, "who talks back is dropped");
	close(fd);
	t = join(addr);
	ok(gets_through(q, t, 9), "and the queue goes on");
	net_queue_close(t);
	net_queue_close(q);
}

int
main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "sink") == 0)
		return sink_child(argv[2]);
	net_begin();
	test_order(net_ipc("order"), "ipc");
	test_order("tcp://127.0.0.1:0", "tcp");
	test_many();
	test_nobody();
	test_killed();
	test_hostile();
	test_rude();
	return net_end();
}
