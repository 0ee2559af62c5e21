/*
 * measure.h - GET /metrics: the world in Prometheus' formats, made on its own thread.
 */
#ifndef GPUCOORD_MEASURE_H
#define GPUCOORD_MEASURE_H

#include "net/http_server.h"
#include "observe.h"

struct measure;

/* The observer outlives it. RC_FAILED: no thread; RC_NOMEM. */
enum rc measure_start(struct observer *observer, struct measure **out, struct err *err);

/* Called by the server: the ask is answered later, or at once with 503. Never waits. */
void measure_answer(struct measure *m, struct http_ask *ask, struct http_answer *out);

/* Answer all asks, and later ones with 503. Call it before http_server_stop. NULL is legal. */
void measure_stop(struct measure *m);

/* Call it after http_server_stop. NULL is legal. */
void measure_free(struct measure *m);

#endif
