/*
 * shell_impl.h - shared by the shell's two files: shell.c feeds events to the state machine, actions.c
 * carries out its actions.
 */
#ifndef GPUCOORD_SHELL_IMPL_H
#define GPUCOORD_SHELL_IMPL_H

#include <pthread.h>

#include "connections.h"
#include "exits.h"
#include "faults.h"
#include "grpc/server.h"
#include "look.h"
#include "net/rpc_client.h"
#include "net/rpc_server.h"
#include "shell.h"
#include "state.h"

/* An event in the queue. */
struct item {
	struct item *next;
	struct shell *shell;
	enum coord_event_kind kind;
	struct rpc_call *call; /* request */
	uint64_t device_id;    /* unreachable, looked, spawned */
	enum coord_look found; /* looked */
	uint64_t client_id;    /* gone, seen, cancel */
	uint64_t seq;	       /* cancel; unreachable: when, ms */
	uint64_t token;	       /* result */
	uint32_t call_kind;    /* result: the call's body, as numbered in Request */
	struct err err;	       /* result, unreachable, spawned */
	uint32_t pid;	       /* spawned */
	GpuSim__Reply *reply;  /* result */
	struct buf ask;	       /* proven: the prover's input */
	struct coord_proof *proof;
};

struct shell {
	struct coord *coord;
	struct rpc_server *server;
	struct grpc_server *grpc; /* NULL: gRPC is not served */
	struct connections *connections;
	struct rpc_client *echo; /* to ourselves */
	struct shell_sight see;
	struct looks looks;
	struct daemon *dm;
	struct coord_actions actions;
	struct state *state; /* NULL: nothing is stored */
	struct faults faults;
	struct decisions decisions;
	struct exits exits;
	struct web *_Atomic web; /* NULL: models are not accepted */
	pthread_t prover;	 /* of the last COORD_PROVE */
	bool proved;		 /* prover was started */
	atomic_bool ends;	 /* makes the prover end early */
	char address[NET_ADDR_MAX];
	pthread_mutex_t lock;
	pthread_cond_t stopped; /* running has become false */
	struct item *head, **tail;
	bool open;	 /* a thread that enqueues drains the queue */
	bool running;	 /* a thread is in the state machine */
	bool main_waits; /* to be the running one */
};

/* Append an event to the queue. On any thread; unless it is the running one, shell_work follows. */
void shell_push(struct shell *s, struct item *i);

/* Drain the queue, unless another thread does. */
void shell_work(struct shell *s);

/* Wait for the prover, if any, to end. Running, or after the shell's end. */
void shell_join_prover(struct shell *s);

/* Running. Carry out the actions of the state machine's last step. */
void shell_carry_out(struct shell *s);

#endif
