/*
 * server.h - the lab's services over gRPC, for clients that nobody here wrote.
 *
 * A call becomes the request of the same name in the envelope, and goes to the handler that the nng server's
 * requests go to; its answer becomes the call's. A connection is a client: it has an id of its own, and is
 * gone when it is closed. Memcpy goes in pieces, StreamSend becomes a request a chunk.
 */
#ifndef GRPC_SERVER_H
#define GRPC_SERVER_H

#include "net/net.h"
#include "net/rpc_server.h"

#define GRPC_SERVER_MAX_CONNS 128

struct grpc_server;

enum grpc_service { GRPC_COORDINATOR, GRPC_DEVICE };

/*
 * grpc_server_start - listen on "host:port", port 0: any free one.
 *
 * The handler is called on the server's one thread. Beyond loopback only with NET_ANY_HOST. Errors: RC_INVAL,
 * RC_BUSY the address is taken, RC_FAILED.
 */
enum rc grpc_server_start(const char *host, enum net_reach reach, enum grpc_service service,
			  const struct rpc_handler *h, struct grpc_server **out, struct err *err);

/* "host:port", with the real port; lives as long as the server. */
const char *grpc_server_address(const struct grpc_server *s);

/* Drop all connections; no handler runs any more. Calls not yet answered stay valid until they are, into the
 * void. NULL is legal. */
void grpc_server_stop(struct grpc_server *s);

#endif
