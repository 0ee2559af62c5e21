/* xport/peermem: ranks that have mapped each other's memory; what they see of each other, and how every
 * wait ends. */
#include "dev_test.h"
#include "eventually.h"

#include <endian.h>
#include <signal.h>
#include <sys/wait.h>

#include "xport/peermem_impl.h"

#define COMM	 5
#define PATIENCE 20000 /* ms; nothing that works takes so long */

/* Two ranks by memory, each with tickets reserved. */
struct two {
	struct nodes v;
	struct xport_tickets tickets[2];
};

static struct peer_mapping *
mapping(const struct two *t, int rank)
{
	return t->tickets[rank].comm->mapping;
}

static void
two_hold(struct two *t)
{
	struct err err = {0};

	for (int r = 0; r < 2; r++)
		must(xport_reserve(t->v.node[r].xport, COMM, 1, 1000, &t->tickets[r], &err), &err);
}

static void
two_open(struct two *t, uint32_t timeout_ms)
{
	nodes_open_by(&t->v, 2, 1 << 20, NODES_BY_MEMORY);
	nodes_attach(&t->v, COMM, 1, 2, timeout_ms);
	two_hold(t);
}

static void
two_close(struct two *t)
{
	xport_unreserve(&t->tickets[0]);
	xport_unreserve(&t->tickets[1]);
	nodes_close(&t->v);
}

static enum rc
begin(struct two *t, int rank, uint64_t ticket, uint32_t kind, struct xport_op *o, struct err *err)
{
	struct xport_opening how = {
	    .tickets = &t->tickets[rank], .ticket = ticket, .kind = kind, .shares = true};

	return xport_begin(t->v.node[rank].xport, &how, o, err);
}

/* One rank's part of a test, on a thread of its own. */
struct part {
	struct two *t;
	int rank;
	uint64_t ticket;
	uint32_t kind;
	enum rc rc;
	struct err err;
	unsigned bad;
	pthread_t thread;
};

static void
parts_run(struct two *t, void *(*main)(void *), struct part part[2])
{
	for (int r = 0; r < 2; r++) {
		part[r].t = t;
		part[r].rank = r;
		pthread_create(&part[r].thread, NULL, main, &part[r]);
	}
	for (int r = 0; r < 2; r++) {
		pthread_join(part[r].thread, NULL);
		if (part[r].rc != RC_OK)
			printf("# rank %d: %s\n", r, part[r].err.text);
	}
}

static unsigned char
byte_of(int rank, unsigned round, size_t i)
{
	return (unsigned char)(rank * 101 + round * 7 + i * 3 + (i >> 8));
}

/* ---- what goes well */

static void *
share_rounds(void *arg)
{
	static const size_t sizes[] = {1, PEERMEM_INLINE, PEERMEM_INLINE + 1, XPORT_SHARE_MAX};
	struct part *p = arg;
	unsigned char *own = malloc(XPORT_SHARE_MAX);
	const void *const *all;
	struct xport_op o;

	p->rc = begin(p->t, p->rank, 0, 1, &o, &p->err);
	for (unsigned k = 0; k < 4000 && p->rc == RC_OK; k++) {
		size_t n = sizes[k % 4];

		for (size_t i = 0; i < n; i++)
			own[i] = byte_of(p->rank, k, i);
		p->rc = xport_share(&o, own, n, &p->err);
		if (p->rc == RC_OK)
			p->rc = xport_shared(&o, n, &all, &p->err);
		for (int r = 0; r < 2 && p->rc == RC_OK; r++)
			for (size_t i = 0; i < n; i++)
				p->bad += ((const unsigned char *)all[r])[i] != byte_of(r, k, i);
		if (k % 5 == 4 && p->rc == RC_OK)
			p->rc = xport_sync(&o, &p->err);
	}
	free(own);
	p->rc = xport_end(&o, p->rc == RC_OK ? XPORT_COMPLETE : XPORT_GIVE_UP, &p->err);
	return NULL;
}

/* Both send k-th messages of many sizes, out of a place each slot of the window has for itself, and
 * receive the other's. */
static void *
exchange(void *arg)
{
	struct part *p = arg;
	struct node *n = &p->t->v.node[p->rank];
	unsigned char *room = devmem_at(n->mem, devmem_min(n->mem), 1 << 20);
	uint32_t peer = !p->rank;
	struct xport_op o;

	p->rc = begin(p->t, p->rank, 1, 1, &o, &p->err);
	for (unsigned k = 0; k < 3000 && p->rc == RC_OK; k++) {
		size_t size = k * 131 % 5000, got;
		unsigned char *at = room + (size_t)(k % (PEERMEM_WINDOW + 1)) * 5000;
		const void *data;

		for (size_t i = 0; i < size; i++)
			at[i] = byte_of(p->rank, k, i);
		p->rc = xport_send(&o, peer, at, size, &p->err);
		if (p->rc == RC_OK)
			p->rc = xport_recv(&o, peer, &data, &got, &p->err);
		if (p->rc != RC_OK)
			break;
		p->bad += got != size;
		for (size_t i = 0; i < size; i++)
			p->bad += ((const unsigned char *)data)[i] != byte_of((int)peer, k, i);
		xport_release(&o, peer);
	}
	p->rc = xport_end(&o, p->rc == RC_OK ? XPORT_COMPLETE : XPORT_GIVE_UP, &p->err);
	return NULL;
}

static void
test_moves(void)
{
	struct part share[2] = {0}, chunks[2] = {0};
	struct two t;

	two_open(&t, PATIENCE);
	ok(t.tickets[0].comm && t.tickets[1].comm && t.tickets[0].first == 0 &&
	       mapping(&t, 0)->whole && t.tickets[0].comm->peer[1].via == &xport_peermem,
	   "both ranks reach the other by its memory");
	parts_run(&t, share_rounds, share);
	ok(share[0].rc == RC_OK && share[1].rc == RC_OK && share[0].bad + share[1].bad == 0,
	   "what is shared is what all see, 4000 times");
	parts_run(&t, exchange, chunks);
	ok(chunks[0].rc == RC_OK && chunks[1].rc == RC_OK && chunks[0].bad + chunks[1].bad == 0,
	   "3000 messages each way, in order and whole");
	two_close(&t);
}

/* The window: so many messages, and no more, go without a receiver. */
static void
test_window(void)
{
	struct err err = {0};
	struct xport_op o, q;
	const void *data;
	size_t n;
	struct two t;
	unsigned k;

	two_open(&t, PATIENCE);
	must(begin(&t, 0, 0, 1, &o, &err), &err);
	must(begin(&t, 1, 0, 1, &q, &err), &err);
	for (k = 0; k < 100 && xport_ready(&o, 1, XPORT_SEND); k++)
		must(xport_send(&o, 1, "x", 1, &err), &err);
	ok(k == PEERMEM_WINDOW, "%u messages go without a receiver", k);
	must(xport_recv(&q, 0, &data, &n, &err), &err);
	ok(n == 1 && !memcmp(data, "x", 1) && !xport_ready(&o, 1, XPORT_SEND),
	   "receiving alone makes no room");
	xport_release(&q, 0);
	ok(xport_ready(&o, 1, XPORT_SEND), "giving back does");
	two_close(&t);
}

static void *
second_ticket(void *arg)
{
	struct part *p = arg;
	struct xport_op o;

	p->rc = begin(p->t, 0, PEERMEM_SLOT_SETS, 1, &o, &p->err);
	return NULL;
}

static void
test_tickets(void)
{
	struct part p = {0};
	struct err err = {0};
	struct xport_op o, other;
	struct two t;

	two_open(&t, PATIENCE);
	p.t = &t;
	must(begin(&t, 0, 0, 1, &o, &err), &err);
	must(begin(&t, 0, 1, 1, &other, &err), &err);
	pthread_create(&p.thread, NULL, second_ticket, &p);
	ok(xport_end(&o, XPORT_COMPLETE, &err) == RC_OK, "two tickets run at a time");
	pthread_join(p.thread, NULL);
	ok(p.rc == RC_OK, "and the next of a slot set when the one before has ended");
	two_close(&t);
	two_open(&t, 50);
	must(begin(&t, 0, 0, 1, &o, &err), &err);
	ok(begin(&t, 0, PEERMEM_SLOT_SETS, 1, &other, &err) == RC_TIMEOUT &&
	       strstr(err.text, "another stream"),
	   "if it never does: %s", err.text);
	two_close(&t);
}

/* ---- how waits end */

static void *
receive_one(void *arg)
{
	struct part *p = arg;
	const void *data;
	struct xport_op o;
	size_t n;

	p->rc = begin(p->t, p->rank, p->ticket, p->kind, &o, &p->err);
	if (p->rc == RC_OK)
		p->rc = xport_recv(&o, (uint32_t)!p->rank, &data, &n, &p->err);
	xport_end(&o, p->rc == RC_OK ? XPORT_COMPLETE : XPORT_GIVE_UP, &p->err);
	return NULL;
}

static void
starts(struct part *p, struct two *t)
{
	*p = (struct part){.t = t, .kind = 1};
	pthread_create(&p->thread, NULL, receive_one, p);
}

static void
waits(struct part *p, struct two *t)
{
	starts(p, t);
	/* It sleeps: that is the longest way. */
	while (!atomic_load(&mapping(t, 1)->block->sleepers))
		sched_yield();
}

static void
test_ends(void)
{
	struct part p = {0};
	struct err err = {0};
	struct xport_op o;
	struct two t;

	two_open(&t, PATIENCE);
	waits(&p, &t);
	must(xport_abort(t.v.node[0].xport, COMM, 1, "because", &err), &err);
	pthread_join(p.thread, NULL);
	ok(p.rc == RC_ABORTED && !strcmp(p.err.text, "because"), "aborted: %s", p.err.text);
	ok(begin(&t, 0, 1, 1, &o, &err) == RC_ABORTED, "nothing begins afterwards");
	two_close(&t);

	two_open(&t, PATIENCE);
	waits(&p, &t);
	must(begin(&t, 1, 0, 1, &o, &err), &err);
	err_set(&err, RC_FAILED, "no paper");
	ok(xport_end(&o, XPORT_GIVE_UP, &err) == RC_FAILED, "giving up keeps the reason");
	pthread_join(p.thread, NULL);
	ok(p.rc == RC_ABORTED &&
	       !strcmp(p.err.text, "rank 1 (device 00000000000000d1) gave up: no paper"),
	   "the peer hears of it: %s", p.err.text);
	two_close(&t);

	two_open(&t, 100);
	starts(&p, &t);
	pthread_join(p.thread, NULL);
	ok(p.rc == RC_TIMEOUT &&
	       !strcmp(p.err.text,
		       "no progress for 0.1s: nothing from rank 1 (device 00000000000000d1)"),
	   "no word: %s", p.err.text);
	two_close(&t);
}

/* A peer whose process ends while it is waited for. */
static void
test_gone(void)
{
	struct part p = {0};
	struct two t;
	int hold[2];
	pid_t pid;

	nodes_open_by(&t.v, 2, 1 << 20, NODES_BY_MEMORY);
	if (pipe(hold) != 0)
		must(RC_FAILED, &(struct err){RC_FAILED, "pipe"});
	pid = fork();
	if (pid == 0) {
		char c;

		close(hold[1]);
		_exit(read(hold[0], &c, 1) < 0);
	}
	close(hold[0]);
	t.v.pid[1] = (int)pid;
	nodes_attach(&t.v, COMM, 1, 2, PATIENCE);
	two_hold(&t);
	waits(&p, &t);
	close(hold[1]);
	waitpid(pid, NULL, 0);
	pthread_join(p.thread, NULL);
	ok(p.rc == RC_UNREACHABLE && strstr(p.err.text, "rank 1 (device 00000000000000d1) is gone"),
	   "a process that ends: %s", p.err.text);
	two_close(&t);
}

static void *
sync_once(void *arg)
{
	struct part *p = arg;
	struct xport_op o;

	p->rc = begin(p->t, p->rank, 0, p->kind, &o, &p->err);
	if (p->rc == RC_OK)
		p->rc = xport_sync(&o, &p->err);
	return NULL;
}

static void
test_disagree(void)
{
	struct part p[2] = {{.kind = 1}, {.kind = 2}};
	struct err err = {0};
	struct xport_op o;
	struct two t;

	two_open(&t, PATIENCE);
	parts_run(&t, sync_once, p);
	ok(p[0].rc == RC_BADDATA && p[1].rc == RC_BADDATA, "two operations at one sync: %s",
	   p[0].err.text);
	two_close(&t);

	two_open(&t, PATIENCE);
	waits(&p[0], &t);
	must(begin(&t, 1, 0, 2, &o, &err), &err);
	must(xport_send(&o, 0, "x", 1, &err), &err);
	pthread_join(p[0].thread, NULL);
	ok(p[0].rc == RC_BADDATA, "a message of another: %s", p[0].err.text);
	two_close(&t);

	/* A peer whose block is nonsense. */
	two_open(&t, PATIENCE);
	must(begin(&t, 1, 0, 1, &o, &err), &err);
	must(xport_send(&o, 0, devmem_at(t.v.node[1].mem, devmem_min(t.v.node[1].mem), 100), 100,
			&err),
	     &err);
	mapping(&t, 1)->peer[1].view[0].slot[0].offset = UINT64_MAX - 10;
	p[0] = (struct part){.t = &t, .kind = 1};
	receive_one(&p[0]);
	ok(p[0].rc == RC_BADDATA, "an offset out of the file: %s", p[0].err.text);
	two_close(&t);
}

/* ---- pairs */

#define NPAIRS 11 /* more than there are slots, of which each takes one */

static void
begin_pair(struct two *t, int rank, uint64_t op, uint64_t nbytes, struct xport_op *o)
{
	struct xport_opening how = {
	    .comm = COMM, .epoch = 1, .op = op, .pair = true, .pair_mark = nbytes};
	struct err err = {0};

	must(xport_begin(t->v.node[rank].xport, &how, o, &err), &err);
}

static bool
ends_well(struct xport_op *o)
{
	struct err err = {0};

	return xport_end(o, XPORT_COMPLETE, &err) == RC_OK;
}

static void
test_pairs(void)
{
	struct xport_op from[NPAIRS], to;
	struct err err = {0};
	unsigned char *mem;
	const void *data;
	unsigned framed = 0, good = 0;
	struct two t;
	size_t n;

	two_open(&t, PATIENCE);
	mem = devmem_at(t.v.node[1].mem, devmem_min(t.v.node[1].mem), 10000);
	for (unsigned k = 0; k < 10000; k++)
		mem[k] = byte_of(1, 0, k);
	for (unsigned k = 0; k < NPAIRS; k++) {
		begin_pair(&t, 1, k, 100, &from[k]);
		good += EVENTUALLY(xport_ready(&from[k], 0, XPORT_SEND));
		must(xport_send(&from[k], 0, mem + 100 * k, 100, &err), &err);
		framed += from[k].pair.framed;
	}
	ok(good == NPAIRS && framed == NPAIRS - PEERMEM_WINDOW,
	   "sends without a slot go by frames: %u", framed);
	/* The last first, as on another stream. */
	good = 0;
	for (unsigned k = NPAIRS; k-- > 0;) {
		begin_pair(&t, 0, k, 100, &to);
		good += EVENTUALLY(xport_ready(&to, 1, XPORT_RECV));
		must(xport_recv(&to, 1, &data, &n, &err), &err);
		good += n == 100 && !memcmp(data, mem + 100 * k, n);
		good += to.pair.got_frame == from[k].pair.framed;
		xport_release(&to, 1);
		good += ends_well(&to) && EVENTUALLY(xport_ready(&from[k], 0, XPORT_TAKEN)) &&
			ends_well(&from[k]);
	}
	ok(good == 4 * NPAIRS, "they meet by number, in any order: %u of %u", good, 4 * NPAIRS);
	two_close(&t);
}

/* Another thread waits for the end of a send. */
static void *
end_send(void *arg)
{
	struct xport_op *o = arg;
	struct err err = {0};

	while (!xport_ready(o, 0, XPORT_TAKEN))
		if (xport_poll(o, &err) != RC_OK)
			return NULL;
	return xport_end(o, XPORT_COMPLETE, &err) == RC_OK ? o : NULL;
}

/* A chunk that also comes by StreamSend: before the slot, after it, and instead of it. */
static void
test_pair_twice(void)
{
	struct xport_op from, to;
	struct err err = {0};
	pthread_t thread;
	unsigned char *mem;
	const void *data;
	void *ended;
	struct two t;
	size_t n;

	two_open(&t, 400);
	mem = devmem_at(t.v.node[1].mem, devmem_min(t.v.node[1].mem), 100);
	memset(mem, 7, 100);
	for (uint64_t op = 0; op < 3; op++) {
		struct xport *x = t.v.node[0].xport;

		begin_pair(&t, 0, op, 100, &to);
		begin_pair(&t, 1, op, 100, &from);
		if (op == 0)
			must(xport_inject(x, COMM, op, 1, 0, mem, 100, &err), &err);
		ok(xport_ready(&from, 0, XPORT_SEND), "there is a slot");
		if (op < 2)
			must(xport_send(&from, 0, mem, 100, &err), &err);
		if (op > 0)
			must(xport_inject(x, COMM, op, 1, 0, mem, 100, &err), &err);
		must(xport_recv(&to, 1, &data, &n, &err), &err);
		ok(n == 100 && !memcmp(data, mem, n), "the chunk comes");
		xport_release(&to, 1);
		ok(!xport_ready(&to, 1, XPORT_RECV) && ends_well(&to), "once");
		if (op == 2) /* when nobody looks any more */
			must(xport_send(&from, 0, mem, 100, &err), &err);
		pthread_create(&thread, NULL, end_send, &from);
		pthread_join(thread, &ended);
		ok(ended != NULL, "and its send ends");
	}
	two_close(&t);
}

static void
test_pair_fails(void)
{
	struct xport_op from, to;
	struct err err = {0};
	struct peermem_pair_slot *slot;
	unsigned char *mem;
	const void *data;
	struct two t;
	size_t n;

	two_open(&t, PATIENCE);
	mem = devmem_at(t.v.node[1].mem, devmem_min(t.v.node[1].mem), 10000);
	begin_pair(&t, 1, 7, 10000, &from);
	begin_pair(&t, 0, 7, 10000, &to);
	ok(xport_ready(&from, 0, XPORT_SEND) && !xport_ready(&to, 1, XPORT_RECV),
	   "nothing has come");
	must(xport_send(&from, 0, mem, 10000, &err), &err);
	must(xport_recv(&to, 1, &data, &n, &err), &err);
	mem[5000] = 9;
	ok(n == 10000 && ((const volatile unsigned char *)data)[5000] == 9,
	   "a chunk is read in the sender's memory");
	xport_release(&to, 1);
	ok(ends_well(&to) && ends_well(&from), "both end");

	begin_pair(&t, 1, 8, 100, &from);
	begin_pair(&t, 0, 8, 99, &to);
	ok(xport_ready(&from, 0, XPORT_SEND), "the slot is free again");
	must(xport_send(&from, 0, mem, 100, &err), &err);
	ok(xport_recv(&to, 1, &data, &n, &err) == RC_BADDATA &&
	       strstr(err.text, "sent 100 bytes, expected 99"),
	   "%s", err.text);
	xport_involve(&to, 1);
	xport_end(&to, XPORT_GIVE_UP, &err);
	ok(EVENTUALLY(xport_ready(&from, 0, XPORT_TAKEN)) &&
	       xport_end(&from, XPORT_COMPLETE, &err) == RC_ABORTED,
	   "the sender hears it: %s", err.text);

	begin_pair(&t, 1, 9, 100, &from);
	begin_pair(&t, 0, 9, 100, &to);
	ok(xport_ready(&from, 0, XPORT_SEND), "another pair goes on");
	must(xport_send(&from, 0, mem, 100, &err), &err);
	slot = mapping(&t, 1)->peer[1].pair_slot + from.pair.slot[0];
	slot->offset = UINT64_MAX - 10;
	ok(xport_recv(&to, 1, &data, &n, &err) == RC_BADDATA, "a chunk outside of the file: %s",
	   err.text);
	slot->offset = 0;
	ok(xport_recv(&to, 1, &data, &n, &err) == RC_BADDATA, "more bytes than a slot has: %s",
	   err.text);
	xport_end(&to, XPORT_GIVE_UP, &err);
	xport_end(&from, XPORT_GIVE_UP, &err);
	two_close(&t);
}

/* ---- who is reached */

static void
test_offers(void)
{
	struct err err = {0};
	struct xport_tickets tickets;
	uint64_t block[2] = {0};
	bool mapped[2];
	struct nodes v;

	nodes_open_by(&v, 2, 1 << 20, NODES_BY_MEMORY);
	v.way = NODES_BY_SOCKETS; /* nobody says where its memory is */
	nodes_attach(&v, COMM, 1, 2, PATIENCE);
	ok(xport_offer(v.node[0].xport, COMM, 1, &block[0], mapped, &err) == RC_OK &&
	       block[0] == 0 && !mapped[1],
	   "without the peer's memory nothing is offered");
	ok(xport_join(v.node[0].xport, COMM, 1, block, 2, &err) == RC_INVAL, "nor joined: %s",
	   err.text);
	ok(xport_reserve(v.node[0].xport, COMM, 1, 1, &tickets, &err) == RC_OK && !tickets.comm,
	   "and no tickets are needed");
	v.way = NODES_BY_MEMORY;
	nodes_attach(&v, COMM + 1, 1, 2, PATIENCE);
	ok(xport_offer(v.node[0].xport, COMM + 1, 2, &block[0], mapped, &err) == RC_NOTFOUND,
	   "another epoch: %s", err.text);
	nodes_attach_only(&v, COMM + 2, 1, 2, PATIENCE);
	ok(xport_join(v.node[0].xport, COMM + 2, 1, (uint64_t[]){0, 64}, 2, &err) == RC_BADDATA,
	   "no control block where it should be: %s", err.text);
	ok(xport_join(v.node[0].xport, COMM + 2, 1, (uint64_t[]){0, 1u << 30}, 2, &err) ==
	       RC_BADDATA,
	   "nor outside of the file");
	ok(xport_join(v.node[0].xport, COMM + 2, 1, block, 1, &err) == RC_INVAL,
	   "as many as there are ranks");
	v.dev_off = 1;
	nodes_attach_only(&v, COMM + 3, 1, 2, PATIENCE);
	ok(xport_offer(v.node[0].xport, COMM + 3, 1, &block[0], mapped, &err) == RC_OK &&
	       block[0] == 0 && !mapped[1],
	   "another file at the path is not mapped");
	nodes_close(&v);
}

int
main(void)
{
	test_moves();
	test_window();
	test_tickets();
	test_ends();
	test_gone();
	test_disagree();
	test_pairs();
	test_pair_twice();
	test_pair_fails();
	test_offers();
	return tap_done();
}
