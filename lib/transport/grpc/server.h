/*
 * server.h - the lab's services over gRPC, for clients in any language.
 *
 * A call becomes the request of the same name in the envelope, and goes to the same handler as the nng
 * server's requests; the reply becomes the call's answer. A connection is a client: it has an id of its
 * own, and is gone when it closes. Memcpy goes in pieces; each chunk of StreamSend becomes a request.
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

/* Drop all connections; no handler runs any more. Calls stay valid until they are answered; their answers
 * are dropped. NULL is legal. */
void grpc_server_stop(struct grpc_server *s);

#endif
