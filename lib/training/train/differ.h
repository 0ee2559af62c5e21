/*
 * differ.h - the ways in which a training differs from all-reduce over the same samples.
 */
#ifndef TRAIN_DIFFER_H
#define TRAIN_DIFFER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "train/config.h"

enum differ {
	DIFFER_AVERAGED = 1 << 0,  /* workers train alone between two averages of their weights */
	DIFFER_STALE = 1 << 1,	   /* gradients of older weights count */
	DIFFER_ASYNC = 1 << 2,	   /* of any older weights */
	DIFFER_BATCHNORM = 1 << 3, /* batch norm over each worker's own samples */
	DIFFER_BATCH = 1 << 4,	   /* a different number of samples a step */
};

/* All but DIFFER_BATCH. batchnorm: the net has batch norm. */
unsigned differ_of(const struct train_config *c, uint32_t workers, bool batchnorm);

/* Append the reasons of a set, separated by "; ": no comma, no quote. False: out of memory. */
void differ_text(unsigned differs, struct buf *out);

#endif
