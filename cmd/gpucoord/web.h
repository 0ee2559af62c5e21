/*
 * web.h - serve the coordinator over HTTP.
 *
 *	GET /			the live page (page.c)
 *	GET /events		its data, as server-sent events (watch.h)
 *	GET /status.json	the state of the cluster (view/state_json.h)
 *	GET /trace.json		a timeline for Perfetto (view/timeline.h); ?last=5s
 *	GET /metrics		for Prometheus (watch.h)
 *	GET /model		the newest model of a training, a .npz file; X-Gpusim-Version has its version
 *	GET /model/version	its version, a number
 */
#ifndef GPUCOORD_WEB_H
#define GPUCOORD_WEB_H

#include "net/http_server.h"
#include "net/rpc_server.h"
#include "observe.h"

struct web;

struct web_config {
	const char *host; /* "host:port" */
	enum net_reach reach;
	const char *names; /* more host names that a browser may use (net/http_server.h), or NULL */
	struct observer *observer; /* outlives the server */
};

enum rc web_start(const struct web_config *cfg, struct web **out, struct err *err);
const char *web_address(const struct web *w);

/* Answer a ModelPut or a TrainingPut; w NULL: HTTP is not served. On any thread. */
void web_put(struct web *w, struct rpc_call *call);
void web_training(struct web *w, struct rpc_call *call);

/* A client has ended: drop the model that it was sending. */
void web_gone(struct web *w, uint64_t client_id);

/* After the last call of the others. NULL is legal. */
void web_stop(struct web *w);

#endif
