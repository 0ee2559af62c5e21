/* Fuzz a device's part of an algorithm from a file: accepted parts make plans that stay inside
 * their buffers. */
#include "coll/schedule.h"
#include "coll/shape.h"

#include "fuzz.h"

static void
check(const struct plan_args *a, const struct plan *plan)
{
	struct shape shape = shape_of_args(a);
	const uint64_t len[] = {shape.in, shape.out, plan->ntmp, plan->nwide};

	for (size_t i = 0; i < plan->nstep; i++) {
		const struct plan_step *s = &plan->step[i];

		if (s->kind != STEP_RECV && s->kind != STEP_FINISH)
			require(s->src_off + s->count <= len[s->src]);
		if (s->kind != STEP_SEND)
			require(s->dst_off + s->count <= len[s->dst]);
		if (s->kind == STEP_REDUCE)
			require(s->with_off + s->count <= len[s->with]);
		require(s->count > 0);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = {0};
	struct schedule *s;

	if (schedule_unpack(data, size, &s, &err)) {
		require(err.text[0] != '\0');
		return 0;
	}
	for (int how = 0; how < 4; how++) {
		struct plan_args a = {.coll = s->coll,
				      .rank = s->rank,
				      .nranks = s->nranks,
				      .root = s->root,
				      .nelem = how & 1 ? 3ull * s->nranks : s->nranks,
				      .chunk = 2,
				      .wide = how & 2,
				      .schedule = s};
		struct plan plan = {0};

		if (plan_build(&a, NULL, &plan, &err) == RC_OK)
			check(&a, &plan);
		plan_fini(&plan);
	}
	schedule_free_all(s, 1);
	return 0;
}
