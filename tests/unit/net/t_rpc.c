/*
 * Calls between a client and a server, in one process and between several: answers, deadlines, and
 * what a peer that is not there, is killed, or does not behave comes to.
 */
#include "net_test.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>

#define MANY	    300 /* more than the 64 answers that nng's raw REP keeps for a connection */
#define SILENT_MANY 24u /* more than nng has threads for callbacks on 8 processors */

static void
test_echo(struct rpc_client *c, const char *name)
{
	struct err err = {0};
	bool good = true;

	for (uint64_t i = 0; i < 100 && good; i++)
		good = call_echo(c, i << 20, LONG_MS, &err) == RC_OK;
	ok(good, "%s: 100 calls are answered, each with its own answer", name);
	if (!good)
		printf("# %s\n", err.text);
}

struct many {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned ended, right;
};

static void
on_many(void *arg, enum rc rc, GpuSim__Reply *reply, const char *text)
{
	struct many *m = arg;

	(void)text;
	pthread_mutex_lock(&m->lock);
	m->ended++;
	m->right += rc == RC_OK && reply->code == RC_OK;
	pthread_cond_signal(&m->changed);
	pthread_mutex_unlock(&m->lock);
	wire_reply_free(reply);
}

/* Start MANY calls that the server holds; wait until it has them all. */
static bool
start_many(struct rpc_client *c, struct echo *e, struct many *m, unsigned timeout_ms)
{
	struct err err = {0};
	bool good = true;

	for (unsigned i = 0; i < MANY && good; i++) {
		GpuSim__Request req = GPU_SIM__REQUEST__INIT;
		GpuSim__GraphDropRequest g = GPU_SIM__GRAPH_DROP_REQUEST__INIT;

		g.graphid = i;
		req.body_case = GPU_SIM__REQUEST__BODY_GRAPH_DROP;
		req.graphdrop = &g;
		good =
		    rpc_call_start(c, &req, deadline_in_ms(timeout_ms), on_many, m, &err) == RC_OK;
	}
	if (good)
		echo_wait(e, &e->nheld, MANY);
	return good;
}

static void
test_many(struct rpc_client *c, struct echo *e, const char *name)
{
	struct many m = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

	e->nheld = 0;
	if (!ok(start_many(c, e, &m, LONG_MS), "%s: %d calls wait at the server", name, MANY))
		return;
	for (unsigned i = 0; i < MANY; i++)
		echo_answer(e->held[(i * 7 + 3) % MANY]);
	e->nheld = 0;
	pthread_mutex_lock(&m.lock);
	while (m.ended < MANY)
		pthread_cond_wait(&m.changed, &m.lock);
	pthread_mutex_unlock(&m.lock);
	ok(m.right == MANY, "%s: answered at once and out of order, all arrive", name);
	if (m.right != MANY)
		printf("# %u of %d\n", m.right, MANY);
}

static void
test_one_address(const char *addr, const char *name)
{
	struct echo e = ECHO_INIT;
	struct err err = {0};
	struct rpc_server *s = echo_start(&e, addr, &err);
	struct rpc_client *c = NULL;
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;
	GpuSim__StatusRequest st = GPU_SIM__STATUS_REQUEST__INIT;
	GpuSim__Reply *reply = NULL;

	if (!ok(s != NULL, "%s: a server starts", name))
		return;
	if (strncmp(addr, "tcp", 3) == 0)
		ok(!strstr(rpc_server_address(s), ":0") ||
		       strstr(rpc_server_address(s), ":0") > strrchr(rpc_server_address(s), ':'),
		   "%s: port 0 became a port", name);
	ok(rpc_client_open(rpc_server_address(s), RPC_CONNECT_NOW, &c, &err) == RC_OK,
	   "%s: a client connects", name);
	test_echo(c, name);
	test_many(c, &e, name);
	ok(call_held(c, 20, &err) == RC_TIMEOUT && strstr(err.text, rpc_server_address(s)),
	   "%s: a call that is not answered ends at its deadline, and names the peer", name);
	echo_wait(&e, &e.nheld, 1);
	echo_answer(e.held[0]);
	req.body_case = GPU_SIM__REQUEST__BODY_STATUS;
	req.status = &st;
	ok(rpc_call(c, &req, deadline_in_ms(LONG_MS), &reply, &err) == RC_NOTFOUND &&
	       strcmp(err.text, "comm 7 rank 3: nothing of the kind") == 0 && !reply,
	   "%s: a failure comes back as its code and its sentence", name);
	ok(call_echo(c, 5, LONG_MS, &err) == RC_OK, "%s: and the client goes on", name);
	rpc_client_close(c);
	echo_wait(&e, &e.ngone, 1);
	ok(e.ngone == 1 && e.gone_client != 0, "%s: the server hears of the client's end, once",
	   name);
	rpc_server_stop(s);
}

static void
test_nobody(void)
{
	struct child gone = child_start("echo", "tcp://127.0.0.1:0");
	struct rpc_client *c = NULL;
	struct err err = {0};
	const char *addr[] = {net_ipc("nobody"), gone.addr};

	child_kill(&gone);
	for (int i = 0; i < 2; i++) {
		ok(rpc_client_open(addr[i], RPC_CONNECT_NOW, &c, &err) == RC_UNREACHABLE &&
		       strstr(err.text, addr[i]),
		   "%.3s: nobody there: open fails and names the address", addr[i]);
		ok(call_once(addr[i], WATCHDOG_S * 2000, &err) == RC_UNREACHABLE,
		   "%.3s: connecting later, the call fails long before its deadline", addr[i]);
	}
}

/* A peer that takes connections and says nothing. */
static void
test_silent(void)
{
	const char *addr = net_ipc("silent");
	struct rpc_client *c = NULL;
	struct err err = {0};
	int fd = raw_listen(addr);

	ok(fd >= 0 && rpc_client_open(addr, RPC_CONNECT_NOW, &c, &err) == RC_UNREACHABLE,
	   "a peer that does not finish the handshake is unreachable");
	ok(rpc_client_connect(addr, 100, &c, &err) == RC_TIMEOUT && strstr(err.text, addr),
	   "or, to who says how long to wait, late");
	ok(rpc_client_connect(net_ipc("nobody"), WATCHDOG_S * 2000, &c, &err) == RC_UNREACHABLE,
	   "nobody is not waited for");
	close(fd);
	unlink(addr + 6);
}

/* As many at once as take all threads of nng's, were one of them to wait for another. */
static void
test_silent_many(void)
{
	const char *addr = net_ipc("silent");
	struct told told = TOLD_INIT;
	struct one o[SILENT_MANY];
	struct rpc_client *c[SILENT_MANY];
	struct echo e = ECHO_INIT;
	struct err err = {0};
	struct rpc_server *s = echo_start(&e, net_ipc("other"), &err);
	int fd = raw_listen(addr);
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;
	GpuSim__GraphDropRequest g = GPU_SIM__GRAPH_DROP_REQUEST__INIT;

	req.body_case = GPU_SIM__REQUEST__BODY_GRAPH_DROP;
	req.graphdrop = &g;
	for (unsigned i = 0; i < SILENT_MANY; i++) {
		o[i] = (struct one)ONE_INIT;
		if (i % 2)
			rpc_client_watch(addr, on_nobody, &told, &c[i], &err);
		else
			rpc_client_open(addr, RPC_CONNECT_LATER, &c[i], &err);
		rpc_call_start(c[i], &req, deadline_in_ms(LONG_MS), on_one, &o[i], &err);
	}
	for (unsigned i = 0; i < SILENT_MANY; i++)
		one_wait(&o[i]);
	ok(call_once(rpc_server_address(s), LONG_MS, &err) == RC_OK,
	   "%u clients of silent peers do not keep others from theirs", SILENT_MANY);
	for (unsigned i = 0; i < SILENT_MANY; i++)
		rpc_client_close(c[i]);
	rpc_server_stop(s);
	close(fd);
	unlink(addr + 6);
}

static void
test_killed(const char *addr, const char *name)
{
	struct child srv = child_start("echo", addr), again;
	struct one o = ONE_INIT;
	struct rpc_client *c = NULL;
	struct err err = {0};
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;
	GpuSim__GraphDropRequest g = GPU_SIM__GRAPH_DROP_REQUEST__INIT;

	if (!ok(rpc_client_open(srv.addr, RPC_CONNECT_NOW, &c, &err) == RC_OK,
		"%s: connected to another process", name))
		return;
	req.body_case = GPU_SIM__REQUEST__BODY_GRAPH_DROP;
	req.graphdrop = &g;
	rpc_call_start(c, &req, deadline_in_ms(WATCHDOG_S * 2000), on_one, &o, &err);
	/* One connection: the answer to a second call says that the server has the first too. */
	ok(call_echo(c, 9, LONG_MS, &err) == RC_OK, "%s: it answers", name);
	child_kill(&srv);
	one_wait(&o);
	ok(o.err.rc == RC_UNREACHABLE,
	   "%s: killed in mid-call: unreachable, long before the deadline", name);
	printf("# %s\n", o.err.text);
	again = child_start("echo", srv.addr);
	ok(call_echo(c, 10, LONG_MS, &err) == RC_OK, "%s: the same client calls its successor",
	   name);
	rpc_client_close(c);
	child_kill(&again);
	clear_ipc(addr);
}

/* A watched server is killed: without a call, in a call, and before anybody connected. */
static void
test_watch(const char *addr, const char *name)
{
	struct child srv = child_start("echo", addr);
	struct told told = TOLD_INIT;
	struct rpc_client *c = NULL, *late = NULL;
	struct err err = {0};
	uint64_t told_ns;

	ok(rpc_client_watch(srv.addr, on_nobody, &told, &c, &err) == RC_OK &&
	       call_echo(c, 9, LONG_MS, &err) == RC_OK && told.n == 0,
	   "%s: a watched server is called", name);
	child_kill(&srv);
	told_wait(&told);
	told_ns = clock_now_ns();
	ok(call_echo(c, 9, WATCHDOG_S * 2000, &err) == RC_UNREACHABLE &&
	       strstr(err.text, "nothing listens there"),
	   "%s: a watcher is notified of its end without a call, and the next call reports it",
	   name);
	printf("# %s\n", err.text);
	told_wait(&told);
	ok(told.seen_ns != 0 && told.seen_ns < told_ns,
	   "%s: as of when it was seen, not of the call", name);
	ok(rpc_client_watch(srv.addr, on_nobody, &told, &late, &err) == RC_OK, "%s: nobody there",
	   name);
	told_wait(&told);
	ok(true, "%s: that is told, too", name);
	srv = child_start("echo", srv.addr);
	ok(call_echo(c, 10, LONG_MS, &err) == RC_OK && call_echo(late, 11, LONG_MS, &err) == RC_OK,
	   "%s: its successor is found", name);
	rpc_client_close(late);
	told.n = 0;
	told_ns = clock_now_ns();
	child_kill(&srv);
	told_wait(&told);
	ok(told.seen_ns > told_ns, "%s: whose end is told again", name);
	rpc_client_close(c);
	clear_ipc(addr);
}

/* A server by hand, which drops the first connection with the request in it. */
struct dropping {
	int fd;
	uint64_t seq[2];
	bool good;
};

/* One connection up to its first request: the descriptor; the message, 4 bytes of id in front. */
static int
take_request(struct dropping *d, unsigned char *msg, uint64_t *n, uint64_t *seq)
{
	int fd = accept(d->fd, NULL, NULL);
	GpuSim__Request *req = NULL;

	d->good = d->good && fd >= 0 && raw_handshake(fd, SP_REP) && raw_read_head(fd, true, n) &&
		  *n > 4 && *n < 512 && raw_read(fd, msg, *n) &&
		  wire_request_unpack(msg + 4, *n - 4, &req, NULL) == RC_OK;
	*seq = req ? req->seq : 0;
	wire_request_free(req);
	return fd;
}

static void *
dropping_main(void *arg)
{
	struct dropping *d = arg;
	unsigned char msg[512], out[64];
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	GpuSim__Empty done = GPU_SIM__EMPTY__INIT;
	uint64_t n;
	size_t len;
	int fd;

	d->good = true;
	close(take_request(d, msg, &n, &d->seq[0]));
	fd = take_request(d, msg, &n, &d->seq[1]);
	reply.seq = d->seq[1];
	reply.body_case = GPU_SIM__REPLY__BODY_DONE;
	reply.done = &done;
	memcpy(out, msg, 4);
	len = 4 + gpu_sim__reply__pack(&reply, out + 4);
	d->good = d->good && raw_head(fd, true, len) && raw_write(fd, out, len);
	while (recv(fd, msg, sizeof msg, 0) > 0)
		;
	close(fd);
	return NULL;
}

static void
test_watch_dropped(void)
{
	const char *addr = net_ipc("drop");
	struct dropping d = {.fd = raw_listen(addr)};
	struct told told = TOLD_INIT;
	struct rpc_client *c = NULL;
	struct err err = {0};
	pthread_t thread;
	enum rc rc;

	pthread_create(&thread, NULL, dropping_main, &d);
	rpc_client_watch(addr, on_nobody, &told, &c, &err);
	rc = call_held(c, LONG_MS, &err);
	rpc_client_close(c);
	pthread_join(thread, NULL);
	ok(d.good && rc == RC_OK && d.seq[0] == d.seq[1] && d.seq[0] != 0 && told.n == 0,
	   "a server that only drops the connection gets the call again under its number");
	if (rc != RC_OK)
		printf("# %s\n", err.text);
	close(d.fd);
	unlink(addr + 6);
}

/* Closing while nobody answers, in whatever the watcher is at. */
static void
test_watch_closed(void)
{
	const char *addr = net_ipc("mute");
	struct told told = TOLD_INIT;
	struct rpc_client *c = NULL;
	struct err err = {0};
	int fd = raw_listen(addr), conn;

	rpc_client_watch(addr, on_nobody, &told, &c, &err);
	conn = accept(fd, NULL, NULL);
	rpc_client_close(c);
	ok(conn >= 0 && told.n == 0, "a client is closed while its server does not shake hands");
	close(conn);
	close(fd);
	unlink(addr + 6);
	rpc_client_watch(addr, on_nobody, &told, &c, &err);
	rpc_client_close(c);
	ok(true, "and while it finds out that nobody is there");
}

/* Closing in the moment in which a connection is made, or about then. */
static void
test_watch_closed_early(void)
{
	struct echo e = ECHO_INIT;
	struct told told = TOLD_INIT;
	struct err err = {0};
	struct rpc_server *s = echo_start(&e, net_ipc("early"), &err);
	struct rpc_client *c = NULL;

	for (unsigned i = 0; i < 300; i++) {
		rpc_client_watch(rpc_server_address(s), on_nobody, &told, &c, &err);
		for (volatile unsigned spin = 0; spin < i * 1000; spin++)
			;
		rpc_client_close(c);
	}
	ok(told.n == 0, "and in the moment in which it has connected");
	rpc_server_stop(s);
}

static void
test_close(void)
{
	struct many m = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
	struct echo e = ECHO_INIT;
	struct err err = {0};
	struct rpc_server *s = echo_start(&e, net_ipc("close"), &err);
	struct rpc_client *c = NULL;

	rpc_client_open(rpc_server_address(s), RPC_CONNECT_NOW, &c, &err);
	ok(start_many(c, &e, &m, LONG_MS), "%d calls wait", MANY);
	rpc_client_close(c);
	ok(m.ended == MANY && m.right == 0, "closing the client ends each of them once");
	rpc_server_stop(s);
	for (unsigned i = 0; i < MANY; i++)
		echo_answer(e.held[i]);
	ok(true, "calls may be answered after the server has stopped");
}

static void
echo_count(struct echo *e)
{
	pthread_mutex_lock(&e->lock);
	e->ncalls++;
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
}

static size_t
bytes_in_use(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

static void
big_call(void *arg, struct rpc_call *call)
{
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	GpuSim__ReadResponse r = GPU_SIM__READ_RESPONSE__INIT;

	echo_count(arg);
	r.data.len = rpc_request(call)->read->nbytes;
	r.data.data = calloc(1, r.data.len);
	reply.body_case = GPU_SIM__REPLY__BODY_READ;
	reply.read = &r;
	rpc_reply(call, &reply);
	free(r.data.data);
}

/* Packed Read of nbytes. */
static size_t
pack_read(uint64_t nbytes, uint64_t client_id, uint64_t seq, unsigned char out[64])
{
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;
	GpuSim__ReadRequest r = GPU_SIM__READ_REQUEST__INIT;

	req.clientid = client_id;
	req.seq = seq;
	req.version = WIRE_VERSION;
	req.timeoutms = LONG_MS;
	r.nbytes = nbytes;
	req.body_case = GPU_SIM__REQUEST__BODY_READ;
	req.read = &r;
	return gpu_sim__request__pack(&req, out);
}

/* GraphDrop, which the echo server holds, with fields that nobody knows: 100 KiB that take megabytes.
 */
static size_t
pack_large_held(uint64_t client, uint64_t seq, unsigned char *out)
{
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;
	GpuSim__GraphDropRequest g = GPU_SIM__GRAPH_DROP_REQUEST__INIT;
	size_t n;

	req.clientid = client;
	req.seq = seq;
	req.timeoutms = LONG_MS;
	req.version = WIRE_VERSION;
	req.body_case = GPU_SIM__REQUEST__BODY_GRAPH_DROP;
	req.graphdrop = &g;
	memcpy(out, "\x80\0\0\1", 4);
	n = 4 + gpu_sim__request__pack(&req, out + 4);
	for (int i = 0; i < 50000; i++, n += 2)
		memcpy(out + n, "\x28\1", 2); /* field 5 */
	return n;
}

/* Wait until the server holds n calls or says something on fd; true: it said something. */
static bool
held_or_said(struct echo *e, unsigned n, int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	bool held;

	do {
		pthread_mutex_lock(&e->lock);
		held = e->nheld >= n;
		pthread_mutex_unlock(&e->lock);
		if (poll(&p, 1, held ? 0 : 1) == 1)
			return true;
	} while (!held);
	return false;
}

/* Connect and send one message of k bytes; the connection, or -1. */
static int
send_alone(const struct rpc_server *s, const unsigned char *msg, size_t k)
{
	int fd = raw_connect(rpc_server_address(s));

	if (raw_handshake(fd, SP_REQ) && raw_head(fd, true, k) && raw_write(fd, msg, k))
		return fd;
	close(fd);
	return -1;
}

/* A client whose connection broke asks again, on another, for what is still at work. */
static void
test_back(void)
{
	struct echo e = ECHO_INIT;
	struct err err = {0};
	struct rpc_server *s = echo_start(&e, net_ipc("back"), &err);
	unsigned char *msg = malloc(200000);
	size_t k = pack_large_held(77, 1, msg);
	bool good = true;
	int fd;

	for (int i = 0; i < 2; i++) {
		fd = send_alone(s, msg, k);
		good = good && fd >= 0;
		echo_wait(&e, i ? &e.nback : &e.nheld, 1);
		close(fd);
		echo_wait(&e, &e.ngone, (unsigned)i + 1);
	}
	ok(good && e.ncalls == 1 && e.nback == 1,
	   "the server hears that a client is back which waits for its answer");
	rpc_reply_done(e.held[0]);
	rpc_server_stop(s);
	free(msg);
}

/* A client whose end comes to the handler before its last request does: the end is told again. */
static void
test_gone_before_call(void)
{
	struct echo e = ECHO_INIT;
	struct err err = {0};
	struct rpc_server *s = echo_start(&e, net_ipc("late"), &err);
	unsigned char *msg = malloc(200000);
	size_t k = pack_large_held(77, 1, msg);
	int fd;

	e.late = true;
	fd = send_alone(s, msg, k);
	echo_wait(&e, &e.ncalls, 1);
	close(fd);
	echo_wait(&e, &e.nheld, 1);
	echo_wait(&e, &e.ngone, 2);
	ok(fd >= 0 && e.gone_client == 77, "a client that goes while its request is handed over "
					   "counts as gone after it");
	rpc_reply_done(e.held[0]);
	rpc_server_stop(s);
	free(msg);
}

/* Ask what is held; the answer's code, or -1. */
static int
ask_held(int fd, uint64_t seq, bool wait)
{
	unsigned char *msg = malloc(200000), answer[1024];
	size_t k = pack_large_held(77, seq, msg);
	GpuSim__Reply *reply = NULL;
	uint64_t n = 0;
	int code = -1;

	if (!raw_head(fd, true, k) || !raw_write(fd, msg, k))
		code = -2;
	free(msg);
	if (code != -1 || !wait)
		return code;
	if (raw_read_head(fd, true, &n) && n <= sizeof answer && raw_read(fd, answer, n) &&
	    wire_reply_unpack(answer + 4, n - 4, &reply, NULL) == RC_OK)
		code = reply->seq == seq ? (int)reply->code : -3;
	wire_reply_free(reply);
	return code;
}

/* The answers of an earlier process of this server. */
static void
test_remember(void)
{
	struct echo e = ECHO_INIT;
	struct err err = {0}, was = {RC_BUSY, "as before"};
	struct rpc_server *s = echo_start(&e, net_ipc("remember"), &err);
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	unsigned char body[256];
	int fd = raw_connect(rpc_server_address(s));
	uint64_t n;
	bool good;

	e.gone_client = 77;
	wire_reply_failure(&reply, &was);
	n = gpu_sim__reply__pack(&reply, body);
	good = raw_handshake(fd, SP_REQ);
	rpc_server_remember(s, 77, 1, body, n);
	ok(good && ask_held(fd, 1, true) == RC_BUSY && e.ncalls == 0 && e.nback == 1,
	   "a repeated request gets the answer that was remembered, and its client is back");
	ok(ask_held(fd, 2, false) == -1, "another request comes");
	echo_wait(&e, &e.nheld, 1);
	ok(!rpc_reply_again(e.held[0]), "nothing is remembered for it");
	rpc_server_remember(s, 77, 2, body, n);
	ok(rpc_reply_again(e.held[0]), "what is remembered meanwhile is its answer");
	good = raw_read_head(fd, true, &n) && n <= sizeof body && raw_read(fd, body, n);
	ok(good && ask_held(fd, 2, true) == RC_BUSY && e.ncalls == 1, "and stays that");
	close(fd);
	rpc_server_stop(s);
}

/* A peer whose large requests wait for their answers; others must get through. */
static void
test_pending(void)
{
	struct echo e = ECHO_INIT;
	struct err err = {0};
	struct rpc_server *s = echo_start(&e, net_ipc("pending"), &err);
	unsigned char *msg = malloc(200000), answer[1024];
	int fd = raw_connect(rpc_server_address(s));
	GpuSim__Reply *reply = NULL;
	unsigned i = 0;
	uint64_t n = 0;
	size_t k;
	bool good = raw_handshake(fd, SP_REQ);

	/* Until one is answered at once: that is the refusal. */
	do {
		k = pack_large_held(77, ++i, msg);
		good = good && raw_head(fd, true, k) && raw_write(fd, msg, k);
	} while (good && i < 1000 && !held_or_said(&e, i, fd));
	good = good && i > 10 && i < 1000 && raw_read_head(fd, true, &n) && n > 4 &&
	       n < sizeof answer && raw_read(fd, answer, n) &&
	       wire_reply_unpack(answer + 4, n - 4, &reply, NULL) == RC_OK;
	ok(good && wire_reply_rc(reply, &err) == RC_BUSY &&
	       strstr(err.text, "MiB; the limit is 128"),
	   "a peer whose requests take too much memory is refused more");
	printf("# after %u: %s\n", i, err.text);
	ok(call_once(rpc_server_address(s), LONG_MS, &err) == RC_OK, "others are served");
	close(fd);
	wire_reply_free(reply);
	free(msg);
	for (unsigned h = 0; h < e.nheld; h++)
		echo_answer(e.held[h]);
	rpc_server_stop(s);
}

static void
test_limits(void)
{
	struct echo e = ECHO_INIT;
	struct rpc_handler h = {.call = big_call, .arg = &e};
	struct rpc_server *s = NULL;
	struct rpc_client *c = NULL;
	struct err err = {0};
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;
	GpuSim__ReadRequest r = GPU_SIM__READ_REQUEST__INIT;
	GpuSim__Reply *reply = NULL;
	unsigned char *big = calloc(1, WIRE_CONTROL_MAX), msg[4 + 64] = {0x80, 0, 0, 1};
	bool good = true;
	size_t n, before;
	int fd;

	rpc_server_start(net_ipc("limits"), &h, &s, &err);
	rpc_client_open(rpc_server_address(s), RPC_CONNECT_NOW, &c, &err);
	ok(rpc_call_packed(c, big, WIRE_CONTROL_MAX, deadline_in_ms(LONG_MS), on_many, NULL,
			   &err) == RC_INVAL,
	   "a request too large for a message is refused at once");
	req.body_case = GPU_SIM__REQUEST__BODY_READ;
	req.read = &r;
	r.nbytes = WIRE_BULK_MAX;
	ok(rpc_call(c, &req, deadline_in_ms(LONG_MS), &reply, &err) == RC_OK &&
	       reply->read->data.len == WIRE_BULK_MAX,
	   "the largest answer arrives");
	wire_reply_free(reply);
	r.nbytes = WIRE_CONTROL_MAX;
	ok(rpc_call(c, &req, deadline_in_ms(LONG_MS), &reply, &err) == RC_INTERNAL,
	   "an answer too large for a message becomes a failure that says so");
	printf("# %s\n", err.text);
	/* Ask for 512 KiB a thousand times, and read none of it. */
	fd = raw_connect(rpc_server_address(s));
	raw_handshake(fd, SP_REQ);
	before = bytes_in_use();
	for (uint64_t i = 1; i <= 1000 && good; i++) {
		n = pack_read(WIRE_BULK_MAX, 77, i, msg + 4);
		good = raw_head(fd, true, 4 + n) && raw_write(fd, msg, 4 + n);
	}
	echo_wait(&e, &e.ncalls, 1002);
	n = bytes_in_use() - before;
	ok(good && n < (100u << 20),
	   "a peer that takes none of its answers does not fill the memory");
	printf("# %zu MiB\n", n >> 20);
	close(fd);
	ok(rpc_call(c, &req, deadline_in_ms(LONG_MS), &reply, &err) == RC_INTERNAL,
	   "and others are served");
	rpc_client_close(c);
	rpc_server_stop(s);
	free(big);
}

static void
test_file_in_the_way(void)
{
	struct echo e = ECHO_INIT;
	struct err err = {0};
	struct rpc_handler h = {.call = echo_call, .arg = &e};
	struct rpc_server *s = NULL;
	const char *addr = net_ipc("file");
	struct stat st;
	int fd = open(addr + 6, O_CREAT | O_WRONLY, 0600);

	ok(write(fd, "precious", 8) == 8 && rpc_server_start(addr, &h, &s, &err) == RC_INVAL &&
	       stat(addr + 6, &st) == 0 && st.st_size == 8,
	   "a path where a file is that is no socket is refused, and the file kept");
	close(fd);
	unlink(addr + 6);
	ok(rpc_server_start("ipc:///nowhere/at/all", &h, &s, &err) == RC_FAILED,
	   "a directory that is not there is an error with a reason");
	printf("# %s\n", err.text);
}

static bool
own_is(const char *addr, const char *peer, const char *want)
{
	char got[NET_ADDR_MAX];
	struct err err = {0};

	snprintf(got, sizeof got, "%s", addr);
	if (net_addr_own(got, peer, &err) != RC_OK)
		snprintf(got, sizeof got, "%.200s", err.text);
	if (strcmp(got, want) != 0)
		printf("# %s for %s: %s\n", addr, peer, got);
	return strcmp(got, want) == 0;
}

static void
test_own_address(void)
{
	char name[NET_ADDR_MAX] = "tcp://*:1";
	struct err err = {0};

	ok(own_is("tcp://*:0", "tcp://127.0.0.1:80", "tcp://127.0.0.1:0") &&
	       own_is("tls+tcp://*:7", "tls+tcp://localhost:80", "tls+tcp://127.0.0.1:7") &&
	       own_is("tcp://*:0", "ipc:///tmp/x", "tcp://127.0.0.1:0"),
	   "any host becomes the one that the peer sees");
	ok(own_is("tcp://0.0.0.0:0", "tcp://127.0.0.1:80", "tcp://0.0.0.0:0") &&
	       own_is("ipc:///tmp/*:0", "tcp://127.0.0.1:80", "ipc:///tmp/*:0") &&
	       own_is("", "tcp://127.0.0.1:80", ""),
	   "what names a host stays");
	ok(net_addr_own(name, "tcp://no-such-host.invalid:80", &err) == RC_UNREACHABLE &&
	       strstr(err.text, "tcp://no-such-host.invalid:80: ") && !strcmp(name, "tcp://*:1"),
	   "a peer without a name there is an error: %s", err.text);
}

static void
test_addresses(void)
{
	static const char *const good[] = {"ipc:///tmp/x", "tcp://127.0.0.1:0",
					   "tcp://localhost:80", "tcp://[::1]:80"};
	static const char *const bad[] = {"",
					  "ipc://@name",
					  "ipc://relative",
					  "inproc://x",
					  "tcp://",
					  "tcp://:80",
					  "tcp://127.0.0.1",
					  "tcp://h:65536",
					  "tcp://h:-1",
					  "tcp://h:8 ",
					  "ipc:///a\nb",
					  "/tmp/x",
					  "tcp://h:80/x",
					  "tls+tcp://h",
					  "tls+ipc:///tmp/x",
					  "tcp://127.0.0.1:"};
	static const char *const far[] = {"tcp://10.0.0.1:80",		 "tcp://0.0.0.0:80",
					  "tcp://127.evil.example:80",	 "tcp://[::]:80",
					  "tcp://127.0.0.1@10.0.0.1:80", "tcp://*:80"};
	char longpath[200] = "ipc:///", out[NET_ADDR_MAX];
	struct err err = {0};
	const char *wrong = NULL;

	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		if (net_addr_check(good[i], NET_LOOPBACK, &err) != RC_OK)
			wrong = good[i];
	ok(!wrong, "good addresses are taken%s%s", wrong ? ": " : "", wrong ? wrong : "");
	wrong = NULL;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		if (net_addr_check(bad[i], NET_ANY_HOST, &err) != RC_INVAL)
			wrong = bad[i];
	ok(!wrong, "bad addresses are refused%s%s", wrong ? ": " : "", wrong ? wrong : "");
	wrong = NULL;
	for (size_t i = 0; i < sizeof far / sizeof *far; i++)
		if (net_addr_check(far[i], NET_LOOPBACK, &err) != RC_INVAL)
			wrong = far[i];
	ok(!wrong, "what is beyond loopback must be asked for%s%s", wrong ? ": " : "",
	   wrong ? wrong : "");
	memset(longpath + 7, 'a', sizeof longpath - 8);
	ok(net_addr_check(longpath, NET_LOOPBACK, &err) == RC_INVAL,
	   "a path too long for a socket is refused");
	ok(net_addr_data("ipc:///tmp/x", out, &err) == RC_OK &&
	       strcmp(out, "ipc:///tmp/x.data") == 0 &&
	       net_addr_data("tcp://[::1]:80", out, &err) == RC_OK &&
	       strcmp(out, "tcp://[::1]:0") == 0 &&
	       net_addr_data("tls+tcp://h:80", out, &err) == RC_OK &&
	       strcmp(out, "tls+tcp://h:0") == 0,
	   "data addresses follow from control addresses");
}

int
main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "echo") == 0)
		return echo_child(argv[2]);
	net_begin();
	test_own_address();
	test_addresses();
	test_one_address(net_ipc("a"), "ipc");
	test_one_address("tcp://127.0.0.1:0", "tcp");
	test_nobody();
	test_silent();
	test_silent_many();
	test_killed(net_ipc("k"), "ipc");
	test_killed("tcp://127.0.0.1:0", "tcp");
	test_watch(net_ipc("w"), "ipc");
	test_watch("tcp://127.0.0.1:0", "tcp");
	watch_killed(net_ipc("wk"), "ipc");
	watch_killed("tcp://127.0.0.1:0", "tcp");
	test_watch_dropped();
	test_watch_closed();
	test_watch_closed_early();
	test_close();
	test_limits();
	test_back();
	test_gone_before_call();
	test_remember();
	test_pending();
	test_file_in_the_way();
	return net_end();
}
