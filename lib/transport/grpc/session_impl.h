/* session_impl.h - shared by session.c (a connection) and stream.c (a call). */
#ifndef GRPC_SESSION_IMPL_H
#define GRPC_SESSION_IMPL_H

#include <nghttp2/nghttp2.h>

#include "base/buf.h"
#include "grpc/session.h"

#define STREAM_WINDOW 16384 /* bytes of a call that a client may send unasked */

/* Tokens that come back with time. */
struct bucket {
	uint64_t full_ns; /* it will be full then */
};

struct grpc_session {
	nghttp2_session *h2;
	const struct grpc_events *events;
	struct grpc_budget *budget;
	uint64_t now_ns, born_ns;
	struct grpc_stream *first, *last; /* in the order in which they began */
	size_t nstreams;
	size_t held; /* of the budget */
	struct bucket resets, useless;
	bool greeted, closing;
	bool agreed;  /* the client has acknowledged our settings */
	size_t early; /* bytes of calls before that */
};

struct grpc_stream {
	struct grpc_session *session;
	struct grpc_stream *prev, *next;
	int32_t id;
	struct grpc_method method;
	void *user;

	/* the head */
	char path[256];
	size_t head_bytes;
	bool post, grpc, trailers, identity, timed_wrong;
	uint64_t timeout_ns;

	uint64_t deadline_ns, moved_ns, wake_ns, large_ns; /* 0: none */
	struct buf in;
	size_t in_at;	   /* its event has been raised */
	size_t unconsumed; /* bytes not yet returned to the client's window */
	size_t granted, want;
	unsigned nmessages;
	bool reserving; /* the handler wants them, not a message */
	bool begun, ended, end_told, held, finished;
	bool taking; /* events are being raised: resuming continues with that */

	struct buf out;
	size_t out_at;
	bool answering; /* the headers are being sent */
	enum grpc_code code;
	char text[1024]; /* grpc-message */
};

struct grpc_stream *stream_new(struct grpc_session *s, int32_t id);

/* Remove it from the session, without an event. */
void stream_free(struct grpc_stream *st);

/* If it ends before it was finished, raise the event. */
void stream_gone(struct grpc_stream *st);

/* A header of the request. */
void stream_header(struct grpc_stream *st, const char *name, size_t nname, const char *value,
		   size_t nvalue);

/* The headers are complete. */
void stream_begin(struct grpc_stream *st);

/* Bytes of messages; the end. */
void stream_data(struct grpc_stream *st, const void *data, size_t nbytes);
void stream_ended(struct grpc_stream *st);

/* Reservations, deadlines, stalls. *due_ns as of grpc_session_tick. */
void stream_tick(struct grpc_stream *st, uint64_t *due_ns);

#endif
