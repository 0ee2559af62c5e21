/*
 * measure.h - GET /metrics: the world as Prometheus reads it, made on a thread of its own.
 */
#ifndef GPUCOORD_MEASURE_H
#define GPUCOORD_MEASURE_H

#include "net/http_server.h"
#include "observe.h"

struct measure;

/* The observer outlives it. RC_FAILED: no thread; RC_NOMEM. */
enum rc measure_start(struct observer *observer, struct measure **out, struct err *err);

/* In a server's function: the ask is answered later, or at once with 503. Never waits. */
void measure_answer(struct measure *m, struct http_ask *ask, struct http_answer *out);

/* All asks are answered, and later ones get 503: before http_server_stop. NULL is legal. */
void measure_stop(struct measure *m);

/* After http_server_stop. NULL is legal. */
void measure_free(struct measure *m);

#endif
