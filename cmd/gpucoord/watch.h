/*
 * watch.h - the live page's data: /events, /status.json and /trace.json, each from a world as it is now.
 *
 * A thread samples, at most four times a second while somebody listens to /events, and spends at most a tenth of its time
 * on it; at most once a second, and a twentieth, while nobody does: then the lines of the last minutes are there when
 * somebody comes, and rates and states are of the last second. Another thread answers the other paths one after the other.
 */
#ifndef GPUCOORD_WATCH_H
#define GPUCOORD_WATCH_H

#include "net/http_server.h"
#include "observe.h"

#define WATCH_PERIOD_MS 250
#define WATCH_IDLE_MS	1000 /* while nobody listens */
#define WATCH_POINTS	600  /* of throughput and latency, one a second, that a new listener gets */
#define WATCH_ASKS	32   /* requests that wait for their answer */
#define WATCH_TRACE_MAX (128u << 20) /* bytes of a trace */
#define WATCH_TRACE_S	10	     /* seconds that a trace has unless ?last= says else */

struct watch;

/* RC_NOMEM, RC_FAILED. The observer outlives the watch. */
enum rc watch_new(struct observer *o, struct watch **out, struct err *err);

/* The server whose callback asks watch_answer; begins the threads. RC_FAILED. */
enum rc watch_serves(struct watch *w, struct http_server *s, struct err *err);

/* Of the server's callback. False: the path is none of these. */
bool watch_answer(struct watch *w, struct http_ask *ask, struct http_answer *out);

/* A point of a training's curve, which /events tells as "training". Any thread. As curves_put. */
enum rc watch_training(struct watch *w, const GpuSim__TrainingPutRequest *m, struct err *err);

/* End the threads, after which every request has its answer; before http_server_stop. NULL is legal. */
void watch_stop(struct watch *w);

/* After http_server_stop. NULL is legal. */
void watch_free(struct watch *w);

#endif
