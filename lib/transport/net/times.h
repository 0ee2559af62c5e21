/*
 * times.h - how long this room waits, in milliseconds.
 *
 * All are fixed: they depend on nng and the kernel, not on what a user wants. A user's limits come with
 * each call, as deadlines.
 */
#ifndef NET_TIMES_H
#define NET_TIMES_H

/* Connecting. */
#define NET_CONNECT_MS	      2000 /* a peer without a connection for this long is unreachable */
#define NET_RECONNECT_MS      10   /* the first pause before dialing again; it doubles up to */
#define NET_RECONNECT_MAX_MS  100
#define NET_RETURN_MS	      (3 * NET_RECONNECT_MAX_MS) /* until a returned peer is found */
#define NET_DIAL_STALE_MS     300  /* a dialer that has not connected by then is replaced */
#define NET_DIAL_STALE_TLS_MS 1000 /* the same, with TLS's handshake */
#define NET_HANDSHAKE_MS      5000 /* of TLS with ourselves, to check the files */
#define NET_REFUSED_MS	      100  /* refusals for at least this long mean that nothing listens */
#define NET_RETRY_MS	      20   /* between two of them */
#define NET_PROBE_MS	      200  /* the kernel accepts connections for a process that is frozen */

/* Listening. */
#define NET_ACCEPT_PAUSE_MS 50	 /* after a failed accept, for example without descriptors */
#define NET_CLOSE_MS	    1000 /* longer than any close that does not hang */

/* Frames. */
#define NET_PUSH_TICK_MS 200  /* a late write is aborted then */
#define NET_LINGER_MS	 1000 /* queued frames of a connection that is closed */
#define NET_PULL_TICK_MS 5
#define NET_AWAKE_NS	 50000 /* a reader stays awake: longer than a message's latency */
#define NET_PARKED_MS	 50    /* a connection without a reader, until its own thread comes back */
#define NET_BUSY_MS	 5     /* the same under load, as the sender may be waiting */
#define NET_TAKEN_MS	 100   /* the longest read of a thread that has taken a connection */
#define NET_ALOOF_MS	 300   /* after net_pull_resume no thread takes a connection */

/* HTTP. */
#define NET_HTTP_HEAD_MS  5000	/* a request's head */
#define NET_HTTP_STALL_MS 10000 /* the peer reads nothing of an answer */
#define NET_HTTP_DRAIN_MS 1000	/* what a peer still sends after its answer */

#endif
