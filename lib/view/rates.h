/*
 * rates.h - how much all devices did between two worlds: operations, bytes, and how long operations took.
 *
 * From counters that only grow, of devices whose process is the same in both worlds.
 */
#ifndef VIEW_RATES_H
#define VIEW_RATES_H

#include "view/world.h"

struct rates {
	double seconds;	       /* between the two; 0: nothing is known */
	double ops;	       /* operations of ranks that succeeded, a second */
	double bytes;	       /* of chunks that were sent to peers, a second */
	double mean_us;	       /* of an operation on a rank; 0: there was none */
	double p50_us, p99_us; /* from a histogram of powers of two, so within a factor of two */
	double waiting;	       /* share of the ranks' time that was spent waiting for peers */
};

/* What a device did between the two. Times of the operation at hand count so far; of streams beside each other busy_ns is
 * the sum, and waited_ns at most the time that has passed. */
struct rates_work {
	uint64_t ops, ns, sent, received, busy_ns, waited_ns;
	uint64_t bucket[FLIGHT_BUCKETS];
};

/* Of now->device[i]. False: there is no world before, or its process was another then, and all is 0. */
bool rates_of_device(const struct world *now, const struct world *before, size_t i,
		     struct rates_work *out);

/* Bytes of the chunk on its way to another device that have left so far, and their share of it; 0: there is none. */
uint64_t rates_on_way(const struct world *w, const struct world_recorder *r,
		      const struct flight_live *l, double *share);

/* before NULL: all 0. */
void rates_between(const struct world *now, const struct world *before, struct rates *out);

#endif
