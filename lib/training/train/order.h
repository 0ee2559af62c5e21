/*
 * order.h - the order of the samples, their division among workers, and the learning rates:
 * functions of seed and epoch.
 */
#ifndef TRAIN_ORDER_H
#define TRAIN_ORDER_H

#include <stdint.h>

#include "nn/schedule.h"

/* The order of an epoch's n samples: order, the caller's n entries, becomes a permutation of 0..n-1. */
void order_epoch(uint64_t seed, uint32_t epoch, uint32_t n, uint32_t *order);

/*
 * order_share - worker q's part of n things, [*begin, *end).
 *
 *	whole the size of groups that stay together, at least 1: begin and end are multiples of it, or end is n
 *
 * As even as dataset_share, and the same if whole is 1.
 */
void order_share(uint64_t n, uint32_t whole, uint32_t q, uint32_t nworkers, uint64_t *begin,
		 uint64_t *end);

/* The size of a step; the last step of an epoch has the rest. */
struct order_steps {
	uint64_t global; /* samples of a step */
	uint32_t whole;	 /* groups that stay on one worker, as in order_share */
	uint32_t nworkers;
};

/*
 * order_deal - worker q's samples of an order of n, step after step.
 *
 * Step s is samples [s*global, (s+1)*global) of the order, shared out by order_share. mine: at
 * least order_most entries. Returns their number.
 */
uint64_t order_deal(const uint32_t *order, uint32_t n, const struct order_steps *s, uint32_t q,
		    uint32_t *mine);

/* The most samples that a worker has; and the most rows of a worker in a step. */
uint64_t order_most(uint32_t n, const struct order_steps *s);
uint64_t order_most_rows(uint32_t n, const struct order_steps *s);

/* rates [out]: the factor of the learning rate in each of an epoch's nsteps. */
void order_rates(const struct lr_schedule *schedule, uint32_t epoch, uint32_t epochs,
		 uint64_t nsteps, float *rates);

#endif
