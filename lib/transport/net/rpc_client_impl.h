/* rpc_client_impl.h - shared by rpc_client.c (the connection) and rpc_call.c (the calls). */
#ifndef NET_RPC_CLIENT_IMPL_H
#define NET_RPC_CLIENT_IMPL_H

#include <nng/nng.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"
#include "net/net.h"
#include "net/rpc_client.h"

#define CLIENT_SOCKETS 16 /* most concurrent calls without nng */

enum call_phase { CALL_SENDING, CALL_RECEIVING };

struct call {
	struct rpc_client *client;
	struct call *next; /* in the free list, or in the list of running calls */
	nng_ctx ctx;
	nng_aio *aio;
	enum call_phase phase;
	int pipe;	 /* the connection it was sent through, 0: unknown */
	uint64_t ncame0; /* client.ncame when it was sent */
	struct buf body;
	uint64_t deadline_ns;
	uint64_t grace_ns; /* it waits for a connection at least until then */
	rpc_done_fn done;
	void *arg;
};

struct rpc_client {
	nng_socket sock; /* while opened */
	nng_dialer dialer;
	char addr[NET_ADDR_MAX];
	uint64_t client_id;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* the last running call has ended, a connection, or a redialer */
	struct call *free, *running;
	uint64_t seq;
	uint64_t away_since;  /* meaningful while pipe is 0 */
	uint32_t away_ms;     /* time without a connection before a call fails */
	uint64_t ncame;	      /* connections that came up so far */
	int pipe;	      /* the connection, or 0 */
	int pipe_gone;	      /* the last one that closed */
	bool dialing;	      /* there is a dialer, or a redialer makes one */
	uint64_t later_since; /* when nng began to dial by itself; 0: not dialing */
	bool opened;	      /* sock is open */
	bool plain;	      /* waiting calls do not use nng (rpc_plain.c) */
	int idle[CLIENT_SOCKETS], spent[CLIENT_SOCKETS];
	unsigned nidle, nspent, nsockets;
	bool closing;
	bool shut;	    /* nng_close owns the dialers now */
	unsigned redialers; /* threads */
	/* of a client that watches */
	bool watches;
	uint64_t nobody_ns; /* when nothing listened there, until there is a connection; or 0 */
	bool telling;	    /* the same, found by a redialer */
	void (*tell)(void *, uint64_t);
	void *tell_arg;
};

/* A running call says that the connection `pipe` has closed: make a new one. No lock held. */
void client_lost(struct rpc_client *c, int pipe);

/* Try again after a failure. */
void client_redial(struct rpc_client *c);

/* Time that nng may dial by itself before a redialer replaces its dialer. */
uint64_t client_stale_ms(const struct rpc_client *c);

/* rpc_plain.c: connect without nng; false: not now. */
bool plain_open(struct rpc_client *c, uint64_t deadline_ns);

/* Call without nng. False: call by nng, under the same number; else *rc is the result of rpc_call. */
bool plain_call(struct rpc_client *c, const struct buf *request, uint64_t deadline_ns,
		GpuSim__Reply **out, enum rc *rc, struct err *err);

/* No call runs any more. */
void plain_close(struct rpc_client *c);

/* Open nng's socket, if it is not open yet; lock not held. */
enum rc client_open_nng(struct rpc_client *c, struct err *err);

/* ---- nng's REQ protocol on one Unix socket, without nng, for a program that calls and waits */

/*
 * It needs no thread, so a one-call program ends before nng would have started. On any trouble the caller
 * closes it and uses nng.
 */

/* Connect to an ipc address and shake hands, before the deadline. The caller closes the descriptor. -1:
 * another kind of address, or any failure. */
int reqsock_open(const char *addr, uint64_t deadline_ns);

/*
 * Send a request and wait for its answer.
 *
 *	answer	[out] initialised; the answer's bytes
 *
 * Errors, after which the socket is unusable: RC_TIMEOUT, RC_UNREACHABLE the connection broke, or a
 * protocol error of the server; RC_NOMEM.
 */
enum rc reqsock_call(int fd, const void *request, size_t nbytes, uint64_t deadline_ns,
		     struct buf *answer);

#endif
