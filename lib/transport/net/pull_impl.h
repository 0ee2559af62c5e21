/*
 * pull_impl.h - shared by the files of the receiving end: pull_listen.c (connections) and pull.c (the
 * reading thread).
 */
#ifndef NET_PULL_IMPL_H
#define NET_PULL_IMPL_H

#include <nng/nng.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "net/connection.h"
#include "net/ipcpath.h"
#include "net/net.h"

#define PULL_AHEAD 4096u /* bytes that one read takes beyond a frame */

struct net_conn {
	struct net_pull *pull;
	struct net_conn *next;
	nng_stream *stream;
	nng_aio *first; /* reads the first header */
	nng_aio *aio;
	uint64_t device; /* sender of its first frame; 0: none yet */
	bool closed;
	bool between;	   /* the own thread waits for the beginning of a frame */
	bool wanted;	   /* the own thread has to park */
	bool parked;	   /* it has */
	bool taken;	   /* another thread reads */
	bool ended;	   /* nothing more to read */
	uint64_t since_ns; /* taken or given back */
	int fd;		   /* of the stream; -1: unknown, or TLS */
	int wake;	   /* eventfd: ends a read of `fd`; -1: none yet */
	pthread_cond_t resume;
	atomic_uint_fast64_t heard_ns;
	uint32_t last; /* bytes of the last payload */
	size_t nahead; /* bytes of the stream in: */
	unsigned char ahead[PULL_AHEAD];
};

struct net_pull {
	char addr[NET_ADDR_MAX];
	bool tls;
	struct ipcpath path;
	net_frame_fn fn;
	void *arg;
	void (*_Atomic damaged)(void *arg, const struct frame *head); /* or NULL */
	nng_stream_listener *listener;
	nng_aio *accept, *pause;
	pthread_t ticker;
	pthread_cond_t tick; /* the first has parked */
	pthread_attr_t attr;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct net_conn *conns;
	unsigned nconns, nparked;
	uint64_t aloof_ns; /* until then no thread takes a connection */
	bool stopping;
	atomic_uint_fast64_t refused;
};

/* Start the thread of a connection whose first header is read ahead. It blocks the program's signals, and
 * frees the connection at its end. */
bool pull_conn_start(struct net_conn *c);

/* Free it after its last reader. Also from the callback of `first`. */
void pull_conn_free(struct net_conn *c);

/* Lock held. nng never ends a read on a closed stream: post none after this, and none with `aio`, which
 * is stopped. */
void pull_conn_close(struct net_conn *c);

/* Lock held. Resume its own thread. */
void pull_conn_call_back(struct net_conn *c);

/* The ticker's thread; arg is a struct net_pull. */
void *pull_tick_main(void *arg);

/* ---- memory for the payloads of received frames */

/*
 * Chunks come and go by the thousand, and fresh memory costs a page fault every 4 KiB. So returned memory
 * is kept for the next frame, last in, first out: it is still in the cache.
 */

#define FRAMEMEM_KEPT (16u << 20) /* bytes kept for later, in the whole process */

/* Room for nbytes, at most FRAME_PAYLOAD_MAX. NULL: out of memory. */
void *framemem_take(size_t nbytes);

#endif
