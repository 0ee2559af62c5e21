/*
 * Design notes. One thread, one poll, sockets that do not block, as net/http_server.c; a session
 * (session.h) interprets the bytes and knows no socket. The handler is called on this thread. Answers come
 * on any thread, are queued under the lock, and wake the poll.
 *
 * A connection's bytes are read while fewer than OUT_MAX wait to be sent to it, so a client cannot make the
 * server buffer more. When a connection is one too many, one that has not spoken HTTP/2 is closed, else one
 * without a call, else any: of several the one that has been silent longest.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "grpc/server_impl.h"
#include "net/net.h"

#define OUT_MAX	       (256u << 10)
#define WRITE_STALL_NS (20 * NS_PER_SEC) /* a connection that takes nothing */
#define CLOSING_NS     (2 * NS_PER_SEC)	 /* and one that is to be closed */

/* ---- one connection */

static void
conn_close(struct conn *c)
{
	struct grpc_server *s = c->server;

	if (c->fd < 0)
		return;
	grpc_session_free(c->session);
	c->session = NULL;
	buf_fini(&c->out);
	c->out_at = 0;
	close(c->fd);
	c->fd = -1;
	if (s->handler.gone && !s->ending)
		s->handler.gone(s->handler.arg, c->client_id);
}

/* Fill the buffer of bytes to send. */
static void
conn_fill(struct conn *c)
{
	const void *data;
	size_t n;

	if (c->out_at == c->out.len)
		c->out.len = c->out_at = 0;
	while (c->heard && c->out.len < OUT_MAX &&
	       (n = grpc_session_send(c->session, &data, clock_now_ns())) > 0)
		if (!buf_add(&c->out, data, n)) {
			c->closing = true;
			c->out.len = c->out_at =
			    0; /* the stream of bytes has a hole: send nothing more */
			return;
		}
}

static void
conn_write(struct conn *c)
{
	ssize_t n;

	for (;;) {
		conn_fill(c);
		if (c->out_at == c->out.len)
			return;
		n = send(c->fd, c->out.data + c->out_at, c->out.len - c->out_at, MSG_NOSIGNAL);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0) {
			c->closing = true;
			c->out.len = c->out_at = 0;
			return;
		}
		c->out_at += (size_t)n;
		c->moved_ns = clock_now_ns();
	}
}

/* Tell a client of HTTP/1 that this is HTTP/2. */
static void
conn_misled(struct conn *c, const char *data, size_t n)
{
	static const char text[] = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n"
				   "Connection: close\r\n\r\ngRPC is spoken here, over HTTP/2\n";

	if (!grpc_session_greeted(c->session) && n > 3 && *data >= 'A' && *data <= 'Z' &&
	    memcmp(data, "PRI", 3) != 0)
		c->heard = send(c->fd, text, strlen(text), MSG_NOSIGNAL) < 0;
}

static void
conn_read(struct conn *c)
{
	char *data = c->server->in;
	ssize_t n = recv(c->fd, data, sizeof c->server->in, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		c->closing = true;
		c->out.len = c->out_at = 0;
		return;
	}
	c->heard_ns = clock_now_ns();
	c->heard = true;
	if (grpc_session_recv(c->session, data, (size_t)n, c->heard_ns))
		return;
	conn_misled(c, data, (size_t)n);
	c->closing = true;
}

/* ---- all of them */

/* How much a connection matters. */
static int
worth(const struct conn *c)
{
	return grpc_session_streams(c->session) > 0 ? 2 : grpc_session_greeted(c->session);
}

/* An entry for a connection; closes one if there is none. */
static struct conn *
take_place(struct grpc_server *s)
{
	struct conn *worst = NULL;

	for (size_t i = 0; i < GRPC_SERVER_MAX_CONNS; i++) {
		struct conn *c = &s->conn[i];

		if (c->fd < 0)
			return c;
		if (!worst || worth(c) < worth(worst) ||
		    (worth(c) == worth(worst) && c->heard_ns < worst->heard_ns))
			worst = c;
	}
	conn_close(worst);
	return worst;
}

static void
accept_one(struct grpc_server *s)
{
	int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), one = 1;
	struct grpc_events *events;
	struct err err;
	struct conn *c;

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			s->pause_ns = deadline_in_ms(NET_ACCEPT_PAUSE_MS);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	c = take_place(s);
	events = &c->events;
	*events = conn_events;
	events->arg = c;
	if (grpc_session_new(events, &s->budget, clock_now_ns(), &c->session, &err) != RC_OK) {
		close(fd);
		return;
	}
	c->fd = fd;
	c->server = s;
	c->client_id = net_random();
	c->moved_ns = c->heard_ns = clock_now_ns();
	c->heard = c->closing = false;
}

static void
conn_step(struct conn *c, short revents, uint64_t *due_ns)
{
	uint64_t now, stall_ns;

	if (revents & (POLLIN | POLLERR | POLLHUP) && !c->closing)
		conn_read(c);
	if (!c->closing && !grpc_session_tick(c->session, clock_now_ns(), due_ns))
		c->closing = true;
	conn_write(c);
	now = clock_now_ns();
	stall_ns = c->closing ? CLOSING_NS : WRITE_STALL_NS;
	if (c->out_at == c->out.len) {
		c->moved_ns = now;
		if (c->closing)
			conn_close(c);
	} else if (now - c->moved_ns >= stall_ns) {
		conn_close(c);
	} else if (c->moved_ns + stall_ns < *due_ns) {
		*due_ns = c->moved_ns + stall_ns;
	}
}

static void
drain_wake(struct grpc_server *s)
{
	uint64_t n;

	while (read(s->wake, &n, sizeof n) < 0 && errno == EINTR)
		continue;
}

static bool
is_stopped(struct grpc_server *s)
{
	bool stopped;

	pthread_mutex_lock(&s->lock);
	stopped = s->stop;
	pthread_mutex_unlock(&s->lock);
	return stopped;
}

static void
fill_poll(const struct grpc_server *s, struct pollfd *p)
{
	bool open = deadline_left_ms(s->pause_ns) == 0;

	p[0] = (struct pollfd){.fd = s->wake, .events = POLLIN};
	p[1] = (struct pollfd){.fd = open ? s->fd : -1, .events = POLLIN};
	for (size_t i = 0; i < GRPC_SERVER_MAX_CONNS; i++) {
		const struct conn *c = &s->conn[i];
		size_t unsent = c->out.len - c->out_at;
		short events = unsent ? POLLOUT : 0;

		if (!c->closing && unsent < OUT_MAX)
			events |= POLLIN;
		p[i + 2] = (struct pollfd){.fd = c->fd, .events = events};
	}
}

static void *
serve(void *arg)
{
	struct grpc_server *s = arg;
	struct pollfd p[GRPC_SERVER_MAX_CONNS + 2];
	uint64_t due_ns = 0;

	while (!is_stopped(s)) {
		int ms = deadline_left_ms(due_ns);

		fill_poll(s, p);
		if (poll(p, GRPC_SERVER_MAX_CONNS + 2, ms < 1000 ? ms : 1000) < 0)
			continue;
		if (p[0].revents)
			drain_wake(s);
		jobs_answered(s);
		due_ns = UINT64_MAX;
		for (size_t i = 0; i < GRPC_SERVER_MAX_CONNS; i++)
			if (s->conn[i].fd >= 0)
				conn_step(&s->conn[i], p[i + 2].revents, &due_ns);
		if (p[1].revents)
			accept_one(s);
	}
	return NULL;
}

/* ---- beginning and end */

/* Does a service's method have a route of its own, instead of one request? */
static const struct job_kind *
kind_of(const ProtobufCMethodDescriptor *m)
{
	if (m->input == &gpu_sim__data_chunk__descriptor)
		return &job_stream_send;
	if (m->input == &gpu_sim__memcpy_request__descriptor)
		return &job_memcpy;
	return &job_unary;
}

/* The envelope's member that carries a method's request. */
static const ProtobufCFieldDescriptor *
field_of(const ProtobufCMessageDescriptor *input)
{
	const ProtobufCMessageDescriptor *d = &gpu_sim__request__descriptor;

	for (unsigned i = 0; i < d->n_fields; i++)
		if (d->fields[i].descriptor == input)
			return &d->fields[i];
	return NULL;
}

static void
service_routes(struct grpc_server *s, const ProtobufCServiceDescriptor *d)
{
	for (unsigned i = 0; i < d->n_methods && s->nroutes < ROUTES_MAX; i++) {
		const ProtobufCMethodDescriptor *m = &d->methods[i];
		struct route *r = &s->route[s->nroutes++];

		snprintf(r->path, sizeof r->path, "/%s/%s", d->name, m->name);
		r->kind = kind_of(m);
		r->many = r->kind == &job_stream_send;
		r->field = field_of(m->input);
	}
}

static struct grpc_server *
server_new(enum grpc_service service, const struct rpc_handler *h)
{
	struct grpc_server *s = calloc(1, sizeof *s);

	if (!s)
		return NULL;
	for (size_t i = 0; i < GRPC_SERVER_MAX_CONNS; i++)
		s->conn[i].fd = -1;
	s->fd = -1;
	s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->service = service;
	s->handler = *h;
	s->budget.left = GRPC_SERVER_HOLD;
	s->answered_tail = &s->answered;
	pthread_mutex_init(&s->lock, NULL);
	service_routes(s, service == GRPC_DEVICE ? &gpu_sim__gpudevice__descriptor
						 : &gpu_sim__gpucoordinator__descriptor);
	reflect_routes(s);
	return s;
}

enum rc
grpc_server_start(const char *host, enum net_reach reach, enum grpc_service service,
		  const struct rpc_handler *h, struct grpc_server **out, struct err *err)
{
	struct grpc_server *s = server_new(service, h);
	enum rc rc;
	int rv;

	if (!s)
		return err_set(err, RC_NOMEM, "out of memory");
	rc = s->wake < 0 ? err_set(err, RC_FAILED, "eventfd: %s", strerror(errno))
			 : net_listen(host, reach, GRPC_SERVER_MAX_CONNS, &s->fd, s->address, err);
	if (rc == RC_OK) {
		rv = pthread_create(&s->thread, NULL, serve, s);
		if (rv != 0)
			rc = err_set(err, RC_FAILED, "%s: %s", host, strerror(rv));
	}
	if (rc != RC_OK)
		grpc_server_free(s);
	else
		*out = s;
	return rc;
}

const char *
grpc_server_address(const struct grpc_server *s)
{
	return s->address;
}

void
grpc_server_stop(struct grpc_server *s)
{
	uint64_t one = 1;

	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_mutex_unlock(&s->lock);
	while (write(s->wake, &one, sizeof one) < 0 && errno == EINTR)
		continue;
	pthread_join(s->thread, NULL);
	s->ending = true;
	for (size_t i = 0; i < GRPC_SERVER_MAX_CONNS; i++)
		if (s->conn[i].fd >= 0) {
			grpc_session_goaway(s->conn[i].session);
			conn_write(&s->conn[i]);
			conn_close(&s->conn[i]);
		}
	jobs_stop(s);
}
