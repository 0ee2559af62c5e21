/*
 * record_impl.h - shared by the files that record graphs.
 */
#ifndef TRAIN_RECORD_IMPL_H
#define TRAIN_RECORD_IMPL_H

#include "train/trainer_impl.h"

/* The target of emission. */
struct recorder {
	struct trainer *t;
	struct gpusim_ops *o;
};

struct emit_sink make_sink(struct recorder *rec);

/* Ends the list. */
enum rc make_graph(struct trainer *t, struct gpusim_ops *o, struct gpusim_graph *graph,
		   struct err *err);

/* A rank's part of a global batch: a whole part, moving, or of the rest at the end of an epoch. */
struct batch train_batch(const struct trainer *t, bool moving, uint32_t rank);

/* Append bytes of one rank to another. */
void send_recv(struct recorder *rec, uint32_t from, uint64_t src, uint32_t to, uint64_t dst,
	       uint64_t nbytes);

/* Send the weights to all ranks; or all values that training changes, if another rank may have to
 * take over. */
void return_weights(struct recorder *rec);

/* The optimizer's step. */
void update(struct recorder *rec, uint32_t rank, bool moving, const struct emit_sink *sink);

/* ---- record_leaves.c: the steps of a deterministic training */
enum rc record_leaves(struct trainer *t, bool moving, struct steps *steps, struct err *err);

#endif
