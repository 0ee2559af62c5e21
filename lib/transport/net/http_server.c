/*
 * Design notes. libmicrohttpd reads requests and writes answers; this file owns connections, their number
 * and deadlines. One thread polls the listening socket, MHD's epoll and an eventfd, and hands accepted
 * sockets to MHD. So many clients lock nobody out: for one connection too many, the oldest that is not
 * being answered is shut down, else the oldest. Each phase of a connection has a deadline that a trickle
 * of bytes does not extend.
 *
 * Other threads only store an answer (http_reply) or an event (http_publish) and write to the eventfd.
 * Only the server's thread suspends, resumes and ends. README.md says what MHD does not bound.
 */
#include "net/http_server.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/http_impl.h"
#include "net/net.h"

#define DRAIN_MAX 65536 /* bytes */
#define POOL_BYTES \
	(3u << 13) /* of a connection in MHD: the request's head, the answer's head, buffers */

/* ---- one connection */

static void
http_end(struct http_ask *ask)
{
	if (ask->phase == HTTP_SILENT) {
		close(ask->fd);
		ask->fd = -1;
		return;
	}
	ask->ended = true;
	ask->due_ns = UINT64_MAX;
	shutdown(ask->fd, SHUT_RDWR);
	/* The thread that will answer has the ask's address. */
	if (ask->suspended && ask->phase != HTTP_WAITING) {
		ask->suspended = false;
		MHD_resume_connection(ask->mhd);
	}
}

static bool
is_live(const struct http_ask *ask)
{
	return ask->fd >= 0 && !ask->ended;
}

/* A suspended connection that has something to send. */
static bool
is_ready(const struct http_ask *ask)
{
	if (ask->fd < 0 || !ask->suspended)
		return false;
	if (ask->phase == HTTP_WAITING)
		return atomic_load(&ask->replied);
	return http_feed_next(&ask->server->feed) > ask->reader.at;
}

/* ---- the end of a connection: read what the peer still sends for a moment */

static void
drain_close(struct http_drain *d)
{
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
}

/* Find a free drain; close the oldest if there is none. */
static void
drain_begin(struct http_server *s, int fd)
{
	struct http_drain *to = &s->drain[0];

	for (size_t i = 0; i < HTTP_DRAINS && to->fd >= 0; i++)
		if (s->drain[i].fd < 0 || s->drain[i].due_ns < to->due_ns)
			to = &s->drain[i];
	drain_close(to);
	*to = (struct http_drain){.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3),
				  .due_ns = deadline_in_ms(NET_HTTP_DRAIN_MS)};
}

static void
drain_step(struct http_drain *d, bool readable)
{
	char waste[4096];
	ssize_t n = readable ? recv(d->fd, waste, sizeof waste, MSG_DONTWAIT) : -1;

	if (n > 0)
		d->nbytes += (size_t)n;
	if (n == 0 || (readable && n < 0 && errno != EAGAIN && errno != EINTR) ||
	    d->nbytes > DRAIN_MAX || clock_now_ns() >= d->due_ns)
		drain_close(d);
}

/* The entry of a connection that MHD starts; NULL if it was given up. */
static struct http_ask *
place_of(struct http_server *s, struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *i =
	    MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

	for (size_t k = 0; i && k < HTTP_PLACES; k++)
		if (s->ask[k].phase == HTTP_HANDED && s->ask[k].fd == i->connect_fd)
			return &s->ask[k];
	return NULL;
}

/* MHD starts a connection, in MHD_add_connection or MHD_run, depending on its version, or closes one. */
static void
on_connection(void *cls, struct MHD_Connection *mhd, void **context,
	      enum MHD_ConnectionNotificationCode what)
{
	struct http_server *s = cls;
	struct http_ask *ask;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		ask = *context = place_of(s, mhd);
		if (ask) {
			ask->mhd = mhd;
			ask->phase = HTTP_READING;
		}
		return;
	}
	ask = *context;
	if (!ask)
		return;
	if (ask->phase == HTTP_LISTENING)
		atomic_fetch_sub(&s->nlisteners, 1);
	http_answer_fini(ask);
	if (!ask->ended)
		drain_begin(s, ask->fd);
	ask->fd = -1;
}

/* ---- accepting */

static void
peer_of(const struct sockaddr_storage *ss, unsigned char out[16])
{
	memset(out, 0, 16);
	if (ss->ss_family == AF_INET6)
		memcpy(out, &((const struct sockaddr_in6 *)ss)->sin6_addr, 16);
	else if (ss->ss_family == AF_INET)
		memcpy(out + 12, &((const struct sockaddr_in *)ss)->sin_addr, 4);
}

/* Count the connections from an address (NULL: all), and find the one to close. */
static size_t
crowd(struct http_server *s, const unsigned char *peer, struct http_ask **worst)
{
	size_t n = 0;

	*worst = NULL;
	for (size_t i = 0; i < HTTP_PLACES; i++) {
		struct http_ask *a = &s->ask[i], *w = *worst;

		if (!is_live(a) || (peer && memcmp(a->peer, peer, sizeof a->peer) != 0))
			continue;
		n++;
		if (!w || (a->phase <= HTTP_READING) > (w->phase <= HTTP_READING) ||
		    ((a->phase <= HTTP_READING) == (w->phase <= HTTP_READING) &&
		     a->began_ns < w->began_ns))
			*worst = a;
	}
	return n;
}

static struct http_ask *
free_place(struct http_server *s)
{
	for (size_t i = 0; i < HTTP_PLACES; i++)
		if (s->ask[i].fd < 0)
			return &s->ask[i];
	return NULL;
}

static void
accept_one(struct http_server *s)
{
	struct sockaddr_storage ss = {0};
	unsigned char peer[16];
	socklen_t n = sizeof ss;
	int fd = accept4(s->fd, (struct sockaddr *)&ss, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct http_ask *ask = free_place(s);
	struct http_ask *worst;

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			s->pause_ns = deadline_in_ms(NET_ACCEPT_PAUSE_MS);
		return;
	}
	if (!ask) {
		close(fd);
		return;
	}
	peer_of(&ss, peer);
	if (crowd(s, peer, &worst) >= HTTP_SERVER_MAX_PEER ||
	    crowd(s, NULL, &worst) >= HTTP_SERVER_MAX_CONNS)
		http_end(worst);
	*ask = (struct http_ask){.server = s,
				 .fd = fd,
				 .phase = HTTP_SILENT,
				 .address = ss,
				 .naddress = n,
				 .began_ns = clock_now_ns(),
				 .due_ns = deadline_in_ms(NET_HTTP_HEAD_MS)};
	memcpy(ask->peer, peer, sizeof peer);
}

/* The first byte of a connection has arrived: pass it to MHD, unless it cannot begin a request. */
static void
hand_over(struct http_server *s, struct http_ask *ask)
{
	static const char none[] = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n"
				   "Content-Length: 14\r\nConnection: close\r\n\r\n"
				   "not a request\n";
	char first = '\0';
	ssize_t n = recv(ask->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == 1 && first >= 'A' && first <= 'Z') {
		ask->phase = HTTP_HANDED;
		MHD_add_connection(s->mhd, ask->fd, (struct sockaddr *)&ask->address,
				   ask->naddress);
		return;
	}
	if (n == 1 && send(ask->fd, none, strlen(none), MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {
		shutdown(ask->fd, SHUT_WR);
		drain_begin(s, ask->fd);
	}
	http_end(ask);
}

/* ---- the loop */

static int
sooner(int ms, uint64_t due_ns)
{
	int left = due_ns == UINT64_MAX ? ms : deadline_left_ms(due_ns);

	return left < ms ? left : ms;
}

/* Milliseconds until something is due, at most a second. */
static int
next_due_ms(struct http_server *s)
{
	MHD_UNSIGNED_LONG_LONG mhd_ms;
	int ms = 1000;

	if (MHD_get_timeout(s->mhd, &mhd_ms) == MHD_YES && mhd_ms < 1000)
		ms = (int)mhd_ms;
	for (size_t i = 0; i < HTTP_PLACES; i++)
		if (is_live(&s->ask[i]))
			ms = sooner(ms, s->ask[i].due_ns);
	for (size_t i = 0; i < HTTP_DRAINS; i++)
		if (s->drain[i].fd >= 0)
			ms = sooner(ms, s->drain[i].due_ns);
	if (deadline_left_ms(s->pause_ns) > 0)
		ms = sooner(ms, s->pause_ns);
	return ms;
}

/* The polled descriptors: three of the server, its drains, and silent connections. */
enum { WAKE, LISTEN, EPOLL, DRAIN, SILENT = DRAIN + HTTP_DRAINS, NPOLLED = SILENT + HTTP_PLACES };

static void
choose(struct http_server *s, struct pollfd p[NPOLLED])
{
	bool open = deadline_left_ms(s->pause_ns) == 0;

	p[WAKE] = (struct pollfd){.fd = s->wake, .events = POLLIN};
	p[LISTEN] = (struct pollfd){.fd = open ? s->fd : -1, .events = POLLIN};
	p[EPOLL] = (struct pollfd){.fd = s->epoll, .events = POLLIN};
	for (size_t i = 0; i < HTTP_DRAINS; i++)
		p[DRAIN + i] = (struct pollfd){.fd = s->drain[i].fd, .events = POLLIN};
	for (size_t i = 0; i < HTTP_PLACES; i++)
		p[SILENT + i] = (struct pollfd){
		    .fd = s->ask[i].phase == HTTP_SILENT ? s->ask[i].fd : -1, .events = POLLIN};
}

static void
step(struct http_server *s, const struct pollfd p[NPOLLED])
{
	uint64_t n;
	uint64_t now;

	if (p[WAKE].revents && read(s->wake, &n, sizeof n) < 0 && errno != EAGAIN)
		return;
	for (size_t i = 0; i < HTTP_DRAINS; i++)
		if (s->drain[i].fd >= 0)
			drain_step(&s->drain[i], p[DRAIN + i].revents != 0);
	for (size_t i = 0; i < HTTP_PLACES; i++)
		if (p[SILENT + i].revents)
			hand_over(s, &s->ask[i]);
	for (size_t i = 0; i < HTTP_PLACES; i++)
		if (is_ready(&s->ask[i])) {
			s->ask[i].suspended = false;
			MHD_resume_connection(s->ask[i].mhd);
		}
	MHD_run(s->mhd);
	MHD_run(s->mhd); /* libmicrohttpd 1.0 reads a request only in the second run */
	/* MHD has refused these and closed their sockets. */
	for (size_t i = 0; i < HTTP_PLACES; i++)
		if (s->ask[i].phase == HTTP_HANDED)
			s->ask[i] = (struct http_ask){.fd = -1};
	now = clock_now_ns();
	for (size_t i = 0; i < HTTP_PLACES; i++)
		if (is_live(&s->ask[i]) && now >= s->ask[i].due_ns)
			http_end(&s->ask[i]);
	/* Last: a new connection must not displace one whose request has arrived. */
	if (p[LISTEN].revents)
		accept_one(s);
}

static void *
serve(void *arg)
{
	struct http_server *s = arg;
	struct pollfd p[NPOLLED];

	while (!atomic_load(&s->stops)) {
		choose(s, p);
		if (poll(p, NPOLLED, next_due_ms(s)) >= 0)
			step(s, p);
	}
	return NULL;
}

/* ---- events */

static enum rc
publish(struct http_server *s, struct buf *text, bool good)
{
	enum rc rc = RC_NOMEM;

	if (good)
		rc = http_feed_put(&s->feed, text);
	else
		buf_fini(text);
	if (rc == RC_OK)
		http_wake(s);
	return rc;
}

enum rc
http_publish(struct http_server *s, const char *event, uint64_t id, const char *data, size_t n)
{
	struct buf text = {0};

	return publish(s, &text, http_event(&text, event, id, data, n));
}

enum rc
http_heartbeat(struct http_server *s)
{
	struct buf text = {0};

	return publish(s, &text, buf_addf(&text, ":\n\n"));
}

unsigned
http_listeners(struct http_server *s)
{
	return atomic_load(&s->nlisteners);
}

/* ---- start and stop */

/* Escapes are not decoded. */
static size_t
keep_escapes(void *cls, struct MHD_Connection *mhd, char *text)
{
	(void)cls;
	(void)mhd;
	return strlen(text);
}

static enum rc
begin_mhd(struct http_server *s, struct err *err)
{
	const union MHD_DaemonInfo *info;

	s->mhd = MHD_start_daemon(
	    MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
	    http_on_request, s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
	    MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_CONNECTION_LIMIT,
	    (unsigned)HTTP_PLACES, MHD_OPTION_CONNECTION_TIMEOUT,
	    (unsigned)(NET_HTTP_STALL_MS / 1000), MHD_OPTION_CONNECTION_MEMORY_LIMIT,
	    (size_t)POOL_BYTES, MHD_OPTION_END);
	info = s->mhd ? MHD_get_daemon_info(s->mhd, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
	if (!info)
		return err_set(err, RC_FAILED, "cannot start the HTTP library");
	s->epoll = info->epoll_fd;
	return RC_OK;
}

/* No connection may be suspended when MHD ends. */
static void
end_mhd(struct http_server *s)
{
	for (size_t i = 0; i < HTTP_PLACES; i++) {
		struct http_ask *ask = &s->ask[i];

		if (ask->fd < 0)
			continue;
		if (ask->phase == HTTP_SILENT) {
			http_end(ask);
			continue;
		}
		ask->ended = true;
		if (ask->suspended)
			MHD_resume_connection(ask->mhd);
		ask->suspended = false;
	}
	MHD_run(s->mhd);
	MHD_stop_daemon(s->mhd);
}

static void
server_free(struct http_server *s)
{
	if (s->mhd)
		end_mhd(s);
	for (size_t i = 0; i < HTTP_DRAINS; i++)
		drain_close(&s->drain[i]);
	if (s->fd >= 0)
		close(s->fd);
	if (s->wake >= 0)
		close(s->wake);
	http_feed_fini(&s->feed);
	free(s);
}

enum rc
http_server_start(const struct http_config *cfg, struct http_server **out, struct err *err)
{
	struct http_server *s = calloc(1, sizeof *s);
	char addr[NET_ADDR_MAX];
	enum rc rc;
	int rv;

	if (!s)
		return err_set(err, RC_NOMEM, "out of memory");
	for (size_t i = 0; i < HTTP_DRAINS; i++)
		s->drain[i].fd = -1;
	for (size_t i = 0; i < HTTP_PLACES; i++)
		s->ask[i].fd = -1;
	s->fd = -1;
	s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->cfg = *cfg;
	http_feed_init(&s->feed);
	rc = s->wake < 0
		 ? err_set(err, RC_FAILED, "eventfd: %s", strerror(errno))
		 : net_listen(cfg->host, cfg->reach, HTTP_SERVER_MAX_CONNS, &s->fd, addr, err);
	if (rc == RC_OK)
		rc = begin_mhd(s, err);
	if (rc == RC_OK) {
		snprintf(s->address, sizeof s->address, "http://%.*s", NET_ADDR_MAX - 8, addr);
		rv = pthread_create(&s->thread, NULL, serve, s);
		if (rv != 0)
			rc = err_set(err, RC_FAILED, "%s: %s", cfg->host, strerror(rv));
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
	if (!s)
		return;
	atomic_store(&s->stops, true);
	http_wake(s);
	pthread_join(s->thread, NULL);
	server_free(s);
}
