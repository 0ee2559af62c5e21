/*
 * Crowds at a server's door: connections that are held and say nothing, and more who want in than nng
 * keeps waiting.
 */
#include "net_test.h"

#include "net/private.h"

#include <sys/epoll.h>
#include <sys/resource.h>

#define FILES 200u /* descriptors, when the server begins: it holds three quarters of that */
#define CROWD 400u

static struct rlimit files;

static void
limit_files(rlim_t n)
{
	struct rlimit now = {n < files.rlim_max ? n : files.rlim_max, files.rlim_max};

	setrlimit(RLIMIT_NOFILE, &now);
}

struct late {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool ended, right;
};

static void
on_late(void *arg, enum rc rc, GpuSim__Reply *reply, const char *text)
{
	struct late *l = arg;

	(void)text;
	pthread_mutex_lock(&l->lock);
	l->ended = true;
	l->right = rc == RC_OK && reply->code == RC_OK;
	pthread_cond_signal(&l->changed);
	pthread_mutex_unlock(&l->lock);
	wire_reply_free(reply);
}

/* A call that the server holds. */
static bool
start_late(struct rpc_client *c, struct echo *e, struct late *l)
{
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;
	GpuSim__GraphDropRequest g = GPU_SIM__GRAPH_DROP_REQUEST__INIT;
	struct err err = {0};

	req.body_case = GPU_SIM__REQUEST__BODY_GRAPH_DROP;
	req.graphdrop = &g;
	if (rpc_call_start(c, &req, deadline_in_ms(LONG_MS), on_late, l, &err) != RC_OK)
		return false;
	echo_wait(e, &e->nheld, 1);
	return true;
}

enum manners { HANDSHAKE, NOTHING };

/* Come one after the other and stay; how many were let in. */
static unsigned
crowd_in(const char *addr, int *fd, enum manners manners)
{
	unsigned n = 0;

	for (unsigned i = 0; i < CROWD; i++) {
		fd[i] = raw_connect(addr);
		n += fd[i] >= 0 && (manners == NOTHING || raw_handshake(fd[i], SP_REQ));
	}
	return n;
}

static void
test_idle(const char *where, const char *name)
{
	struct late late = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false};
	struct echo e = ECHO_INIT;
	struct err err = {0};
	struct rpc_client *waits = NULL, *comes = NULL;
	struct rpc_server *s;
	const char *addr;
	int fd[CROWD];
	unsigned in;

	limit_files(FILES);
	s = echo_start(&e, where, &err);
	limit_files(files.rlim_max);
	addr = rpc_server_address(s);
	ok(rpc_client_open(addr, RPC_CONNECT_NOW, &waits, &err) == RC_OK &&
	       start_late(waits, &e, &late),
	   "%s: a client waits for its answer", name);
	in = crowd_in(addr, fd, HANDSHAKE);
	ok(in == CROWD, "%s: each of %u that say nothing gets in, which is more than there may be",
	   name, CROWD);
	ok(rpc_client_open(addr, RPC_CONNECT_NOW, &comes, &err) == RC_OK &&
	       call_echo(comes, 7, LONG_MS, &err) == RC_OK,
	   "%s: and so does a client, %s", name, err.text);
	pthread_mutex_lock(&e.lock);
	in = e.ngone;
	pthread_mutex_unlock(&e.lock);
	ok(in == 0, "%s: who waits for an answer has not gone", name);
	echo_answer(e.held[0]);
	pthread_mutex_lock(&late.lock);
	while (!late.ended)
		pthread_cond_wait(&late.changed, &late.lock);
	pthread_mutex_unlock(&late.lock);
	ok(late.right, "%s: and gets it", name);
	for (unsigned i = 0; i < CROWD; i++)
		close(fd[i]);
	rpc_client_close(waits);
	rpc_client_close(comes);
	rpc_server_stop(s);
}

/* More than nng's 128 at once, of whom nobody even begins the handshake. */
static void
test_rush(const char *where, const char *name)
{
	struct echo e = ECHO_INIT;
	struct err err = {0};
	struct rpc_server *s = echo_start(&e, where, &err);
	struct rpc_client *c = NULL;
	const char *addr = rpc_server_address(s);
	int fd[CROWD];

	ok(crowd_in(addr, fd, NOTHING) == CROWD, "%s: %u come and say nothing at all", name, CROWD);
	ok(rpc_client_open(addr, RPC_CONNECT_NOW, &c, &err) == RC_OK &&
	       call_echo(c, 7, LONG_MS, &err) == RC_OK,
	   "%s: a client gets in, %s", name, err.text);
	for (unsigned i = 0; i < CROWD; i++)
		close(fd[i]);
	rpc_client_close(c);
	rpc_server_stop(s);
}

/* What nng does before it connects: the end of nothing is told once. */
static void
test_hung_up(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event none = {0}, got = {0}, wanted = {.events = EPOLLIN};
	bool once, again;

	once = net_nng_epoll_ctl(ep, EPOLL_CTL_ADD, fd, &none) == 0 &&
	       epoll_wait(ep, &got, 1, 0) == 1 && (got.events & EPOLLHUP);
	again = epoll_wait(ep, &got, 1, 0) != 0;
	ok(once && !again, "a socket that is not connected wakes nng's thread once");
	ok(net_nng_epoll_ctl(ep, EPOLL_CTL_MOD, fd, &wanted) == 0 &&
	       epoll_wait(ep, &got, 1, 0) == 1,
	   "and when something is wanted of it");
	close(ep);
	close(fd);
}

int
main(void)
{
	net_begin();
	getrlimit(RLIMIT_NOFILE, &files);
	test_idle(net_ipc("idle"), "ipc");
	test_idle("tcp://127.0.0.1:0", "tcp");
	test_rush(net_ipc("rush"), "ipc");
	test_rush("tcp://127.0.0.1:0", "tcp");
	test_hung_up();
	return net_end();
}
