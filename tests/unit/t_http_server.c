/*
 * The HTTP server: what it answers, and that nobody who connects can keep it, hang it or fill it.
 */
#include "net_test.h"

#include "net/http_server.h"

#define BIG (4u << 20)

static char big[BIG];
static int released;

static void
release(void *arg)
{
	(void)arg;
	__atomic_add_fetch(&released, 1, __ATOMIC_SEQ_CST);
}

static void
answer(void *arg, const char *path, struct http_answer *out)
{
	static const char hello[] = "hello\n";

	(void)arg;
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
	static const char large[] = "GET /big HTTP/1.1\r\n\r\n";
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
	ok(asks(addr, "GET /nothing HTTP/1.1\r\n\r\n", "404 Not Found"), "nothing there");
}

static void
test_refusals(const char *addr)
{
	static char much[200000];

	ok(asks(addr, "POST /hello HTTP/1.1\r\nContent-Length: 9\r\n\r\nabcdefghi",
		"405 Method Not Allowed"),
	   "POST");
	ok(asks(addr, "DELETE /hello HTTP/1.1\r\n\r\n", "405 Method Not Allowed"), "DELETE");
	ok(asks(addr, "GET /hello HTTP/2.0\r\n\r\n", "505 HTTP Version Not Supported"),
	   "another version");
	ok(asks(addr, "GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n\r\n", "404 Not Found"),
	   "a path of dots is a name like any other");
	ok(asks(addr, "GET hello HTTP/1.1\r\n\r\n", "400 Bad Request"), "no path");
	ok(asks(addr, "\x16\x03\x01 \x02 \xff\n\n", "400 Bad Request"), "garbage");
	ok(asks(addr, "\r\n\r\n", "400 Bad Request"), "nothing");
	memset(much, 'a', sizeof much);
	memcpy(much, "GET /hello HTTP/1.1\r\nX: ", 24);
	much[sizeof much - 1] = '\0';
	ok(asks(addr, much, "431 Request Header Fields Too Large"), "a head without an end");
	memset(much, 'a', 3000);
	memcpy(much, "GET /", 5);
	memcpy(much + 2000, " HTTP/1.1\r\n\r\n", 14);
	ok(asks(addr, much, "400 Bad Request"), "a path that is too long");
}

/* More connections than there are places, that say nothing, or take nothing of a large answer. */
static void
test_crowd(const char *addr)
{
	static int fd[3 * HTTP_SERVER_MAX_CONNS];
	static const char large[] = "GET /big HTTP/1.1\r\n\r\n";
	size_t n = sizeof fd / sizeof fd[0];
	bool good = true;

	for (size_t i = 0; i < n; i++) {
		fd[i] = raw_connect(addr);
		good = good && fd[i] >= 0;
		if (i % 50 == 0)
			good = good && asks(addr, "GET /hello HTTP/1.1\r\n\r\n", "200 OK");
	}
	ok(good && asks(addr, "GET /hello HTTP/1.1\r\n\r\n", "200 OK"),
	   "a crowd that is silent holds nobody off");
	for (size_t i = 0; i < n; i++)
		close(fd[i]);
	n = HTTP_SERVER_MAX_CONNS + 10;
	for (size_t i = 0; i < n; i++) {
		fd[i] = raw_connect(addr);
		good = good && fd[i] >= 0 && raw_write(fd[i], large, strlen(large));
	}
	ok(good && asks(addr, "GET /hello HTTP/1.1\r\n\r\n", "200 OK"),
	   "nor does one that takes nothing of what it asked for");
	for (size_t i = 0; i < n; i++)
		close(fd[i]);
}

static void
test_start(void)
{
	struct http_server *s = NULL, *t = NULL;
	struct err err = {0};

	ok(http_server_start("0.0.0.0:0", NET_LOOPBACK, answer, NULL, &s, &err) == RC_INVAL,
	   "beyond loopback only when asked: %s", err.text);
	ok(http_server_start("nothing", NET_LOOPBACK, answer, NULL, &s, &err) == RC_INVAL,
	   "no port: %s", err.text);
	ok(http_server_start("127.0.0.1:70000", NET_LOOPBACK, answer, NULL, &s, &err) == RC_INVAL,
	   "no such port: %s", err.text);
	ok(http_server_start("127.0.0.1:0", NET_LOOPBACK, answer, NULL, &s, &err) == RC_OK &&
	       http_server_start(http_server_address(s) + 7, NET_LOOPBACK, answer, NULL, &t,
				 &err) == RC_BUSY,
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
	if (http_server_start("127.0.0.1:0", NET_LOOPBACK, answer, NULL, &s, &err) != RC_OK)
		printf("# %s\n", err.text);
	snprintf(addr, sizeof addr, "tcp://%.50s", http_server_address(s) + 7);
	test_answers(addr);
	test_refusals(addr);
	released = 0;
	ok(asks(addr, "GET /hello HTTP/1.1\r\n\r\n", "200 OK"), "it still answers");
	test_crowd(addr);
	http_server_stop(s);
	ok(released > HTTP_SERVER_MAX_CONNS, "what was lent for answers is given back");
	return net_end();
}
