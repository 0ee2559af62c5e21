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
#include "store/gateway.h"
#include "store/store.h"
#include "tap.h"

#define PATIENCE_MS 60000 /* whatever works, works within */
#define PEM(name)   "tests/data/tls/" name ".pem"
#define WATCHDOG_S  300 /* a test that hangs is killed, and so fails */

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

/* ---- fake servers: an answer a connection, as text */

#define ANSWERS_MAX 8

struct fake {
	int fd, port;
	/* "": silence until the peer closes; NULL: no more connections */
	const char *answer[ANSWERS_MAX];
	size_t repeat;	  /* the answer's last byte, so often more */
	struct buf asked; /* all requests */
	pthread_t thread;
};

static void
fake_answer(struct fake *f, int c, const char *answer)
{
	char junk[65536];
	ssize_t n;

	/* The head and the body may come apart; a peer that has all of it waits for us. */
	if (*answer && (n = recv(c, junk, sizeof junk, 0)) > 0) {
		buf_add(&f->asked, junk, (size_t)n);
		send(c, answer, strlen(answer), MSG_NOSIGNAL);
		memset(junk, answer[strlen(answer) - 1], sizeof junk);
		for (size_t sent = 0; sent < f->repeat; sent += sizeof junk)
			if (send(c, junk, sizeof junk, MSG_NOSIGNAL) < 0)
				break;
		shutdown(c, SHUT_WR);
	}
	while ((n = recv(c, junk, sizeof junk, 0)) > 0)
		if (*answer)
			buf_add(&f->asked, junk, (size_t)n);
}

static void *
fake_serve(void *arg)
{
	struct fake *f = arg;
	int c;

	for (int i = 0; f->answer[i] && (c = accept(f->fd, NULL, NULL)) >= 0; i++) {
		fake_answer(f, c, f->answer[i]);
		close(c);
	}
	return NULL;
}

static void
fake_start(struct fake *f)
{
	f->fd = listen_any(&f->port);
	if (pthread_create(&f->thread, NULL, fake_serve, f) != 0)
		abort();
}

/* Its requests are a string from now on, until fake_free. */
static void
fake_stop(struct fake *f)
{
	shutdown(f->fd, SHUT_RDWR);
	pthread_join(f->thread, NULL);
	close(f->fd);
	buf_add(&f->asked, "", 1);
}

static void
fake_free(struct fake *f)
{
	buf_fini(&f->asked);
}

static enum rc
post(const char *hosts, bool repeatable, struct buf *out, struct err *err)
{
	const struct buf body = {.data = (char *)"{}", .len = 2, .cap = 2};
	struct gateway *g = NULL;
	enum rc rc;

	*err = (struct err){0};
	rc = gateway_open(hosts, false, 1u << 20, &g, err);
	if (rc == RC_OK)
		rc = gateway_post(g, "/x", &body, repeatable, out, err);
	gateway_close(g);
	return rc;
}

/* A post to one such server. */
static enum rc
post_to(const char *answer, size_t repeat, struct buf *out, struct err *err)
{
	struct fake f = {.answer = {answer}, .repeat = repeat};
	char host[32];
	enum rc rc;

	fake_start(&f);
	snprintf(host, sizeof host, "127.0.0.1:%d", f.port);
	rc = post(host, false, out, err);
	fake_stop(&f);
	fake_free(&f);
	return rc;
}

static bool
body_is(const struct buf *b, const char *want)
{
	return b->len == strlen(want) && memcmp(b->data, want, b->len) == 0;
}

#define HEAD   "HTTP/1.1 200 OK\r\n"
#define HELLO  HEAD "Content-Length: 5\r\n\r\nhello"
#define TOKEN  HEAD "\r\n{\"token\":\"abc.1\"}"
#define STALE  "HTTP/1.1 401 Unauthorized\r\n\r\n{\"error\":\"etcdserver: invalid auth token\"}"
#define DENIED "HTTP/1.1 400 Bad Request\r\n\r\n{\"error\":\"authentication failed\"}"

/* One exchange: its bounds in time and size. */
static void
test_post(void)
{
	static const struct {
		const char *answer;
		size_t repeat;
		enum rc rc; /* RC_OK: the body is "hello" */
		const char *name;
	} v[] = {
	    {HELLO, 0, RC_OK, "a body with its length"},
	    {HEAD "\r\nhello", 0, RC_OK, "a body to the end of the connection"},
	    {HEAD "Transfer-Encoding: chunked\r\n\r\n4\r\nhell\r\n1\r\no\r\n0\r\n\r\n", 0, RC_OK,
	     "a body in chunks"},
	    {"SSH-2.0-OpenSSH_9\r\n\r\n", 0, RC_BADDATA, "no HTTP"},
	    {HEAD "Content-Length: 5\r\n\r\nhell", 0, RC_UNREACHABLE, "cut off"},
	    {HEAD "Content-Length: 9999999\r\n\r\nx", 1u << 22, RC_BADDATA, "too long, it says"},
	    {HEAD "\r\nx", 1u << 22, RC_BADDATA, "too long, without saying"},
	    {"", 0, RC_TIMEOUT, "silence"},
	    {DENIED, 0, RC_FAILED, "a refusal"},
	};
	struct buf out = {0};
	struct err err;

	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		enum rc rc = post_to(v[i].answer, v[i].repeat, &out, &err);

		ok(rc == v[i].rc && (rc != RC_OK || body_is(&out, "hello")) && out.len <= 1u << 20,
		   "%s: %s", v[i].name, err.text);
	}
	ok(post_to(HEAD "x: y", 1u << 22, &out, &err) != RC_OK, "a head without end: %s", err.text);
	buf_fini(&out);
}

/* One endpoint after the other, unless a request that must not be repeated may have arrived. */
static void
test_endpoints(void)
{
	struct fake silent = {.answer = {"", ""}}, good = {.answer = {HELLO, HELLO}};
	struct buf out = {0};
	struct err err;
	char hosts[128];

	fake_start(&silent);
	fake_start(&good);
	snprintf(hosts, sizeof hosts, "127.0.0.1:%d,127.0.0.1:%d", free_port(), good.port);
	ok(post(hosts, false, &out, &err) == RC_OK && body_is(&out, "hello"),
	   "the first is dead: the second is asked %s", err.text);
	snprintf(hosts, sizeof hosts, "127.0.0.1:%d,127.0.0.1:%d", silent.port, good.port);
	ok(post(hosts, true, &out, &err) == RC_OK && body_is(&out, "hello"),
	   "the first is silent: what may be repeated is %s", err.text);
	ok(post(hosts, false, &out, &err) == RC_TIMEOUT, "and nothing else: %s", err.text);
	snprintf(hosts, sizeof hosts, "127.0.0.1:%d,127.0.0.1:%d", free_port(), free_port());
	ok(post(hosts, true, &out, &err) == RC_UNREACHABLE, "both are dead: %s", err.text);
	fake_stop(&silent);
	fake_stop(&good);
	fake_free(&silent);
	fake_free(&good);
	buf_fini(&out);
}

/* How often text has that in it. */
static int
times(const char *text, const char *what)
{
	int n = 0;

	while ((text = strstr(text, what))) {
		n++;
		text += strlen(what);
	}
	return n;
}

/* With a user there is a token; a new one when etcd has forgotten it. */
static void
test_login(void)
{
	static const struct {
		const char *answer[ANSWERS_MAX];
		enum rc rc;
		int logins, tokens;
		const char *name;
	} v[] = {
	    {{TOKEN, HELLO}, RC_OK, 1, 1, "a token is asked for first"},
	    {{TOKEN, STALE, TOKEN, HELLO}, RC_OK, 2, 2, "a token that is refused is renewed"},
	    {{TOKEN, STALE, TOKEN, STALE}, RC_FAILED, 2, 2, "once"},
	    {{DENIED}, RC_FAILED, 1, 0, "a wrong password"},
	    {{HEAD "\r\n{}"}, RC_BADDATA, 1, 0, "no token"},
	};
	struct buf out = {0};
	struct err err;

	setenv("GPUSIM_ETCD_USER", "me:pass\"word", 1);
	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		struct fake f = {0};
		char host[32];
		enum rc rc;

		memcpy(f.answer, v[i].answer, sizeof f.answer);
		fake_start(&f);
		snprintf(host, sizeof host, "127.0.0.1:%d", f.port);
		rc = post(host, false, &out, &err);
		fake_stop(&f);
		ok(rc == v[i].rc &&
		       times(f.asked.data, "{\"name\":\"me\",\"password\":\"pass\\\"word\"}") ==
			   v[i].logins &&
		       times(f.asked.data, "Authorization: abc.1\r\n") == v[i].tokens,
		   "%s %s", v[i].name, err.text);
		fake_free(&f);
	}
	setenv("GPUSIM_ETCD_USER", "me", 1);
	ok(post("127.0.0.1:1", false, &out, &err) == RC_INVAL, "a user without password: %s",
	   err.text);
	unsetenv("GPUSIM_ETCD_USER");
	buf_fini(&out);
}

/* Open a state at a server with that answer. */
static enum rc
open_fake(const char *answer, struct buf *out, struct err *err)
{
	uint64_t until = deadline_in_ms(PATIENCE_MS);

	do {
		struct fake f = {.answer = {answer}};
		struct store *s;
		char where[64];

		fake_start(&f);
		snprintf(where, sizeof where, "etcd://127.0.0.1:%d/x", f.port);
		s = open_at(where, out, err);
		fake_stop(&f);
		fake_free(&f);
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
	ok(!open_at("etcd://h:1,/x", &out, &err) && err.rc == RC_INVAL, "%s", err.text);
	ok(!open_at("etcds://a:b@h:1/x", &out, &err) && err.rc == RC_INVAL, "%s", err.text);
	buf_fini(&out);
}

/* ---- an etcd */

struct etcd {
	pid_t pid;
	int port;
	bool tls; /* wants a client's certificate too */
	char dir[64], where[64], authorities[80];
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
	const char *argv[32] = {"etcd", "--data-dir", e->dir, "--listen-client-urls", client,
				"--advertise-client-urls", client, "--listen-peer-urls", peer,
				"--initial-advertise-peer-urls", peer, "--initial-cluster", cluster,
				/* with tls: */
				"--cert-file", PEM("host-cert"), "--key-file", PEM("host-key"),
				"--trusted-ca-file", e->authorities, "--client-cert-auth"};

	if (!e->tls)
		argv[13] = NULL;
	snprintf(client, sizeof client, "http%s://127.0.0.1:%d", e->tls ? "s" : "", e->port);
	snprintf(peer, sizeof peer, "http://127.0.0.1:%d", free_port());
	snprintf(cluster, sizeof cluster, "default=%s", peer);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	execvp("etcd", (char *const *)argv);
	_exit(127);
}

/* Clients have certificates of ca; the gateway is a client of its own server, with the server's. */
static bool
copy_authorities(const char *to)
{
	char cmd[256];

	snprintf(cmd, sizeof cmd, "cat '%s' '%s' >'%s'", PEM("ca"), PEM("host-cert"), to);
	return system(cmd) == 0;
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
	snprintf(e->authorities, sizeof e->authorities, "%s/ca.pem", e->dir);
	if (e->tls && !copy_authorities(e->authorities))
		abort();
	snprintf(e->where, sizeof e->where, "etcd%s://127.0.0.1:%d/a/b", e->tls ? "s" : "",
		 e->port);
	e->pid = fork();
	if (e->pid == 0)
		etcd_exec(e, pipefd[1]);
	close(pipefd[1]);
	e->log = fdopen(pipefd[0], "r");
	while (!ready && fgets(line, sizeof line, e->log))
		ready = strstr(line, "ready to serve client requests") ||
			strstr(line, "serving insecure client requests") ||
			strstr(line, "serving client requests on");
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
	waitpid(e->pid, NULL, WUNTRACED); /* until its threads have stopped */
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

/* What opening it comes to with these files; NULL: none. */
static enum rc
open_with(const struct etcd *e, const char *ca, const char *cert, const char *key, struct err *err)
{
	static const char *const name[] = {"GPUSIM_ETCD_CACERT", "GPUSIM_ETCD_CERT",
					   "GPUSIM_ETCD_KEY"};
	const char *value[] = {ca, cert, key};
	struct buf out = {0};
	struct store *s;

	for (int i = 0; i < 3; i++)
		if (value[i])
			setenv(name[i], value[i], 1);
		else
			unsetenv(name[i]);
	s = state_open(e->where, &out, err);
	if (s)
		put(s, "a", "1", NULL);
	store_close(s, STORE_KEEP, NULL);
	buf_fini(&out);
	return err->rc;
}

static void
test_tls(void)
{
	struct etcd e = {.tls = true};
	struct err err;

	if (!etcd_start_somewhere(&e))
		return;
	ok(open_with(&e, PEM("ca"), PEM("cert"), PEM("key"), &err) == RC_UNREACHABLE,
	   "another authority's: %s", err.text);
	ok(open_with(&e, PEM("host-cert"), NULL, NULL, &err) == RC_UNREACHABLE,
	   "no certificate of ours: %s", err.text);
	ok(open_with(&e, PEM("host-cert"), PEM("other-cert"), PEM("other-key"), &err) ==
	       RC_UNREACHABLE,
	   "a certificate of another authority: %s", err.text);
	ok(open_with(&e, PEM("none"), NULL, NULL, &err) == RC_FAILED, "no such file: %s", err.text);
	ok(open_with(&e, PEM("host-cert"), PEM("cert"), NULL, &err) == RC_INVAL, "no key: %s",
	   err.text);
	ok(open_with(&e, PEM("host-cert"), PEM("cert"), PEM("key"), &err) == RC_OK &&
	       holds(e.where, "a=1 "),
	   "state over TLS %s", err.text);
	etcd_stop(&e);
	unsetenv("GPUSIM_ETCD_CACERT");
	unsetenv("GPUSIM_ETCD_CERT");
	unsetenv("GPUSIM_ETCD_KEY");
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
		test_tls();
	} else {
		ok(true, "# SKIP etcd is not installed (Debian: etcd-server)");
	}
	test_post();
	test_endpoints();
	test_login();
	test_not_etcd();
	return tap_done();
}
