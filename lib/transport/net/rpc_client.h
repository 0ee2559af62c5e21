/*
 * rpc_client.h - call a server: with deadlines, safe repetition, many calls at once.
 */
#ifndef NET_RPC_CLIENT_H
#define NET_RPC_CLIENT_H

#include "base/rc.h"
#include "wire/wire.h"

struct rpc_client;

enum rpc_connect {
	RPC_CONNECT_NOW,   /* open makes the first connection before it returns, or fails */
	RPC_CONNECT_LATER, /* in the background; calls wait for it up to NET_CONNECT_MS */
	RPC_CONNECT_TO_CALL, /* as NOW, for rpc_call: on ipc without nng and its threads (rpc_plain.c) */
};

/* Connect to a server. RC_UNREACHABLE: nothing listens there, or does not answer in NET_CONNECT_MS. */
enum rc rpc_client_open(const char *addr, enum rpc_connect how, struct rpc_client **out,
			struct err *err);

/* As RPC_CONNECT_TO_CALL, before timeout_ms is over. RC_UNREACHABLE: nothing listens there, or there is
 * no connection for NET_CONNECT_MS. RC_TIMEOUT: a process listens and has not answered in time: it is
 * frozen. */
enum rc rpc_client_connect(const char *addr, uint32_t timeout_ms, struct rpc_client **out,
			   struct err *err);

/*
 * Connect in the background, and watch the server. Once nothing listens at the address, calls end at once
 * with RC_UNREACHABLE, and fn is called before their callbacks; on a host that answers, within a fifth of
 * a second of the process's end. If the server only dropped the connection, the client connects again and
 * repeats the calls.
 *
 *	fn	or NULL; called once each time, and again for each call that fails so later, with the time (of
 *		clock_now_ns) at which nothing listened: a server that has come since may be well. On any
 *		thread: it must not close the client
 */
enum rc rpc_client_watch(const char *addr, void (*fn)(void *, uint64_t), void *arg,
			 struct rpc_client **out, struct err *err);

/* Set the time without a connection after which a call ends with RC_UNREACHABLE; default: NET_CONNECT_MS. */
void rpc_client_set_away(struct rpc_client *c, uint32_t ms);

/* There is a connection now. */
bool rpc_client_connected(struct rpc_client *c);

/* Ends all calls (their callbacks run, with RC_ABORTED) and closes. NULL is legal. */
void rpc_client_close(struct rpc_client *c);

/*
 * The result of a call; runs exactly once, on a thread of nng: do not block in it.
 *
 *	rc	RC_OK: reply is the server's, success or not (see wire_reply_rc). Else reply is NULL and text
 *		says why: RC_TIMEOUT, RC_UNREACHABLE, RC_ABORTED, RC_BADDATA, RC_NOMEM.
 *	reply	the callback's to free with wire_reply_free
 */
typedef void (*rpc_done_fn)(void *arg, enum rc rc, GpuSim__Reply *reply, const char *text);

/*
 * Start a call. `body` is a packed Request without clientId, seq, timeoutMs and version (they are
 * added here) and is copied. The connection may break and come back: the call is then repeated
 * under the same number, so it takes effect once.
 *
 * Errors (the callback does not run): RC_NOMEM, RC_INVAL larger than WIRE_CONTROL_MAX.
 */
enum rc rpc_call_packed(struct rpc_client *c, const void *body, size_t nbytes, uint64_t deadline_ns,
			rpc_done_fn done, void *arg, struct err *err);

/* The same with a Request to pack; its four own fields are ignored. */
enum rc rpc_call_start(struct rpc_client *c, const GpuSim__Request *req, uint64_t deadline_ns,
		       rpc_done_fn done, void *arg, struct err *err);

/* Call and wait. On RC_OK *out is a successful reply, freed by the caller; a failure in the server's
 * answer is returned as its code and message. */
enum rc rpc_call(struct rpc_client *c, const GpuSim__Request *req, uint64_t deadline_ns,
		 GpuSim__Reply **out, struct err *err);

/*
 * rpc_read_recorder - read n bytes of the recorder of the process there, from offset on.
 *
 *	each_ms, deadline_ns	of a request, and of all
 *
 * RC_BADDATA: it ends before; errors of rpc_call.
 */
enum rc rpc_read_recorder(struct rpc_client *c, uint64_t offset, void *dst, size_t n,
			  uint32_t each_ms, uint64_t deadline_ns, struct err *err);

#endif
