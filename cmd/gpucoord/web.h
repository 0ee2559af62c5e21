/*
 * web.h - the newest model of whoever trains, over HTTP.
 *
 *	GET /			what there is
 *	GET /model		the newest model, a .npz file; X-Gpusim-Version says which version
 *	GET /model/version	its number
 */
#ifndef GPUCOORD_WEB_H
#define GPUCOORD_WEB_H

#include "net/http_server.h"
#include "net/rpc_server.h"

struct web;

enum rc web_start(const char *host, enum net_reach reach, struct web **out, struct err *err);
const char *web_address(const struct web *w);

/* Answer a ModelPut; w may be NULL: nobody is served. On any thread. */
void web_put(struct web *w, struct rpc_call *call);

/* A client has gone: calls nothing but its own. */
void web_gone(struct web *w, uint64_t client_id);

/* After the last call of these. NULL is legal. */
void web_stop(struct web *w);

#endif
