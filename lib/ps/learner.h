/*
 * learner.h - what the files of a learner share.
 */
#ifndef PS_LEARNER_H
#define PS_LEARNER_H

#include "ps/ps_impl.h"

#define LEARNER_MAX_GRAPHS 4  /* of different numbers of rows */
#define LEARNER_MAX_PARTS  64 /* of one item, whose leaves are more operations than a graph has */

/* A learner's device. */
struct learner_device {
	struct gpusim *g;
	const struct task *task;
	bool fed; /* samples come with each item */
	struct shape shape;
	struct gpusim_comm *comm;
	struct replica r;
	uint64_t version; /* of the weights it has, plus 1; 0: none */
	uint32_t epoch;	  /* whose order there is, plus 1; 0: none */
	uint64_t seed;
	uint32_t augment, leaf;
	uint32_t *order, *mine; /* of the epoch; of an item */
	uint32_t *draws;	/* what becomes of its images */
	uint8_t *labels, *staging;
	struct learner_graph {
		uint32_t rows; /* 0: none */
		struct gpusim_graph part[LEARNER_MAX_PARTS];
		unsigned nparts;
	} graph[LEARNER_MAX_GRAPHS];
};

/* Take a device, waiting for it at most so long. */
enum rc learner_device_open(struct learner_device *b, struct gpusim *g, uint32_t wait_ms,
			    struct err *err);
void learner_device_close(struct learner_device *b);

/* What the server says of its items. */
struct learner_items {
	uint64_t seed;
	uint32_t batch;	  /* images, at most */
	uint32_t augment; /* what becomes of them */
	uint32_t leaf;	  /* of exact sums; 0: gradients are floats */
};

/* Once the server is known. All training images are
 * placed there; or, where there is no memory for them, or they are fed, a minibatch. */
enum rc learner_device_place(struct learner_device *b, const struct task *task,
			     const struct learner_items *items, struct err *err);

/* Have weights at least as new as the version, from another device (README of ps.h: two copies, of which
 * one is whole). */
enum rc learner_device_fetch(struct learner_device *b, struct gpusim_device device,
			     uint64_t versions, const uint64_t copy[2], uint64_t version,
			     struct err *err);

/* An item of the learner's own samples; valid until the next. */
enum rc learner_device_pick(struct learner_device *b, uint32_t epoch, uint32_t first, uint32_t rows,
			    struct minibatch *out, struct err *err);

/* The gradient of an item, and its loss. */
enum rc learner_device_compute(struct learner_device *b, const struct minibatch *m, double *loss,
			       struct err *err);

/* The gradient, and the batch's statistics, to another device. */
enum rc learner_device_push(struct learner_device *b, struct gpusim_device device, uint64_t addr,
			    struct err *err);

#endif
