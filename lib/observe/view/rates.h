/*
 * rates.h - the work of all devices between two worlds: operations, bytes, and the operations' times.
 *
 * From counters that only grow, of devices whose process is the same in both worlds.
 */
#ifndef VIEW_RATES_H
#define VIEW_RATES_H

#include "view/world.h"

struct rates {
	double seconds;	       /* between the two; 0: unknown */
	double ops;	       /* operations of ranks that succeeded, a second */
	double bytes;	       /* of chunks that were sent to peers, a second */
	double mean_us;	       /* of an operation on a rank; 0: there was none */
	double p50_us, p99_us; /* from a histogram of powers of two, so within a factor of two */
	double waiting;	       /* share of the ranks' time that was spent waiting for peers */
};

/* A device's work between the two worlds. The current operation's time so far counts; over parallel
 * streams busy_ns is the sum, and waited_ns at most the elapsed time. */
struct rates_work {
	uint64_t ops, ns, sent, received, busy_ns, waited_ns;
	uint64_t bucket[FLIGHT_BUCKETS];
};

/* The work of now->device[i]. False: no world before, or the device had another process; all is 0. */
bool rates_of_device(const struct world *now, const struct world *before, size_t i,
		     struct rates_work *out);

/* Bytes sent so far of the chunk in flight to another device, and their share of it; 0: none in flight. */
uint64_t rates_on_way(const struct world *w, const struct world_recorder *r,
		      const struct flight_live *l, double *share);

/* before NULL: all 0. */
void rates_between(const struct world *now, const struct world *before, struct rates *out);

#endif
