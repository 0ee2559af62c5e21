/*
 * session.h - one connection's HTTP/2 and gRPC: bytes in, bytes out. No socket, thread or clock inside.
 *
 * The caller feeds in the bytes of the connection; calls come out by events, messages whole and in order.
 * Every call is finished once: by its handler or, when its deadline passes or the client breaks the rules,
 * by the session. Bytes, headers, streams, frames without use and time are bounded.
 */
#ifndef GRPC_SESSION_H
#define GRPC_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

/* GRPC's status codes, and the texts that travel in its headers. */
enum grpc_code {
	GRPC_OK = 0,
	GRPC_CANCELLED = 1,
	GRPC_UNKNOWN = 2,
	GRPC_INVALID_ARGUMENT = 3,
	GRPC_DEADLINE_EXCEEDED = 4,
	GRPC_NOT_FOUND = 5,
	GRPC_ALREADY_EXISTS = 6,
	GRPC_PERMISSION_DENIED = 7,
	GRPC_RESOURCE_EXHAUSTED = 8,
	GRPC_FAILED_PRECONDITION = 9,
	GRPC_ABORTED = 10,
	GRPC_OUT_OF_RANGE = 11,
	GRPC_UNIMPLEMENTED = 12,
	GRPC_INTERNAL = 13,
	GRPC_UNAVAILABLE = 14,
	GRPC_DATA_LOSS = 15,
};

/* The status for a result; every rc has one. The table is in gpucoord(8). */
enum grpc_code grpc_code_of(enum rc rc);

/* Encode a message for grpc-message: '%' and all but printable ASCII as %XX. Truncated to size, which is
 * at least 1. */
void grpc_message_encode(const char *text, char *out, size_t size);

/* "100m" and the like: up to eight digits and one of H M S m u n. False: malformed. */
bool grpc_timeout_parse(const char *text, size_t n, uint64_t *ns);

#define GRPC_MESSAGE_MAX  (4u << 20)	 /* bytes of one message */
#define GRPC_STREAMS_MAX  100		 /* calls of one connection at a time */
#define GRPC_HEAD_MAX	  8192		 /* bytes of a call's headers */
#define GRPC_SESSION_HOLD (64u << 20)	 /* bytes that the large messages of one connection take */
#define GRPC_SERVER_HOLD  (256u << 20)	 /* and of all connections */
#define GRPC_DEADLINE_NS  86400000000000 /* of a call without one: a day */
#define GRPC_HELLO_NS	  5000000000	 /* until a client has sent HTTP/2's preface */
#define GRPC_STALL_NS	  60000000000	 /* a call whose client sends or reads nothing */
#define GRPC_LARGE_NS \
	60000000000 /* until a large message is there, from when there is room for it */

struct grpc_session;
struct grpc_stream;

/* Memory that sessions share: the rest of it. */
struct grpc_budget {
	size_t left;
};

struct grpc_method {
	/* Any number of messages come, each as an event; else exactly one, when the client has sent all */
	bool many;
	const void *arg; /* the handler's */
};

/* Events come while bytes are fed in, in grpc_session_tick, and in grpc_stream_resume. */
struct grpc_events {
	/* The method at a path, "/package.Service/Method", into *out; false: none. */
	bool (*find)(void *arg, const char *path, struct grpc_method *out);
	/* A call has begun: the handler may attach its own data (grpc_stream_keep). */
	void (*begin)(void *arg, struct grpc_stream *st);
	/* A message; borrowed until the call returns. */
	void (*message)(void *arg, struct grpc_stream *st, const void *data, size_t nbytes);
	/* The client sends no more. */
	void (*end)(void *arg, struct grpc_stream *st);
	/* The time of grpc_stream_wake has come, or the memory of grpc_stream_reserve has been taken. */
	void (*wake)(void *arg, struct grpc_stream *st);
	/* The client has cancelled or disconnected: do not use st any more. Not for a finished call. */
	void (*gone)(void *arg, struct grpc_stream *st);
	void *arg;
};

/* *out is the caller's; events and budget outlive it. RC_NOMEM. */
enum rc grpc_session_new(const struct grpc_events *events, struct grpc_budget *budget,
			 uint64_t now_ns, struct grpc_session **out, struct err *err);

/* End all calls, with an event for those that were not finished. NULL is legal. */
void grpc_session_free(struct grpc_session *s);

/* Bytes from the connection. False: close it once all pending bytes have been sent. */
bool grpc_session_recv(struct grpc_session *s, const void *data, size_t nbytes, uint64_t now_ns);

/* The next bytes to be sent, valid until the next call; 0: none now. */
size_t grpc_session_send(struct grpc_session *s, const void **data, uint64_t now_ns);

/* Deadlines, and reservations that can now be met. False: as grpc_session_recv. *due_ns becomes the next
 * deadline, if that is earlier. */
bool grpc_session_tick(struct grpc_session *s, uint64_t now_ns, uint64_t *due_ns);

/* Take no new calls, and tell the client. */
void grpc_session_goaway(struct grpc_session *s);

/* Calls that are open; and whether the client has sent HTTP/2's preface. */
size_t grpc_session_streams(const struct grpc_session *s);
bool grpc_session_greeted(const struct grpc_session *s);

/* ---- one call */

void grpc_stream_keep(struct grpc_stream *st, void *user);
void *grpc_stream_kept(const struct grpc_stream *st);
const struct grpc_method *grpc_stream_method(const struct grpc_stream *st);
uint64_t grpc_stream_deadline_ns(const struct grpc_stream *st);

/* No event of messages or the end until grpc_stream_resume, which may bring some; the client's window stays
 * closed. */
void grpc_stream_hold(struct grpc_stream *st);
void grpc_stream_resume(struct grpc_stream *st);

/* Raise the event wake once, at at_ns. */
void grpc_stream_wake(struct grpc_stream *st, uint64_t at_ns);

/* Take nbytes, at most GRPC_MESSAGE_MAX, of the budget until the call has ended. False: not now; the event
 * wake comes when it has been taken. */
bool grpc_stream_reserve(struct grpc_stream *st, size_t nbytes);

/* Room for a message of nbytes to the client, to be filled at once. NULL: out of memory. */
void *grpc_stream_message(struct grpc_stream *st, size_t nbytes);

/* End the call with a status, after the messages. Do not use st any more. */
void grpc_stream_finish(struct grpc_stream *st, enum grpc_code code, const char *text);

#endif
