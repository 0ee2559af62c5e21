/*
 * connection.h - one-way connections that carry data frames between devices: a pull at the receiver,
 * a push for each peer. Underneath are nng's byte streams.
 *
 * Frames may be lost when a connection breaks, which net_push_generation shows. A sender that needs all
 * of them repeats unacknowledged frames.
 */
#ifndef NET_CONNECTION_H
#define NET_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"
#include "wire/frame.h"

/* A received frame, checked. The payload lives until net_frame_free. */
struct net_frame {
	struct frame head;
	const unsigned char *payload;
	void *mem; /* private to this room */
};

void net_frame_free(struct net_frame *f);

/* Make a frame as if received: f->head is set, the payload of head.nbytes bytes is copied. RC_NOMEM. */
enum rc net_frame_copy(struct net_frame *f, const void *payload, struct err *err);

struct net_pull;

/* Takes over the frame. Runs on the thread of its connection: blocking it blocks the peer. */
typedef void (*net_frame_fn)(void *arg, struct net_frame *f);

enum rc net_pull_start(const char *addr, net_frame_fn fn, void *arg, struct net_pull **out,
		       struct err *err);
const char *net_pull_address(const struct net_pull *p);

/* The number of malformed frames. All but a damaged payload end their connection. */
uint64_t net_pull_refused(struct net_pull *p);

/* Call fn for frames whose payload does not match their header, which it gets. On the thread that read
 * the frame, with the arg of net_pull_start. */
void net_pull_when_damaged(struct net_pull *p, void (*fn)(void *arg, const struct frame *head));

/* Close the connections of a device, which makes new ones. */
void net_pull_break(struct net_pull *p, uint64_t device);

/* fn does not run after this. NULL is legal. */
void net_pull_stop(struct net_pull *p);

/*
 * A thread that waits for a frame may read it itself, which saves waking it.
 *
 * net_pull_take: the connection of the device, known from its first frame; NULL: none, or
 * another thread is reading. All frames so far have been handed on.
 * net_pull_read: wait for a frame and hand it on, on this thread; or return without one, when
 * nudged, after a while, before it would sleep (brief), or at the end of the connection. If it is the one that
 * `into` (or NULL) describes, its payload is put there, also when it turns out wrong.
 * net_pull_give: give it back. Its own thread reads it again 50 ms later, unless a thread takes it.
 * net_pull_resume: have the connections read by their own threads for a while, for a thread that
 * waits for any peer, or whose peers wait for it.
 * net_pull_nudge: end the read of the thread that has taken it. A nudge just before the read is
 * seen after it, a tenth of a second late.
 */
struct net_conn;

/* An expected frame: its head without crc, and room for its payload. */
struct net_into {
	struct frame head;
	void *payload;
};

struct net_conn *net_pull_take(struct net_pull *p, uint64_t device);
void net_pull_read(struct net_conn *c, const struct net_into *into, bool brief);
void net_pull_give(struct net_conn *c);
void net_pull_nudge(struct net_conn *c);
void net_pull_resume(struct net_pull *p);

struct net_push;

/* Connects in the background, and again when the connection breaks. */
enum rc net_push_open(const char *addr, struct net_push **out, struct err *err);

/* Close the connection and make a new one. */
void net_push_break(struct net_push *p);

/* Call fn, before a send waits, when the peer reads more slowly than data are sent. Before the first send. */
void net_push_when_full(struct net_push *p, void (*fn)(void *), void *arg);

/* The number of connections made so far. Frames sent before a change may be lost. */
unsigned net_push_generation(const struct net_push *p);

/*
 * Send one frame. The payload is borrowed until this returns.
 *
 *      timeout_ms NET_LATER: queue a copy, which leaves with the next frame, or by net_push_flush. 0: queue a copy,
 *      do not wait. Else wait up to this long for the connection, and for other senders;
 *      then write the frame straight from the payload, and queue a copy of what the peer has not taken in time.
 *			On tls+tcp all of it is queued as a copy then.
 *
 * Several threads may send; each frame stays whole. RC_OK: it leaves, unless the connection breaks.
 * RC_TIMEOUT: no connection or no room, nothing of it leaves. RC_NOMEM.
 */
#define NET_LATER (-1)
enum rc net_push_send(struct net_push *p, const struct frame *head, const void *payload,
		      int timeout_ms);

/* Send what is queued. */
void net_push_flush(struct net_push *p);

/* Queued frames are still sent, within a second. No send may be in progress. NULL is legal. */
void net_push_close(struct net_push *p);

#endif
