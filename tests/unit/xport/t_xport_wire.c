/* xport: what it answers to frames it should not get, and what it makes of a network that loses,
 * repeats and breaks. */
#include "xport_test.h"

#include "xport/xport_impl.h"

#define DATA   FRAME_DATA
#define ACK    FRAME_ACK
#define REFUSE FRAME_REFUSE

/* A world of a puppet, rank 0, and an xport, rank 1. */
static struct puppet *
puppet_world(struct world *w, uint32_t epoch, uint32_t timeout_ms)
{
	world_open(w, 2, 1u << 0, NULL);
	world_attach(w, epoch, timeout_ms);
	return puppet_new(w, 0, 1);
}

static void
close_world(struct world *w, struct puppet *p)
{
	puppet_free(p);
	world_close(w);
}

/* What the xport has filed of an operation and not given out; of all that are not begun. */
static unsigned
filed(struct world *w, uint64_t op)
{
	struct exchange *e;
	unsigned n = 0;

	pthread_mutex_lock(&w->x[1]->lock);
	e = exchange_find(xport_find_comm(w->x[1], WORLD_COMM), op);
	if (e && e->flow[0])
		n = (unsigned)(e->flow[0]->rx_next - e->flow[0]->rx_consumed);
	pthread_mutex_unlock(&w->x[1]->lock);
	return n;
}

static size_t
early_bytes(struct world *w, unsigned *nops)
{
	size_t n;

	pthread_mutex_lock(&w->x[1]->lock);
	n = w->x[1]->early_bytes;
	*nops = xport_find_comm(w->x[1], WORLD_COMM)->nearly;
	pthread_mutex_unlock(&w->x[1]->lock);
	return n;
}

/* Everything the puppet sent before has been looked at: an answer to a question of its own tells.
 */
static void
drain(struct world *w, struct puppet *p)
{
	static uint64_t op = 1000000;
	struct err err = {0};
	const void *data;
	size_t n;
	struct xport_op *o;

	puppet_send(p, puppet_frame(p, 1, DATA, ++op, 0), NULL, 0);
	o = op_begin(w, 1, op);
	must(xport_recv(o, 0, &data, &n, &err), &err);
	xport_release(o, 0);
	must(xport_end(o, XPORT_COMPLETE, &err), &err);
}

/* Receive one chunk that must hold this text. */
static bool
receives(struct xport_op *o, const char *text)
{
	struct err err = {0};
	const void *data;
	size_t n;
	bool same;

	if (xport_recv(o, 0, &data, &n, &err) != RC_OK) {
		printf("# %s\n", err.text);
		return false;
	}
	same = n == strlen(text) && !memcmp(data, text, n);
	xport_release(o, 0);
	return same;
}

/* One chunk from rank 1 to rank 0. */
struct transfer {
	struct world *w;
	const void *data;
	size_t nbytes;
	struct xport_op *o;
	bool same;
};

static void *
take_chunk(void *arg)
{
	struct transfer *t = arg;
	struct err err = {0};
	const void *data;
	size_t n;

	if (xport_recv(t->o, 1, &data, &n, &err) == RC_OK) {
		t->same = n == t->nbytes && memcmp(data, t->data, n) == 0;
		xport_release(t->o, 1);
		t->same &= xport_end(t->o, XPORT_COMPLETE, &err) == RC_OK;
	} else {
		printf("# %s\n", err.text);
		xport_end(t->o, XPORT_GIVE_UP, &err);
	}
	return NULL;
}

static bool
transfer(struct transfer *t, uint64_t op)
{
	struct xport_op *from = op_begin(t->w, 1, op);
	struct err err = {0};
	pthread_t thread;
	enum rc rc;

	t->o = op_begin(t->w, 0, op);
	t->same = false;
	pthread_create(&thread, NULL, take_chunk, t);
	rc = xport_send(from, 0, t->data, t->nbytes, &err);
	rc = xport_end(from, rc == RC_OK ? XPORT_COMPLETE : XPORT_GIVE_UP, &err);
	pthread_join(thread, NULL);
	return t->same && rc == RC_OK;
}

static void
test_foreign(void)
{
	struct world w;
	struct puppet *p = puppet_world(&w, 5, 20000);
	struct frame good = puppet_frame(p, 1, DATA, 1, 0), f[6];
	uint64_t before = xport_refused(w.x[1]);

	for (unsigned i = 0; i < 6; i++)
		f[i] = good;
	f[0].comm++;
	f[1].device++;
	f[2].dst = 0;
	f[3].src = 1;
	f[3].device = 0xd1;
	f[4].src = 9;
	f[5].epoch++;
	for (unsigned i = 0; i < 6; i++)
		puppet_send(p, f[i], "x", 1);
	drain(&w, p);
	ok(xport_refused(w.x[1]) == before + 6 && filed(&w, 1) == 0,
	   "wrong communicator, device, ranks, newer epoch: counted and dropped");
	ok(puppet_count(p, REFUSE, 1, NULL, NULL) == 0, "without a word");
	f[5].epoch = 4;
	puppet_send(p, f[5], "x", 1);
	w.epoch = 4;
	ok(EVENTUALLY(puppet_count(p, REFUSE, 1, &f[0], NULL) == 1) && f[0].epoch == 4,
	   "who is an epoch behind is told so, in its own epoch");
	close_world(&w, p);
}

static void
test_order(void)
{
	struct world w;
	struct puppet *p = puppet_world(&w, 1, 20000);
	struct xport_op *o;
	struct err err = {0};
	struct frame last;
	char text[64];
	unsigned nops;
	static const char *const sent[] = {"b", "a", "c", "b", "a", "b", "c"};
	static const uint32_t seq[] = {1, 0, 2, 1, 0, 1, 2};

	for (unsigned i = 0; i < 7; i++)
		puppet_send(p, puppet_frame(p, 1, DATA, 2, seq[i]), sent[i], 1);
	drain(&w, p);
	ok(filed(&w, 2) == 3, "early, repeated and too far ahead: each is filed once");
	o = op_begin(&w, 1, 2);
	ok(receives(o, "a") && receives(o, "b"), "in order");
	puppet_send(p, puppet_frame(p, 1, DATA, 2, 0), "z", 1);
	ok(EVENTUALLY(puppet_count(p, ACK, 2, &last, NULL) > 0) && last.seq == 2,
	   "a repetition of what is consumed is acknowledged again");
	for (uint32_t s = 3; s < 30; s++)
		puppet_send(p, puppet_frame(p, 1, DATA, 2, s), "y", 1);
	drain(&w, p);
	ok(filed(&w, 2) == XPORT_WINDOW, "beyond the window nothing is kept");
	ok(receives(o, "c"), "what was kept is right");
	for (unsigned i = 0; i < XPORT_WINDOW - 1; i++)
		receives(o, "y");
	ok(xport_end(o, XPORT_COMPLETE, &err) == RC_OK, "it ends");
	ok(EVENTUALLY(puppet_count(p, ACK, 2, &last, NULL) && last.seq == 2 + XPORT_WINDOW),
	   "with an ack of everything");
	puppet_send(p, puppet_frame(p, 1, DATA, 2, 4), "y", 1);
	drain(&w, p);
	ok(puppet_count(p, REFUSE, 2, NULL, NULL) == 0 && filed(&w, 2) == 0,
	   "a late repetition begins nothing");
	puppet_send(p, puppet_frame(p, 1, DATA, 2, 20), "y", 1);
	ok(EVENTUALLY(puppet_count(p, REFUSE, 2, NULL, text) == 1),
	   "more than was due is refused: %s", text);
	puppet_send(p, puppet_frame(p, 1, DATA, 3, 1), "y", 1);
	drain(&w, p);
	early_bytes(&w, &nops);
	ok(nops == 0, "only a first chunk begins an operation");
	close_world(&w, p);
}

static void
test_abort(void)
{
	struct world w;
	struct puppet *p = puppet_world(&w, 1, 20000);
	struct err err = {0};
	unsigned nops;
	char text[64];

	puppet_send(p, puppet_frame(p, 1, DATA, 1, 0), "x", 1);
	drain(&w, p);
	xport_abort(w.x[1], WORLD_COMM, 1, "enough", &err);
	ok(early_bytes(&w, &nops) == 0, "an abort lets go of early chunks");
	puppet_send(p, puppet_frame(p, 1, DATA, 1, 1), "x", 1);
	ok(EVENTUALLY(puppet_count(p, REFUSE, 1, NULL, text)) && !strcmp(text, "enough"),
	   "later ones are refused with the reason");
	close_world(&w, p);
}

/* A frame whose payload is not what its header says. */
static void
send_damaged(struct puppet *p, struct frame f)
{
	f.nbytes = 1;
	f.crc = frame_crc("a", 1);
	while (net_push_send(p->push, &f, "b", 1000) == RC_TIMEOUT)
		;
}

static char said[256];

static void
say(const char *line)
{
	snprintf(said, sizeof said, "%s", line);
}

static void
test_damaged(void)
{
	struct xport_config cfg = {.say = say};
	struct world w;
	struct puppet *p;
	struct xport_op *o;
	struct frame last;
	struct err err = {0};

	world_open(&w, 2, 1u << 0, &cfg);
	world_attach(&w, 1, 20000);
	p = puppet_new(&w, 0, 1);
	puppet_send(p, puppet_frame(p, 1, DATA, 1, 0), "a", 1);
	send_damaged(p, puppet_frame(p, 1, DATA, 1, 1));
	ok(EVENTUALLY(puppet_count(p, FRAME_NACK, 1, &last, NULL) == 1) && last.seq == 1,
	   "a chunk that came damaged is asked for again");
	drain(&w, p);
	ok(xport_damaged(w.x[1]) == 1 && filed(&w, 1) == 1, "counted and not kept");
	ok(strstr(said,
		  "operation 1: chunk 1 from rank 0 (device 00000000000000d0) arrived damaged"),
	   "and named: %s", said);
	puppet_send(p, puppet_frame(p, 1, DATA, 1, 1), "b", 1);
	o = op_begin(&w, 1, 1);
	ok(receives(o, "a") && receives(o, "b"), "the repetition is taken");
	ok(xport_end(o, XPORT_COMPLETE, &err) == RC_OK, "and the operation ends well");
	send_damaged(p, puppet_frame(p, 1, DATA, 1, 1));
	ok(EVENTUALLY(puppet_count(p, ACK, 1, &last, NULL) > 1) && last.seq == 2,
	   "one of an operation that has ended is answered as any late one");
	send_damaged(p, puppet_frame(p, 0, DATA, 1, 1));
	drain(&w, p);
	ok(xport_damaged(w.x[1]) == 2, "one for another rank is foreign");
	close_world(&w, p);
}

/* The sender's side: what is asked for again goes at once. */
static void
test_again(void)
{
	struct world w;
	struct puppet *p = puppet_world(&w, 1, 20000);
	struct xport_op *o = op_begin(&w, 1, 1);
	struct err err = {0};
	struct frame last;

	for (unsigned i = 0; i < 3; i++)
		xport_send(o, 0, "x", 1, &err);
	puppet_send(p, puppet_frame(p, 1, ACK, 1, 1), NULL, 0);
	puppet_send(p, puppet_frame(p, 1, FRAME_NACK, 1, 1), NULL, 0);
	puppet_send(p, puppet_frame(p, 1, FRAME_NACK, 1, 9), NULL, 0);
	puppet_send(p, puppet_frame(p, 1, FRAME_NACK, 77, 0), NULL, 0);
	drain(&w, p);
	xport_poll(o, &err);
	ok(EVENTUALLY(puppet_count(p, DATA, 1, &last, NULL) == 5) && last.seq == 2,
	   "the chunks that are not acknowledged are sent again, without waiting");
	xport_poll(o, &err);
	puppet_send(p, puppet_frame(p, 1, ACK, 1, 3), NULL, 0);
	ok(xport_end(o, XPORT_COMPLETE, &err) == RC_OK && puppet_count(p, DATA, 1, NULL, NULL) == 5,
	   "once");
	close_world(&w, p);
}

/* Faults of frames, between two xports. */
static void
test_faults(void)
{
	struct gpusim_fault corrupt = {.kind = GPUSIM_FAULT_CORRUPT, .count = 2, .seed = 3};
	struct gpusim_fault cut = {.kind = GPUSIM_FAULT_CUT}, listed[4];
	struct xport_config cfg = {.check_all = true};
	static unsigned char sent[20000];
	struct transfer t = {.data = sent, .nbytes = sizeof sent};
	struct err err = {0};
	struct world w;

	world_open(&w, 2, 0, &cfg);
	world_attach(&w, 1, 20000);
	t.w = &w;
	for (size_t i = 0; i < sizeof sent; i++)
		sent[i] = (unsigned char)(i * i >> 3);
	ok(xport_fault_set(w.x[1], &corrupt, &err) == RC_OK &&
	       xport_fault_list(w.x[1], listed, 4) == 1,
	   "a fault is set");
	ok(transfer(&t, 1) && xport_damaged(w.x[0]) == 2,
	   "two damaged frames, and the right bytes");
	ok(xport_fault_list(w.x[1], listed, 4) == 0, "then it is used up");
	corrupt.to_peer = 1;
	corrupt.peer = 7;
	ok(xport_fault_set(w.x[1], &corrupt, &err) == RC_NOTFOUND, "no such peer: %s", err.text);
	ok(xport_fault_set(w.x[1], &cut, &err) == RC_OK && transfer(&t, 2) &&
	       xport_fault_list(w.x[1], listed, 4) == 0,
	   "connections that are closed are made anew");
	world_close(&w);
}

/* What becomes of each of 64 frames, as bits: lost or not. */
static uint64_t
fates(struct world *w, uint64_t seed)
{
	struct gpusim_fault f = {.kind = GPUSIM_FAULT_DROP, .p = 0.25, .seed = seed};
	struct frame head = {.kind = DATA, .nbytes = 100};
	struct err err = {0};
	uint64_t lost = 0;
	size_t byte;

	must(xport_fault_set(w->x[1], &f, &err), &err);
	pthread_mutex_lock(&w->x[1]->lock);
	for (unsigned i = 0; i < 64; i++)
		lost = lost << 1 |
		       (faults_of_frame(&w->x[1]->faults, xport_find_comm(w->x[1], WORLD_COMM), 0,
					&head, &byte) == FRAME_IS_LOST);
	pthread_mutex_unlock(&w->x[1]->lock);
	xport_fault_clear(w->x[1]);
	return lost;
}

static void
test_seeds(void)
{
	struct world w;
	uint64_t a, b, c;

	world_open(&w, 2, 0, NULL);
	world_attach(&w, 1, 20000);
	a = fates(&w, 1);
	b = fates(&w, 1);
	c = fates(&w, 2);
	ok(a == b && a != c, "one seed, one fate; another, another");
	ok(__builtin_popcountll(a | c) > 8 && __builtin_popcountll(a & c) < 16,
	   "about as often as was said: %d and %d of 64", __builtin_popcountll(a),
	   __builtin_popcountll(c));
	world_close(&w);
}

static void
test_acks(void)
{
	struct world w;
	struct puppet *p = puppet_world(&w, 1, 20000);
	struct xport_op *o = op_begin(&w, 1, 1);
	struct err err = {0};

	for (unsigned i = 0; i < 4; i++)
		xport_send(o, 0, "x", 1, &err);
	puppet_send(p, puppet_frame(p, 1, ACK, 1, 3), NULL, 0);
	puppet_send(p, puppet_frame(p, 1, ACK, 1, 1), NULL, 0);
	puppet_send(p, puppet_frame(p, 1, ACK, 77, 1), NULL, 0);
	drain(&w, p);
	ok(!xport_ready(o, 0, XPORT_TAKEN), "an older ack takes nothing back or further");
	puppet_send(p, puppet_frame(p, 1, ACK, 1, UINT32_MAX), NULL, 0);
	ok(EVENTUALLY(xport_ready(o, 0, XPORT_TAKEN)), "one of too much means all");
	xport_send(o, 0, "x", 1, &err);
	ok(!xport_ready(o, 0, XPORT_TAKEN), "and not what is sent later");
	puppet_send(p, puppet_frame(p, 1, REFUSE, 1, 0), "no\n\x1b[0m", 7);
	ok(xport_end(o, XPORT_COMPLETE, &err) == RC_ABORTED && !strcmp(err.text, "no??[0m"),
	   "a refusal ends the wait, made fit to print: %s", err.text);
	close_world(&w, p);
}

/* A collective's small chunk: its operation ends at once, and what it sent is repeated until it is acknowledged. */
static void
test_lingers(void)
{
	struct world w;
	struct puppet *p;
	struct frame last;
	struct err err = {0};
	struct xport_op o;
	struct xport_opening how = {.comm = WORLD_COMM, .epoch = 1, .op = 3, .kind = 9};
	char data[100] = "before";

	p = puppet_world(&w, 1, 400);
	must(xport_begin(w.x[1], &how, &o, &err), &err);
	puppet_send(p, puppet_frame(p, 1, DATA, 3, 0), "x", 1);
	ok(receives(&o, "x"), "the peer has sent, so it has begun the same operation");
	must(xport_send(&o, 0, data, sizeof data, &err), &err);
	ok(xport_end(&o, XPORT_COMPLETE, &err) == RC_OK, "it ends before anybody has acknowledged");
	strcpy(data, "after");
	ok(EVENTUALLY(puppet_count(p, DATA, 3, NULL, NULL) >= 2), "the chunk is repeated");
	ok(xport_begin(w.x[1], &how, &o, &err) == RC_INVAL && strstr(err.text, "has already run"),
	   "its number is used: %s", err.text);
	ok(puppet_count(p, DATA, 3, &last, data) >= 2 && !strcmp(data, "before"),
	   "with the bytes of its time: %s", data);
	puppet_send(p, puppet_frame(p, 1, ACK, 3, 1), NULL, 0);
	/* More than was expected is refused, as of any ended operation. */
	puppet_send(p, puppet_frame(p, 1, DATA, 3, 1), "x", 1);
	ok(EVENTUALLY(puppet_count(p, FRAME_REFUSE, 3, NULL, data)) &&
	       strstr(data, "has received all"),
	   "%s", data);
	puppet_free(p);
	world_close(&w);
}

/* A rank that only sends, and one that only waits: an acknowledgement with another mark ends both. */
static void
test_marks(void)
{
	struct world w;
	struct puppet *p;
	struct frame f;
	struct err err = {0};
	struct xport_op o;
	struct xport_opening how = {
	    .comm = WORLD_COMM, .epoch = 1, .kind = 9, .call = "broadcast root 1"};
	const void *data;
	size_t n;

	p = puppet_world(&w, 1, 20000);
	for (how.op = 1; how.op <= 2; how.op++) {
		enum rc rc;

		must(xport_begin(w.x[1], &how, &o, &err), &err);
		if (how.op == 1)
			must(xport_send(&o, 0, "y", 1, &err), &err);
		f = puppet_frame(p, 1, ACK, how.op, 0);
		f.mark = 8;
		puppet_send(p, f, NULL, 0);
		rc = how.op == 1 ? RC_OK : xport_recv(&o, 0, &data, &n, &err);
		rc = xport_end(&o, rc == RC_OK ? XPORT_COMPLETE : XPORT_GIVE_UP, &err);
		ok(rc == RC_BADDATA &&
		       strstr(err.text, "calls broadcast root 1: the ranks disagree"),
		   "%s", err.text);
	}
	puppet_free(p);
	world_close(&w);
}

/* The acknowledgement of such a chunk leaves with the next frame to its sender, or soon by itself. */
static void
test_ack_later(void)
{
	struct world w;
	struct puppet *p;
	struct frame f;
	struct err err = {0};
	struct xport_op o;
	struct xport_opening how = {.comm = WORLD_COMM, .epoch = 1, .kind = 9};
	const void *data;
	size_t n;
	bool good = true;

	p = puppet_world(&w, 1, 20000);
	for (how.op = 1; how.op <= 2; how.op++) {
		must(xport_begin(w.x[1], &how, &o, &err), &err);
		if (how.op == 2)
			must(xport_send(&o, 0, "y", 1, &err), &err);
		f = puppet_frame(p, 1, DATA, how.op, 0);
		f.mark = 9;
		puppet_send(p, f, "x", 1);
		good = good && xport_recv(&o, 0, &data, &n, &err) == RC_OK && n == 1;
		xport_release(&o, 0);
		good = good && xport_end(&o, XPORT_COMPLETE, &err) == RC_OK;
	}
	ok(good, "two collectives");
	ok(EVENTUALLY(puppet_count(p, ACK, 1, NULL, NULL) && puppet_count(p, ACK, 2, NULL, NULL)),
	   "both are acknowledged");
	pthread_mutex_lock(&p->lock);
	ok(p->got[0].kind == FRAME_ACK && p->got[0].op == 1 && p->got[1].kind == FRAME_DATA,
	   "the first before the next frame");
	pthread_mutex_unlock(&p->lock);
	puppet_free(p);
	world_close(&w);
}

/* Chunks of operations that are never begun here. */
static void
test_bounds(void)
{
	enum { BIG = FRAME_PAYLOAD_MAX, OPS = 3 * XPORT_EARLY_OPS };
	struct world w;
	struct puppet *p = puppet_world(&w, 1, 20000);
	unsigned char *big = calloc(1, BIG);
	struct xport_op *o;
	unsigned nops;

	for (uint64_t op = 0; op < 80; op++)
		puppet_send(p, puppet_frame(p, 1, DATA, op, 0), big, BIG);
	drain(&w, p);
	ok(early_bytes(&w, &nops) <= XPORT_EARLY_MAX && nops > 0, "bytes are bounded");
	for (uint64_t op = 0; op < 80; op++)
		puppet_send(p, puppet_frame(p, 1, REFUSE, op, 0), "changed my mind", 15);
	drain(&w, p);
	ok(early_bytes(&w, &nops) == 0, "what its sender gives up is let go");
	for (uint64_t op = 0; op < OPS; op++)
		puppet_send(p, puppet_frame(p, 1, DATA, 1000 + op, 0), "x", 1);
	early_bytes(&w, &nops);
	ok(nops <= XPORT_EARLY_OPS, "operations are bounded");
	for (uint64_t op = 0; op < OPS; op++)
		puppet_send(p, puppet_frame(p, 1, REFUSE, 1000 + op, 0), "no", 2);
	for (uint64_t op = 0; op < OPS; op++)
		puppet_send(p, puppet_frame(p, 1, REFUSE, 5000 + op, 0), "no", 2);
	puppet_send(p, puppet_frame(p, 1, DATA, 9000, 0), "here", 4);
	ok(EVENTUALLY(filed(&w, 9000) == 1), "a chunk is kept for later");
	o = op_begin(&w, 1, 9000);
	ok(receives(o, "here"), "given up ones make room for what is of use");
	early_bytes(&w, &nops);
	ok(nops <= XPORT_EARLY_OPS, "and stay bounded");
	xport_end(o, XPORT_COMPLETE, &(struct err){0});
	free(big);
	close_world(&w, p);
}

/* ---- the xport sends; the puppet receives as it likes */

/* Take chunks in order, ack every third; the others have to be repeated or covered by a later ack.
 */
static void
take_in_order(struct puppet *p, const struct net_frame *f)
{
	if (f->head.kind != DATA || f->head.seq != p->next)
		return;
	p->next++;
	if (++p->count % 3 == 0 || p->next == 60)
		puppet_send(p, puppet_frame(p, 1, ACK, f->head.op, p->next), NULL, 0);
}

struct sending {
	struct world *w;
	unsigned n;
	enum rc rc;
	struct err err;
};

static void *
send_numbers(void *arg)
{
	struct sending *s = arg;
	struct xport_op *o = op_begin(s->w, 1, 1);
	unsigned char *v = calloc(s->n, 1);

	for (unsigned i = 0; i < s->n && s->rc == RC_OK; i++) {
		v[i] = (unsigned char)i;
		s->rc = xport_send(o, 0, &v[i], 1, &s->err);
	}
	s->rc = xport_end(o, s->rc == RC_OK ? XPORT_COMPLETE : XPORT_GIVE_UP, &s->err);
	free(v);
	return NULL;
}

static bool
first_of_each_is_right(struct puppet *p, unsigned n)
{
	bool good = true;

	pthread_mutex_lock(&p->lock);
	for (unsigned i = 0; i < p->ngot; i++)
		if (p->got[i].kind == DATA && p->got[i].op == 1)
			good &= p->got[i].seq < n &&
				(unsigned char)p->text[i][0] == p->got[i].seq % 256;
	pthread_mutex_unlock(&p->lock);
	return good;
}

/* The peer goes away in the middle and comes back at its address, twice. */
static void
test_reconnect(void)
{
	struct world w;
	struct puppet *p = puppet_world(&w, 1, 2000);
	struct sending s = {.w = &w, .n = 60};
	pthread_t t;

	p->react = take_in_order;
	pthread_create(&t, NULL, send_numbers, &s);
	for (uint32_t at = 20; at <= 40; at += 20) {
		bool there = EVENTUALLY(({
			bool yes;
			pthread_mutex_lock(&p->lock);
			yes = p->next >= at;
			pthread_mutex_unlock(&p->lock);
			yes;
		}));

		if (!there)
			break;
		net_pull_stop(p->pull);
		puppet_listen(p);
	}
	pthread_join(t, NULL);
	ok(s.rc == RC_OK && p->next == 60,
	   "a peer that came back twice has got every chunk (%u): %s", p->next, s.err.text);
	ok(first_of_each_is_right(p, 60), "each with the bytes that were sent");
	close_world(&w, p);
}

/* The ack of a chunk is lost, and the schedule, which knows from elsewhere that it was consumed,
 * writes over its bytes: the repetition must be a proper frame all the same. */
static void
test_overwritten(void)
{
	struct world w;
	struct puppet *p = puppet_world(&w, 1, 400);
	struct xport_op *o = op_begin(&w, 1, 1);
	char buf[] = "before";
	struct err err = {0};

	xport_send(o, 0, buf, sizeof buf, &err);
	ok(EVENTUALLY(puppet_count(p, DATA, 1, NULL, NULL) == 1), "a chunk goes out");
	memcpy(buf, "after!", sizeof buf);
	ok(EVENTUALLY((xport_poll(o, &err), puppet_count(p, DATA, 1, NULL, NULL) >= 2)) &&
	       net_pull_refused(p->pull) == 0,
	   "without an ack it comes again, and its checksum holds");
	puppet_send(p, puppet_frame(p, 1, ACK, 1, 1), NULL, 0);
	ok(xport_end(o, XPORT_COMPLETE, &err) == RC_OK, "the ack ends it");
	close_world(&w, p);
}

/* ---- two xports with a network between them that loses and doubles */

struct lossy {
	struct net_push *to;
	unsigned seen, lose, twice; /* every so many */
};

static void
forward(void *arg, struct net_frame *f)
{
	struct lossy *l = arg;

	l->seen++;
	if (l->seen % l->lose != 0) {
		net_push_send(l->to, &f->head, f->payload, 1000);
		if (l->seen % l->twice == 0)
			net_push_send(l->to, &f->head, f->payload, 1000);
	}
	net_frame_free(f);
}

static void *
receive_numbers(void *arg)
{
	struct sending *s = arg;
	struct xport_op *o = op_begin(s->w, 0, 1);

	for (unsigned i = 0; i < s->n && s->rc == RC_OK; i++) {
		const void *data;
		size_t n;

		s->rc = xport_recv(o, 1, &data, &n, &s->err);
		if (s->rc != RC_OK)
			break;
		if (n != 1 || *(const unsigned char *)data != (unsigned char)i)
			s->rc = err_set(&s->err, RC_BADDATA, "chunk %u is wrong", i);
		xport_release(o, 1);
	}
	s->rc = xport_end(o, s->rc == RC_OK ? XPORT_COMPLETE : XPORT_GIVE_UP, &s->err);
	return NULL;
}

static void
test_lossy(void)
{
	struct world w;
	struct lossy l[2] = {{.lose = 37, .twice = 5}, {.lose = 7, .twice = 3}};
	struct net_pull *between[2];
	char addr[2][NET_ADDR_MAX];
	struct sending from = {.n = 120}, to = {.n = 120};
	struct err err = {0};
	pthread_t t[2];

	world_open(&w, 2, 0, NULL);
	for (unsigned r = 0; r < 2; r++) {
		must(net_push_open(w.addr[r], &l[r].to, &err), &err);
		snprintf(addr[r], NET_ADDR_MAX, "ipc://%s/between%u", w.dir, r);
		must(net_pull_start(addr[r], forward, &l[r], &between[r], &err), &err);
		w.peer[r].data_addr = addr[r];
	}
	world_attach(&w, 1, 800);
	from.w = to.w = &w;
	pthread_create(&t[0], NULL, receive_numbers, &to);
	pthread_create(&t[1], NULL, send_numbers, &from);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	ok(from.rc == RC_OK, "through a network that loses and doubles, all is sent: %s",
	   from.err.text);
	ok(to.rc == RC_OK, "and received, once and in order: %s", to.err.text);
	for (unsigned r = 0; r < 2; r++) {
		net_pull_stop(between[r]);
		net_push_close(l[r].to);
	}
	world_close(&w);
}

int
main(void)
{
	test_foreign();
	test_order();
	test_abort();
	test_damaged();
	test_again();
	test_faults();
	test_seeds();
	test_acks();
	test_lingers();
	test_marks();
	test_ack_later();
	test_bounds();
	test_reconnect();
	test_overwritten();
	test_lossy();
	return tap_done();
}
