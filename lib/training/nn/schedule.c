#include "nn/schedule.h"

#include <math.h>

#define ONE_CYCLE_BEGIN (1.0 / 25)
#define ONE_CYCLE_END	(ONE_CYCLE_BEGIN / 1e4)
#define ONE_CYCLE_UP	0.3 /* of all steps */

/* From a to b by half a cosine; at: 0 to 1. */
static double
anneal(double a, double b, double at)
{
	return b + (a - b) / 2 * (1 + cos(M_PI * at));
}

/* The top is reached at step `up`, a fraction; the end in the last step. */
static double
one_cycle(double step, double total)
{
	double up = ONE_CYCLE_UP * total - 1, end = total - 1;

	if (step <= up)
		return anneal(ONE_CYCLE_BEGIN, 1, step / up);
	return anneal(1, ONE_CYCLE_END, (step - up) / (end - up));
}

double
lr_factor(const struct lr_schedule *s, uint64_t step, uint64_t per_epoch, uint64_t total)
{
	switch (s->kind) {
	case LR_STEP:
		if (s->step_epochs == 0 || per_epoch == 0)
			return 1;
		return pow(s->gamma, (double)(step / per_epoch / s->step_epochs));
	case LR_COSINE:
		return total ? anneal(1, 0, (double)step / (double)total) : 1;
	case LR_ONE_CYCLE:
		return total ? one_cycle((double)step, (double)total) : 1;
	default:
		return 1;
	}
}
