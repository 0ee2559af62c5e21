/*
 * net_test.h - shared by the tests of lib/transport/net: a private directory, child processes (this program
 * started again with a role), connections without nng, and a watchdog.
 */
#ifndef NET_TEST_H
#define NET_TEST_H

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/net.h"
#include "net/rpc_client.h"
#include "net/rpc_server.h"
#include "tap.h"

#define WATCHDOG_S 150	 /* a test that hangs is killed, and so fails */
#define LONG_MS	   30000 /* a deadline that does not matter to the test */

/* SP protocol numbers */
#define SP_REQ	0x30
#define SP_REP	0x31
#define SP_PUSH 0x50
#define SP_PULL 0x51

extern char **environ;

static char net_dir[64];

static inline void
net_begin(void)
{
	alarm(WATCHDOG_S);
	signal(SIGPIPE, SIG_IGN);
	snprintf(net_dir, sizeof net_dir, "/tmp/gpusim-test-XXXXXX");
	if (!mkdtemp(net_dir)) {
		perror(net_dir);
		exit(1);
	}
}

/* End: the directory must be empty (a server leaves no files), and is removed. */
static inline int
net_end(void)
{
	ok(rmdir(net_dir) == 0, "the servers left no file behind");
	return tap_done();
}

/* "ipc:///<dir>/name"; a few at a time, in static storage. */
static inline const char *
net_ipc(const char *name)
{
	static char addr[8][128];
	static unsigned n;
	char *a = addr[n++ % 8];

	snprintf(a, sizeof addr[0], "ipc://%s/%s", net_dir, name);
	return a;
}

/* ---- processes */

struct child {
	pid_t pid;
	char addr[NET_ADDR_MAX];
};

/* Start this program again as `role addr`; its first line is the address that it has taken. */
static inline struct child
child_start(const char *role, const char *addr)
{
	struct child c = {.pid = -1};
	char *argv[] = {program_invocation_short_name, (char *)role, (char *)addr, NULL};
	posix_spawn_file_actions_t fa;
	int fd[2];
	size_t n = 0;

	if (pipe(fd) != 0)
		return c;
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, fd[1], 1);
	posix_spawn_file_actions_addclose(&fa, fd[0]);
	posix_spawn_file_actions_addclose(&fa, fd[1]);
	if (posix_spawn(&c.pid, "/proc/self/exe", &fa, NULL, argv, environ) != 0)
		c.pid = -1;
	posix_spawn_file_actions_destroy(&fa);
	close(fd[1]);
	while (n + 1 < sizeof c.addr && read(fd[0], c.addr + n, 1) == 1 && c.addr[n] != '\n')
		n++;
	c.addr[n] = '\0';
	close(fd[0]);
	return c;
}

/* In the child: print the address, and live until killed or until the parent has ended. */
_Noreturn static inline void
child_serve(const char *addr)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(WATCHDOG_S);
	printf("%s\n", addr);
	fflush(stdout);
	for (;;)
		pause();
}

/* Kill -9: a server on ipc leaves its socket and its lock file. */
static inline void
child_kill(struct child *c)
{
	if (c->pid > 0) {
		kill(c->pid, SIGKILL);
		waitpid(c->pid, NULL, 0);
	}
	c->pid = -1;
}

/* Remove the files of a killed server on ipc. */
static inline void
clear_ipc(const char *addr)
{
	char lock[NET_ADDR_MAX + 8];

	if (strncmp(addr, "ipc://", 6) != 0)
		return;
	snprintf(lock, sizeof lock, "%s.lock", addr + 6);
	unlink(addr + 6);
	unlink(lock);
}

/* ---- connections without nng */

static inline socklen_t
raw_address(const char *addr, struct sockaddr_storage *ss)
{
	memset(ss, 0, sizeof *ss);
	if (strncmp(addr, "ipc://", 6) == 0) {
		struct sockaddr_un *un = (struct sockaddr_un *)ss;

		un->sun_family = AF_UNIX;
		snprintf(un->sun_path, sizeof un->sun_path, "%s", addr + 6);
		return sizeof *un;
	} else {
		struct sockaddr_in *in = (struct sockaddr_in *)ss;

		in->sin_family = AF_INET;
		in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		in->sin_port = htons((uint16_t)atoi(strrchr(addr, ':') + 1));
		return sizeof *in;
	}
}

static inline int
raw_connect(const char *addr)
{
	struct sockaddr_storage ss;
	socklen_t n = raw_address(addr, &ss);
	int fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&ss, n) != 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static inline int
raw_listen(const char *addr)
{
	struct sockaddr_storage ss;
	socklen_t n = raw_address(addr, &ss);
	int fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && (bind(fd, (struct sockaddr *)&ss, n) != 0 || listen(fd, 16) != 0)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static inline bool
raw_read(int fd, void *buf, size_t n)
{
	return recv(fd, buf, n, MSG_WAITALL) == (ssize_t)n;
}

static inline bool
raw_write(int fd, const void *buf, size_t n)
{
	return send(fd, buf, n, MSG_NOSIGNAL) == (ssize_t)n;
}

/* Both sides of the SP handshake, as protocol `proto`. */
static inline bool
raw_handshake(int fd, int proto)
{
	unsigned char mine[8] = {0, 'S', 'P', 0, 0, (unsigned char)proto, 0, 0}, theirs[8];

	return raw_write(fd, mine, 8) && raw_read(fd, theirs, 8) && theirs[1] == 'S';
}

/* The head of a message that claims nbytes: on ipc a byte 1 comes first. */
static inline bool
raw_head(int fd, bool ipc, uint64_t nbytes)
{
	unsigned char head[9] = {1};

	for (int i = 0; i < 8; i++)
		head[1 + i] = (unsigned char)(nbytes >> (56 - 8 * i));
	return raw_write(fd, head + !ipc, sizeof head - !ipc);
}

/* Read the head of a message. */
static inline bool
raw_read_head(int fd, bool ipc, uint64_t *nbytes)
{
	unsigned char head[9];

	if (!raw_read(fd, head + !ipc, sizeof head - !ipc))
		return false;
	*nbytes = 0;
	for (int i = 0; i < 8; i++)
		*nbytes = *nbytes << 8 | head[1 + i];
	return true;
}

/* ---- a server to call: Malloc answers its nbytes as the address; Free is done; GraphDrop is held,
 * and answered when the test says so; anything else fails with a message. */

struct echo {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned ncalls, nheld, ngone, nback;
	bool late; /* a held request is released only when its client has gone */
	uint64_t gone_client;
	struct rpc_call *held[1024];
};

#define ECHO_INIT                                                                      \
	{                                                                              \
		.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER \
	}

static inline void
echo_answer(struct rpc_call *call)
{
	const GpuSim__Request *req = rpc_request(call);
	GpuSim__MallocResponse m = GPU_SIM__MALLOC_RESPONSE__INIT;
	GpuSim__Reply reply = GPU_SIM__REPLY__INIT;
	const struct err no = {RC_NOTFOUND, "comm 7 rank 3: nothing of the kind"};

	if (req->body_case == GPU_SIM__REQUEST__BODY_MALLOC) {
		m.addr = req->malloc->nbytes;
		reply.body_case = GPU_SIM__REPLY__BODY_MALLOC;
		reply.malloc = &m;
		rpc_reply(call, &reply);
	} else if (req->body_case == GPU_SIM__REQUEST__BODY_FREE ||
		   req->body_case == GPU_SIM__REQUEST__BODY_GRAPH_DROP) {
		rpc_reply_done(call);
	} else {
		rpc_reply_err(call, &no);
	}
}

static inline void
echo_call(void *arg, struct rpc_call *call)
{
	struct echo *e = arg;
	bool hold = rpc_request(call)->body_case == GPU_SIM__REQUEST__BODY_GRAPH_DROP;

	pthread_mutex_lock(&e->lock);
	e->ncalls++;
	pthread_cond_broadcast(&e->changed);
	while (hold && e->late && e->ngone == 0)
		pthread_cond_wait(&e->changed, &e->lock);
	if (hold)
		e->held[e->nheld++ % 1024] = call;
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
	if (!hold)
		echo_answer(call);
}

static inline void
echo_gone(void *arg, uint64_t client_id)
{
	struct echo *e = arg;

	pthread_mutex_lock(&e->lock);
	e->ngone++;
	e->gone_client = client_id;
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
}

static inline void
echo_back(void *arg, uint64_t client_id)
{
	struct echo *e = arg;

	pthread_mutex_lock(&e->lock);
	e->nback += client_id == e->gone_client;
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
}

/* Wait until *count has reached n (bounded by the watchdog). */
static inline void
echo_wait(struct echo *e, const unsigned *count, unsigned n)
{
	pthread_mutex_lock(&e->lock);
	while (*count < n)
		pthread_cond_wait(&e->changed, &e->lock);
	pthread_mutex_unlock(&e->lock);
}

static inline struct rpc_server *
echo_start(struct echo *e, const char *addr, struct err *err)
{
	struct rpc_handler h = {.call = echo_call, .gone = echo_gone, .back = echo_back, .arg = e};
	struct rpc_server *s = NULL;

	if (rpc_server_start(addr, &h, &s, err) != RC_OK) {
		printf("# %s\n", err->text);
		return NULL;
	}
	return s;
}

/* The role "echo" of a child. */
static inline int
echo_child(const char *addr)
{
	static struct echo e = ECHO_INIT;
	struct err err = {0};
	struct rpc_server *s = echo_start(&e, addr, &err);

	if (s)
		child_serve(rpc_server_address(s));
	return 1;
}

/* ---- calls */

/* Malloc(nbytes) and the answer must be nbytes. */
static inline enum rc
call_echo(struct rpc_client *c, uint64_t nbytes, unsigned timeout_ms, struct err *err)
{
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;
	GpuSim__MallocRequest m = GPU_SIM__MALLOC_REQUEST__INIT;
	GpuSim__Reply *reply = NULL;
	enum rc rc;

	m.nbytes = nbytes;
	req.body_case = GPU_SIM__REQUEST__BODY_MALLOC;
	req.malloc = &m;
	rc = rpc_call(c, &req, deadline_in_ms(timeout_ms), &reply, err);
	if (rc == RC_OK &&
	    (reply->body_case != GPU_SIM__REPLY__BODY_MALLOC || reply->malloc->addr != nbytes))
		rc = err_set(err, RC_BADDATA, "not the answer to this request");
	wire_reply_free(reply);
	return rc;
}

/* GraphDrop: a call that the echo server holds. */
static inline enum rc
call_held(struct rpc_client *c, unsigned timeout_ms, struct err *err)
{
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;
	GpuSim__GraphDropRequest g = GPU_SIM__GRAPH_DROP_REQUEST__INIT;
	GpuSim__Reply *reply = NULL;
	enum rc rc;

	req.body_case = GPU_SIM__REQUEST__BODY_GRAPH_DROP;
	req.graphdrop = &g;
	rc = rpc_call(c, &req, deadline_in_ms(timeout_ms), &reply, err);
	wire_reply_free(reply);
	return rc;
}

/* Open, one echo, close. */
static inline enum rc
call_once(const char *addr, unsigned timeout_ms, struct err *err)
{
	struct rpc_client *c;
	enum rc rc = rpc_client_open(addr, RPC_CONNECT_LATER, &c, err);

	if (rc != RC_OK)
		return rc;
	rc = call_echo(c, 42, timeout_ms, err);
	rpc_client_close(c);
	return rc;
}

/* A call started, and how it ended. */
struct one {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool ended;
	struct err err;
};

#define ONE_INIT                                                                       \
	{                                                                              \
		.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER \
	}

static inline void
on_one(void *arg, enum rc rc, GpuSim__Reply *reply, const char *text)
{
	struct one *o = arg;

	pthread_mutex_lock(&o->lock);
	err_set(&o->err, rc, "%s", text);
	o->ended = true;
	pthread_cond_signal(&o->changed);
	pthread_mutex_unlock(&o->lock);
	wire_reply_free(reply);
}

static inline void
one_wait(struct one *o)
{
	pthread_mutex_lock(&o->lock);
	while (!o->ended)
		pthread_cond_wait(&o->changed, &o->lock);
	pthread_mutex_unlock(&o->lock);
}

/* The number of times that a client learnt that no one listens. */
struct told {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned n;
	uint64_t seen_ns; /* the last time that was told */
};

#define TOLD_INIT                                                                      \
	{                                                                              \
		.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER \
	}

static inline void
on_nobody(void *arg, uint64_t seen_ns)
{
	struct told *t = arg;

	pthread_mutex_lock(&t->lock);
	t->n++;
	t->seen_ns = seen_ns;
	pthread_cond_signal(&t->changed);
	pthread_mutex_unlock(&t->lock);
}

static inline void
told_wait(struct told *t)
{
	pthread_mutex_lock(&t->lock);
	while (t->n == 0)
		pthread_cond_wait(&t->changed, &t->lock);
	t->n = 0;
	pthread_mutex_unlock(&t->lock);
}

/* A watched server is killed during a call. */
static inline void
watch_killed(const char *addr, const char *name)
{
	struct child srv = child_start("echo", addr);
	struct one o = ONE_INIT;
	struct told told = TOLD_INIT;
	struct rpc_client *c = NULL;
	struct err err = {0};
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;
	GpuSim__GraphDropRequest g = GPU_SIM__GRAPH_DROP_REQUEST__INIT;

	rpc_client_watch(srv.addr, on_nobody, &told, &c, &err);
	req.body_case = GPU_SIM__REQUEST__BODY_GRAPH_DROP;
	req.graphdrop = &g;
	rpc_call_start(c, &req, deadline_in_ms(WATCHDOG_S * 2000), on_one, &o, &err);
	ok(call_echo(c, 9, LONG_MS, &err) == RC_OK, "%s: the server has a call in hand", name);
	child_kill(&srv);
	one_wait(&o);
	ok(o.err.rc == RC_UNREACHABLE && strstr(o.err.text, "nothing listens there") && told.n > 0,
	   "%s: killed in a watched call: told first, then the call ends", name);
	printf("# %s\n", o.err.text);
	rpc_client_close(c);
	clear_ipc(addr);
}

#endif
