/*
 * learner.h - what the files of a learner share.
 */
#ifndef PS_LEARNER_H
#define PS_LEARNER_H

#include "ps/ps_impl.h"

#define LEARNER_MAX_GRAPHS 4 /* of different numbers of rows */

/* A learner's device. */
struct bench {
	struct gpusim *g;
	const struct task *task;
	struct shape shape;
	struct gpusim_comm comm;
	struct replica r;
	uint64_t version; /* of the weights it has, plus 1; 0: none */
	uint32_t epoch;	  /* whose order there is, plus 1; 0: none */
	uint64_t seed;
	uint32_t *order, *mine; /* of the epoch; of an item */
	uint8_t *labels, *staging;
	struct {
		uint32_t rows;
		uint64_t id;
	} graph[LEARNER_MAX_GRAPHS];
};

/* Take a device, place all training images there, or where there is no memory for them a minibatch. */
enum rc bench_open(struct bench *b, struct gpusim *g, const struct task *task, struct err *err);
void bench_close(struct bench *b);

/* Once the server is known: how large its items are. */
enum rc bench_place(struct bench *b, uint64_t seed, uint32_t batch, struct err *err);

/* Have weights at least as new as the version, from another device (README of ps.h: two copies, of which
 * one is whole). */
enum rc bench_fetch(struct bench *b, uint64_t device, uint64_t versions, const uint64_t copy[2],
		    uint64_t version, struct err *err);

/* The gradient of an item, and its loss. */
enum rc bench_compute(struct bench *b, uint32_t epoch, uint32_t first, uint32_t rows, float *loss,
		      struct err *err);

/* The gradient, and the batch's statistics, to another device. */
enum rc bench_push(struct bench *b, uint64_t device, uint64_t addr, struct err *err);

#endif
