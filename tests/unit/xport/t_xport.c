/* xport: chunks between ranks, whatever the network does with them. */
#include "xport_test.h"

#include "xport/xport_impl.h"

#define CHUNK_MAX 5000

/* ---- streams of chunks from one rank to another */

struct side {
	struct world *w;
	uint32_t rank, peer;
	uint64_t op;
	unsigned nchunks;
	enum rc rc;
	struct err err;
	unsigned bad; /* chunks that were not what was sent */
	pthread_t thread;
};

static size_t
chunk_size(unsigned k)
{
	return k % 17 == 0 ? 0 : (size_t)k * 7919 % CHUNK_MAX;
}

static unsigned char
chunk_byte(unsigned k, size_t i)
{
	return (unsigned char)(k * 31 + i * 7 + (i >> 8));
}

static void *
send_all(void *arg)
{
	struct side *s = arg;
	struct xport_op *o = op_begin(s->w, s->rank, s->op);
	unsigned char *buf = malloc((size_t)XPORT_WINDOW * CHUNK_MAX);

	for (unsigned k = 0; k < s->nchunks && s->rc == RC_OK; k++) {
		/* A slot is free again when its chunk has been consumed, which the window shows. */
		unsigned char *p = buf + (size_t)(k % XPORT_WINDOW) * CHUNK_MAX;
		uint64_t deadline = xport_deadline(o);

		while (s->rc == RC_OK && !xport_ready(o, s->peer, XPORT_SEND)) {
			uint64_t seen = xport_moves(o);

			if (!xport_ready(o, s->peer, XPORT_SEND))
				s->rc = xport_wait(o, s->peer, XPORT_SEND, seen, deadline, &s->err);
		}
		for (size_t i = 0; i < chunk_size(k); i++)
			p[i] = chunk_byte(k, i);
		if (s->rc == RC_OK)
			s->rc = xport_send(o, s->peer, p, chunk_size(k), &s->err);
	}
	s->rc = xport_end(o, s->rc == RC_OK ? XPORT_COMPLETE : XPORT_GIVE_UP, &s->err);
	free(buf);
	return NULL;
}

static void *
recv_all(void *arg)
{
	struct side *s = arg;
	struct xport_op *o = op_begin(s->w, s->rank, s->op);

	for (unsigned k = 0; k < s->nchunks && s->rc == RC_OK; k++) {
		const void *data;
		size_t n;

		s->rc = xport_recv(o, s->peer, &data, &n, &s->err);
		if (s->rc != RC_OK)
			break;
		if (n != chunk_size(k))
			s->bad++;
		else
			for (size_t i = 0; i < n; i++)
				if (((const unsigned char *)data)[i] != chunk_byte(k, i)) {
					s->bad++;
					break;
				}
		xport_release(o, s->peer);
	}
	s->rc = xport_end(o, s->rc == RC_OK ? XPORT_COMPLETE : XPORT_GIVE_UP, &s->err);
	return NULL;
}

/* Both sides of n chunks from rank 0 to rank 1; true when all arrived as sent. */
static bool
transfer(struct world *w, uint64_t op, unsigned n)
{
	struct side from = {.w = w, .rank = 0, .peer = 1, .op = op, .nchunks = n};
	struct side to = {.w = w, .rank = 1, .peer = 0, .op = op, .nchunks = n};

	pthread_create(&from.thread, NULL, send_all, &from);
	pthread_create(&to.thread, NULL, recv_all, &to);
	pthread_join(from.thread, NULL);
	pthread_join(to.thread, NULL);
	if (from.rc != RC_OK)
		printf("# sender: %s\n", from.err.text);
	if (to.rc != RC_OK || to.bad)
		printf("# receiver: %u bad; %s\n", to.bad, to.err.text);
	return from.rc == RC_OK && to.rc == RC_OK && to.bad == 0;
}

static void
test_transfer(void)
{
	struct xport_config shaped = {.latency_ns = NS_PER_MS, .bits_per_s = 1000000000};
	struct world w;

	world_open(&w, 2, 0, NULL);
	world_attach(&w, 1, 20000);
	ok(transfer(&w, 0, 2000), "2000 chunks of 0 to %d bytes, in order and whole", CHUNK_MAX);
	ok(transfer(&w, 1, 1) && transfer(&w, 2, 0), "one chunk; none");
	world_close(&w);
	world_open(&w, 2, 0, &shaped);
	world_attach(&w, 1, 20000);
	ok(transfer(&w, 0, 200), "through a shaped link");
	world_close(&w);
}

/* ---- the window, and chunks before the operation is begun */

static void
test_window(void)
{
	struct world w;
	struct xport_op *a, *b;
	struct err err = {0};
	const void *data;
	size_t n;
	unsigned sent = 0, got = 0;
	bool same = true;

	world_open(&w, 2, 0, NULL);
	world_attach(&w, 1, 20000);
	a = op_begin(&w, 0, 5);
	while (sent < 100 && xport_ready(a, 1, XPORT_SEND)) {
		static const unsigned char ramp[100];

		if (xport_send(a, 1, ramp, sent, &err) != RC_OK)
			break;
		sent++;
	}
	ok(sent == XPORT_WINDOW, "a sender is ahead by the window and no more");
	ok(!xport_ready(a, 1, XPORT_TAKEN), "nothing has been consumed");
	b = op_begin(&w, 1, 5); /* the chunks may be there already, or come */
	while (got < sent && xport_recv(b, 0, &data, &n, &err) == RC_OK) {
		same &= n == got++;
		xport_release(b, 0);
		if (got == XPORT_WINDOW / 2)
			ok(EVENTUALLY(xport_ready(a, 1, XPORT_SEND)),
			   "half a window consumed makes room");
	}
	ok(got == sent && same, "chunks sent before the receiver began are all there");
	ok(xport_end(b, XPORT_COMPLETE, &err) == RC_OK, "the receiver ends");
	ok(EVENTUALLY(xport_ready(a, 1, XPORT_TAKEN)) &&
	       xport_end(a, XPORT_COMPLETE, &err) == RC_OK,
	   "and then the sender");
	world_close(&w);
}

/* ---- ending badly */

static void *
recv_one(void *arg)
{
	struct side *s = arg;
	struct xport_op *o = op_begin(s->w, s->rank, s->op);
	const void *data;
	size_t n;

	s->rc = xport_recv(o, s->peer, &data, &n, &s->err);
	if (s->rc == RC_OK)
		xport_release(o, s->peer);
	s->rc = xport_end(o, s->rc == RC_OK ? XPORT_COMPLETE : XPORT_GIVE_UP, &s->err);
	return NULL;
}

static void *
send_many(void *arg)
{
	struct side *s = arg;
	struct xport_op *o = op_begin(s->w, s->rank, s->op);
	char c = 'x';

	for (unsigned k = 0; k < s->nchunks && s->rc == RC_OK; k++)
		s->rc = xport_send(o, s->peer, &c, 1, &s->err);
	s->rc = xport_end(o, s->rc == RC_OK ? XPORT_COMPLETE : XPORT_GIVE_UP, &s->err);
	return NULL;
}

static void *
wait_any(void *arg)
{
	struct side *s = arg;
	struct xport_op *o = op_begin(s->w, s->rank, s->op);

	while (s->rc == RC_OK)
		s->rc = xport_wait(o, s->peer, XPORT_RECV, xport_moves(o), UINT64_MAX, &s->err);
	xport_end(o, XPORT_GIVE_UP, &s->err);
	return NULL;
}

/* Three ways of waiting on rank 0 begin; then end() happens. True: all ended with the reason. */
static bool
all_woken(struct world *w, const char *reason, void (*end)(struct world *w))
{
	void *(*const run[3])(void *) = {recv_one, send_many, wait_any};
	struct side s[3];
	bool good = true;
	unsigned begun;

	for (unsigned i = 0; i < 3; i++) {
		s[i] = (struct side){.w = w, .rank = 0, .peer = 1, .op = 10 + i, .nchunks = 100};
		pthread_create(&s[i].thread, NULL, run[i], &s[i]);
	}
	do {
		struct comm *c;

		begun = 0;
		pthread_mutex_lock(&w->x[0]->lock);
		c = xport_find_comm(w->x[0], WORLD_COMM);
		for (struct exchange *e = c->exchanges; e; e = e->next)
			begun += e->begun;
		pthread_mutex_unlock(&w->x[0]->lock);
	} while (begun < 3);
	end(w);
	for (unsigned i = 0; i < 3; i++) {
		pthread_join(s[i].thread, NULL);
		if (s[i].rc != RC_ABORTED || !strstr(s[i].err.text, reason)) {
			printf("# waiter %u: %d %s\n", i, s[i].rc, s[i].err.text);
			good = false;
		}
	}
	return good;
}

static void
end_by_abort(struct world *w)
{
	xport_abort(w->x[0], WORLD_COMM, w->epoch, "rank 3 burns", NULL);
}

static void
end_by_nothing(struct world *w)
{
	xport_abort(w->x[0], WORLD_COMM, w->epoch, "", NULL);
}

static void
end_by_detach(struct world *w)
{
	xport_detach(w->x[0], WORLD_COMM, NULL);
}

static void
end_by_epoch(struct world *w)
{
	world_attach(w, w->epoch + 1, 20000);
}

static void
end_by_all(struct world *w)
{
	xport_abort_all(w->x[0], "going down");
}

static void
test_abort(void)
{
	struct world w;
	struct xport_op o;
	struct err err = {0};

	world_open(&w, 2, 0, NULL);
	world_attach(&w, 1, 60000);
	ok(all_woken(&w, "rank 3 burns", end_by_abort),
	   "an abort wakes everybody, with its reason");
	ok(op_try(w.x[0], WORLD_COMM, 1, 99, &o, &err) == RC_ABORTED && strstr(err.text, "burns"),
	   "and nothing begins any more: %s", err.text);
	world_attach(&w, 2, 60000);
	ok(all_woken(&w, "no reason", end_by_nothing), "an abort without a reason is one too");
	world_attach(&w, 3, 60000);
	ok(all_woken(&w, "destroyed", end_by_detach), "leaving while operations run ends them");
	world_attach(&w, 4, 60000);
	ok(all_woken(&w, "changed", end_by_epoch), "so does a newer epoch");
	ok(transfer(&w, 1, 20), "which works");
	ok(all_woken(&w, "going down", end_by_all), "and the end of the device");
	world_close(&w);
}

/* A rank that gives up before it has met anybody. */
static void
test_give_up(void)
{
	struct side s = {.rank = 1, .peer = 2, .op = 1};
	struct world w;
	struct xport_op *o;
	struct err err = {0};

	world_open(&w, 3, 0, NULL);
	world_attach(&w, 1, 60000);
	s.w = &w;
	pthread_create(&s.thread, NULL, recv_one, &s);
	o = op_begin(&w, 2, 1);
	xport_involve(o, 1);
	err_set(&err, RC_BADDATA, "my dog ate it");
	ok(xport_end(o, XPORT_GIVE_UP, &err) == RC_BADDATA, "giving up keeps its own reason");
	pthread_join(s.thread, NULL);
	ok(s.rc == RC_ABORTED && strstr(s.err.text, "rank 2 (device 00000000000000d2)") &&
	       strstr(s.err.text, "my dog"),
	   "the peer that waits hears who and why: %s", s.err.text);
	s = (struct side){.w = &w, .rank = 1, .peer = 2, .op = 2, .nchunks = 1};
	o = op_begin(&w, 2, 2);
	err_set(&err, RC_BADDATA, "no more");
	xport_end(o, XPORT_GIVE_UP, &err);
	send_many(&s);
	ok(s.rc == RC_ABORTED && strstr(s.err.text, "no more"),
	   "one that sends too late hears it then: %s", s.err.text);
	world_close(&w);
}

/* Each rank waits for the next one; the last gives up. */
static void *
chain(void *arg)
{
	struct side *s = arg;
	struct xport_op *o = op_begin(s->w, s->rank, s->op);
	const void *data;
	size_t n;

	if (s->rank > 0)
		xport_involve(o, s->rank - 1);
	s->rc = xport_recv(o, s->peer, &data, &n, &s->err);
	s->rc = xport_end(o, XPORT_GIVE_UP, &s->err);
	return NULL;
}

static void
test_chain(void)
{
	enum { N = 8 };
	struct side s[N];
	struct world w;
	struct xport_op *o;
	struct err err = {0};
	bool same = true;

	world_open(&w, N, 0, NULL);
	world_attach(&w, 1, 60000);
	for (uint32_t r = 0; r < N - 1; r++) {
		s[r] = (struct side){.w = &w, .rank = r, .peer = r + 1, .op = 1};
		pthread_create(&s[r].thread, NULL, chain, &s[r]);
	}
	o = op_begin(&w, N - 1, 1);
	xport_involve(o, N - 2);
	err_set(&err, RC_FAILED, "out of %s", "cheese");
	xport_end(o, XPORT_GIVE_UP, &err);
	for (uint32_t r = 0; r < N - 1; r++) {
		pthread_join(s[r].thread, NULL);
		same &= !strcmp(s[r].err.text,
				"rank 7 (device 00000000000000d7) gave up: out of cheese");
	}
	ok(same, "through %d ranks the first reason arrives as it was: %s", N - 1, s[0].err.text);
	ok(op_try(w.x[0], WORLD_COMM, 1, 1, o, &err) == RC_ABORTED && strstr(err.text, "cheese"),
	   "an operation that was given up does not begin again: %s", err.text);
	world_close(&w);
}

static void
test_timeout(void)
{
	struct side s = {.rank = 0, .peer = 2, .op = 1, .nchunks = 100};
	struct world w;

	world_open(&w, 3, 1u << 2, NULL);
	world_attach(&w, 1, 50);
	s.w = &w;
	recv_one(&s);
	ok(s.rc == RC_TIMEOUT && strstr(s.err.text, "rank 2 (device 00000000000000d2)") &&
	       strstr(s.err.text, "0.1s"),
	   "a receive from nobody: %s", s.err.text);
	s = (struct side){.w = &w, .rank = 0, .peer = 2, .op = 2, .nchunks = 100};
	send_many(&s);
	ok(s.rc == RC_TIMEOUT && strstr(s.err.text, "rank 2"), "a send to nobody: %s", s.err.text);
	s = (struct side){.w = &w, .rank = 0, .peer = 2, .op = 3, .nchunks = 1};
	send_many(&s);
	ok(s.rc == RC_TIMEOUT && strstr(s.err.text, "rank 2"), "at the end of one: %s", s.err.text);
	world_close(&w);
}

/* ---- who may take part */

static void
test_attach(void)
{
	struct world w;
	struct err err = {0};
	struct xport_membership m = {.comm = 9,
				     .coordinator = 1,
				     .epoch = 3,
				     .rank = 1,
				     .nranks = 2,
				     .op_timeout_ms = 10},
				got;

	world_open(&w, 2, 1u << 0, NULL);
	ok(xport_member(w.x[1], 0, &got, &err) == RC_NOTFOUND, "at first: %s", err.text);
	ok(xport_attach(w.x[1], &m, w.peer, &err) == RC_OK &&
	       xport_member(w.x[1], 0, &got, &err) == RC_OK && got.comm == 9 && got.rank == 1 &&
	       got.epoch == 3,
	   "attached; 0 means the only one");
	w.peer[0].data_addr = "carrier:pigeon";
	m.epoch = 4;
	ok(xport_attach(w.x[1], &m, w.peer, &err) == RC_INVAL &&
	       xport_member(w.x[1], 9, &got, NULL) == RC_OK && got.epoch == 3,
	   "a bad address, and all stays as it was: %s", err.text);
	w.peer[0].data_addr = w.addr[0];
	ok(xport_attach(w.x[1], &m, w.peer, &err) == RC_OK &&
	       xport_member(w.x[1], 0, &got, &err) == RC_OK && got.epoch == 4,
	   "a later epoch takes the place of the former");
	m.comm = 10;
	xport_attach(w.x[1], &m, w.peer, &err);
	ok(xport_member(w.x[1], 0, &got, &err) == RC_INVAL, "with two 0 is not clear: %s",
	   err.text);
	ok(xport_detach(w.x[1], 9, &err) == RC_OK && xport_member(w.x[1], 0, &got, &err) == RC_OK &&
	       got.comm == 10,
	   "one is left");
	ok(xport_detach(w.x[1], 9, &err) == RC_NOTFOUND, "left twice: %s", err.text);
	world_close(&w);
}

static void
test_numbers(void)
{
	struct world w;
	struct xport_op *o, p;
	struct err err = {0};

	world_open(&w, 2, 1, NULL);
	world_attach(&w, 1, 1000);
	o = op_begin(&w, 1, 4);
	ok(op_try(w.x[1], WORLD_COMM, 1, 4, &p, &err) == RC_INVAL, "%s", err.text);
	xport_end(o, XPORT_COMPLETE, &err);
	ok(op_try(w.x[1], WORLD_COMM, 1, 4, &p, &err) == RC_INVAL, "%s", err.text);
	ok(op_try(w.x[1], WORLD_COMM, 2, 5, &p, &err) == RC_NOTFOUND, "%s", err.text);
	ok(op_try(w.x[1], 8, 1, 5, &p, &err) == RC_NOTFOUND, "%s", err.text);
	ok(xport_abort(w.x[1], WORLD_COMM, 2, "x", &err) == RC_NOTFOUND, "%s", err.text);
	world_close(&w);
}

/* ---- the lab's way in */

static void
test_inject(void)
{
	struct world w;
	struct xport_op *o;
	struct err err = {0};
	const void *data;
	size_t n;
	enum rc rc = RC_OK;
	uint32_t seq = 1;

	world_open(&w, 2, 1, NULL);
	world_attach(&w, 1, 1000);
	ok(xport_inject(w.x[1], WORLD_COMM, 6, 0, 0, "a", 1, &err) == RC_NOTFOUND, "%s", err.text);
	o = op_begin(&w, 1, 6);
	ok(xport_inject(w.x[1], WORLD_COMM, 6, 0, 0, "ab", 2, &err) == RC_OK &&
	       xport_recv(o, 0, &data, &n, &err) == RC_OK && n == 2 && !memcmp(data, "ab", 2),
	   "a chunk handed in is received");
	xport_release(o, 0);
	ok(xport_inject(w.x[1], WORLD_COMM, 6, 0, 0, "a", 1, &err) == RC_BUSY, "%s", err.text);
	ok(xport_inject(w.x[1], WORLD_COMM, 6, 1, 1, "a", 1, &err) == RC_INVAL, "%s", err.text);
	ok(xport_inject(w.x[1], WORLD_COMM, 6, 7, 1, "a", 1, &err) == RC_INVAL, "%s", err.text);
	while (rc == RC_OK)
		rc = xport_inject(w.x[1], WORLD_COMM, 6, 0, seq++, NULL, 0, &err);
	ok(rc == RC_BUSY && seq == XPORT_WINDOW + 2, "not beyond the window: %s", err.text);
	err = (struct err){0};
	ok(xport_end(o, XPORT_COMPLETE, &err) == RC_BADDATA &&
	       strstr(err.text, "more than expected"),
	   "chunks left at the end are an error: %s", err.text);
	world_close(&w);
}

int
main(void)
{
	test_transfer();
	test_window();
	test_abort();
	test_give_up();
	test_chain();
	test_timeout();
	test_attach();
	test_numbers();
	test_inject();
	return tap_done();
}
