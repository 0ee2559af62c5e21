/* Schedules as bytes, and the plans made of them. tests/unit/algo/t_lower.c tests whole algorithms. */
#include <stdlib.h>
#include <string.h>

#include "coll/check.h"
#include "coll/schedule.h"
#include "coll/shape.h"
#include "tap.h"

#define P 2
#define C 4 /* chunks */

/* Two ranks, C chunks: rank r adds up its half, and sends it back. */
static struct schedule *
halves(void)
{
	struct schedule *s = calloc(P, sizeof *s);

	for (uint32_t r = 0; s && r < P; r++) {
		uint32_t q = 1 - r, mine = r * C / 2, other = q * C / 2;
		const struct schedule_step step[] = {
		    {STEP_SEND, SCHEDULE_JOINED, PLAN_IN, 0, 0, q, 0, other, 0, 0, other, C / 2},
		    {STEP_RECV_REDUCE, SCHEDULE_JOINED | SCHEDULE_LAST, PLAN_IN, PLAN_OUT, 0, q, 0,
		     mine, mine, 0, mine, C / 2},
		    {STEP_SEND, SCHEDULE_JOINED, PLAN_OUT, 0, 0, q, 1, mine, 0, 0, mine, C / 2},
		    {STEP_RECV, SCHEDULE_JOINED, 0, PLAN_OUT, 0, q, 1, 0, other, 0, other, C / 2}};

		s[r] = (struct schedule){.name = "halves",
					 .coll = GPUSIM_ALLREDUCE,
					 .rank = r,
					 .nranks = P,
					 .nchunks = C,
					 .interval = 1};
		for (size_t i = 0; i < sizeof step / sizeof *step; i++)
			schedule_append(&s[r], step[i]);
	}
	return s;
}

static void
test_build(const struct schedule *s)
{
	struct plan_args a = {.coll = GPUSIM_ALLREDUCE, .nranks = P, .schedule = s};
	struct plan_counts counts;
	struct plan plan = {0};
	struct err err = {0};
	bool good = true;

	for (a.nelem = 0; a.nelem <= 3 * C + 1; a.nelem++)
		for (a.chunk = 0; a.chunk < 5; a.chunk++)
			for (int how = 0; how < 4 && good; how++) {
				struct plan *plans;

				a.wide = how & 2;
				good = !plan_build_all(&a, NULL, &plans, &err) &&
				       !plan_check_plans(&a, (enum plan_place)(how & 1), plans,
							 NULL, &err);
				plan_free_all(plans, P);
			}
	if (!good)
		printf("# %s\n", err.text);
	ok(good, "any count, in messages of any size, in and out of place, wide or not");

	a.nelem = 10 * C;
	a.chunk = 0;
	good = !plan_build(&a, NULL, &plan, &err);
	plan_count(&plan, 1, &counts);
	ok(good && counts.total_messages == 2, "chunks side by side are one message");
	plan_fini(&plan);
	a.chunk = 10;
	good = !plan_build(&a, NULL, &plan, &err);
	plan_count(&plan, 1, &counts);
	ok(good && counts.total_messages == 4, "up to the length limit");
	plan_fini(&plan);
	a.chunk = 3;
	good = !plan_build(&a, NULL, &plan, &err);
	plan_count(&plan, 1, &counts);
	ok(good && counts.total_messages == 16 && counts.rounds == 5,
	   "a long chunk is cut in slices");
	plan_fini(&plan);
}

static bool
refuses(struct plan_args a, const char *says)
{
	struct plan plan = {0};
	struct err err = {0};

	return plan_build(&a, NULL, &plan, &err) == RC_INVAL && strstr(err.text, says) &&
	       !plan.nstep;
}

static void
test_takes(const struct schedule *s)
{
	struct plan_args a = {.coll = GPUSIM_ALLREDUCE, .nranks = P, .nelem = C, .schedule = s};

	a.coll = GPUSIM_ALLGATHER;
	ok(refuses(a, "algorithm halves is for allreduce, not "), "another collective");
	a.coll = GPUSIM_ALLREDUCE;
	a.nranks = 3;
	ok(refuses(a, "algorithm halves is for 2 ranks, not 3"), "another number of ranks");
	a.nranks = P;
	a.rank = 1;
	ok(refuses(a, "schedule of rank 0 given to rank 1"), "another rank's schedule");
	a.rank = 0;
	a.canonical = true;
	ok(refuses(a, "cannot be deterministic"), "a canonical sum");
	a.canonical = false;
	a.nelem = 1ull << 40;
	a.chunk = 1;
	ok(refuses(a, "use larger chunks"), "too many steps");
}

/* Every access of the plan is inside the buffers. */
static bool
inside(const struct plan_args *a, const struct plan *plan)
{
	struct shape shape = shape_of_args(a);
	const uint64_t len[] = {shape.in, shape.out, plan->ntmp, plan->nwide};

	for (size_t i = 0; i < plan->nstep; i++) {
		const struct plan_step *s = &plan->step[i];

		if (s->kind != STEP_RECV && s->kind != STEP_FINISH &&
		    s->src_off + s->count > len[s->src])
			return false;
		if (s->kind != STEP_SEND && s->dst_off + s->count > len[s->dst])
			return false;
		if (s->kind == STEP_REDUCE && s->with_off + s->count > len[s->with])
			return false;
	}
	return true;
}

static bool
harmless(const struct buf *b)
{
	struct schedule *s = NULL;
	struct err err = {0};
	bool good = true;

	if (schedule_unpack(b->data, b->len, &s, &err))
		return err.text[0] && !s;
	for (int how = 0; how < 4 && good; how++) {
		struct plan_args a = {.coll = s->coll,
				      .rank = s->rank,
				      .nranks = s->nranks,
				      .root = s->root,
				      .nelem = how & 1 ? 3 * s->nchunks : s->nranks,
				      .chunk = 2,
				      .wide = how & 2,
				      .schedule = s};
		struct plan plan = {0};

		if (plan_build(&a, NULL, &plan, &err) == RC_OK)
			good = inside(&a, &plan);
		plan_fini(&plan);
	}
	schedule_free_all(s, 1);
	return good;
}

static void
test_bytes(const struct schedule *s)
{
	struct schedule *again = NULL;
	struct buf b = {0}, twice = {0};
	bool good = schedule_pack(&s[1], &b);

	ok(good && schedule_unpack(b.data, b.len, &again, NULL) == RC_OK && again->nstep == 4 &&
	       again->rank == 1 && !strcmp(again->name, "halves") && schedule_pack(again, &twice) &&
	       twice.len == b.len && !memcmp(twice.data, b.data, b.len),
	   "packed and unpacked");
	buf_fini(&twice);
	schedule_free_all(again, 1);
	for (size_t n = 0; n < b.len; n++) {
		struct buf part = {.data = b.data, .len = n};

		good = good && harmless(&part) &&
		       schedule_unpack(b.data, n, &again, NULL) == RC_BADDATA;
	}
	ok(good, "a truncated schedule is rejected");
	for (size_t i = 0; i < b.len; i++)
		for (int bit = 0; bit < 8 && good; bit++) {
			b.data[i] ^= (char)(1 << bit);
			good = harmless(&b);
			b.data[i] ^= (char)(1 << bit);
		}
	ok(good, "with any bit changed it is rejected, or stays inside its buffers");
	buf_fini(&b);
}

int
main(void)
{
	struct schedule *s = halves();

	test_build(s);
	test_takes(s);
	test_bytes(s);
	schedule_free_all(s, P);
	return tap_done();
}
