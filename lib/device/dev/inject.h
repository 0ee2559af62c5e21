/*
 * inject.h - the table of faults that wait for a point of a collective, and of active ones. It only says
 * what is due.
 *
 * A fault at a point becomes due once. Slowness stays: from its point, or from now, until its time or its
 * steps are over; at a point without either, for the rest of that operation.
 *
 * Threads: any. An empty table costs one relaxed load.
 */
#ifndef DEV_INJECT_H
#define DEV_INJECT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"

struct inject_armed {
	struct gpusim_fault f;
	bool live;	   /* slow: it has begun, in operation f.op */
	uint64_t until_ns; /* its end; UINT64_MAX: not by time */
};

struct inject_table {
	pthread_mutex_t lock;
	atomic_uint n; /* changed with the lock held */
	struct inject_armed armed[GPUSIM_FAULTS_MAX];
	uint64_t fired;
};

/* A step that is about to run. */
struct inject_point {
	uint64_t comm;
	enum gpusim_coll coll;
	uint64_t op;   /* its number; of a pair outside the count: the pair's number */
	uint32_t step; /* from 1 */
};

void inject_init(struct inject_table *t);
void inject_fini(struct inject_table *t);

/* Some fault is armed. */
static inline bool
inject_any(const struct inject_table *t)
{
	return t && atomic_load_explicit(&t->n, memory_order_relaxed) > 0;
}

/* Add a checked fault: one at a point, or slowness, which begins now without a point. RC_BUSY: the table is
 * full. */
enum rc inject_arm(struct inject_table *t, const struct gpusim_fault *f, uint64_t now_ns,
		   struct err *err);
void inject_clear(struct inject_table *t);

/* Count n faults that took place outside the table. */
void inject_fired(struct inject_table *t, uint64_t n);

/* Remove the next fault due at this point, uncounted; false: none. */
bool inject_due(struct inject_table *t, const struct inject_point *at, struct gpusim_fault *out);

/* The delay of this step, which counts as one step of each slowness. */
uint64_t inject_slow_ns(struct inject_table *t, const struct inject_point *at, uint64_t now_ns);

/* List at most max armed faults, and count those that took place. Returns the number listed. */
size_t inject_list(struct inject_table *t, uint64_t now_ns, struct gpusim_fault *out, size_t max,
		   uint64_t *fired);

#endif
