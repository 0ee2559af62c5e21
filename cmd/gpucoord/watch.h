/*
 * watch.h - views of the present world: the live page's /events, /status.json and /trace.json, and /metrics
 * in Prometheus' formats.
 *
 * While clients listen to /events, a thread samples at most four times a second and spends at most a tenth
 * of its time on that; without listeners at most once a second, and a twentieth, so that a new listener
 * gets the last minutes, and rates and states are of the last second. Another thread answers the other
 * paths, one after another.
 */
#ifndef GPUCOORD_WATCH_H
#define GPUCOORD_WATCH_H

#include "net/http_server.h"
#include "observe.h"
#include "view/metrics.h"

#define WATCH_PERIOD_MS 250
#define WATCH_IDLE_MS	1000 /* while nobody listens */
#define WATCH_POINTS	600 /* points of throughput and latency, one per second, for a new listener */
#define WATCH_TRACE_MAX (128u << 20) /* bytes of a trace */
#define WATCH_TRACE_S	10	     /* seconds of a trace, unless ?last= is given */

struct watch;

/* RC_NOMEM, RC_FAILED. The observer outlives the watch. */
enum rc watch_new(struct observer *o, struct watch **out, struct err *err);

/* Set the server whose callback calls watch_answer, and start the threads. RC_FAILED. */
enum rc watch_serves(struct watch *w, struct http_server *s, struct err *err);

/* Called by the server's callback. False: not one of these paths. */
bool watch_answer(struct watch *w, struct http_ask *ask, struct http_answer *out);

/* Add a point of a training's curve, which /events sends as "training". On any thread. As curves_put. */
enum rc watch_training(struct watch *w, const GpuSim__TrainingPutRequest *m, struct err *err);

/* End the threads, after which every request has its answer; before http_server_stop. NULL is legal. */
void watch_stop(struct watch *w);

/* After http_server_stop. NULL is legal. */
void watch_free(struct watch *w);

/* This process's own use of files, memory and time. */
struct metrics_process watch_self(void);

/* ---- the live page: one file with HTML, style and script, assembled at build time from page/ */

/* The generated file, in which PAGE_NONCE marks each place for a nonce. */
extern const unsigned char page_html[];
extern const size_t page_html_size;

#define PAGE_NONCE "@NONCE-OF-THIS-ANSWER@"

/* Answer with the page. Its style and script carry a random nonce of this answer, and the policy in the
 * answer's header allows only these: no text from a device or client can run in a browser. */
void page_answer(struct http_answer *out);

#endif
