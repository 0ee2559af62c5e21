/*
 * schedule.h - learning rate schedules.
 */
#ifndef NN_SCHEDULE_H
#define NN_SCHEDULE_H

#include <stdint.h>

enum lr_kind { LR_CONSTANT, LR_STEP, LR_COSINE, LR_ONE_CYCLE };

struct lr_schedule {
	enum lr_kind kind;
	uint32_t step_epochs; /* step: each time this many epochs are over ... */
	double gamma;	      /* ... it is multiplied by this */
};

/*
 * lr_factor - the learning rate's factor in a step.
 *
 *	step	of all steps of all epochs, from 0; below total
 *	per_epoch	steps of an epoch
 *
 * step: gamma to the power of step's epoch / step_epochs, rounded down (1 if step_epochs is 0).
 * cosine: from 1 to 0 by half a cosine. one-cycle: from 1/25 up to 1 in the first 30 %, then down to
 * 1/250000, by cosines, as PyTorch's OneCycleLR with its defaults; the momentum stays.
 * Checked by: tests/unit/nn/t_schedule.c
 */
double lr_factor(const struct lr_schedule *s, uint64_t step, uint64_t per_epoch, uint64_t total);

#endif
