/*
 * learner.h - shared by the files of a learner.
 */
#ifndef PS_LEARNER_H
#define PS_LEARNER_H

#include "ps/ps_impl.h"

#define LEARNER_MAX_GRAPHS 4 /* of different numbers of rows */
#define LEARNER_MAX_PARTS \
	64 /* of one item, whose leaves need more operations than a graph may have */

/* A learner's device. */
struct learner_device {
	struct gpusim *g;
	const struct task *task;
	bool fed; /* samples come with each item */
	struct shape shape;
	struct gpusim_comm *comm;
	struct replica r;
	uint64_t version; /* of the weights it has, plus 1; 0: none */
	uint32_t epoch;	  /* whose order is present, plus 1; 0: none */
	uint64_t seed;
	uint32_t augment, leaf;
	uint32_t *order, *mine; /* of the epoch; of an item */
	uint32_t *draws;	/* the augmentation of its images */
	uint8_t *labels, *staging;
	struct learner_graph {
		uint32_t rows; /* 0: none */
		struct gpusim_graph part[LEARNER_MAX_PARTS];
		unsigned nparts;
	} graph[LEARNER_MAX_GRAPHS];
};

/* Take a device, waiting for it at most wait_ms. */
enum rc learner_device_open(struct learner_device *b, struct gpusim *g, uint32_t wait_ms,
			    struct err *err);
void learner_device_close(struct learner_device *b);

/* The server's description of its items. */
struct learner_items {
	uint64_t seed;
	uint32_t batch;	  /* images, at most */
	uint32_t augment; /* augmentation of the images */
	uint32_t leaf;	  /* of exact sums; 0: gradients are floats */
};

/* Called once the server is known. Place all training images on the device; or only a minibatch, if
 * memory is short or the samples are fed. */
enum rc learner_device_place(struct learner_device *b, const struct task *task,
			     const struct learner_items *items, struct err *err);

/* Get weights at least as new as the version from another device, which has two copies of them; one
 * is always complete. */
enum rc learner_device_fetch(struct learner_device *b, struct gpusim_device device,
			     uint64_t versions, const uint64_t copy[2], uint64_t version,
			     struct err *err);

/* An item of the learner's own samples; valid until the next. */
enum rc learner_device_pick(struct learner_device *b, uint32_t epoch, uint32_t first, uint32_t rows,
			    struct minibatch *out, struct err *err);

/* The gradient of an item, and its loss. */
enum rc learner_device_compute(struct learner_device *b, const struct minibatch *m, double *loss,
			       struct err *err);

/* Copy the gradient and the batch's statistics to another device. */
enum rc learner_device_push(struct learner_device *b, struct gpusim_device device, uint64_t addr,
			    struct err *err);

#endif
