/*
 * web.h - over HTTP: the newest model of a training, and metrics.
 *
 *	GET /			a list of the paths
 *	GET /model		the newest model, a .npz file; X-Gpusim-Version has its version
 *	GET /model/version	its version, a number
 *	GET /metrics		the world, as Prometheus reads it (view/metrics.h)
 */
#ifndef GPUCOORD_WEB_H
#define GPUCOORD_WEB_H

#include "net/http_server.h"
#include "net/rpc_server.h"
#include "observe.h"

struct web;

/* names: hosts that a browser may name besides (net/http_server.h), or NULL. The observer outlives it. */
enum rc web_start(const char *host, enum net_reach reach, const char *names,
		  struct observer *observer, struct web **out, struct err *err);
const char *web_address(const struct web *w);

/* Answer a ModelPut; w may be NULL: nobody is served. On any thread. */
void web_put(struct web *w, struct rpc_call *call);

/* A client has gone: drop the model that it was sending. */
void web_gone(struct web *w, uint64_t client_id);

/* After the last call of the others. NULL is legal. */
void web_stop(struct web *w);

#endif
