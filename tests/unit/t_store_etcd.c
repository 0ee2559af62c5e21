/* State in etcd: an etcd of our own on loopback; and servers that are none. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
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

	ok(post_to(HEAD "Content-Length: 5\r\n\r\nhello", 0, 9000, &out, &err) == 0 &&
	       body_is(&out, "hello"),
	   "a body with its length");
	ok(post_to(HEAD "\r\nhello", 0, 9000, &out, &err) == 0 && body_is(&out, "hello"),
	   "a body to the end of the connection");
	ok(post_to(HEAD "Transfer-Encoding: chunked\r\n\r\n4\r\nhell\r\n1;x=y\r\no\r\n0\r\n\r\n", 0,
		   9000, &out, &err) == 0 &&
	       body_is(&out, "hello"),
	   "a body in chunks");
	ok(post_to("SSH-2.0-OpenSSH_9\r\n\r\n", 0, 9000, &out, &err) != 0, "no HTTP: %s", err.text);
	ok(post_to(HEAD "Content-Length: 5\r\n\r\nhell", 0, 9000, &out, &err) == RC_UNREACHABLE,
	   "cut off: %s", err.text);
	ok(post_to(HEAD "Content-Length: 9999999\r\n\r\nx", 1u << 22, 9000, &out, &err) ==
	       RC_BADDATA,
	   "too long, it says: %s", err.text);
	ok(post_to(HEAD "\r\nx", 1u << 22, 9000, &out, &err) == RC_BADDATA && out.len <= 1u << 20,
	   "too long, without saying: %s", err.text);
	ok(post_to(HEAD "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx", 1u << 22, 9000,
		   &out, &err) == RC_BADDATA,
	   "too long a chunk: %s", err.text);
	ok(post_to(HEAD "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 0, 9000, &out, &err) ==
	       RC_BADDATA,
	   "no length of a chunk: %s", err.text);
	ok(post_to(HEAD "Transfer-Encoding: chunked\r\n\r\n1", 1u << 22, 9000, &out, &err) ==
	       RC_BADDATA,
	   "a line without end: %s", err.text);
	ok(post_to(HEAD "x: y", 1u << 22, 9000, &out, &err) != RC_OK, "a head without end: %s",
	   err.text);
	ok(post_to(NULL, 0, 200, &out, &err) == RC_TIMEOUT, "silence: %s", err.text);
	ok(post_to(HEAD "Content-Length: 5\r\n\r\nx", 0, 0, &out, &err) == RC_TIMEOUT,
	   "no time at all: %s", err.text);
	buf_fini(&out);
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
		struct fake f = {.answer = answer[i]};
		struct store *s;

		f.fd = listen_any(&f.port);
		snprintf(where, sizeof where, "etcd://127.0.0.1:%d/x", f.port);
		if (pthread_create(&f.thread, NULL, fake_serve, &f) != 0)
			abort();
		s = open_at(where, &out, &err);
		shutdown(f.fd, SHUT_RDWR);
		pthread_join(f.thread, NULL);
		close(f.fd);
		ok(!s && (err.rc == RC_BADDATA || err.rc == RC_FAILED), "no etcd: %s", err.text);
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
etcd_exec(const struct etcd *e, int port, int out)
{
	char client[64], peer[64], cluster[80];

	snprintf(client, sizeof client, "http://127.0.0.1:%d", port);
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

/* False: it is not installed, or did not get ready. */
static bool
etcd_start(struct etcd *e)
{
	int pipefd[2], port = free_port();
	char line[4096];
	bool ready = false;

	snprintf(e->dir, sizeof e->dir, "/tmp/t_etcd.XXXXXX");
	if (!mkdtemp(e->dir) || pipe(pipefd) != 0)
		abort();
	snprintf(e->where, sizeof e->where, "etcd://127.0.0.1:%d/a/b", port);
	e->pid = fork();
	if (e->pid == 0)
		etcd_exec(e, port, pipefd[1]);
	close(pipefd[1]);
	e->log = fdopen(pipefd[0], "r");
	while (!ready && fgets(line, sizeof line, e->log))
		ready = strstr(line, "ready to serve client requests") ||
			strstr(line, "serving insecure client requests");
	if (pthread_create(&e->drain, NULL, drain, e->log) != 0)
		abort();
	return ready;
}

static void
etcd_stop(struct etcd *e)
{
	char cmd[128];

	kill(e->pid, SIGKILL);
	waitpid(e->pid, NULL, 0);
	pthread_join(e->drain, NULL);
	fclose(e->log);
	snprintf(cmd, sizeof cmd, "rm -rf '%s'", e->dir);
	if (system(cmd) != 0)
		printf("# %s stays\n", e->dir);
}

static bool
holds(const char *where, const char *want)
{
	struct buf out = {0};
	struct err err;
	struct store *s = open_at(where, &out, &err);
	bool good = s && strcmp(out.data, want) == 0;

	if (!good)
		printf("#   got '%s'\n#   for '%s'\n", s ? out.data : err.text, want);
	store_close(s, STORE_KEEP, NULL);
	buf_fini(&out);
	return good;
}

static enum rc
put(struct store *s, const char *key, const char *value, struct err *err)
{
	struct store_change c = {key, value, value ? strlen(value) : 0};

	return store_commit(s, &c, 1, STORE_SYNC, err);
}

static void
test_life(const struct etcd *e)
{
	struct buf out = {0};
	struct err err;
	struct store *s = open_at(e->where, &out, &err);
	struct store_change some[] = {
	    {"b", "2", 1}, {"a", "x", 1}, {"c", "", 0}, {"a", NULL, 0}, {"b/d", "\0\xff", 2}};

	ok(s && out.len == 1, "opened, empty%s", err.text);
	ok(put(s, "a", "1", &err) == RC_OK, "a record is put");
	ok(store_commit(s, some, 5, STORE_SYNC, &err) == RC_OK, "changes at once, of one key two");
	store_close(s, STORE_KEEP, NULL);
	s = open_at(e->where, &out, &err);
	ok(s && out.len == 15 && memcmp(out.data, "b=2 b/d=\0\xff c= ", 15) == 0,
	   "all is there, byte by byte, in order of keys");
	ok(store_close(s, STORE_REMOVE, &err) == RC_OK && holds(e->where, ""), "and goes");
	buf_fini(&out);
}

/* More than one page, more than one transaction takes, as large as it takes. */
static void
test_sizes(const struct etcd *e)
{
	struct buf out = {0}, want = {0};
	struct err err;
	struct store *s = open_at(e->where, &out, &err);
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
	ok(store_commit(s, c, 127, STORE_SYNC, &err) == RC_INVAL, "too many: %s", err.text);
	ok(store_commit(s, c, 126, STORE_SYNC, &err) == RC_OK, "as many as it takes%s", "");
	memset(big, 'z', 1400u << 10);
	c[126].value = big;
	c[126].nbytes = 1400u << 10;
	ok(store_commit(s, &c[126], 1, STORE_SYNC, &err) == RC_INVAL, "too large: %s", err.text);
	c[126].nbytes = 1200u << 10;
	ok(store_commit(s, &c[126], 1, STORE_SYNC, &err) == RC_OK, "a large one");
	put(s, "z", "", NULL);
	store_close(s, STORE_KEEP, NULL);
	buf_add(&want, "", 1);
	ok(holds(e->where, want.data), "128 records come back, in pages");
	store_close(open_at(e->where, &out, &err), STORE_REMOVE, NULL);
	free(big);
	buf_fini(&out);
	buf_fini(&want);
}

static void
test_fence(const struct etcd *e)
{
	struct buf out = {0};
	struct err err;
	struct store *one = open_at(e->where, &out, &err), *two;

	put(one, "a", "1", NULL);
	two = open_at(e->where, &out, &err);
	ok(two && strcmp(out.data, "a=1 ") == 0, "a second one takes over");
	ok(put(one, "a", "late", &err) == RC_BUSY, "the first changes nothing any more: %s",
	   err.text);
	ok(put(two, "b", "2", &err) == RC_OK, "the second does");
	store_close(one, STORE_REMOVE, NULL);
	store_close(two, STORE_KEEP, NULL);
	ok(holds(e->where, "a=1 b=2 "), "nor can the first remove it");
	store_close(open_at(e->where, &out, &err), STORE_REMOVE, NULL);
	buf_fini(&out);
}

/* etcd does not answer for a while: what it was told meanwhile has not happened. */
static void
test_silent(const struct etcd *e)
{
	struct buf out = {0};
	struct err err;
	struct store *s = open_at(e->where, &out, &err);
	struct store_change lost[] = {{"a", NULL, 0}, {"c", "3", 1}};

	put(s, "a", "1", NULL);
	kill(e->pid, SIGSTOP);
	ok(store_commit(s, lost, 2, STORE_SYNC, &err) == RC_TIMEOUT, "no answer: %s", err.text);
	kill(e->pid, SIGCONT);
	ok(put(s, "b", "2", &err) == RC_OK, "then it answers again");
	store_close(s, STORE_KEEP, NULL);
	ok(holds(e->where, "a=1 b=2 "), "and the commit that was given up on is undone");
	store_close(open_at(e->where, &out, &err), STORE_REMOVE, NULL);
	buf_fini(&out);
}

int
main(void)
{
	struct etcd e = {0};

	signal(SIGPIPE, SIG_IGN);
	if (etcd_start(&e)) {
		test_life(&e);
		test_sizes(&e);
		test_fence(&e);
		test_silent(&e);
	} else {
		ok(true, "# SKIP etcd is not installed (Debian: etcd-server)");
	}
	etcd_stop(&e);
	test_http();
	test_not_etcd();
	return tap_done();
}
