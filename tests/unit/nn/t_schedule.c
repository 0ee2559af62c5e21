/* Schedules of the learning rate, against values from PyTorch's formulas: StepLR,
 * CosineAnnealingLR(T_max = steps) and OneCycleLR with their defaults, worked out by hand. */
#include <math.h>

#include "nn/schedule.h"
#include "tap.h"

static bool
near(double a, double b)
{
	return fabs(a - b) <= 1e-12 * (1 + fabs(b));
}

static void
test_constant_and_step(void)
{
	struct lr_schedule constant = {.kind = LR_CONSTANT};
	struct lr_schedule step = {.kind = LR_STEP, .step_epochs = 2, .gamma = 0.1};
	struct lr_schedule none = {.kind = LR_STEP, .step_epochs = 0, .gamma = 0.1};

	ok(lr_factor(&constant, 0, 10, 50) == 1 && lr_factor(&constant, 49, 10, 50) == 1,
	   "constant is 1");
	ok(lr_factor(&step, 0, 10, 50) == 1 && lr_factor(&step, 19, 10, 50) == 1,
	   "step: 1 in the first two epochs");
	ok(near(lr_factor(&step, 20, 10, 50), 0.1) && near(lr_factor(&step, 39, 10, 50), 0.1),
	   "step: gamma in the next two");
	ok(near(lr_factor(&step, 40, 10, 50), 0.01), "step: gamma squared in the fifth");
	ok(lr_factor(&none, 40, 10, 50) == 1, "steps of no epochs change nothing");
}

static void
test_cosine(void)
{
	struct lr_schedule s = {.kind = LR_COSINE};

	ok(lr_factor(&s, 0, 5, 10) == 1, "cosine begins at 1");
	ok(near(lr_factor(&s, 5, 5, 10), 0.5), "cosine is at a half in the middle");
	ok(near(lr_factor(&s, 2, 5, 10), 0.9045084971874737), "cosine after a fifth");
	ok(near(lr_factor(&s, 9, 5, 10), 0.024471741852423234), "cosine in the last step of ten");
}

/* With ten steps the top is at 0.3 * 10 - 1 = 2, the end at 9. */
static void
test_one_cycle(void)
{
	static const double want[10] = {0.04,
					0.52,
					1,
					0.9504846320134737,
					0.8117456539497631,
					0.6112620219362893,
					0.38874197806371074,
					0.1882583460502371,
					0.04951936798652627,
					4e-06};
	struct lr_schedule s = {.kind = LR_ONE_CYCLE};
	bool good = true;

	for (unsigned i = 0; i < 10; i++)
		good = good && near(lr_factor(&s, i, 5, 10), want[i]);
	ok(good, "one-cycle of ten steps");
	/* 100 steps: the top is at 29; halfway up at step 14.5. */
	ok(near(lr_factor(&s, 29, 5, 100), 1), "one-cycle: the top after 30 %%");
	ok(near(lr_factor(&s, 14, 5, 100) + lr_factor(&s, 15, 5, 100), 1.04),
	   "one-cycle: the way up is symmetrical");
	ok(near(lr_factor(&s, 99, 5, 100), 4e-6), "one-cycle: the end");
	ok(near(lr_factor(&s, 0, 1, 1), 4e-6), "one-cycle of one step is its end");
	for (uint64_t total = 1; total < 500; total++)
		for (uint64_t i = 0; i < total; i++) {
			double f = lr_factor(&s, i, 7, total);

			good = good && f >= 4e-6 * (1 - 1e-9) && f <= 1;
		}
	ok(good, "one-cycle stays between its end and 1, whatever the number of steps");
}

int
main(void)
{
	test_constant_and_step();
	test_cosine();
	test_one_cycle();
	return tap_done();
}
