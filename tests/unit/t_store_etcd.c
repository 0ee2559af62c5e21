/*
 * State in etcd: an etcd of our own on loopback; and servers that are none.
 *
 * An exchange has STORE_DEADLINE_MS. On a machine that is slow, or whose disk is, etcd may take longer;
 * the caller's part is then to begin again, and so do the tests, for a minute.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "net/http.h"
#include "store/store.h"
#include "tap.h"

#define PATIENCE_MS 60000 /* whatever works, works within */
#define WATCHDOG_S  300	  /* a test that hangs is killed, and so fails */

/* A listener on a free port of loopback. */
static int
listen_any(int *port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, n) != 0 || listen(fd, 8) != 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &n) != 0)
		abort();
	*port = ntohs(a.sin_port);
	return fd;
}

static int
free_port(void)
{
	int port;

	close(listen_any(&port));
	return port;
}

static void
show(void *arg, const char *key, const void *value, size_t nbytes)
{
	buf_addf(arg, "%s=", key);
	buf_add(arg, value, nbytes > 9 ? 9 : nbytes);
	buf_add(arg, " ", 1);
}

static struct store *
open_at(const char *where, struct buf *out, struct err *err)
{
	struct store *s = NULL;

	*err = (struct err){0};
	out->len = 0;
	if (store_open(where, show, out, &s, err) == RC_OK)
		buf_add(out, "", 1);
	return s;
}

/* Not answered in time, and there is time to try again. */
static bool
again(enum rc rc, uint64_t until_ns)
{
	return rc == RC_TIMEOUT && clock_now_ns() < until_ns;
}

/* ---- servers that are none: one answer, as text, or silence */

struct fake {
	int fd, port;
	const char *answer; /* NULL: none, until the peer closes */
	size_t repeat;	    /* the answer's last byte, so often more */
	pthread_t thread;
};

static void *
fake_serve(void *arg)
{
	struct fake *f = arg;
	char junk[65536];
	int c = accept(f->fd, NULL, NULL);

	/* The head and the body may come apart; a peer that has all of it waits for us. */
	if (c >= 0 && f->answer && recv(c, junk, sizeof junk, 0) > 0) {
		send(c, f->answer, strlen(f->answer), MSG_NOSIGNAL);
		memset(junk, f->answer[strlen(f->answer) - 1], sizeof junk);
		for (size_t n = 0; n < f->repeat; n += sizeof junk)
			if (send(c, junk, sizeof junk, MSG_NOSIGNAL) < 0)
				break;
		shutdown(c, SHUT_WR);
	}
	while (c >= 0 && recv(c, junk, sizeof junk, 0) > 0)
		;
	close(c);
	return NULL;
}

/* What a post to such a server comes to, and within which time. */
static enum rc
post_to(const char *answer, size_t repeat, uint64_t ms, struct buf *out, struct err *err)
{
	struct fake f = {.answer = answer, .repeat = repeat};
	char host[32];
	unsigned status;
	enum rc rc;

	f.fd = listen_any(&f.port);
	snprintf(host, sizeof host, "127.0.0.1:%d", f.port);
	if (pthread_create(&f.thread, NULL, fake_serve, &f) != 0)
		abort();
	*err = (struct err){0};
	out->len = 0;
	rc = http_post(host, "/x", "{}", 2, deadline_in_ms(ms), 1u << 20, out, &status, err);
	shutdown(f.fd, SHUT_RDWR);
	pthread_join(f.thread, NULL);
	close(f.fd);
	return rc;
}

static bool
body_is(const struct buf *b, const char *want)
{
	return b->len == strlen(want) && memcmp(b->data, want, b->len) == 0;
}

#define HEAD "HTTP/1.1 200 OK\r\n"

static void
test_http(void)
{
	struct buf out = {0};
	struct err err;

	ok(post_to(HEAD "Content-Length: 5\r\n\r\nhello", 0, PATIENCE_MS, &out, &err) == 0 &&
	       body_is(&out, "hello"),
	   "a body with its length");
	ok(post_to(HEAD "\r\nhello", 0, PATIENCE_MS, &out, &err) == 0 && body_is(&out, "hello"),
	   "a body to the end of the connection");
	ok(post_to(HEAD "Transfer-Encoding: chunked\r\n\r\n4\r\nhell\r\n1;x=y\r\no\r\n0\r\n\r\n", 0,
		   PATIENCE_MS, &out, &err) == 0 &&
	       body_is(&out, "hello"),
	   "a body in chunks");
	ok(post_to("SSH-2.0-OpenSSH_9\r\n\r\n", 0, PATIENCE_MS, &out, &err) != 0, "no HTTP: %s",
	   err.text);
	ok(post_to(HEAD "Content-Length: 5\r\n\r\nhell", 0, PATIENCE_MS, &out, &err) ==
	       RC_UNREACHABLE,
	   "cut off: %s", err.text);
	ok(post_to(HEAD "Content-Length: 9999999\r\n\r\nx", 1u << 22, PATIENCE_MS, &out, &err) ==
	       RC_BADDATA,
	   "too long, it says: %s", err.text);
	ok(post_to(HEAD "\r\nx", 1u << 22, PATIENCE_MS, &out, &err) == RC_BADDATA &&
	       out.len <= 1u << 20,
	   "too long, without saying: %s", err.text);
	ok(post_to(HEAD "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx", 1u << 22, 9000,
		   &out, &err) == RC_BADDATA,
	   "too long a chunk: %s", err.text);
	ok(post_to(HEAD "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 0, PATIENCE_MS, &out, &err) ==
	       RC_BADDATA,
	   "no length of a chunk: %s", err.text);
	ok(post_to(HEAD "Transfer-Encoding: chunked\r\n\r\n1", 1u << 22, PATIENCE_MS, &out, &err) ==
	       RC_BADDATA,
	   "a line without end: %s", err.text);
	ok(post_to(HEAD "x: y", 1u << 22, PATIENCE_MS, &out, &err) != RC_OK,
	   "a head without end: %s", err.text);
	ok(post_to(NULL, 0, 200, &out, &err) == RC_TIMEOUT, "silence: %s", err.text);
	ok(post_to(HEAD "Content-Length: 5\r\n\r\nx", 0, 0, &out, &err) == RC_TIMEOUT,
	   "no time at all: %s", err.text);
	buf_fini(&out);
}

/* Open a state at a server with that answer: what it comes to. */
static enum rc
open_fake(const char *answer, struct buf *out, struct err *err)
{
	uint64_t until = deadline_in_ms(PATIENCE_MS);

	do {
		struct fake f = {.answer = answer};
		struct store *s;
		char where[64];

		f.fd = listen_any(&f.port);
		snprintf(where, sizeof where, "etcd://127.0.0.1:%d/x", f.port);
		if (pthread_create(&f.thread, NULL, fake_serve, &f) != 0)
			abort();
		s = open_at(where, out, err);
		shutdown(f.fd, SHUT_RDWR);
		pthread_join(f.thread, NULL);
		close(f.fd);
		store_close(s, STORE_KEEP, NULL);
	} while (again(err->rc, until));
	return err->rc;
}

/* Opening what is no etcd. */
static void
test_not_etcd(void)
{
	static const char *const answer[] = {
	    HEAD "\r\n",
	    HEAD "\r\n<html>",
	    HEAD "\r\n{}",
	    HEAD "\r\n[[[[[[[[[[[[[[",
	    HEAD "\r\n{\"header\":7}",
	    "HTTP/1.1 404 Not Found\r\n\r\n{\"error\":\"no such page\"}",
	};
	struct buf out = {0};
	struct err err;
	char where[64];

	for (size_t i = 0; i < sizeof answer / sizeof answer[0]; i++) {
		enum rc rc = open_fake(answer[i], &out, &err);

		ok(rc == RC_BADDATA || rc == RC_FAILED, "no etcd: %s", err.text);
	}
	snprintf(where, sizeof where, "etcd://127.0.0.1:%d", free_port());
	ok(!open_at(where, &out, &err) && err.rc == RC_UNREACHABLE, "%s", err.text);
	ok(!open_at("etcd://", &out, &err) && err.rc == RC_INVAL, "%s", err.text);
	ok(!open_at("etcd://host", &out, &err) && err.rc == RC_INVAL, "%s", err.text);
	ok(!open_at("etcd://host:x/y", &out, &err) && err.rc == RC_INVAL, "%s", err.text);
	ok(!open_at("etcd://h:1///", &out, &err) && err.rc == RC_INVAL, "%s", err.text);
	buf_fini(&out);
}

/* ---- an etcd */

struct etcd {
	pid_t pid;
	int port;
	char dir[64], where[64];
	FILE *log;
	pthread_t drain;
};

/* It must never wait for us to read what it says. */
static void *
drain(void *arg)
{
	char line[4096];

	while (fgets(line, sizeof line, arg))
		;
	return NULL;
}

static void
etcd_exec(const struct etcd *e, int out)
{
	char client[64], peer[64], cluster[80];

	snprintf(client, sizeof client, "http://127.0.0.1:%d", e->port);
	snprintf(peer, sizeof peer, "http://127.0.0.1:%d", free_port());
	snprintf(cluster, sizeof cluster, "default=%s", peer);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	execlp("etcd", "etcd", "--data-dir", e->dir, "--listen-client-urls", client,
	       "--advertise-client-urls", client, "--listen-peer-urls", peer,
	       "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster, (char *)NULL);
	_exit(127);
}

/* Start it, and read what it says until it is ready. False: it has ended. */
static bool
etcd_start(struct etcd *e)
{
	int pipefd[2];
	char line[4096];
	bool ready = false;

	snprintf(e->dir, sizeof e->dir, "/tmp/t_etcd.XXXXXX");
	if (!mkdtemp(e->dir) || pipe2(pipefd, O_CLOEXEC) != 0)
		abort();
	e->port = free_port();
	snprintf(e->where, sizeof e->where, "etcd://127.0.0.1:%d/a/b", e->port);
	e->pid = fork();
	if (e->pid == 0)
		etcd_exec(e, pipefd[1]);
	close(pipefd[1]);
	e->log = fdopen(pipefd[0], "r");
	while (!ready && fgets(line, sizeof line, e->log))
		ready = strstr(line, "ready to serve client requests") ||
			strstr(line, "serving insecure client requests");
	if (pthread_create(&e->drain, NULL, drain, e->log) != 0)
		abort();
	return ready;
}

/* Its exit status; -1 when it had to be killed. */
static int
etcd_stop(struct etcd *e)
{
	char cmd[128];
	int status;

	kill(e->pid, SIGKILL);
	waitpid(e->pid, &status, 0);
	pthread_join(e->drain, NULL);
	fclose(e->log);
	snprintf(cmd, sizeof cmd, "rm -rf '%s'", e->dir);
	if (system(cmd) != 0)
		printf("# %s stays\n", e->dir);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* On ports that nobody has: where one was taken meanwhile, others are tried. False: not installed. */
static bool
etcd_start_somewhere(struct etcd *e)
{
	for (int i = 0; i < 5; i++) {
		if (etcd_start(e))
			return true;
		if (etcd_stop(e) == 127)
			return false;
	}
	ok(false, "etcd starts");
	return false;
}

/* Open the state of an etcd that works. */
static struct store *
state_open(const char *where, struct buf *out, struct err *err)
{
	uint64_t until = deadline_in_ms(PATIENCE_MS);
	struct store *s;

	do
		s = open_at(where, out, err);
	while (!s && again(err->rc, until));
	return s;
}

static enum rc
commit(struct store *s, const struct store_change *change, size_t n, struct err *err)
{
	uint64_t until = deadline_in_ms(PATIENCE_MS);
	struct err why;
	enum rc rc;

	do {
		why = (struct err){0};
		rc = store_commit(s, change, n, STORE_SYNC, &why);
	} while (again(rc, until));
	if (err)
		*err = why;
	return rc;
}

static enum rc
put(struct store *s, const char *key, const char *value, struct err *err)
{
	struct store_change c = {key, value, value ? strlen(value) : 0};

	return commit(s, &c, 1, err);
}

/* Close a store, and remove its state. */
static enum rc
state_remove(const char *where, struct store *s, struct err *err)
{
	uint64_t until = deadline_in_ms(PATIENCE_MS);
	struct buf out = {0};
	enum rc rc = store_close(s, STORE_REMOVE, err);

	while (again(rc, until)) {
		s = open_at(where, &out, err);
		rc = s ? store_close(s, STORE_REMOVE, err) : err->rc;
	}
	buf_fini(&out);
	return rc;
}

static bool
holds(const char *where, const char *want)
{
	struct buf out = {0};
	struct err err;
	struct store *s = state_open(where, &out, &err);
	bool good = s && strcmp(out.data, want) == 0;

	if (!good)
		printf("#   got '%s'\n#   for '%s'\n", s ? out.data : err.text, want);
	store_close(s, STORE_KEEP, NULL);
	buf_fini(&out);
	return good;
}

/* Nothing is left for the test that comes next. */
static void
wipe(const struct etcd *e)
{
	struct buf out = {0};
	struct err err;
	struct store *s = state_open(e->where, &out, &err);

	if (state_remove(e->where, s, &err) != RC_OK)
		printf("# %s\n", err.text);
	buf_fini(&out);
}

static void
test_life(const struct etcd *e)
{
	struct buf out = {0};
	struct err err;
	struct store *s = state_open(e->where, &out, &err);
	struct store_change some[] = {
	    {"b", "2", 1}, {"a", "x", 1}, {"c", "", 0}, {"a", NULL, 0}, {"b/d", "\0\xff", 2}};

	ok(s && out.len == 1, "opened, empty%s", err.text);
	ok(put(s, "a", "1", &err) == RC_OK, "a record is put");
	ok(commit(s, some, 5, &err) == RC_OK, "changes at once, of one key two");
	store_close(s, STORE_KEEP, NULL);
	s = state_open(e->where, &out, &err);
	ok(s && out.len == 15 && memcmp(out.data, "b=2 b/d=\0\xff c= ", 15) == 0,
	   "all is there, byte by byte, in order of keys");
	ok(state_remove(e->where, s, &err) == RC_OK && holds(e->where, ""), "and goes");
	buf_fini(&out);
}

/* More than one page, more than one transaction takes, as large as it takes. */
static void
test_sizes(const struct etcd *e)
{
	struct buf out = {0}, want = {0};
	struct err err;
	struct store *s = state_open(e->where, &out, &err);
	struct store_change c[127];
	char key[127][8];
	char *big = calloc(1, 1400u << 10);

	for (int i = 0; i < 127; i++) {
		snprintf(key[i], sizeof key[i], "k%03d", i);
		c[i] = (struct store_change){key[i], key[i], 4};
		if (i < 126)
			buf_addf(&want, "%s=%s ", key[i], key[i]);
	}
	buf_addf(&want, "k126=zzzzzzzzz z= ");
	ok(commit(s, c, 127, &err) == RC_INVAL, "too many: %s", err.text);
	ok(commit(s, c, 126, &err) == RC_OK, "as many as it takes%s", "");
	memset(big, 'z', 1400u << 10);
	c[126].value = big;
	c[126].nbytes = 1400u << 10;
	ok(commit(s, &c[126], 1, &err) == RC_INVAL, "too large: %s", err.text);
	c[126].nbytes = 1200u << 10;
	ok(commit(s, &c[126], 1, &err) == RC_OK, "a large one");
	put(s, "z", "", NULL);
	store_close(s, STORE_KEEP, NULL);
	buf_add(&want, "", 1);
	ok(holds(e->where, want.data), "128 records come back, in pages");
	wipe(e);
	free(big);
	buf_fini(&out);
	buf_fini(&want);
}

static void
test_fence(const struct etcd *e)
{
	struct buf out = {0};
	struct err err;
	struct store *one = state_open(e->where, &out, &err), *two;

	put(one, "a", "1", NULL);
	two = state_open(e->where, &out, &err);
	ok(two && strcmp(out.data, "a=1 ") == 0, "a second one takes over");
	ok(put(one, "a", "late", &err) == RC_BUSY, "the first changes nothing any more: %s",
	   err.text);
	ok(put(two, "b", "2", &err) == RC_OK, "the second does");
	store_close(one, STORE_REMOVE, NULL);
	store_close(two, STORE_KEEP, NULL);
	ok(holds(e->where, "a=1 b=2 "), "nor can the first remove it");
	wipe(e);
	buf_fini(&out);
}

/* etcd does not answer for a while: what it was told meanwhile has not happened. */
static void
test_silent(const struct etcd *e)
{
	struct buf out = {0};
	struct err err;
	struct store *s = state_open(e->where, &out, &err);
	struct store_change lost[] = {{"a", NULL, 0}, {"c", "3", 1}};

	put(s, "a", "1", NULL);
	kill(e->pid, SIGSTOP);
	ok(store_commit(s, lost, 2, STORE_SYNC, &err) == RC_TIMEOUT, "no answer: %s", err.text);
	kill(e->pid, SIGCONT);
	ok(put(s, "b", "2", &err) == RC_OK, "then it answers again: %s", err.text);
	store_close(s, STORE_KEEP, NULL);
	ok(holds(e->where, "a=1 b=2 "), "and the commit that was given up on is undone");
	wipe(e);
	buf_fini(&out);
}

/* ---- between the store and its etcd: a request may come late */

struct relay {
	int fd, port, etcd_port;
	atomic_bool hold; /* the next request, until the one after it is answered */
	struct buf held;  /* it, when it is */
	pthread_t thread;
};

/* Read from a connection until it ends, or until a whole request is there. */
static void
relay_read(int fd, bool request, struct buf *b)
{
	char piece[4096], *body, *length;
	ssize_t n;

	b->len = 0;
	while ((n = recv(fd, piece, sizeof piece, 0)) > 0) {
		buf_add(b, piece, (size_t)n);
		if (!request)
			continue;
		buf_add(b, "", 1);
		b->len--;
		body = strstr(b->data, "\r\n\r\n");
		length = strcasestr(b->data, "\r\nContent-Length:");
		if (body && length &&
		    strlen(body + 4) == strtoul(length + strlen("\r\nContent-Length:"), NULL, 10))
			break;
	}
}

/* Have etcd answer a request. */
static void
relay_ask(const struct relay *r, const struct buf *request, struct buf *answer)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				.sin_port = htons((uint16_t)r->etcd_port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	answer->len = 0;
	if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
	    send(fd, request->data, request->len, MSG_NOSIGNAL) == (ssize_t)request->len)
		relay_read(fd, false, answer);
	close(fd);
}

static void *
relay_serve(void *arg)
{
	struct relay *r = arg;
	struct buf request = {0}, answer = {0}, dropped = {0};
	char junk[64];
	int c;

	while ((c = accept(r->fd, NULL, NULL)) >= 0) {
		relay_read(c, true, &request);
		if (atomic_exchange(&r->hold, false)) {
			buf_add(&r->held, request.data, request.len);
			while (recv(c, junk, sizeof junk, 0) > 0)
				;
		} else {
			relay_ask(r, &request, &answer);
			if (r->held.len)
				relay_ask(r, &r->held, &dropped);
			r->held.len = 0;
			send(c, answer.data, answer.len, MSG_NOSIGNAL);
		}
		close(c);
	}
	buf_fini(&request);
	buf_fini(&answer);
	buf_fini(&dropped);
	return NULL;
}

/* A commit that was given up on takes effect after the store has asked whether it has. */
static void
test_late(const struct etcd *e)
{
	struct relay r = {.etcd_port = e->port};
	struct store_change lost[] = {{"a", NULL, 0}, {"c", "3", 1}};
	struct buf out = {0};
	struct err err;
	struct store *s;
	char where[64];

	r.fd = listen_any(&r.port);
	snprintf(where, sizeof where, "etcd://127.0.0.1:%d/a/b", r.port);
	if (pthread_create(&r.thread, NULL, relay_serve, &r) != 0)
		abort();
	s = state_open(where, &out, &err);
	put(s, "a", "1", NULL);
	atomic_store(&r.hold, true);
	ok(store_commit(s, lost, 2, STORE_SYNC, &err) == RC_TIMEOUT, "on its way: %s", err.text);
	ok(put(s, "b", "2", &err) == RC_OK, "the next gets through: %s", err.text);
	store_close(s, STORE_KEEP, NULL);
	shutdown(r.fd, SHUT_RDWR);
	pthread_join(r.thread, NULL);
	close(r.fd);
	ok(holds(e->where, "a=1 b=2 "), "and the commit that came late is undone");
	wipe(e);
	buf_fini(&r.held);
	buf_fini(&out);
}

int
main(void)
{
	struct etcd e = {0};

	alarm(WATCHDOG_S);
	signal(SIGPIPE, SIG_IGN);
	if (etcd_start_somewhere(&e)) {
		test_life(&e);
		test_sizes(&e);
		test_fence(&e);
		test_silent(&e);
		test_late(&e);
		etcd_stop(&e);
	} else {
		ok(true, "# SKIP etcd is not installed (Debian: etcd-server)");
	}
	test_http();
	test_not_etcd();
	return tap_done();
}
