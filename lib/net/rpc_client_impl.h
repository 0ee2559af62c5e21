/* rpc_client_impl.h - shared by rpc_client.c (the connection) and rpc_call.c (the calls). */
#ifndef NET_RPC_CLIENT_IMPL_H
#define NET_RPC_CLIENT_IMPL_H

#include <nng/nng.h>
#include <pthread.h>
#include <stdbool.h>

#include "base/buf.h"
#include "net/net.h"
#include "net/rpc_client.h"

#define CLIENT_SOCKETS 16 /* most calls at a time that go without nng */

enum call_phase { CALL_SENDING, CALL_RECEIVING };

struct call {
	struct rpc_client *client;
	struct call *next; /* in the free list, or in the list of running calls */
	nng_ctx ctx;
	nng_aio *aio;
	enum call_phase phase;
	int pipe;	 /* the connection it was sent through, or 0: not known */
	uint64_t ncame0; /* client.ncame when it was sent */
	struct buf body;
	uint64_t deadline_ns;
	uint64_t grace_ns; /* until then it waits for a connection, however long there was none */
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
	uint32_t away_ms;     /* the server may be away so long before a call fails */
	uint64_t ncame;	      /* connections that came up so far */
	int pipe;	      /* the connection, or 0 */
	int pipe_gone;	      /* the last one that closed */
	bool dialing;	      /* there is a dialer, or a redialer makes one */
	uint64_t later_since; /* when nng began to dial by itself; 0: it does not */
	bool opened;	      /* sock is */
	bool plain;	      /* a call that waits goes without nng (rpc_plain.c) */
	int idle[CLIENT_SOCKETS], spent[CLIENT_SOCKETS];
	unsigned nidle, nspent, nsockets;
	bool closing;
	bool shut;	    /* the dialers are nng_close's now */
	unsigned redialers; /* threads (redial.c) */
	/* of a client that watches */
	bool watches;
	bool nobody;  /* listens there; until there is a connection */
	bool telling; /* the same, found by a redialer */
	void (*tell)(void *);
	void *tell_arg;
};

/* A running call says that the connection `pipe` has closed: make a new one. No lock held. */
void client_lost(struct rpc_client *c, int pipe);

/* Try again after that failed. */
void client_redial(struct rpc_client *c);

/* nng may dial by itself so long before a redialer replaces its dialer. */
uint64_t client_stale_ms(const struct rpc_client *c);

/* rpc_plain.c: connect without nng; false: not now. */
bool plain_open(struct rpc_client *c, uint64_t deadline_ns);

/* A call without nng. False: by nng, under the same number; else *rc is what rpc_call returns. */
bool plain_call(struct rpc_client *c, const struct buf *request, uint64_t deadline_ns,
		GpuSim__Reply **out, enum rc *rc, struct err *err);

/* No call runs any more. */
void plain_close(struct rpc_client *c);

/* The fields of a request that are ours, behind its packed body. */
bool call_envelope(struct buf *b, const struct rpc_client *c, uint64_t seq, uint64_t deadline_ns);

/* Open nng's socket, if it is not open yet; lock not held. */
enum rc client_open_nng(struct rpc_client *c, struct err *err);

/* A dialer for the client's address, not started. */
int client_dialer(struct rpc_client *c, nng_dialer *out);

/* Connect by this dialer within so long, else close it. */
int client_dial(nng_dialer d, int within_ms);

/* Have a thread close the dialer `old`, if there is one, and dial again; of a client that watches, with
 * find_out, first find out whether anybody listens there. Lock not held; the caller has claimed dialing,
 * and counted the thread in redialers. */
void client_start_redialer(struct rpc_client *c, nng_dialer old, bool find_out);

/* One redialer less; lock not held. The client may be gone after that. */
void client_end_redialer(struct rpc_client *c);

/* Lock held. Nobody listens: end the calls that wait for a connection. */
void client_end_waiting(struct rpc_client *c);

/* Free a call that does not run; its context is left to the closing of the socket. */
void call_free(struct call *call);

#endif
