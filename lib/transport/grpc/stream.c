/*
 * One call: its headers, its messages, its answer. See session.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/le.h"
#include "grpc/session_impl.h"

#define OUT_ROOM \
	65536	 /* bytes of answers that wait to be sent before the handler gets more messages */
#define PREFIX 5 /* bytes before a message: compressed or not, and its length, big-endian */

struct grpc_stream *
stream_new(struct grpc_session *s, int32_t id)
{
	struct grpc_stream *st = calloc(1, sizeof *st);

	if (!st || nghttp2_session_set_stream_user_data(s->h2, id, st) != 0) {
		free(st);
		return NULL;
	}
	st->session = s;
	st->id = id;
	st->identity = true;
	st->timeout_ns = GRPC_DEADLINE_NS;
	st->moved_ns = s->now_ns;
	st->prev = s->last;
	*(s->last ? &s->last->next : &s->first) = st;
	s->last = st;
	s->nstreams++;
	return st;
}

static void
give_back(struct grpc_stream *st)
{
	st->session->budget->left += st->granted;
	st->session->held -= st->granted;
	st->granted = 0;
}

void
stream_free(struct grpc_stream *st)
{
	struct grpc_session *s = st->session;

	nghttp2_session_set_stream_user_data(s->h2, st->id, NULL);
	*(st->prev ? &st->prev->next : &s->first) = st->next;
	*(st->next ? &st->next->prev : &s->last) = st->prev;
	s->nstreams--;
	give_back(st);
	buf_fini(&st->in);
	buf_fini(&st->out);
	free(st);
}

void
stream_gone(struct grpc_stream *st)
{
	const struct grpc_events *ev = st->session->events;

	if (st->begun && !st->finished) {
		st->finished = true;
		ev->gone(ev->arg, st);
	}
}

/* ---- the head */

static bool
is(const char *text, size_t n, const char *word)
{
	return strlen(word) == n && memcmp(text, word, n) == 0;
}

/* "application/grpc", alone or with +proto or parameters. */
static bool
is_grpc(const char *value, size_t n)
{
	static const char type[] = "application/grpc", proto[] = "+proto";

	if (n < strlen(type) || strncasecmp(value, type, strlen(type)) != 0)
		return false;
	value += strlen(type);
	n -= strlen(type);
	if (n >= strlen(proto) && strncasecmp(value, proto, strlen(proto)) == 0) {
		value += strlen(proto);
		n -= strlen(proto);
	}
	return n == 0 || *value == ';' || *value == ' ';
}

void
stream_header(struct grpc_stream *st, const char *name, size_t nname, const char *value,
	      size_t nvalue)
{
	st->head_bytes += nname + nvalue + 32; /* as HTTP/2 counts them */
	if (is(name, nname, ":path"))
		snprintf(st->path, sizeof st->path, "%.*s",
			 nvalue < sizeof st->path ? (int)nvalue : 0, value);
	else if (is(name, nname, ":method"))
		st->post = is(value, nvalue, "POST");
	else if (is(name, nname, "content-type"))
		st->grpc = is_grpc(value, nvalue);
	else if (is(name, nname, "te"))
		st->trailers = is(value, nvalue, "trailers");
	else if (is(name, nname, "grpc-encoding"))
		st->identity = is(value, nvalue, "identity");
	else if (is(name, nname, "grpc-timeout"))
		st->timed_wrong = !grpc_timeout_parse(value, nvalue, &st->timeout_ns);
}

/* ---- the answer */

#define FIELD(name, value)                                                          \
	(nghttp2_nv)                                                                \
	{                                                                           \
		(uint8_t *)(name), (uint8_t *)(value), strlen(name), strlen(value), \
		    NGHTTP2_NV_FLAG_NONE                                            \
	}

static size_t
fill_status(const struct grpc_stream *st, char number[12], nghttp2_nv *nv)
{
	size_t n = 0;

	snprintf(number, 12, "%d", (int)st->code);
	nv[n++] = FIELD("grpc-status", number);
	if (st->text[0])
		nv[n++] = FIELD("grpc-message", st->text);
	return n;
}

static void take(struct grpc_stream *st);

/* Move bytes to send; returns how many. When all are sent, the client's next messages are delivered. */
static size_t
drain(struct grpc_stream *st, uint8_t *to, size_t room)
{
	size_t left = st->out.len - st->out_at, n = left < room ? left : room;

	if (n) {
		memcpy(to, st->out.data + st->out_at, n);
		st->moved_ns = st->session->now_ns;
	}
	st->out_at += n;
	if (st->out_at == st->out.len) {
		st->out.len = st->out_at = 0;
		if (!st->finished)
			take(st);
	}
	return n;
}

static ssize_t
on_read(nghttp2_session *h2, int32_t id, uint8_t *to, size_t room, uint32_t *flags,
	nghttp2_data_source *source, void *arg)
{
	struct grpc_stream *st = source->ptr;
	size_t n = drain(st, to, room);
	char number[12];
	nghttp2_nv nv[2];

	(void)arg;
	if (n == 0 && st->out.len)
		n = drain(st, to, room);
	if (st->out.len)
		return (ssize_t)n;
	if (!st->finished)
		return n ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
	*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
	if (nghttp2_submit_trailer(h2, id, nv, fill_status(st, number, nv)) != 0)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	return (ssize_t)n;
}

/* Send the headers, with the status if no message comes before it, or go on sending. */
static void
answer(struct grpc_stream *st, const char *http_status)
{
	const nghttp2_data_provider data = {.source.ptr = st, .read_callback = on_read};
	nghttp2_session *h2 = st->session->h2;
	nghttp2_nv nv[8] = {FIELD(":status", http_status),
			    FIELD("content-type", "application/grpc"),
			    FIELD("grpc-accept-encoding", "identity")};
	bool alone = st->finished && st->out.len == 0;
	char number[12];
	size_t n = 3;

	if (st->answering) {
		nghttp2_session_resume_data(h2, st->id);
		return;
	}
	st->answering = true;
	if (alone)
		n += fill_status(st, number, nv + n);
	if (nghttp2_submit_response(h2, st->id, nv, n, alone ? NULL : &data) != 0)
		nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, st->id, NGHTTP2_INTERNAL_ERROR);
}

void *
grpc_stream_message(struct grpc_stream *st, size_t nbytes)
{
	unsigned char *at;

	if (nbytes > UINT32_MAX || !buf_reserve(&st->out, PREFIX + nbytes))
		return NULL;
	at = (unsigned char *)st->out.data + st->out.len;
	at[0] = 0;
	for (int i = 0; i < 4; i++)
		at[1 + i] = (unsigned char)(nbytes >> (24 - 8 * i));
	st->out.len += PREFIX + nbytes;
	st->moved_ns = st->session->now_ns;
	answer(st, "200");
	return at + PREFIX;
}

static void
finish(struct grpc_stream *st, const char *http_status, enum grpc_code code, const char *text)
{
	if (st->finished)
		return;
	st->finished = true;
	st->code = code;
	st->moved_ns = st->session->now_ns;
	grpc_message_encode(text ? text : "", st->text, sizeof st->text);
	buf_fini(&st->in);
	st->in_at = 0;
	st->want = 0;
	/* Unused bytes of the client must not close the window for its other calls. */
	nghttp2_session_consume_stream(st->session->h2, st->id, st->unconsumed);
	st->unconsumed = 0;
	answer(st, http_status);
}

void
grpc_stream_finish(struct grpc_stream *st, enum grpc_code code, const char *text)
{
	finish(st, "200", code, text);
}

/* The session ends a call. */
static void
end_call(struct grpc_stream *st, enum grpc_code code, const char *text)
{
	const struct grpc_events *ev = st->session->events;

	if (st->finished)
		return;
	finish(st, "200", code, text);
	ev->gone(ev->arg, st);
}

/* ---- messages */

static bool
stream_grant(struct grpc_stream *st)
{
	struct grpc_session *s = st->session;

	if (st->want > s->budget->left || s->held + st->want > GRPC_SESSION_HOLD)
		return false;
	s->budget->left -= st->want;
	s->held += st->want;
	st->granted += st->want;
	st->want = 0;
	return true;
}

/* Give the client window for n more bytes, or for all received bytes. */
static void
consume(struct grpc_stream *st, size_t n)
{
	n = n < st->unconsumed ? n : st->unconsumed;
	if (n)
		nghttp2_session_consume_stream(st->session->h2, st->id, n);
	st->unconsumed -= n;
}

/* Check a message's first bytes; 0: valid. */
static enum grpc_code
check_prefix(const struct grpc_stream *st, const unsigned char *p, size_t nbytes, char *text,
	     size_t size)
{
	if (p[0] > 1) {
		snprintf(text, size, "a message begins with byte %u, not with 0 or 1", p[0]);
		return GRPC_INTERNAL;
	}
	if (p[0] == 1) {
		snprintf(text, size, "a message is compressed without a grpc-encoding");
		return GRPC_INTERNAL;
	}
	if (nbytes > GRPC_MESSAGE_MAX) {
		snprintf(text, size, "message of %zu bytes: the limit is %u", nbytes,
			 GRPC_MESSAGE_MAX);
		return GRPC_RESOURCE_EXHAUSTED;
	}
	if (!st->method.many && st->nmessages) {
		snprintf(text, size, "the method takes one message, but received more");
		return GRPC_UNIMPLEMENTED;
	}
	return GRPC_OK;
}

/* A message is incomplete: make sure that it can be completed. Up to half a window it can: the window that
 * we give back is announced to the client when it is half of all, so the client may know of no more than
 * the rest. */
static void
await_rest(struct grpc_stream *st, size_t nbytes)
{
	if (PREFIX + nbytes <= STREAM_WINDOW / 2)
		return;
	if (st->granted == 0 && st->want == 0) {
		st->want = nbytes;
		stream_grant(st);
	}
	if (st->granted == 0)
		return;
	if (st->large_ns == 0) {
		st->large_ns = st->session->now_ns + GRPC_LARGE_NS;
		/* Take all of it at once: only the end comes after the only message. */
		if (!st->method.many)
			nghttp2_session_set_local_window_size(
			    st->session->h2, NGHTTP2_FLAG_NONE, st->id,
			    (int32_t)(PREFIX + nbytes) + STREAM_WINDOW);
	}
	consume(st, st->unconsumed);
}

/* Deliver the next message; false: it is not complete yet, or the call is over. */
static bool
next_message(struct grpc_stream *st)
{
	size_t left = st->in.len - st->in_at, nbytes;
	const unsigned char *p;
	enum grpc_code code;
	char text[128];
	const struct grpc_events *ev;
	const char *data;

	if (left < PREFIX)
		return false;
	p = (const unsigned char *)st->in.data + st->in_at;
	nbytes = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
	code = check_prefix(st, p, nbytes, text, sizeof text);
	if (code != GRPC_OK) {
		end_call(st, code, text);
		return false;
	}
	if (left < PREFIX + nbytes) {
		await_rest(st, nbytes);
		return false;
	}
	if (!st->method.many && left > PREFIX + nbytes) {
		end_call(st, GRPC_UNIMPLEMENTED, "the method takes one message, but received more");
		return false;
	}
	if (!st->method.many && !st->ended)
		return false;
	/* Deliver the message that begins at in_at. */
	ev = st->session->events;
	data = st->in.data + st->in_at + PREFIX;
	st->nmessages++;
	st->in_at += PREFIX + nbytes;
	st->large_ns = 0;
	consume(st, PREFIX + nbytes);
	ev->message(ev->arg, st, data, nbytes);
	return true;
}

/* Deliver every message that can be delivered. */
static void
take(struct grpc_stream *st)
{
	const struct grpc_events *ev = st->session->events;

	if (st->taking)
		return;
	st->taking = true;
	/* If a client does not read its answers, its messages are not handled. */
	while (!st->finished && !st->held && st->out.len < OUT_ROOM && next_message(st))
		continue;
	st->taking = false;
	if (st->finished)
		return;
	/* Drop the messages that were delivered. */
	if (st->in_at == st->in.len) {
		buf_fini(&st->in);
		st->in_at = 0;
	} else if (st->in_at > STREAM_WINDOW) {
		memmove(st->in.data, st->in.data + st->in_at, st->in.len - st->in_at);
		st->in.len -= st->in_at;
		st->in_at = 0;
	}
	if (st->held || !st->ended || st->end_told || st->out.len >= OUT_ROOM)
		return;
	if (st->in.len > st->in_at) {
		end_call(st, GRPC_INTERNAL, "the last message is truncated");
	} else if (!st->method.many && st->nmessages == 0) {
		end_call(st, GRPC_UNIMPLEMENTED, "the method takes one message, but received none");
	} else {
		st->end_told = true;
		ev->end(ev->arg, st);
	}
}

void
stream_data(struct grpc_stream *st, const void *data, size_t nbytes)
{
	st->moved_ns = st->session->now_ns;
	if (!buf_add(&st->in, data, nbytes)) {
		end_call(st, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	st->unconsumed += nbytes;
	take(st);
}

void
stream_ended(struct grpc_stream *st)
{
	st->ended = true;
	if (!st->finished)
		take(st);
}

void
stream_begin(struct grpc_stream *st)
{
	const struct grpc_events *ev = st->session->events;
	uint64_t now = st->session->now_ns;

	st->begun = true;
	st->deadline_ns = st->timeout_ns < UINT64_MAX - now ? now + st->timeout_ns : UINT64_MAX;
	if (!st->post)
		finish(st, "405", GRPC_UNIMPLEMENTED, "the method is not POST");
	else if (!st->grpc)
		finish(st, "415", GRPC_UNKNOWN, "the content-type is not application/grpc");
	else if (st->head_bytes > GRPC_HEAD_MAX)
		finish(st, "200", GRPC_RESOURCE_EXHAUSTED, "the headers have more than 8192 bytes");
	else if (!st->trailers)
		finish(st, "400", GRPC_INTERNAL, "no header 'te: trailers'");
	else if (!st->identity)
		finish(st, "200", GRPC_UNIMPLEMENTED, "compressed messages are not supported");
	else if (st->timed_wrong)
		finish(st, "200", GRPC_INVALID_ARGUMENT, "malformed header grpc-timeout");
	else if (!ev->find(ev->arg, st->path, &st->method))
		finish(st, "200", GRPC_UNIMPLEMENTED, "no such method");
	else
		ev->begin(ev->arg, st);
}

/* ---- time */

static void
due(uint64_t at_ns, uint64_t *due_ns)
{
	if (at_ns < *due_ns)
		*due_ns = at_ns;
}

/* The client reads nothing, or has stopped sending its message. */
static void
check_stall(struct grpc_stream *st, uint64_t *due_ns)
{
	uint64_t now = st->session->now_ns;
	bool waits = st->finished || st->out.len || (!st->ended && !st->held && st->want == 0);

	if (!waits)
		return;
	if (now - st->moved_ns < GRPC_STALL_NS) {
		due(st->moved_ns + GRPC_STALL_NS, due_ns);
	} else if (!st->finished && !st->answering) {
		end_call(st, GRPC_DEADLINE_EXCEEDED, "the client has sent nothing for a minute");
	} else {
		st->moved_ns = now;
		nghttp2_submit_rst_stream(st->session->h2, NGHTTP2_FLAG_NONE, st->id,
					  NGHTTP2_CANCEL);
	}
}

void
stream_tick(struct grpc_stream *st, uint64_t *due_ns)
{
	const struct grpc_events *ev = st->session->events;
	uint64_t now = st->session->now_ns;

	if (!st->begun) { /* its headers are still coming, and no other frame can come before them */
		due(st->moved_ns + GRPC_HELLO_NS, due_ns);
		st->session->closing |= now - st->moved_ns >= GRPC_HELLO_NS;
		return;
	}
	check_stall(st, due_ns);
	if (st->finished)
		return;
	if (now >= st->deadline_ns) {
		end_call(st, GRPC_DEADLINE_EXCEEDED, "the deadline has passed");
		return;
	}
	if (st->large_ns && now >= st->large_ns) {
		end_call(st, GRPC_DEADLINE_EXCEEDED, "a message took more than a minute to arrive");
		return;
	}
	due(st->deadline_ns, due_ns);
	if (st->large_ns)
		due(st->large_ns, due_ns);
	if (st->want && stream_grant(st)) {
		if (st->reserving)
			st->wake_ns = now;
		else
			take(st);
	}
	if (st->finished || st->wake_ns == 0)
		return;
	if (now < st->wake_ns) {
		due(st->wake_ns, due_ns);
		return;
	}
	st->wake_ns = 0;
	ev->wake(ev->arg, st);
}

/* ---- for the handler */

void
grpc_stream_keep(struct grpc_stream *st, void *user)
{
	st->user = user;
}

void *
grpc_stream_kept(const struct grpc_stream *st)
{
	return st->user;
}

const struct grpc_method *
grpc_stream_method(const struct grpc_stream *st)
{
	return &st->method;
}

uint64_t
grpc_stream_deadline_ns(const struct grpc_stream *st)
{
	return st->deadline_ns;
}

void
grpc_stream_hold(struct grpc_stream *st)
{
	st->held = true;
}

void
grpc_stream_resume(struct grpc_stream *st)
{
	st->held = false;
	st->moved_ns = st->session->now_ns;
	if (st->method.many)
		give_back(st);
	take(st);
}

void
grpc_stream_wake(struct grpc_stream *st, uint64_t at_ns)
{
	st->wake_ns = at_ns;
}

bool
grpc_stream_reserve(struct grpc_stream *st, size_t nbytes)
{
	st->want = nbytes;
	st->reserving = !stream_grant(st);
	return !st->reserving;
}
