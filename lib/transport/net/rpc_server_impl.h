/* rpc_server_impl.h - shared by the parts of the server: rpc_server.c (its life, requests, answers), and
 * rpc_slot.c (peers and slots). The design notes are in rpc_server.c. */
#ifndef NET_RPC_SERVER_IMPL_H
#define NET_RPC_SERVER_IMPL_H

#include <nng/nng.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/listener.h"
#include "net/replycache.h"
#include "net/rpc_server.h"

struct slot {
	struct rpc_server *server;
	struct slot *next, *next_free;
	nng_ctx ctx;
	nng_aio *aio;
	int pipe; /* connection of its request */
	bool sending;
	size_t nbytes; /* being sent */
};

struct server_call {
	struct rpc_call call; /* first */
	struct rpc_server *server;
	struct slot *slot;
	int pipe;	  /* the connection of the request */
	size_t taken;	  /* memory of the request */
	struct buf again; /* its answer, remembered meanwhile; no data: none */
};

struct peer {
	int pipe;
	bool closing;	    /* it is being closed */
	uint64_t heard_ns;  /* time of its last message */
	uint64_t client_id; /* the client that spoke last through it; 0: none yet */
	uint64_t unsent;
	size_t ncalls;	/* its unanswered requests */
	size_t pending; /* their memory */
};

struct rpc_server {
	nng_socket sock;
	struct listener *listener;
	struct rpc_handler handler;
	pthread_t thread;
	pthread_mutex_t lock;
	struct replycache *cache;
	struct slot *slots, *free;
	struct peer *peers;
	size_t npeers, peers_cap, nclosing;
	size_t most_peers;
	size_t ncalls;	/* not yet answered */
	size_t pending; /* memory of their requests */
	struct slot *receiving;
	bool stopping;
	bool closed; /* nng has released the socket */
};

/* Peers; all with the lock held. peer_remove: the client that has no connection left, or 0. peer_surplus: the
 * connection that must close when there is one too many, or 0. */
struct peer *peer_find(struct rpc_server *s, int pipe);
void peer_add(struct rpc_server *s, int pipe);
uint64_t peer_remove(struct rpc_server *s, int pipe);
int peer_surplus(struct rpc_server *s, int newest);
bool client_connected(const struct rpc_server *s, uint64_t client_id);

/* A slot to receive with; NULL: out of memory. */
struct slot *slot_take(struct rpc_server *s);

/* Give a slot back that is not sending. */
void slot_release(struct slot *slot);

/* Send the answer; the slot is released once it is sent. A peer that has disconnected asks again; one
 * that leaves too many answers unread gets no more. */
void slot_send(struct slot *slot, const void *body, size_t nbytes);

/* Free all slots; waits for answers that are being sent. The socket is closed. */
void slots_free(struct rpc_server *s);

/* Count the memory of a call's request, or uncount it; lock held. RC_BUSY with the message: the requests
 * of its connection, or all, take too much. */
enum rc pending_check(const struct server_call *call, struct err *err);
void pending_add(const struct server_call *call);
void pending_drop(const struct server_call *call);

#endif
