/*
 * The HTTP server: what it answers, and that nobody who connects can keep it, hang it or fill it.
 */
#include "net_test.h"

#include <semaphore.h>

#include "net/http_impl.h"
#include "net/http_server.h"

#define BIG (4u << 20)

static char big[BIG];
static int lent, released;
static struct http_ask *kept; /* by a request that is answered later */
static sem_t is_kept;

static void
release(void *arg)
{
	(void)arg;
	__atomic_add_fetch(&released, 1, __ATOMIC_SEQ_CST);
}

static void
answer(void *arg, struct http_ask *ask, struct http_answer *out)
{
	static const char hello[] = "hello\n";
	const char *path = http_ask_path(ask);

	(void)arg;
	lent += strcmp(path, "/hello") == 0 || strcmp(path, "/big") == 0 ||
		strcmp(path, "/events") == 0;
	if (strcmp(path, "/hello") == 0) {
		*out = (struct http_answer){.status = 200,
					    .type = "text/x-hello",
					    .headers = "X-Test: 7\r\n",
					    .body = hello,
					    .nbytes = strlen(hello),
					    .release = release};
	} else if (strcmp(path, "/big") == 0) {
		*out = (struct http_answer){
		    .status = 200, .body = big, .nbytes = BIG, .release = release};
	} else if (strcmp(path, "/events") == 0) {
		*out = (struct http_answer){.status = HTTP_STREAM,
					    .body = hello,
					    .nbytes = strlen(hello),
					    .release = release};
	} else if (strcmp(path, "/later") == 0) {
		out->status = HTTP_LATER;
		kept = ask;
		sem_post(&is_kept);
	} else if (strcmp(path, "/echo") == 0) {
		const char *a = http_ask_argument(ask, "a"), *x = http_ask_header(ask, "X-A");

		out->status = a && x && strcmp(a, x) == 0 ? 200 : 400;
	}
}

/* Send a text and read until the end; the number of bytes that came, the first of them in out. */
static size_t
ask(const char *addr, const char *text, size_t n, char *out, size_t size)
{
	int fd = raw_connect(addr);
	char waste[65536];
	size_t got = 0;
	ssize_t k;

	/* A server that has heard enough does not read the rest. */
	(void)(send(fd, text, n, MSG_NOSIGNAL) < 0);
	while ((k = recv(fd, waste, sizeof waste, 0)) > 0) {
		if (got < size - 1)
			memcpy(out + got, waste,
			       (size_t)k < size - 1 - got ? (size_t)k : size - 1 - got);
		got += (size_t)k;
	}
	out[got < size - 1 ? got : size - 1] = '\0';
	close(fd);
	return got;
}

static bool
asks(const char *addr, const char *text, const char *status)
{
	char out[4096], want[64];
	bool good;

	snprintf(want, sizeof want, "HTTP/1.1 %s\r\n", status);
	ask(addr, text, strlen(text), out, sizeof out);
	good = strncmp(out, want, strlen(want)) == 0;
	if (!good)
		printf("# got: %.60s\n", out);
	return good;
}

static void
test_answers(const char *addr)
{
	static const char get[] = "GET /hello?x=1 HTTP/1.1\r\nHost: a\r\n\r\n";
	static const char head[] = "HEAD /big HTTP/1.0\n\n";
	static const char large[] = "GET /big HTTP/1.1\r\nHost: a\r\n\r\n";
	char out[4096];
	size_t n;

	ask(addr, get, strlen(get), out, sizeof out);
	ok(strncmp(out, "HTTP/1.1 200 OK\r\n", 17) == 0 && strstr(out, "X-Test: 7\r\n") &&
	       strstr(out, "Content-Type: text/x-hello\r\n") &&
	       strstr(out, "Content-Length: 6\r\n") && strstr(out, "\r\n\r\nhello\n"),
	   "GET: type, length, headers, body");
	n = ask(addr, head, strlen(head), out, sizeof out);
	ok(n < 500 && strstr(out, "Content-Length: 4194304\r\n"), "HEAD: the length and no body");
	n = ask(addr, large, strlen(large), out, sizeof out);
	ok(n == BIG + (size_t)(strstr(out, "\r\n\r\n") + 4 - out), "a large body comes whole");
	ok(asks(addr, "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n", "404 Not Found"),
	   "nothing there");
}

static void
test_refusals(const char *addr)
{
	static char much[200000];

	ok(asks(addr, "POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabcdefghi",
		"405 Method Not Allowed"),
	   "POST");
	ok(asks(addr, "GET /hello HTTP/1.1\r\n\r\n", "400 Bad Request"), "HTTP/1.1 without Host");
	ok(asks(addr, "GET /hello HTTP/1.0\r\n\r\n", "200 OK"), "HTTP/1.0 needs none");
	ok(asks(addr, "DELETE /hello HTTP/1.1\r\nHost: a\r\n\r\n", "405 Method Not Allowed"),
	   "DELETE");
	ok(asks(addr, "GET /hello HTTP/2.0\r\n\r\n", "505 HTTP Version Not Supported"),
	   "another version");
	ok(asks(addr, "GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n", "404 Not Found"),
	   "a path of dots is a name like any other");
	ok(asks(addr, "GET hello HTTP/1.1\r\nHost: a\r\n\r\n", "400 Bad Request"), "no path");
	ok(asks(addr, "\x16\x03\x01 \x02 \xff\n\n", "400 Bad Request"), "garbage");
	ok(asks(addr, "\r\n\r\n", "400 Bad Request"), "nothing");
	memset(much, 'a', sizeof much);
	memcpy(much, "GET /hello HTTP/1.1\r\nX: ", 24);
	much[sizeof much - 1] = '\0';
	ok(asks(addr, much, "431 Request Header Fields Too Large"), "a head without an end");
	memset(much, 'a', 3000);
	memcpy(much, "GET /", 5);
	memcpy(much + 2000, " HTTP/1.1\r\nHost: a\r\n\r\n", 23);
	ok(asks(addr, much, "400 Bad Request"), "a path that is too long");
}

/* More connections than there are places, that say nothing, or take nothing of a large answer. */
static void
test_crowd(const char *addr)
{
	static int fd[3 * HTTP_SERVER_MAX_CONNS];
	static const char large[] = "GET /big HTTP/1.1\r\nHost: a\r\n\r\n";
	size_t n = sizeof fd / sizeof fd[0];
	bool good = true;

	for (size_t i = 0; i < n; i++) {
		fd[i] = raw_connect(addr);
		good = good && fd[i] >= 0;
		if (i % 50 == 0)
			good =
			    good && asks(addr, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", "200 OK");
	}
	ok(good && asks(addr, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", "200 OK"),
	   "a crowd that is silent holds nobody off");
	for (size_t i = 0; i < n; i++)
		close(fd[i]);
	n = HTTP_SERVER_MAX_CONNS + 10;
	for (size_t i = 0; i < n; i++) {
		fd[i] = raw_connect(addr);
		good = good && fd[i] >= 0 && raw_write(fd[i], large, strlen(large));
	}
	ok(good && asks(addr, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", "200 OK"),
	   "nor does one that takes nothing of what it asked for");
	for (size_t i = 0; i < n; i++)
		close(fd[i]);
}

static void
test_hosts(const char *addr)
{
	static const char *good[] = {"127.0.0.1",  "127.0.0.1:1", "localhost", "LOCALHOST:80",
				     "[::1]:8080", "127.9.9.9",	  "a",	       "b.example:7"};
	static const char *bad[] = {"evil.example", "127.0.0.1.evil.example",
				    "b.exampl",	    "",
				    ":80",	    "[::1",
				    "[]",	    "10.0.0.1",
				    "localhost:x",  "example"};
	char text[200];

	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
		ok(http_host_allowed(good[i], "127.0.0.1:9", NET_LOOPBACK, "b.example,a"),
		   "host %s", good[i]);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ok(!http_host_allowed(bad[i], "127.0.0.1:9", NET_LOOPBACK, "b.example,a"),
		   "host '%s': not ours", bad[i]);
	ok(http_host_allowed("10.0.0.1:80", "0.0.0.0:9", NET_ANY_HOST, NULL) &&
	       http_host_allowed("gpus.lan", "gpus.lan:9", NET_ANY_HOST, NULL) &&
	       !http_host_allowed("evil.example", "0.0.0.0:9", NET_ANY_HOST, NULL),
	   "reached from other hosts: numbers and its own name");
	snprintf(text, sizeof text, "GET /hello HTTP/1.1\r\nHost: evil.example\r\n\r\n");
	ok(asks(addr, text, "421 Misdirected Request"), "a name of another site");
}

static void
test_later(const char *addr)
{
	static const char get[] = "GET /later HTTP/1.1\r\nHost: a\r\n\r\n";
	static const struct http_answer late = {
	    .status = 200, .body = "late\n", .nbytes = 5, .release = release};
	int fd = raw_connect(addr), before = released;
	char out[1024] = "";

	raw_write(fd, get, strlen(get));
	sem_wait(&is_kept);
	ok(asks(addr, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", "200 OK"),
	   "others are answered while one waits");
	http_reply(kept, &late);
	(void)(recv(fd, out, sizeof out - 1, MSG_WAITALL) < 0);
	ok(strstr(out, "\r\n\r\nlate\n") != NULL, "an answer that comes later");
	close(fd);
	fd = raw_connect(addr);
	raw_write(fd, get, strlen(get));
	sem_wait(&is_kept);
	close(fd);
	http_reply(kept, &late);
	while (__atomic_load_n(&released, __ATOMIC_SEQ_CST) < before + 3)
		sched_yield();
	ok(true, "an answer to somebody who has gone is given back");
	ok(asks(addr, "GET /echo?b=2&a=5s HTTP/1.1\r\nHost: a\r\nx-a: 5s\r\n\r\n", "200 OK"),
	   "arguments and headers");
}

/* Read until the text has come; what came. */
static const char *
hear(int fd, const char *until)
{
	static char got[4096];
	size_t n = 0;
	ssize_t k;

	got[0] = '\0';
	while (!strstr(got, until) && n < sizeof got - 1 &&
	       (k = recv(fd, got + n, sizeof got - 1 - n, 0)) > 0)
		got[n += (size_t)k] = '\0';
	return got;
}

static void
wait_listeners(struct http_server *s, unsigned n)
{
	while (http_listeners(s) != n)
		sched_yield();
}

static void
test_streams(struct http_server *s, const char *addr)
{
	static const char get[] = "GET /events HTTP/1.1\r\nHost: a\r\n\r\n";
	int fd[HTTP_SERVER_MAX_STREAMS];
	char *large = malloc(1 << 20);
	bool good = true;

	for (int i = 0; i < HTTP_SERVER_MAX_STREAMS; i++) {
		fd[i] = raw_connect(addr);
		good = good && raw_write(fd[i], get, strlen(get)) &&
		       strstr(hear(fd[i], "hello"), "hello");
	}
	ok(good && http_listeners(s) == HTTP_SERVER_MAX_STREAMS, "listeners get their beginning");
	ok(asks(addr, get, "503 Service Unavailable"), "one too many is told so");
	ok(asks(addr, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", "200 OK"), "others are answered");
	http_publish(s, "tick", 7, "one\ntwo", 7);
	for (int i = 0; i < HTTP_SERVER_MAX_STREAMS; i++)
		good = good && strstr(hear(fd[i], "two\n\n"),
				      "event: tick\nid: 7\ndata: one\ndata: two\n\n");
	ok(good, "an event comes to all, a line of data a line");
	memset(large, 'x', 1 << 20);
	for (int i = 0; i < 64; i++)
		good = good && http_publish(s, "much", 8, large, 1 << 20) == RC_OK;
	wait_listeners(s, 0);
	ok(good, "who reads nothing is dropped");
	for (int i = 0; i < HTTP_SERVER_MAX_STREAMS; i++)
		close(fd[i]);
	fd[0] = raw_connect(addr);
	ok(raw_write(fd[0], get, strlen(get)) && strstr(hear(fd[0], "hello"), "200 OK"),
	   "and somebody else may listen");
	wait_listeners(s, 1);
	close(fd[0]);
	while (http_listeners(s) > 0) {
		http_heartbeat(s);
		sched_yield();
	}
	ok(true, "a heartbeat finds out who has gone");
	free(large);
}

static enum rc
start(const char *host, struct http_server **out, struct err *err)
{
	const struct http_config cfg = {
	    .host = host, .reach = NET_LOOPBACK, .names = "b.example,a", .fn = answer};

	return http_server_start(&cfg, out, err);
}

static void
test_start(void)
{
	struct http_server *s = NULL, *t = NULL;
	struct err err = {0};

	ok(start("0.0.0.0:0", &s, &err) == RC_INVAL, "beyond loopback only when asked: %s",
	   err.text);
	ok(start("nothing", &s, &err) == RC_INVAL, "no port: %s", err.text);
	ok(start("127.0.0.1:70000", &s, &err) == RC_INVAL, "no such port: %s", err.text);
	ok(start("127.0.0.1:0", &s, &err) == RC_OK &&
	       start(http_server_address(s) + 7, &t, &err) == RC_BUSY,
	   "a port that is taken: %s", err.text);
	http_server_stop(s);
	http_server_stop(NULL);
}

int
main(void)
{
	struct http_server *s = NULL;
	struct err err = {0};
	char addr[64];

	net_begin();
	test_start();
	if (start("127.0.0.1:0", &s, &err) != RC_OK)
		printf("# %s\n", err.text);
	snprintf(addr, sizeof addr, "tcp://%.50s", http_server_address(s) + 7);
	sem_init(&is_kept, 0, 0);
	test_answers(addr);
	test_refusals(addr);
	test_hosts(addr);
	test_later(addr);
	test_streams(s, addr);
	lent = released = 0;
	ok(asks(addr, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n", "200 OK"), "it still answers");
	test_crowd(addr);
	http_server_stop(s);
	printf("# %d times\n", lent);
	ok(lent > HTTP_SERVER_MAX_PEER && released == lent,
	   "what was lent for answers is given back");
	return net_end();
}
