/*
 * Design notes. One thread, one poll, sockets that do not block. A connection is one request, of which only
 * method and path matter, and one answer. README.md says why the server is our own.
 *
 * A connection is read until its head is complete, then written, then drained: bytes that the peer still
 * sends are thrown away for a moment, because after a close at once the kernel would throw the answer away.
 * Each state has an end in time. When a connection is one too many, the oldest that is not being answered
 * is closed, else the oldest; so a client that holds all of them open keeps nobody out.
 */
#include "net/http_server.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/listen.h"
#include "net/times.h"

#define DRAIN_MAX      65536 /* bytes */
#define SLOWEST_BPS    16384 /* bytes a second, on average, after the first NET_HTTP_STALL_MS */
#define PATH_MAX_CHARS 1024

enum phase { READING, WRITING, DRAINING };

struct conn {
	int fd; /* -1: none */
	enum phase phase;
	uint64_t began_ns; /* this phase */
	uint64_t due_ns;   /* it ends then, if nothing comes */
	char in[HTTP_SERVER_HEAD_MAX];
	size_t nin, drained;
	char head[1024]; /* of the answer */
	size_t nhead, sent;
	bool bodyless; /* HEAD */
	struct http_answer answer;
};

struct http_server {
	int fd, wake;
	http_server_fn fn;
	void *arg;
	pthread_t thread;
	char address[NET_ADDR_MAX];
	uint64_t pause_ns; /* no accepting until then */
	struct conn conn[HTTP_SERVER_MAX_CONNS];
};

/* ---- one connection */

static void
conn_close(struct conn *c)
{
	if (c->fd >= 0)
		close(c->fd);
	if (c->answer.release)
		c->answer.release(c->answer.arg);
	c->answer = (struct http_answer){0};
	c->fd = -1;
}

static void
conn_phase(struct conn *c, enum phase phase, uint64_t ms)
{
	c->phase = phase;
	c->began_ns = clock_now_ns();
	c->due_ns = deadline_in_ms(ms);
}

static const char *
reason(unsigned status)
{
	switch (status) {
	case 200:
		return "OK";
	case 400:
		return "Bad Request";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 431:
		return "Request Header Fields Too Large";
	case 505:
		return "HTTP Version Not Supported";
	default:
		return "Service Unavailable";
	}
}

/* Begin to send c->answer. */
static void
conn_answer(struct conn *c)
{
	int n = snprintf(c->head, sizeof c->head,
			 "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
			 "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
			 "Connection: close\r\n%s\r\n",
			 c->answer.status, reason(c->answer.status),
			 c->answer.type ? c->answer.type : "text/plain", c->answer.nbytes,
			 c->answer.headers);

	c->nhead = n > 0 && (size_t)n < sizeof c->head ? (size_t)n : 0;
	c->sent = 0;
	conn_phase(c, WRITING, NET_HTTP_STALL_MS);
	if (c->nhead == 0)
		conn_close(c);
}

static void
conn_refuse(struct conn *c, unsigned status, const char *line)
{
	c->answer = (struct http_answer){.status = status, .body = line, .nbytes = strlen(line)};
	if (status == 405)
		snprintf(c->answer.headers, sizeof c->answer.headers, "Allow: GET, HEAD\r\n");
	conn_answer(c);
}

/* Cut "GET /path HTTP/1.1" apart, in place. False: it is no such line. */
static bool
take_apart(char *line, char **method, char **path, char **version)
{
	char *a = strchr(line, ' '), *b = a ? strchr(a + 1, ' ') : NULL;

	if (!b || strchr(b + 1, ' ') || a == line || a[1] != '/' || b - a > PATH_MAX_CHARS)
		return false;
	for (const char *p = line; *p; p++)
		if ((unsigned char)*p < ' ' || (unsigned char)*p >= 0x7f)
			return false;
	*a = *b = '\0';
	*method = line;
	*path = a + 1;
	*version = b + 1;
	(*path)[strcspn(*path, "?#")] = '\0';
	return true;
}

/* The head is complete. */
static void
conn_request(struct http_server *s, struct conn *c)
{
	static const char missing[] = "there is nothing of that name\n";
	char *method, *path, *version, *end = memchr(c->in, '\n', c->nin);
	size_t n = (size_t)(end - c->in);

	if (n > 0 && c->in[n - 1] == '\r')
		n--;
	c->in[n] = '\0';
	if (strlen(c->in) != n || !take_apart(c->in, &method, &path, &version) ||
	    strncmp(version, "HTTP/", 5) != 0) {
		conn_refuse(c, 400, "that is no request\n");
		return;
	}
	if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0) {
		conn_refuse(c, 505, "HTTP/1.1 is spoken here\n");
		return;
	}
	c->bodyless = strcmp(method, "HEAD") == 0;
	if (!c->bodyless && strcmp(method, "GET") != 0) {
		conn_refuse(c, 405, "GET and HEAD are answered here\n");
		return;
	}
	c->answer = (struct http_answer){.status = 404, .body = missing, .nbytes = strlen(missing)};
	s->fn(s->arg, path, &c->answer);
	conn_answer(c);
}

/* An empty line ends a head. */
static bool
head_whole(const struct conn *c)
{
	return memmem(c->in, c->nin, "\r\n\r\n", 4) || memmem(c->in, c->nin, "\n\n", 2);
}

static void
conn_read(struct http_server *s, struct conn *c)
{
	char waste[4096];
	bool reading = c->phase == READING;
	ssize_t n = reading ? recv(c->fd, c->in + c->nin, sizeof c->in - c->nin, 0)
			    : recv(c->fd, waste, sizeof waste, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		conn_close(c);
		return;
	}
	if (!reading) {
		c->drained += (size_t)n;
		if (c->drained > DRAIN_MAX)
			conn_close(c);
		return;
	}
	c->nin += (size_t)n;
	if (head_whole(c))
		conn_request(s, c);
	else if (c->nin == sizeof c->in)
		conn_refuse(c, 431, "that request is too long\n");
}

/* The next bytes of the answer; 0: it is sent. */
static size_t
conn_next(const struct conn *c, const void **at)
{
	size_t nbody = c->bodyless ? 0 : c->answer.nbytes, body;

	*at = c->head + c->sent;
	if (c->sent < c->nhead)
		return c->nhead - c->sent;
	body = c->sent - c->nhead;
	*at = (const char *)c->answer.body + body;
	return nbody - body;
}

static void
conn_write(struct conn *c)
{
	const void *at;
	size_t left = conn_next(c, &at);
	ssize_t n = send(c->fd, at, left < 262144 ? left : 262144, MSG_NOSIGNAL);
	uint64_t slow_s;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		conn_close(c);
		return;
	}
	c->sent += (size_t)n;
	c->due_ns = deadline_in_ms(NET_HTTP_STALL_MS);
	slow_s = c->sent / SLOWEST_BPS + NET_HTTP_STALL_MS / 1000;
	if (clock_now_ns() - c->began_ns > slow_s * NS_PER_SEC) {
		conn_close(c);
	} else if (conn_next(c, &at) == 0) {
		shutdown(c->fd, SHUT_WR);
		conn_phase(c, DRAINING, NET_HTTP_DRAIN_MS);
	}
}

/* ---- all of them */

/* An entry for a connection; closes one if there is none. */
static struct conn *
take_place(struct http_server *s)
{
	struct conn *worst = NULL;

	for (size_t i = 0; i < HTTP_SERVER_MAX_CONNS; i++) {
		struct conn *c = &s->conn[i];

		if (c->fd < 0)
			return c;
		if (!worst || (worst->phase == WRITING && c->phase != WRITING) ||
		    ((worst->phase == WRITING) == (c->phase == WRITING) &&
		     c->began_ns < worst->began_ns))
			worst = c;
	}
	conn_close(worst);
	return worst;
}

static void
accept_one(struct http_server *s)
{
	int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct conn *c;

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			s->pause_ns = deadline_in_ms(NET_ACCEPT_PAUSE_MS);
		return;
	}
	c = take_place(s);
	c->fd = fd;
	c->nin = c->drained = c->sent = c->nhead = 0;
	c->bodyless = false;
	conn_phase(c, READING, NET_HTTP_HEAD_MS);
}

/* Milliseconds until the first deadline, at most a second. */
static int
next_due_ms(const struct http_server *s)
{
	int ms = 1000;

	for (size_t i = 0; i < HTTP_SERVER_MAX_CONNS; i++)
		if (s->conn[i].fd >= 0) {
			int left = deadline_left_ms(s->conn[i].due_ns);

			ms = left < ms ? left : ms;
		}
	if (deadline_left_ms(s->pause_ns) > 0 && deadline_left_ms(s->pause_ns) < ms)
		ms = deadline_left_ms(s->pause_ns);
	return ms;
}

static void
conn_step(struct http_server *s, struct conn *c, short revents)
{
	if (c->phase == WRITING && revents & (POLLOUT | POLLERR | POLLHUP))
		conn_write(c);
	else if (c->phase != WRITING && revents)
		conn_read(s, c);
	if (c->fd >= 0 && clock_now_ns() >= c->due_ns)
		conn_close(c);
}

static void *
serve(void *arg)
{
	struct http_server *s = arg;
	struct pollfd p[HTTP_SERVER_MAX_CONNS + 2];

	for (;;) {
		bool open = deadline_left_ms(s->pause_ns) == 0;

		p[0] = (struct pollfd){.fd = s->wake, .events = POLLIN};
		p[1] = (struct pollfd){.fd = open ? s->fd : -1, .events = POLLIN};
		for (size_t i = 0; i < HTTP_SERVER_MAX_CONNS; i++)
			p[i + 2] = (struct pollfd){.fd = s->conn[i].fd,
						   .events = s->conn[i].phase == WRITING ? POLLOUT
											 : POLLIN};
		if (poll(p, HTTP_SERVER_MAX_CONNS + 2, next_due_ms(s)) < 0)
			continue;
		if (p[0].revents)
			return NULL;
		for (size_t i = 0; i < HTTP_SERVER_MAX_CONNS; i++)
			if (s->conn[i].fd >= 0)
				conn_step(s, &s->conn[i], p[i + 2].revents);
		if (p[1].revents)
			accept_one(s);
	}
}

/* ---- beginning and end */

static void
server_free(struct http_server *s)
{
	for (size_t i = 0; i < HTTP_SERVER_MAX_CONNS; i++)
		conn_close(&s->conn[i]);
	if (s->fd >= 0)
		close(s->fd);
	if (s->wake >= 0)
		close(s->wake);
	free(s);
}

enum rc
http_server_start(const char *host, enum net_reach reach, http_server_fn fn, void *arg,
		  struct http_server **out, struct err *err)
{
	struct http_server *s;
	char addr[NET_ADDR_MAX];
	enum rc rc;
	int rv;

	s = calloc(1, sizeof *s);
	if (!s)
		return err_set(err, RC_NOMEM, "out of memory");
	for (size_t i = 0; i < HTTP_SERVER_MAX_CONNS; i++)
		s->conn[i].fd = -1;
	s->fd = -1;
	s->wake = eventfd(0, EFD_CLOEXEC);
	s->fn = fn;
	s->arg = arg;
	rc = s->wake < 0 ? err_set(err, RC_FAILED, "eventfd: %s", strerror(errno))
			 : net_listen(host, reach, HTTP_SERVER_MAX_CONNS, &s->fd, addr, err);
	if (rc == RC_OK) {
		snprintf(s->address, sizeof s->address, "http://%.*s", NET_ADDR_MAX - 8, addr);
		rv = pthread_create(&s->thread, NULL, serve, s);
		if (rv != 0)
			rc = err_set(err, RC_FAILED, "%s: %s", host, strerror(rv));
	}
	if (rc != RC_OK)
		server_free(s);
	else
		*out = s;
	return rc;
}

const char *
http_server_address(const struct http_server *s)
{
	return s->address;
}

void
http_server_stop(struct http_server *s)
{
	uint64_t one = 1;

	if (!s)
		return;
	while (write(s->wake, &one, sizeof one) < 0 && errno == EINTR)
		continue;
	pthread_join(s->thread, NULL);
	server_free(s);
}
