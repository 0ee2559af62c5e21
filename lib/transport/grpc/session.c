/*
 * Design notes. nghttp2 does frames and header compression, and calls back while bytes are fed to it;
 * frames that are submitted there are sent later. It guards itself against floods that make it answer
 * (SETTINGS, PING) and against headers of more than 64 KiB. The rest is bounded here: a bucket of tokens
 * for calls that are taken back at once (CVE-2023-44487), and one for frames that move nothing.
 *
 * A client may send 16 KiB of a call unasked (64, HTTP/2's default, until it has acknowledged our settings,
 * for which it has a few seconds and a megabyte). The connection as a whole may carry any number of calls'
 * worth: its own window is given back at once. A larger message gets window for its rest only when its
 * bytes have been taken from the budget. So messages that wait for room hold no memory, and a message that
 * has room can always be completed.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "grpc/session_impl.h"

#define CONNECTION_WINDOW (1 << 20)
#define EARLY_MAX \
	(1u << 20) /* bytes of calls from a client that has not acknowledged our settings */
#define HEADER_LIST_MAX 16384 /* announced to the client; GRPC_HEAD_MAX bounds what we keep */

/* Buckets: this many at once, and one more each so many nanoseconds. */
#define RESETS_MAX  500
#define RESET_NS    (10 * NS_PER_MS)
#define USELESS_MAX 10000
#define USELESS_NS  (NS_PER_MS / 5)

/* False: it is empty. */
static bool
bucket_take(struct bucket *b, uint64_t now_ns, uint64_t each_ns, uint64_t max)
{
	uint64_t from = b->full_ns > now_ns ? b->full_ns : now_ns;

	if (from + each_ns - now_ns > max * each_ns)
		return false;
	b->full_ns = from + each_ns;
	return true;
}

static void
enough(struct grpc_session *s)
{
	if (!s->closing)
		nghttp2_session_terminate_session(s->h2, NGHTTP2_ENHANCE_YOUR_CALM);
	s->closing = true;
}

static struct grpc_stream *
stream_of(struct grpc_session *s, int32_t id)
{
	return nghttp2_session_get_stream_user_data(s->h2, id);
}

/* ---- callbacks of nghttp2 */

static int
on_begin_headers(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
	struct grpc_session *s = arg;

	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	if (s->closing || s->nstreams >= 2 * GRPC_STREAMS_MAX ||
	    !stream_new(s, frame->hd.stream_id))
		nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
					  NGHTTP2_REFUSED_STREAM);
	return 0;
}

static int
on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name, size_t nname,
	  const uint8_t *value, size_t nvalue, uint8_t flags, void *arg)
{
	struct grpc_stream *st = stream_of(arg, frame->hd.stream_id);

	(void)h2;
	(void)flags;
	if (st && !st->begun)
		stream_header(st, (const char *)name, nname, (const char *)value, nvalue);
	return 0;
}

static int
on_begin_frame(nghttp2_session *h2, const nghttp2_frame_hd *hd, void *arg)
{
	struct grpc_session *s = arg;
	bool moves =
	    (hd->type == NGHTTP2_HEADERS) || hd->type == NGHTTP2_WINDOW_UPDATE ||
	    (hd->type == NGHTTP2_DATA && (hd->length || hd->flags & NGHTTP2_FLAG_END_STREAM));

	(void)h2;
	if (!moves && !bucket_take(&s->useless, s->now_ns, USELESS_NS, USELESS_MAX))
		enough(s);
	return 0;
}

static int
on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
	struct grpc_session *s = arg;
	struct grpc_stream *st = stream_of(s, frame->hd.stream_id);

	(void)h2;
	if (frame->hd.type == NGHTTP2_SETTINGS) {
		s->greeted = true;
		s->agreed |= (frame->hd.flags & NGHTTP2_FLAG_ACK) != 0;
	}
	if (frame->hd.type == NGHTTP2_RST_STREAM &&
	    !bucket_take(&s->resets, s->now_ns, RESET_NS, RESETS_MAX))
		enough(s);
	if (!st || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
		return 0;
	if (!st->begun)
		stream_begin(st);
	if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
		stream_ended(st);
	return 0;
}

static int
on_data(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *data, size_t nbytes,
	void *arg)
{
	struct grpc_session *s = arg;
	struct grpc_stream *st = stream_of(s, id);

	(void)flags;
	if (!s->agreed && (s->early += nbytes) > EARLY_MAX)
		enough(s);
	nghttp2_session_consume_connection(h2, nbytes);
	if (st && !st->finished)
		stream_data(st, data, nbytes);
	else
		nghttp2_session_consume_stream(h2, id, nbytes);
	return 0;
}

/* The answer is sent, and the client is still sending: tell it to stop. */
static int
on_sent(nghttp2_session *h2, const nghttp2_frame *frame, void *arg)
{
	(void)arg;
	if (frame->hd.type == NGHTTP2_HEADERS && frame->hd.flags & NGHTTP2_FLAG_END_STREAM &&
	    nghttp2_session_get_stream_remote_close(h2, frame->hd.stream_id) == 0)
		nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
					  NGHTTP2_NO_ERROR);
	return 0;
}

static int
on_close(nghttp2_session *h2, int32_t id, uint32_t code, void *arg)
{
	struct grpc_stream *st = stream_of(arg, id);

	(void)h2;
	(void)code;
	if (!st)
		return 0;
	stream_gone(st);
	stream_free(st);
	return 0;
}

/* ---- beginning and end */

static enum rc
open_h2(struct grpc_session *s)
{
	nghttp2_session_callbacks *cb = NULL;
	nghttp2_option *opt = NULL;
	int rv = nghttp2_session_callbacks_new(&cb);

	if (rv == 0)
		rv = nghttp2_option_new(&opt);
	if (rv == 0) {
		nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
		nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
		nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_begin_frame);
		nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
		nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
		nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_sent);
		nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
		nghttp2_option_set_no_auto_window_update(opt, 1);
		nghttp2_option_set_no_closed_streams(opt, 1);
		rv = nghttp2_session_server_new2(&s->h2, cb, s, opt);
	}
	nghttp2_option_del(opt);
	nghttp2_session_callbacks_del(cb);
	return rv == 0 ? RC_OK : RC_NOMEM;
}

enum rc
grpc_session_new(const struct grpc_events *events, struct grpc_budget *budget, uint64_t now_ns,
		 struct grpc_session **out, struct err *err)
{
	const nghttp2_settings_entry settings[] = {
	    {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, GRPC_STREAMS_MAX},
	    {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
	    {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_LIST_MAX}};
	struct grpc_session *s = calloc(1, sizeof *s);

	if (!s || open_h2(s) != RC_OK ||
	    nghttp2_submit_settings(s->h2, NGHTTP2_FLAG_NONE, settings,
				    sizeof settings / sizeof *settings) != 0 ||
	    nghttp2_session_set_local_window_size(s->h2, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW) !=
		0) {
		grpc_session_free(s);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	s->events = events;
	s->budget = budget;
	s->now_ns = s->born_ns = now_ns;
	*out = s;
	return RC_OK;
}

void
grpc_session_free(struct grpc_session *s)
{
	if (!s)
		return;
	while (s->first) {
		stream_gone(s->first);
		stream_free(s->first);
	}
	nghttp2_session_del(s->h2);
	free(s);
}

/* ---- bytes and time */

bool
grpc_session_recv(struct grpc_session *s, const void *data, size_t nbytes, uint64_t now_ns)
{
	s->now_ns = now_ns;
	if (s->closing)
		return false;
	if (nghttp2_session_mem_recv(s->h2, data, nbytes) < 0)
		s->closing = true;
	return !s->closing;
}

size_t
grpc_session_send(struct grpc_session *s, const void **data, uint64_t now_ns)
{
	const uint8_t *at;
	ssize_t n;

	s->now_ns = now_ns;
	n = nghttp2_session_mem_send(s->h2, &at);
	if (n < 0)
		s->closing = true;
	*data = at;
	return n > 0 ? (size_t)n : 0;
}

bool
grpc_session_tick(struct grpc_session *s, uint64_t now_ns, uint64_t *due_ns)
{
	struct grpc_stream *next;

	s->now_ns = now_ns;
	if (!s->agreed) {
		if (now_ns - s->born_ns >= GRPC_HELLO_NS)
			s->closing = true;
		else if (s->born_ns + GRPC_HELLO_NS < *due_ns)
			*due_ns = s->born_ns + GRPC_HELLO_NS;
	}
	/* No call leaves the list here: that happens while bytes are fed in and sent. */
	for (struct grpc_stream *st = s->first; st; st = next) {
		next = st->next;
		stream_tick(st, due_ns);
	}
	return !s->closing &&
	       (nghttp2_session_want_read(s->h2) || nghttp2_session_want_write(s->h2));
}

void
grpc_session_goaway(struct grpc_session *s)
{
	nghttp2_submit_goaway(s->h2, NGHTTP2_FLAG_NONE,
			      nghttp2_session_get_last_proc_stream_id(s->h2), NGHTTP2_NO_ERROR,
			      NULL, 0);
}

size_t
grpc_session_streams(const struct grpc_session *s)
{
	return s->nstreams;
}

bool
grpc_session_greeted(const struct grpc_session *s)
{
	return s->greeted;
}
