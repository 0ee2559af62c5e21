/*
 * Design notes. A request is answered on the server's thread, by MHD's callback. A deferred one suspends its
 * connection; http_reply, on any thread, stores the answer and wakes the server's thread, which resumes the
 * connection, and MHD calls again. A stream's connection is suspended whenever all events have been sent.
 */
#include "net/http_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define SLOWEST_BPS    16384 /* bytes a second, on average, after the first NET_HTTP_STALL_MS */
#define PATH_MAX_CHARS 1024
#define STREAM_BLOCK   16384

/* ---- the request */

const char *
http_ask_path(const struct http_ask *ask)
{
	return ask->path;
}

const char *
http_ask_argument(const struct http_ask *ask, const char *name)
{
	return MHD_lookup_connection_value(ask->mhd, MHD_GET_ARGUMENT_KIND, name);
}

const char *
http_ask_header(const struct http_ask *ask, const char *name)
{
	return MHD_lookup_connection_value(ask->mhd, MHD_HEADER_KIND, name);
}

static bool
is_path(const char *url)
{
	size_t n = strlen(url);

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)url[i] <= ' ' || (unsigned char)url[i] >= 0x7f)
			return false;
	return url[0] == '/' && n <= PATH_MAX_CHARS;
}

static size_t
head_bytes(const struct http_ask *ask)
{
	const union MHD_ConnectionInfo *i =
	    MHD_get_connection_info(ask->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

	return i ? i->header_size : 0;
}

/* Refuse bad requests, with the reason in the answer. */
static bool
refused(struct http_ask *ask, const char *method, const char *version)
{
	const struct http_server *s = ask->server;
	const char *line, *host = http_ask_header(ask, "Host");
	unsigned status = 400;

	if (head_bytes(ask) > HTTP_SERVER_HEAD_MAX) {
		status = 431;
		line = "the request's head is longer than 8 KiB\n";
	} else if (!is_path(ask->path)) {
		line = "the request's path is invalid\n";
	} else if (!host && strcmp(version, "HTTP/1.0") != 0) {
		/* RFC 9112, 3.2 */
		line = "the request has no Host header, which HTTP/1.1 requires\n";
	} else if (!http_host_allowed(host, s->address + strlen("http://"), s->cfg.reach,
				      s->cfg.names)) {
		status = 421;
		line = "the request names another host than this server: use localhost, its "
		       "address, or a name that its option --http-host allows\n";
	} else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
		status = 405;
		line = "only GET and HEAD are supported\n";
	} else {
		return false;
	}
	ask->answer = (struct http_answer){.status = status, .body = line, .nbytes = strlen(line)};
	if (status == 405)
		snprintf(ask->answer.headers, sizeof ask->answer.headers, "Allow: GET, HEAD\r\n");
	return true;
}

/* ---- the answer */

static void
free_text(void *arg)
{
	buf_fini(arg);
	free(arg);
}

void
http_answer_text(struct http_answer *out, unsigned status, const char *type, struct buf *text)
{
	struct buf *own = malloc(sizeof *own);

	if (!own) {
		buf_fini(text);
		*out = (struct http_answer){.status = 503};
		return;
	}
	*own = *text;
	*text = (struct buf){0};
	*out = (struct http_answer){.status = status,
				    .type = type,
				    .body = own->data,
				    .nbytes = own->len,
				    .release = free_text,
				    .arg = own};
}

void
http_answer_error(struct http_answer *out, unsigned status, const char *sentence)
{
	struct buf text = {0};

	if (buf_addf(&text, "%s\n", sentence))
		http_answer_text(out, status, NULL, &text);
	else
		*out = (struct http_answer){.status = 503};
}

static void
release(struct http_answer *a)
{
	if (a->release)
		a->release(a->arg);
	*a = (struct http_answer){0};
}

void
http_answer_fini(struct http_ask *ask)
{
	release(&ask->answer);
	http_reader_fini(&ask->server->feed, &ask->reader);
}

/* The next bytes of a stream: its body, then events. */
static ssize_t
read_stream(void *cls, uint64_t pos, char *out, size_t max)
{
	struct http_ask *ask = cls;
	size_t n = ask->answer.nbytes - ask->sent;
	ssize_t got;

	(void)pos;
	if (ask->ended)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (n > 0) {
		n = n < max ? n : max;
		memcpy(out, (const char *)ask->answer.body + ask->sent, n);
		ask->sent += n;
		return (ssize_t)n;
	}
	if (ask->answer.release) {
		release(&ask->answer);
		ask->sent = 0;
	}
	got = http_feed_read(&ask->server->feed, &ask->reader, out, max);
	if (got < 0)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	if (got == 0) {
		ask->suspended = true;
		MHD_suspend_connection(ask->mhd);
	}
	return got;
}

/* Add headers, "Name: value\r\n" each. */
static bool
add_headers(struct MHD_Response *r, const char *text)
{
	char line[768], *colon;

	for (; *text; text += strcspn(text, "\n") + 1) {
		snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\r\n"), text);
		colon = strchr(line, ':');
		if (!colon || colon[1] != ' ')
			return false;
		*colon = '\0';
		if (MHD_add_response_header(r, line, colon + 2) != MHD_YES)
			return false;
	}
	return true;
}

/* Begin to send ask->answer. */
static enum MHD_Result
queue(struct http_ask *ask)
{
	static const char common[] =
	    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
	    "Cross-Origin-Resource-Policy: same-origin\r\nReferrer-Policy: no-referrer\r\n"
	    "Connection: close\r\n";
	const struct http_answer *a = &ask->answer;
	bool streams = a->status == HTTP_STREAM;
	struct MHD_Response *r =
	    streams ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream,
							ask, NULL)
		    : MHD_create_response_from_buffer(a->nbytes, (void *)a->body,
						      MHD_RESPMEM_PERSISTENT);
	const char *type = streams ? "text/event-stream" : a->type ? a->type : "text/plain";
	enum MHD_Result rv = MHD_NO;

	ask->began_ns = clock_now_ns();
	ask->phase = streams ? HTTP_LISTENING : HTTP_WRITING;
	ask->due_ns = streams ? UINT64_MAX
			      : deadline_in_ms(NET_HTTP_STALL_MS + a->nbytes * 1000 / SLOWEST_BPS);
	if (r && MHD_add_response_header(r, "Content-Type", type) == MHD_YES &&
	    add_headers(r, common) && add_headers(r, a->headers))
		rv = MHD_queue_response(ask->mhd, streams ? 200 : a->status, r);
	if (r)
		MHD_destroy_response(r);
	return rv;
}

/* Add a listener, if there is room. */
static void
begin_stream(struct http_ask *ask)
{
	static const char full[] =
	    "too many clients listen to events: close one, or try again later\n";
	struct http_server *s = ask->server;

	if (atomic_load(&s->nlisteners) < HTTP_SERVER_MAX_STREAMS) {
		atomic_fetch_add(&s->nlisteners, 1);
		return;
	}
	release(&ask->answer);
	ask->answer = (struct http_answer){
	    .status = 503, .headers = "Retry-After: 5\r\n", .body = full, .nbytes = strlen(full)};
}

enum MHD_Result
http_on_request(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
		const char *version, const char *upload, size_t *nupload, void **req)
{
	static const char missing[] = "not found\n";
	const union MHD_ConnectionInfo *info =
	    MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct http_ask *ask = info ? info->socket_context : NULL;
	struct http_answer now = {.status = 404, .body = missing, .nbytes = strlen(missing)};

	(void)cls;
	(void)upload;
	(void)nupload;
	(void)req;
	if (!ask || ask->ended)
		return MHD_NO;
	if (ask->phase == HTTP_WAITING)
		return queue(ask);
	ask->path = url;
	if (refused(ask, method, version))
		return queue(ask);
	ask->reader.at = http_feed_next(&ask->server->feed);
	ask->phase = HTTP_WAITING; /* before fn: another thread may reply at once */
	ask->due_ns = UINT64_MAX;
	ask->server->cfg.fn(ask->server->cfg.arg, ask, &now);
	if (now.status == HTTP_LATER) {
		ask->suspended = true;
		MHD_suspend_connection(mhd);
		return MHD_YES;
	}
	ask->answer = now;
	if (now.status == HTTP_STREAM)
		begin_stream(ask);
	return queue(ask);
}

void
http_wake(struct http_server *s)
{
	uint64_t one = 1;

	while (write(s->wake, &one, sizeof one) < 0 && errno == EINTR)
		continue;
}

void
http_reply(struct http_ask *ask, const struct http_answer *answer)
{
	struct http_server *s = ask->server;

	ask->answer = *answer;
	atomic_store(&ask->replied, true);
	http_wake(s);
}
