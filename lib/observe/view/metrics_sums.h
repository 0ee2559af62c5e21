/*
 * metrics_sums.h - the sums of the devices' counters, including lost devices. For metrics.c.
 */
#ifndef VIEW_METRICS_SUMS_H
#define VIEW_METRICS_SUMS_H

#include <stddef.h>
#include <stdint.h>

#include "view/metrics.h"

/* A struct flight_counts as words, then other sums. */
#define SUM_OF(field) (offsetof(struct flight_counts, field) / sizeof(uint64_t))
enum {
	SUM_COUNTS = sizeof(struct flight_counts) / sizeof(uint64_t),
	SUM_RECORDS = SUM_COUNTS, /* written */
	SUM_LOST,		  /* overwritten by later ones */
	SUM_UNRECORDED,		  /* threads that found no ring */
	SUM_WORDS,
	SUM_OPS = SUM_OF(failed), /* words that are of operations by kind and size */
	SUM_OWN = SUM_WORDS - SUM_OPS
};

/* A device's own sums: the words from SUM_OPS on. */
struct sums_device {
	uint64_t id;
	uint64_t own[SUM_OWN];
};
#define SUM_OWN_OF(field) (SUM_OF(field) - SUM_OPS)

/* The sum over all devices, of one kind of operations and class of sizes. */
struct sums_op {
	uint64_t n, bytes, ns;
	uint64_t bucket[FLIGHT_BUCKETS];
};

/* Add the counters of a world's devices. RC_NOMEM: some may be missing until the next time. */
enum rc sums_take(struct metrics *m, const struct world *w, struct err *err);

uint64_t sums_total(const struct metrics *m, size_t word);
struct sums_op sums_op(const struct metrics *m, unsigned coll, unsigned class);
/* NULL: the device is unknown. */
const struct sums_device *sums_device(const struct metrics *m, uint64_t id);

#endif
