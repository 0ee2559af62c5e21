/*
 * pipeline_impl.h - what the files of this room share. Nobody else includes it.
 */
#ifndef PIPELINE_IMPL_H
#define PIPELINE_IMPL_H

#include <stdio.h>

#include "pipeline/pipeline.h"

/* No rows; no stage has a rank. NULL: out of memory. */
struct pipeline *pipeline_new(void);

/* Append an action to a row. False: out of memory. */
bool pipeline_append(struct pipeline *p, uint32_t rank, struct pipeline_action a);

/* The stage whose value a pass of `stage` needs: the one before for F, the one after for B and I; PIPELINE_NOBODY:
 * none. */
static inline uint32_t
pipeline_before(const struct pipeline *p, enum pipeline_kind k, uint32_t stage)
{
	if (k == PIPELINE_F)
		return stage ? stage - 1 : PIPELINE_NOBODY;
	return stage + 1 < p->nstages ? stage + 1 : PIPELINE_NOBODY;
}

static inline bool
pipeline_sends(enum pipeline_kind k)
{
	return k == PIPELINE_SEND_F || k == PIPELINE_SEND_B;
}

static inline bool
pipeline_is_message(enum pipeline_kind k)
{
	return k >= PIPELINE_SEND_F && k <= PIPELINE_RECV_B;
}

/*
 * pipeline_derive - put in sends and receives where PyTorch's _add_send_recv puts them: a send right behind the
 * action that makes its value, its receive at the same moment in the other row.
 *
 * BADDATA: actions wait for each other; NOMEM. The schedule is then unchanged.
 */
enum rc pipeline_derive(struct pipeline *p, struct err *err);

/*
 * pipeline_run - take each row's actions in order, as far as they go.
 *
 *	step	runs action i of a rank; false: it has to wait for one of a stage before or behind
 *	at	by rank: the number of actions that have run; zeroed by the caller
 *
 * False: out of memory.
 */
typedef bool pipeline_step(void *arg, uint32_t rank, size_t i);
bool pipeline_run(const struct pipeline *p, pipeline_step *step, void *arg, size_t *at);

#endif
