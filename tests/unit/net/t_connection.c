/*
 * Frames from a push to a pull: content and order, what is no frame, what can be known of a loss,
 * and peers that are slow, silent or many.
 */
#include "net_test.h"

#include "net/connection.h"

#define NFRAMES 200

struct sink {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned n, wrong;
	pthread_t last; /* who handed the last one on */
};

#define SINK_INIT                                                                      \
	{                                                                              \
		.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER \
	}

/* Byte i of frame seq's payload. */
static unsigned char
pattern(uint32_t seq, size_t i)
{
	return (unsigned char)(seq * 31 + i * 7);
}

static uint32_t
frame_size(uint32_t seq)
{
	return seq == 1 ? FRAME_PAYLOAD_MAX : seq * 97 % 5000;
}

static void
on_frame(void *arg, struct net_frame *f)
{
	struct sink *s = arg;
	bool good;

	pthread_mutex_lock(&s->lock);
	good = f->head.seq == s->n && f->head.nbytes == frame_size(s->n) && f->head.comm == 3;
	for (size_t i = 0; good && i < f->head.nbytes; i++)
		good = f->payload[i] == pattern(f->head.seq, i);
	s->wrong += !good;
	s->n++;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
	net_frame_free(f);
}

static unsigned
seen(struct sink *s)
{
	unsigned n;

	pthread_mutex_lock(&s->lock);
	n = s->n;
	pthread_mutex_unlock(&s->lock);
	return n;
}

static void
on_any_frame(void *arg, struct net_frame *f)
{
	struct sink *s = arg;

	pthread_mutex_lock(&s->lock);
	s->n++;
	s->last = pthread_self();
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
	net_frame_free(f);
}

static void
wait_frames(struct sink *s, unsigned n)
{
	pthread_mutex_lock(&s->lock);
	while (s->n < n)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

static enum rc
send_frame(struct net_push *p, uint32_t seq, int timeout_ms)
{
	static unsigned char payload[FRAME_PAYLOAD_MAX];
	struct frame f = {.kind = FRAME_DATA, .comm = 3, .seq = seq, .nbytes = frame_size(seq)};

	for (size_t i = 0; i < f.nbytes; i++)
		payload[i] = pattern(seq, i);
	f.crc = frame_crc(payload, f.nbytes);
	return net_push_send(p, &f, payload, timeout_ms);
}

static void
test_order(const char *addr, const char *name)
{
	struct sink s = SINK_INIT;
	struct net_pull *pull = NULL;
	struct net_push *push = NULL;
	struct err err = {0};
	bool good = true;

	if (!ok(net_pull_start(addr, on_frame, &s, &pull, &err) == RC_OK &&
		    net_push_open(net_pull_address(pull), &push, &err) == RC_OK,
		"%s: a channel", name))
		return;
	for (uint32_t seq = 0; seq < NFRAMES && good; seq++)
		good = send_frame(push, seq, LONG_MS) == RC_OK;
	ok(good, "%s: %d frames of 0 bytes to 1 MiB are sent", name, NFRAMES);
	wait_frames(&s, NFRAMES);
	ok(s.wrong == 0 && net_pull_refused(pull) == 0, "%s: they arrive whole and in order", name);
	ok(net_push_generation(push) == 1, "%s: over one connection", name);
	net_push_close(push);
	net_pull_stop(pull);
}

/* A frame of `n` bytes of payload, as the pattern of seq; its length. */
static size_t
make_frame(unsigned char *out, uint32_t seq, uint32_t n)
{
	struct frame f = {.kind = FRAME_DATA, .comm = 3, .seq = seq, .nbytes = n};

	for (size_t i = 0; i < n; i++)
		out[FRAME_HEADER + i] = pattern(seq, i);
	f.crc = frame_crc(out + FRAME_HEADER, n);
	frame_pack(&f, out);
	return FRAME_HEADER + n;
}

static bool
is_closed(int fd)
{
	unsigned char byte;
	bool closed = recv(fd, &byte, 1, 0) <= 0;

	close(fd);
	return closed;
}

/* A payload that is not its header's is dropped; what is no header ends its connection. */
static void
test_refused(void)
{
	static const char *const garbage[] = {"GET / HTTP/1.1\r\n", "\0SP\0\0\x50\0\0", "gSIM\1\1"};
	struct sink s = SINK_INIT;
	struct net_pull *pull = NULL;
	struct err err = {0};
	unsigned char bad[FRAME_HEADER + 8] = {0}, noise[FRAME_HEADER];
	struct frame f = {.kind = FRAME_DATA, .nbytes = 8, .crc = 1};
	bool closed = true;
	int fd;

	net_pull_start(net_ipc("refused"), on_frame, &s, &pull, &err);
	fd = raw_connect(net_pull_address(pull));
	frame_pack(&f, bad); /* the payload's crc is not 1 */
	raw_write(fd, bad, sizeof bad);
	raw_write(fd, bad, make_frame(bad, 0, 0));
	wait_frames(&s, 1);
	ok(s.n == 1 && s.wrong == 0 && net_pull_refused(pull) == 1,
	   "a wrong payload is dropped, and the next frame taken");
	for (unsigned i = 0; i < 3; i++) {
		memset(noise, 'x', sizeof noise);
		memcpy(noise, garbage[i], 6);
		if (i > 0)
			fd = raw_connect(net_pull_address(pull));
		raw_write(fd, noise, sizeof noise);
		closed &= is_closed(fd);
	}
	ok(closed, "garbage ends its connection, after frames and as the first");
	f.nbytes = FRAME_PAYLOAD_MAX + 1;
	frame_pack(&f, bad);
	fd = raw_connect(net_pull_address(pull));
	raw_write(fd, bad, FRAME_HEADER);
	ok(is_closed(fd), "so does a frame longer than any");
	ok(net_pull_refused(pull) == 5, "all are counted");
	net_pull_stop(pull);
}

/* Peers that connect and say nothing, or half of something, keep nobody out. */
static void
test_silent(void)
{
	enum { HELD = 300 };
	struct sink s = SINK_INIT;
	struct net_pull *pull = NULL;
	struct net_push *push = NULL;
	struct err err = {0};
	unsigned char frame[FRAME_HEADER + 2000];
	int fd[HELD];

	net_pull_start(net_ipc("silent"), on_frame, &s, &pull, &err);
	for (int i = 0; i < HELD; i++) {
		fd[i] = raw_connect(net_pull_address(pull));
		raw_write(fd[i], frame, i % 3 * (make_frame(frame, 0, 2000) / 3));
	}
	net_push_open(net_pull_address(pull), &push, &err);
	ok(send_frame(push, 0, LONG_MS) == RC_OK, "%d connections are half open", HELD);
	wait_frames(&s, 1);
	ok(s.n == 1 && s.wrong == 0, "a frame gets through");
	for (int i = 0; i < HELD; i += 2)
		close(fd[i]);
	net_push_close(push);
	net_pull_stop(pull);
	ok(is_closed(fd[1]), "the end closes what is left of them");
	for (int i = 3; i < HELD; i += 2)
		close(fd[i]);
}

/* A peer that does not read: what has been taken over is sent as it was, when it does. */
static void
test_slow(void)
{
	enum { FRAMES = 6 };
	static unsigned char payload[FRAME_PAYLOAD_MAX], got[FRAME_HEADER + FRAME_PAYLOAD_MAX];
	const char *addr = net_ipc("slow");
	int lfd = raw_listen(addr), fd;
	struct net_push *push = NULL;
	struct err err = {0};
	struct frame f = {.kind = FRAME_DATA, .comm = 3, .nbytes = sizeof payload}, h;
	unsigned sent = 0, good = 0;

	net_push_open(addr, &push, &err);
	fd = accept(lfd, NULL, NULL);
	for (uint32_t seq = 0; seq < FRAMES; seq++) {
		for (size_t i = 0; i < sizeof payload; i++)
			payload[i] = pattern(seq, i);
		f.seq = seq;
		f.crc = frame_crc(payload, sizeof payload);
		/* The first is begun and interrupted; the others find no room, and are queued. */
		sent += net_push_send(push, &f, payload, seq == 0 ? 100 : 0) == RC_OK;
		memset(payload, 0xff, sizeof payload);
	}
	ok(sent == FRAMES, "nobody waits for a peer that does not read");
	for (uint32_t seq = 0; seq < FRAMES && raw_read(fd, got, sizeof got); seq++) {
		good += frame_unpack(got, &h, &err) == RC_OK && h.seq == seq;
		for (size_t i = 0; i < sizeof payload; i++)
			if (got[FRAME_HEADER + i] != pattern(seq, i)) {
				good--;
				break;
			}
	}
	ok(good == FRAMES, "when it reads, it gets what was sent, though that is overwritten");
	net_push_close(push);
	close(fd);
	close(lfd);
	unlink(addr + 6);
}

/* A thread that waits reads itself, and hands on what it reads. */
static void
test_take(void)
{
	struct sink s = SINK_INIT;
	struct net_pull *pull = NULL;
	struct net_push *push = NULL;
	struct net_conn *c = NULL;
	struct err err = {0};
	struct frame f = {.kind = FRAME_ACK, .device = 0xd7, .crc = frame_crc("", 0)};

	net_pull_start(net_ipc("take"), on_any_frame, &s, &pull, &err);
	net_push_open(net_pull_address(pull), &push, &err);
	ok(!net_pull_take(pull, 0xd7), "there is nothing to take before a first frame");
	net_push_send(push, &f, "", LONG_MS);
	wait_frames(&s, 1);
	while (!c)
		c = net_pull_take(pull, 0xd7);
	ok(!net_pull_take(pull, 0xd7) && !net_pull_take(pull, 0xd8),
	   "a connection is taken by one thread, under its device's number");
	net_push_send(push, &f, "", LONG_MS);
	while (s.n < 2)
		net_pull_read(c, NULL, false);
	ok(pthread_equal(s.last, pthread_self()), "its frames are handed on by who has it");
	net_pull_nudge(c);
	net_pull_read(c, NULL, false);
	ok(s.n == 2, "a read without a frame ends all the same");
	net_pull_give(c);
	net_push_send(push, &f, "", LONG_MS);
	wait_frames(&s, 3);
	ok(!pthread_equal(s.last, pthread_self()), "given back, it is read again");
	for (c = NULL; !c;) /* two wanted it a moment ago, so for a while nobody gets it */
		c = net_pull_take(pull, 0xd7);
	net_push_close(push);
	for (bool taken = true; taken;) {
		net_pull_read(c, NULL, false);
		net_pull_give(c);
		c = net_pull_take(pull, 0xd7);
		taken = c != NULL;
	}
	ok(true, "the end of a connection ends the reading");
	net_pull_stop(pull);
}

/* The thread that reads a connection's descriptor: it is closed meanwhile, and descriptors are opened and used that
 * would have its number. */
static void
test_descriptor(void)
{
	struct sink s = SINK_INIT;
	struct net_pull *pull = NULL;
	struct net_push *push = NULL;
	struct net_conn *c = NULL;
	struct err err = {0};
	struct frame f = {.kind = FRAME_ACK, .device = 0xd7, .crc = frame_crc("", 0)};
	int pipes[64][2];
	unsigned good = 0;
	char got[8];

	net_pull_start("tcp://127.0.0.1:0", on_any_frame, &s, &pull, &err);
	net_push_open(net_pull_address(pull), &push, &err);
	net_push_send(push, &f, "", LONG_MS);
	wait_frames(&s, 1);
	while (!c)
		c = net_pull_take(pull, 0xd7);
	net_pull_break(pull, 0xd7);
	for (int i = 0; i < 64; i++)
		if (pipe(pipes[i]) != 0 || write(pipes[i][1], "other", 5) != 5)
			tap_bail("no pipes");
	net_pull_read(c, NULL, false);
	net_pull_give(c);
	ok(!net_pull_take(pull, 0xd7), "a closed connection has ended for who reads it");
	for (int i = 0; i < 64; i++) {
		good += read(pipes[i][0], got, sizeof got) == 5;
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
	ok(good == 64, "no other descriptor was read in its place");
	while (seen(&s) < 2) { /* until the new connection is there */
		net_push_send(push, &f, "", LONG_MS);
		sched_yield();
	}
	ok(true, "its sender has made another");
	net_push_close(push);
	net_pull_stop(pull);
}

/* A frame that may leave later leaves with the next one, before it; or when it is told to. */
static void
test_later(void)
{
	struct sink s = SINK_INIT;
	struct net_pull *pull = NULL;
	struct net_push *push = NULL;
	struct err err = {0};
	struct frame f = {.kind = FRAME_ACK, .device = 0xd7, .crc = frame_crc("", 0)};

	net_pull_start(net_ipc("later"), on_any_frame, &s, &pull, &err);
	net_push_open(net_pull_address(pull), &push, &err);
	net_push_send(push, &f, "", LONG_MS);
	wait_frames(&s, 1);
	for (int i = 0; i < 3; i++)
		ok(net_push_send(push, &f, "", NET_LATER) == RC_OK, "one for later");
	ok(seen(&s) == 1, "has not left");
	net_push_send(push, &f, "", LONG_MS);
	wait_frames(&s, 5);
	net_push_send(push, &f, "", NET_LATER);
	net_push_flush(push);
	wait_frames(&s, 6);
	net_push_send(push, &f, "", NET_LATER);
	net_push_close(push);
	wait_frames(&s, 7);
	ok(true, "they leave with the next, when they are told to, and before the end");
	net_pull_stop(pull);
}

struct taker {
	struct net_pull *pull;
	pthread_barrier_t *start;
};

static void *
take_and_give(void *arg)
{
	const struct taker *t = arg;
	struct net_conn *c;

	pthread_barrier_wait(t->start);
	c = net_pull_take(t->pull, 0xd7);
	if (c)
		net_pull_give(c);
	return NULL;
}

/* The second comes before the connection's own thread has let go of it for the first. */
static void
test_two_take(void)
{
	struct frame f = {.kind = FRAME_ACK, .device = 0xd7, .crc = frame_crc("", 0)};
	pthread_barrier_t start;
	struct err err = {0};
	pthread_t one, two;

	pthread_barrier_init(&start, NULL, 2);
	for (int i = 0; i < 100; i++) {
		struct sink s = SINK_INIT;
		struct taker t = {.start = &start};
		struct net_push *push = NULL;

		net_pull_start(net_ipc("two"), on_any_frame, &s, &t.pull, &err);
		net_push_open(net_pull_address(t.pull), &push, &err);
		net_push_send(push, &f, "", LONG_MS);
		wait_frames(&s, 1);
		pthread_create(&one, NULL, take_and_give, &t);
		pthread_create(&two, NULL, take_and_give, &t);
		pthread_join(one, NULL);
		pthread_join(two, NULL);
		net_push_close(push);
		net_pull_stop(t.pull);
	}
	pthread_barrier_destroy(&start);
	ok(true, "neither of two threads that want one connection waits for ever");
}

/* Nobody there: frames queue up to a bound, then there is no room. */
static void
test_nobody(void)
{
	struct net_push *push = NULL;
	struct err err = {0};
	uint32_t n = 0;

	ok(net_push_open(net_ipc("nobody"), &push, &err) == RC_OK,
	   "a push opens before its pull is there");
	ok(send_frame(push, 0, 1) == RC_TIMEOUT, "who will not leave a copy waits, in vain");
	while (n < 1000 && send_frame(push, 1, 0) == RC_OK)
		n++;
	ok(n > 0 && n < 1000 && send_frame(push, 1, 0) == RC_TIMEOUT, "the queue is bounded");
	ok(net_push_generation(push) == 0, "the generation says: never connected");
	net_push_close(push);
	ok(net_push_open("ipc://nonsense", &push, &err) == RC_INVAL, "a bad address is refused");
}

struct sender {
	struct net_push *push;
	struct frame head;
	unsigned failed;
};

static void *
send_many(void *arg)
{
	struct sender *s = arg;

	for (unsigned i = 0; i < 500; i++)
		s->failed += net_push_send(s->push, &s->head, "", LONG_MS) != RC_OK;
	return NULL;
}

static void
test_threads(void)
{
	struct sink s = SINK_INIT;
	struct net_pull *pull = NULL;
	struct sender sender[4];
	pthread_t t[4];
	struct net_push *push = NULL;
	struct err err = {0};
	unsigned failed = 0;

	net_pull_start(net_ipc("threads"), on_any_frame, &s, &pull, &err);
	net_push_open(net_pull_address(pull), &push, &err);
	for (int i = 0; i < 4; i++) {
		sender[i] = (struct sender){push, {.kind = FRAME_ACK, .crc = frame_crc("", 0)}, 0};
		pthread_create(&t[i], NULL, send_many, &sender[i]);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		failed += sender[i].failed;
	}
	wait_frames(&s, failed ? 0 : 2000);
	ok(failed == 0 && s.n == 2000, "four threads send through one push");
	net_push_close(push);
	net_pull_stop(pull);
}

static void
test_copy(void)
{
	struct net_frame f = {.head = {.nbytes = 3}};
	struct err err = {0};

	ok(net_frame_copy(&f, "abc", &err) == RC_OK && memcmp(f.payload, "abc", 3) == 0,
	   "a frame can be made of a copy");
	net_frame_free(&f);
	ok(!f.payload && !f.mem, "and freed");
}

int
main(void)
{
	net_begin();
	test_order(net_ipc("a"), "ipc");
	test_order("tcp://127.0.0.1:0", "tcp");
	test_refused();
	test_silent();
	test_slow();
	test_take();
	test_descriptor();
	test_later();
	test_two_take();
	test_nobody();
	test_threads();
	test_copy();
	return net_end();
}
