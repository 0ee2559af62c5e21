/*
 * Frames from PUSH to PULL: content and order, what is no frame, and what can be known of a loss.
 */
#include "net_test.h"

#include "net/channel.h"

#define NFRAMES 200

struct sink {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned n, wrong;
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

/* A message that is no frame is counted and forgotten; one too long closes its connection. */
static void
test_refused(void)
{
	struct sink s = SINK_INIT;
	struct net_pull *pull = NULL;
	struct net_push *push = NULL;
	struct err err = {0};
	unsigned char bad[FRAME_HEADER + 8] = {0}, byte;
	struct frame f = {.kind = FRAME_DATA, .nbytes = 8, .crc = 1};
	int fd;

	net_pull_start(net_ipc("refused"), on_frame, &s, &pull, &err);
	fd = raw_connect(net_pull_address(pull));
	raw_handshake(fd, SP_PUSH);
	frame_pack(&f, bad); /* the payload's crc is not 1 */
	raw_head(fd, true, sizeof bad);
	raw_write(fd, bad, sizeof bad);
	raw_head(fd, true, 3);
	raw_write(fd, "abc", 3);
	raw_head(fd, true, 0);
	raw_head(fd, true, FRAME_HEADER + FRAME_PAYLOAD_MAX + 1);
	ok(recv(fd, &byte, 1, 0) <= 0, "a message longer than any frame ends the connection");
	close(fd);
	net_push_open(net_pull_address(pull), &push, &err);
	ok(send_frame(push, 0, LONG_MS) == RC_OK, "a good frame after that is sent");
	wait_frames(&s, 1);
	ok(s.n == 1 && s.wrong == 0, "and arrives");
	ok(net_pull_refused(pull) == 3, "the three messages that were no frames are counted");
	net_push_close(push);
	net_pull_stop(pull);
}

/* Nobody there: frames queue up to a bound, then there is no room. */
static void
test_nobody(void)
{
	struct net_push *push = NULL;
	struct err err = {0};
	uint32_t n = 0;

	ok(net_push_open(net_ipc("nobody"), &push, &err) == RC_OK,
	   "a PUSH opens before its PULL is there");
	while (n < 1000 && send_frame(push, 0, 1) == RC_OK)
		n++;
	ok(n < 1000 && send_frame(push, 0, 1) == RC_TIMEOUT, "the queue is bounded");
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
count_frame(void *arg, struct net_frame *f)
{
	struct sink *s = arg;

	pthread_mutex_lock(&s->lock);
	s->n++;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
	net_frame_free(f);
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

	net_pull_start(net_ipc("threads"), count_frame, &s, &pull, &err);
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
	ok(failed == 0 && s.n == 2000, "four threads send through one PUSH");
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
	ok(!f.payload && !f.msg, "and freed");
}

int
main(void)
{
	net_begin();
	test_order(net_ipc("a"), "ipc");
	test_order("tcp://127.0.0.1:0", "tcp");
	test_refused();
	test_nobody();
	test_threads();
	test_copy();
	return net_end();
}
