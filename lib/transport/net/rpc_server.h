/*
 * rpc_server.h - answer requests, each once, from any thread, in any order.
 */
#ifndef NET_RPC_SERVER_H
#define NET_RPC_SERVER_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/rc.h"
#include "wire/wire.h"

struct rpc_server;

/* A request that waits for its answer, from this server or from another with the same handler (lib/transport/grpc). The
 * transport's own data follow it. */
struct rpc_call {
	GpuSim__Request *req;
	uint64_t deadline_ns; /* when the client stops waiting, on our clock */
	/* Answer with a packed Reply that has no seq, and release the call; from any thread. */
	void (*answer)(struct rpc_call *call, const void *body, size_t nbytes);
};

struct rpc_handler {
	/* A new request, on the server's one thread: do not block. The handler owns the call until it
	 * answers it, which it must do, once. */
	void (*call)(void *arg, struct rpc_call *call);
	/* A client's last connection closed (it may return). On a thread of nng, under the server's lock:
	 * only take note, call no function of the server. Not after rpc_server_stop. NULL: no callback. */
	void (*gone)(void *arg, uint64_t client_id);
	/* A client repeats a request, so it is connected. On the server's one thread, else as gone. */
	void (*back)(void *arg, uint64_t client_id);
	/* A client no longer waits for the answer to request `seq`, which must still be given, soon if
	 * possible. As gone; only some transports notice this. */
	void (*cancel)(void *arg, uint64_t client_id, uint64_t seq);
	void *arg;
};

/* Listen and serve. RC_BUSY: the address is taken. */
enum rc rpc_server_start(const char *addr, const struct rpc_handler *h, struct rpc_server **out,
			 struct err *err);

/* The address with the real port; lives as long as the server. */
const char *rpc_server_address(const struct rpc_server *s);

/* The address by which this process reaches it; lives as long as the server. */
const char *rpc_server_self(const struct rpc_server *s);

/* Stop serving: no handler runs any more. Calls stay valid until they are answered; their answers are
 * dropped. */
void rpc_server_stop(struct rpc_server *s);

/* The request; lives until the answer. */
const GpuSim__Request *rpc_request(const struct rpc_call *call);

/* When the client stops waiting, on our clock. */
uint64_t rpc_deadline_ns(const struct rpc_call *call);

/* Answer and release the call. The reply is borrowed. */
void rpc_reply(struct rpc_call *call, const GpuSim__Reply *reply);

/* Answer with a failure, or with plain success. */
void rpc_reply_err(struct rpc_call *call, const struct err *err);
void rpc_reply_done(struct rpc_call *call);

/* A failure with the position of the operation; f is borrowed, NULL is legal. */
void rpc_reply_failure(struct rpc_call *call, const struct err *err, GpuSim__Failure *f);

/* Remember the answer, a packed Reply, to a request to an earlier process of this server. */
void rpc_server_remember(struct rpc_server *s, uint64_t client_id, uint64_t seq, const void *body,
			 size_t nbytes);
/* Answer with an answer remembered since the request. False: none; the caller keeps the call. */
bool rpc_reply_again(struct rpc_call *call);

/* Answer with an already packed Reply. */
void rpc_reply_packed(struct rpc_call *call, const void *body, size_t nbytes);

#endif
