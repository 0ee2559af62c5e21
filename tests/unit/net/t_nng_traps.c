/*
 * One test for each trap of nng 1.5.2 that the README of net lists. Each fails without its counter-measure, but for
 * those whose text begins with "no trap": we have not seen the trap there, and they say that it stays so.
 */
#include "net_test.h"

#include "net/connection.h"

static bool
is_ipc(const char *addr)
{
	return strncmp(addr, "ipc", 3) == 0;
}

#define GOING	       500u
#define ASKED	       40u
#define HOSTILE_LENGTH (UINT64_MAX - 39) /* 2^64 - 40 */

#define BURSTS 4u /* of connections that drop; on ipc the first makes nng's own listener deaf */

/* ---- a pull to push to */

struct sink {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned n;
	uint32_t last;
};

#define SINK_INIT                                                                      \
	{                                                                              \
		.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER \
	}

static void
on_frame(void *arg, struct net_frame *f)
{
	struct sink *s = arg;

	pthread_mutex_lock(&s->lock);
	s->n++;
	s->last = f->head.seq;
	pthread_cond_signal(&s->changed);
	pthread_mutex_unlock(&s->lock);
	net_frame_free(f);
}

static bool
sink_wait(struct sink *s, unsigned n, unsigned timeout_ms)
{
	struct timespec ts = deadline_timespec(deadline_in_ms(timeout_ms));
	bool good;

	pthread_mutex_lock(&s->lock);
	while (s->n < n && pthread_cond_clockwait(&s->changed, &s->lock, CLOCK_MONOTONIC, &ts) == 0)
		;
	good = s->n >= n;
	pthread_mutex_unlock(&s->lock);
	return good;
}

static unsigned
sink_count(struct sink *s)
{
	unsigned n;

	pthread_mutex_lock(&s->lock);
	n = s->n;
	pthread_mutex_unlock(&s->lock);
	return n;
}

static enum rc
push_one(struct net_push *p, uint32_t seq, int timeout_ms)
{
	struct frame f = {.kind = FRAME_ACK, .seq = seq, .crc = frame_crc("", 0)};

	return net_push_send(p, &f, "", timeout_ms);
}

static int
pull_child(const char *addr)
{
	static struct sink s = SINK_INIT;
	struct net_pull *pull;
	struct err err = {0};

	if (net_pull_start(addr, on_frame, &s, &pull, &err) == RC_OK)
		child_serve(net_pull_address(pull));
	fprintf(stderr, "%s\n", err.text);
	return 1;
}

/* ---- 1. a peer that drops in its handshake */

enum greeting { GREETS, SILENT }; /* does the server say something first? */

/* Connections that end in each state of the handshake. */
static void
drop_in_handshake(const char *addr, enum greeting greeting)
{
	static const unsigned char half[4] = {0, 'S', 'P', 0}, wrong[8] = "GET / HT";
	unsigned char hello[8];

	/* Gone before nng has written a byte: that is what makes it deaf, when we are fast enough.
	 */
	for (int i = 0; i < 1000; i++)
		close(raw_connect(addr));
	for (int i = 0; i < 200; i++) {
		const struct linger reset = {1, 0};
		int fd = raw_connect(addr);

		if (i % 4 == 1)
			raw_write(fd, half, sizeof half);
		else if (i % 4 == 2)
			raw_write(fd, wrong, sizeof wrong);
		else if (i % 4 == 3 && greeting == GREETS)
			raw_read(fd, hello, sizeof hello);
		if (i % 8 >= 4)
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
		close(fd);
	}
}

static void
test_deaf_rep(const char *addr, const char *name)
{
	const char *trap = is_ipc(addr) ? "" : "no trap: ";
	struct echo e = ECHO_INIT;
	struct err err = {0};
	struct rpc_server *s = echo_start(&e, addr, &err);
	struct rpc_client *before = NULL;
	bool good = true;

	rpc_client_open(rpc_server_address(s), RPC_CONNECT_NOW, &before, &err);
	call_echo(before, 1, LONG_MS, &err);
	for (unsigned i = 0; i < BURSTS && good; i++) {
		drop_in_handshake(rpc_server_address(s), GREETS);
		good = call_once(rpc_server_address(s), LONG_MS, &err) == RC_OK;
	}
	ok(good, "%sREP on %s: a new client is answered after peers have dropped in the handshake",
	   trap, name);
	ok(call_echo(before, 2, LONG_MS, &err) == RC_OK,
	   "no trap: REP on %s: a client from before is answered", name);
	rpc_client_close(before);
	rpc_server_stop(s);
}

static void
test_dropped_pull(const char *addr, const char *name)
{
	struct sink s = SINK_INIT;
	struct net_pull *pull = NULL;
	struct net_push *push = NULL;
	struct err err = {0};
	bool good;

	net_pull_start(addr, on_frame, &s, &pull, &err);
	/* Once: byte streams have no handshake to go deaf in, and each connection costs nng time. */
	drop_in_handshake(net_pull_address(pull), SILENT);
	net_push_open(net_pull_address(pull), &push, &err);
	for (uint32_t i = 0; !sink_wait(&s, 1, 100) && i < LONG_MS / 100; i++)
		push_one(push, i, 0);
	good = sink_count(&s) >= 1;
	net_push_close(push);
	ok(good, "no trap: pull on %s: a new sender gets through after peers have dropped", name);
	net_pull_stop(pull);
}

static void
test_second_server(const char *addr, const char *name)
{
	struct child first = child_start("echo", addr);
	struct echo e = ECHO_INIT;
	struct rpc_handler h = {.call = echo_call, .arg = &e};
	struct rpc_server *s = NULL;
	struct err err = {0};

	ok(rpc_server_start(first.addr, &h, &s, &err) == RC_BUSY,
	   "%s: a second server on the address is refused", name);
	printf("# %s\n", err.text);
	ok(call_once(first.addr, LONG_MS, &err) == RC_OK && e.ncalls == 0,
	   "%s: and the first one lives", name);
	rpc_server_stop(s);
	child_kill(&first);
	s = echo_start(&e, first.addr, &err);
	ok(s && call_once(first.addr, LONG_MS, &err) == RC_OK && e.ncalls == 1,
	   "%s: when that is killed, the address can be taken over", name);
	rpc_server_stop(s);
}

/* ---- 2. a length of 2^64 - 40 */

static void
test_length_server(const char *addr, const char *name)
{
	struct echo e = ECHO_INIT;
	struct err err = {0};
	struct rpc_server *s = echo_start(&e, addr, &err);
	bool ipc = strncmp(addr, "ipc", 3) == 0;
	int fd = raw_connect(rpc_server_address(s));
	unsigned char byte;

	ok(raw_handshake(fd, SP_REQ) && raw_head(fd, ipc, HOSTILE_LENGTH) &&
	       recv(fd, &byte, 1, 0) <= 0 &&
	       call_once(rpc_server_address(s), LONG_MS, &err) == RC_OK,
	   "REP on %s: a peer that claims 2^64-40 bytes is dropped, the server lives", name);
	close(fd);
	rpc_server_stop(s);
}

/* A server that answers anything with that length. */
static void *
hostile_server(void *arg)
{
	int lfd = *(int *)arg, fd;

	while ((fd = accept(lfd, NULL, NULL)) >= 0) {
		uint64_t nbytes;
		unsigned char byte;

		if (raw_handshake(fd, SP_REP) && raw_read_head(fd, true, &nbytes)) {
			raw_head(fd, true, HOSTILE_LENGTH);
			while (recv(fd, &byte, 1, 0) > 0)
				;
		}
		close(fd);
	}
	return NULL;
}

static void
test_length_client(void)
{
	const char *addr = net_ipc("hostile");
	struct err err = {0};
	int lfd = raw_listen(addr);
	enum rc rc;
	pthread_t t;

	pthread_create(&t, NULL, hostile_server, &lfd);
	rc = call_once(addr, 500, &err);
	ok(rc == RC_TIMEOUT || rc == RC_UNREACHABLE,
	   "REQ: a server that claims 2^64-40 bytes only fails the call");
	shutdown(lfd, SHUT_RDWR);
	pthread_join(t, NULL);
	close(lfd);
	unlink(addr + 6);
}

/* ---- 3. closing as an answer arrives */

/* The role "slow": answers Malloc after a time around a millisecond. */
static void *
slow_answer(void *arg)
{
	static _Atomic unsigned n;
	struct timespec ts = {.tv_nsec = (n++ % 20) * 100000};

	nanosleep(&ts, NULL);
	echo_answer(arg);
	return NULL;
}

static void
slow_call(void *arg, struct rpc_call *call)
{
	pthread_t t;

	(void)arg;
	if (pthread_create(&t, NULL, slow_answer, call) == 0)
		pthread_detach(t);
	else
		echo_answer(call);
}

static int
slow_child(const char *addr)
{
	struct rpc_handler h = {.call = slow_call};
	struct rpc_server *s;
	struct err err = {0};

	if (rpc_server_start(addr, &h, &s, &err) == RC_OK)
		child_serve(rpc_server_address(s));
	return 1;
}

static void
on_ignored(void *arg, enum rc rc, GpuSim__Reply *reply, const char *text)
{
	(void)rc;
	(void)text;
	*(unsigned *)arg += 1; /* read after rpc_client_close alone */
	wire_reply_free(reply);
}

/*
 * Is nng's thread that clears connections away alive? A hanging close takes it along, and then
 * nobody hears of a connection's end any more.
 */
static bool
clearing_works(void)
{
	static unsigned n;
	char name[32];
	struct echo e = ECHO_INIT;
	struct err err = {0};
	struct rpc_server *s;

	snprintf(name, sizeof name, "alive%u", n++);
	s = echo_start(&e, net_ipc(name), &err);
	if (!s || call_once(rpc_server_address(s), LONG_MS, &err) != RC_OK)
		return false;
	echo_wait(&e, &e.ngone, 1); /* the watchdog ends it */
	rpc_server_stop(s);
	return true;
}

static void
test_close_race(void)
{
	struct child srv = child_start("slow", net_ipc("slow"));
	unsigned n[2] = {0}, wrong = 0, abandoned;
	struct err err = {0};

	for (int i = 0; i < 1000; i++) {
		GpuSim__Request req = GPU_SIM__REQUEST__INIT;
		GpuSim__MallocRequest m = GPU_SIM__MALLOC_REQUEST__INIT;
		struct rpc_client *c = NULL;
		enum rc rc;

		if (rpc_client_open(srv.addr, RPC_CONNECT_NOW, &c, &err) != RC_OK) {
			wrong++;
			continue;
		}
		rc = call_echo(c, 1, 1, &err);
		n[rc == RC_OK]++;
		wrong += rc != RC_OK && rc != RC_TIMEOUT;
		/* And one that closing itself has to end. */
		abandoned = 0;
		req.body_case = GPU_SIM__REQUEST__BODY_MALLOC;
		req.malloc = &m;
		rpc_call_start(c, &req, deadline_in_ms(LONG_MS), on_ignored, &abandoned, &err);
		rpc_client_close(c);
		wrong += abandoned != 1;
	}
	ok(wrong == 0, "1000 clients close while answers arrive, and none hangs");
	printf("# %u answered, %u timed out\n", n[1], n[0]);
	ok(clearing_works(), "and nng still clears connections away");
	child_kill(&srv);
	clear_ipc(srv.addr);
}

/* The role "busy": four clients that call all the time, and connect again when they must. */
static void *
call_on(void *arg)
{
	struct err err;

	for (;;)
		call_echo(arg, 1, 1000, &err);
	return NULL;
}

static int
busy_child(const char *addr)
{
	struct rpc_client *c;
	struct err err;
	pthread_t t;

	/* Opened one after another: nng sets itself up in the first, unseen by the thread sanitizer. */
	for (int i = 0; i < 4; i++)
		if (rpc_client_open(addr, RPC_CONNECT_LATER, &c, &err) == RC_OK)
			pthread_create(&t, NULL, call_on, c);
	child_serve(addr);
}

static void
test_stop_race(void)
{
	const char *addr = net_ipc("busy");
	struct child clients = {.pid = -1};
	bool good = true;

	for (int i = 0; i < 30 && good; i++) {
		struct echo e = ECHO_INIT;
		struct err err = {0};
		struct rpc_server *s = echo_start(&e, addr, &err);

		if (i == 0)
			clients = child_start("busy", addr);
		good = s != NULL;
		if (s) {
			echo_wait(&e, &e.ncalls, 200);
			rpc_server_stop(s);
		}
	}
	ok(good && clearing_works(), "a server stops 30 times under load, and none hangs");
	child_kill(&clients);
}

/* Frames are half written when the push is closed. */
static void
test_push_close_race(void)
{
	struct child pull = child_start("pull", net_ipc("bulk"));
	static unsigned char payload[FRAME_PAYLOAD_MAX];
	struct frame f = {.kind = FRAME_DATA, .nbytes = sizeof payload};
	struct err err = {0};

	f.crc = frame_crc(payload, sizeof payload);
	for (int i = 0; i < 50; i++) {
		struct net_push *p;

		if (net_push_open(pull.addr, &p, &err) != RC_OK)
			break;
		for (int k = 0; k < 6; k++)
			net_push_send(p, &f, payload, LONG_MS);
		net_push_close(p);
	}
	ok(clearing_works(),
	   "50 senders close while 1 MiB frames are half written, and none hangs");
	child_kill(&pull);
	clear_ipc(pull.addr);
}

/* Peers that ask much in one breath and go: sending an answer fails while a request is being read. */
static void
ask_and_go(const char *addr, bool ipc)
{
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;
	GpuSim__MallocRequest m = GPU_SIM__MALLOC_REQUEST__INIT;
	unsigned char packed[64], id[4] = {0x80};
	struct buf all = {0};
	int fd = raw_connect(addr);

	req.clientid = net_random();
	req.version = WIRE_VERSION;
	req.timeoutms = 1000;
	req.body_case = GPU_SIM__REQUEST__BODY_MALLOC;
	req.malloc = &m;
	for (unsigned i = 0; i < ASKED; i++) {
		unsigned char head[9] = {1};
		size_t n;

		req.seq = i + 1;
		id[3] = (unsigned char)i;
		n = gpu_sim__request__pack(&req, packed);
		head[8] = (unsigned char)(sizeof id + n);
		buf_add(&all, head + !ipc, sizeof head - !ipc);
		buf_add(&all, id, sizeof id);
		buf_add(&all, packed, n);
	}
	raw_handshake(fd, SP_REQ);
	raw_write(fd, all.data, all.len);
	close(fd);
	buf_fini(&all);
}

static void
test_half_read(const char *addr, const char *name)
{
	struct echo e = ECHO_INIT;
	struct err err = {0};
	struct rpc_server *s = echo_start(&e, addr, &err);

	for (unsigned i = 0; i < GOING; i++)
		ask_and_go(rpc_server_address(s), is_ipc(addr));
	echo_wait(&e, &e.ngone, GOING);
	ok(clearing_works(), "REP on %s: %u peers that go while they are read are cleared away",
	   name, GOING);
	rpc_server_stop(s);
}

/* ---- 4. resending */

struct seen {
	uint64_t client_id, seq;
	uint32_t nng_id; /* nng's own number of the request */
};

/* Read one request. */
static bool
read_request(int fd, struct seen *seen)
{
	unsigned char msg[1024];
	uint64_t nbytes;
	GpuSim__Request *req;

	if (!raw_read_head(fd, true, &nbytes) || nbytes < 4 || nbytes > sizeof msg ||
	    !raw_read(fd, msg, nbytes) ||
	    wire_request_unpack(msg + 4, nbytes - 4, &req, NULL) != RC_OK)
		return false;
	*seen = (struct seen){req->clientid, req->seq,
			      (uint32_t)msg[0] << 24 | (uint32_t)msg[1] << 16 |
				  (uint32_t)msg[2] << 8 | msg[3]};
	wire_request_free(req);
	return true;
}

#define DROPS 2 /* requests whose connection breaks before an answer */

struct dropper {
	int lfd;
	unsigned n; /* requests seen */
	struct seen seen[8];
	bool quiet; /* no connection carried a second request */
};

/* Answer what was seen last, as Malloc at 42. */
static void
answer_seen(int fd, const struct seen *seen)
{
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	GpuSim__MallocResponse m = GPU_SIM__MALLOC_RESPONSE__INIT;
	unsigned char out[64];
	uint32_t id = htonl(seen->nng_id);
	size_t n;

	m.addr = 42;
	reply.body_case = GPU_SIM__REPLY__BODY_MALLOC;
	reply.malloc = &m;
	memcpy(out, &id, 4);
	n = 4 + gpu_sim__reply__pack(&reply, out + 4);
	raw_head(fd, true, n);
	raw_write(fd, out, n);
}

/*
 * Take a request and drop the connection, DROPS times; answer from then on. A connection may come
 * without a request: nng's dialer has made one already when the client replaces the dialer.
 */
static void *
drop_requests(void *arg)
{
	struct dropper *d = arg;
	unsigned char byte;
	int fd;

	d->quiet = true;
	while (d->n < sizeof d->seen / sizeof d->seen[0] &&
	       (fd = accept(d->lfd, NULL, NULL)) >= 0) {
		struct seen *seen = &d->seen[d->n];

		if (raw_handshake(fd, SP_REP) && read_request(fd, seen) && ++d->n > DROPS) {
			answer_seen(fd, seen);
			/* The client closes when it has its answer; until then it says no more. */
			d->quiet &= recv(fd, &byte, 1, 0) <= 0;
		}
		close(fd);
	}
	return NULL;
}

static void
test_resend(void)
{
	const char *addr = net_ipc("drop");
	struct dropper d = {.lfd = raw_listen(addr)};
	const struct seen *s = d.seen;
	bool same = true, ours = true;
	struct err err = {0};
	pthread_t t;

	pthread_create(&t, NULL, drop_requests, &d);
	ok(call_once(addr, LONG_MS, &err) == RC_OK,
	   "a call survives two connections that break under it %s", err.text);
	shutdown(d.lfd, SHUT_RDWR);
	pthread_join(t, NULL);
	for (unsigned i = 1; i < d.n; i++) {
		same &= s[i].seq == s[0].seq && s[i].client_id == s[0].client_id;
		ours &= s[i].nng_id != s[i - 1].nng_id;
	}
	ok(d.quiet && d.n > DROPS && same && s[0].seq != 0,
	   "the server sees it once a connection, under one number");
	printf("# %u times\n", d.n);
	ok(d.n > DROPS && ours, "the repetitions are ours, not nng's");
	close(d.lfd);
	unlink(addr + 6);
}

/* Between client and server: lets the request through and cuts the line when the answer comes. */
struct cutter {
	int lfd;
	const char *server;
	unsigned cuts; /* how many more */
};

static void
relay(struct cutter *c, int a, int b)
{
	struct pollfd p[2] = {{a, POLLIN, 0}, {b, POLLIN, 0}};
	size_t from_server = 0;
	char buf[4096];

	while (poll(p, 2, -1) > 0)
		for (int i = 0; i < 2; i++) {
			ssize_t n = p[i].revents ? recv(p[i].fd, buf, sizeof buf, 0) : 0;

			if (p[i].revents && n <= 0)
				return;
			if (i % 4 == 1)
				from_server += (size_t)n;
			if (from_server > 8 && c->cuts > 0) { /* more than the handshake */
				c->cuts--;
				return;
			}
			if (n > 0)
				raw_write(p[!i].fd, buf, (size_t)n);
		}
}

static void *
cut_answers(void *arg)
{
	struct cutter *c = arg;
	int a, b;

	while ((a = accept(c->lfd, NULL, NULL)) >= 0) {
		b = raw_connect(c->server);
		relay(c, a, b);
		close(a);
		close(b);
	}
	return NULL;
}

static void
test_once(void)
{
	const char *addr = net_ipc("cut");
	struct echo e = ECHO_INIT;
	struct err err = {0};
	struct rpc_server *s = echo_start(&e, net_ipc("behind"), &err);
	struct cutter c = {raw_listen(addr), rpc_server_address(s), 3};
	pthread_t t;

	pthread_create(&t, NULL, cut_answers, &c);
	ok(call_once(addr, LONG_MS, &err) == RC_OK,
	   "a call is answered although three of its answers are lost %s", err.text);
	ok(e.ncalls == 1, "and has run once");
	printf("# the handler ran %u times\n", e.ncalls);
	shutdown(c.lfd, SHUT_RDWR);
	pthread_join(t, NULL);
	close(c.lfd);
	unlink(addr + 6);
	rpc_server_stop(s);
}

/* ---- 5. what PUSH and PULL lose */

static void
test_push_loss(const char *addr, const char *name)
{
	struct child srv = child_start("pull", addr);
	struct sink s = SINK_INIT;
	struct net_pull *pull = NULL;
	struct net_push *push = NULL;
	struct err err = {0};
	unsigned first;

	net_push_open(srv.addr, &push, &err);
	ok(net_pull_start(srv.addr, on_frame, &s, &pull, &err) == RC_BUSY,
	   "%s: a second pull on the address cannot take part of the stream", name);
	while (net_push_generation(push) == 0)
		push_one(push, 0, 1);
	first = net_push_generation(push);
	child_kill(&srv);
	ok(net_pull_start(srv.addr, on_frame, &s, &pull, &err) == RC_OK,
	   "%s: when the first is killed, it can", name);
	/* A frame may overtake the news of the connection that carries it. */
	for (uint32_t i = 0;
	     i < LONG_MS / 20 && (!sink_wait(&s, 1, 20) || net_push_generation(push) == first); i++)
		push_one(push, i, 0);
	ok(sink_count(&s) > 0 && net_push_generation(push) > first,
	   "%s: the sender reaches the new one, and its generation says that frames may be lost",
	   name);
	net_push_close(push);
	net_pull_stop(pull);
}

/* The pull comes and goes while frames are sent. */
static void
test_push_reconnect(void)
{
	struct sink s = SINK_INIT;
	struct net_push *push = NULL;
	struct err err = {0};
	unsigned good = 0;

	net_push_open(net_ipc("again"), &push, &err);
	for (int i = 0; i < 50; i++) {
		struct net_pull *pull = NULL;
		unsigned n = sink_count(&s);

		if (net_pull_start(net_ipc("again"), on_frame, &s, &pull, &err) != RC_OK)
			break;
		for (uint32_t k = 0; !sink_wait(&s, n + 1, 5) && k < LONG_MS / 5; k++)
			push_one(push, k, 0);
		good += sink_count(&s) > n;
		net_pull_stop(pull);
		for (int k = 0; k < 3; k++)
			push_one(push, 0, 0);
	}
	ok(good == 50, "a PULL that comes and goes 50 times gets frames each time");
	net_push_close(push);
}

/* ---- 6. a message that grows a hundredfold when unpacked */

static void
test_inflation(void)
{
	struct echo e = ECHO_INIT;
	struct err err = {0};
	struct rpc_server *s = echo_start(&e, net_ipc("inflate"), &err);
	size_t nops = (WIRE_CONTROL_MAX - 100) / 2, nbytes = 4 + 5 + nops * 2;
	unsigned char *msg = malloc(nbytes), *p = msg + 4;
	int fd = raw_connect(rpc_server_address(s));
	uint64_t n;

	memcpy(msg, "\x80\0\0\1", 4);
	*p++ = 0xf2; /* Request.run, a message of nops * 2 bytes */
	*p++ = 0x01;
	for (n = nops * 2; n > 0x7f; n >>= 7)
		*p++ = (unsigned char)(n | 0x80);
	*p++ = (unsigned char)n;
	for (size_t i = 0; i < nops; i++) {
		*p++ = 0x32; /* RunRequest.ops, empty */
		*p++ = 0;
	}
	nbytes = (size_t)(p - msg);
	raw_handshake(fd, SP_REQ);
	raw_head(fd, true, nbytes);
	for (size_t at = 0; at < nbytes;) {
		ssize_t w = send(fd, msg + at, nbytes - at, MSG_NOSIGNAL);

		if (w <= 0)
			break;
		at += (size_t)w;
	}
	ok(raw_read_head(fd, true, &n) && n > 4 && n < 1024 && e.ncalls == 0,
	   "1 MiB that would become 92 MiB is refused, with an answer");
	ok(call_once(rpc_server_address(s), LONG_MS, &err) == RC_OK, "and the server goes on");
	close(fd);
	free(msg);
	rpc_server_stop(s);
}

int
main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "echo") == 0)
		return echo_child(argv[2]);
	if (argc == 3 && strcmp(argv[1], "slow") == 0)
		return slow_child(argv[2]);
	if (argc == 3 && strcmp(argv[1], "busy") == 0)
		return busy_child(argv[2]);
	if (argc == 3 && strcmp(argv[1], "pull") == 0)
		return pull_child(argv[2]);
	net_begin();
	test_deaf_rep(net_ipc("deaf"), "ipc");
	test_deaf_rep("tcp://127.0.0.1:0", "tcp");
	test_dropped_pull(net_ipc("deaf"), "ipc");
	test_dropped_pull("tcp://127.0.0.1:0", "tcp");
	test_second_server(net_ipc("second"), "ipc");
	test_second_server("tcp://127.0.0.1:0", "tcp");
	test_length_server(net_ipc("length"), "ipc");
	test_length_server("tcp://127.0.0.1:0", "tcp");
	test_length_client();
	test_half_read(net_ipc("half"), "ipc");
	test_half_read("tcp://127.0.0.1:0", "tcp");
	test_close_race();
	test_stop_race();
	test_push_close_race();
	test_resend();
	test_once();
	test_push_loss(net_ipc("loss"), "ipc");
	test_push_loss("tcp://127.0.0.1:0", "tcp");
	test_push_reconnect();
	test_inflation();
	return net_end();
}
