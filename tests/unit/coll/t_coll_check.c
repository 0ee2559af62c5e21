/* The checker can fail: plans with one error each, and the message for each. */
#include <stdlib.h>
#include <string.h>

#include "coll/check.h"
#include "tap.h"

#define P 2
#define N 4

/* Plans of two ranks, changed by the test. */
struct pair {
	struct plan_args a;
	struct plan *plans;
};

static bool
pair_init(struct pair *t, enum gpusim_coll coll, const char *algo)
{
	struct err err = {0};

	t->a = (struct plan_args){
	    .coll = coll, .nranks = P, .root = 1, .nelem = coll == GPUSIM_BARRIER ? 0 : N};
	if (!plan_build_all(&t->a, algo, &t->plans, &err))
		return true;
	printf("#   %s\n", err.text);
	return false;
}

static struct plan_step *
step(struct pair *t, uint32_t rank, size_t i)
{
	return &t->plans[rank].step[i];
}

/* Check the plans and release them: rejected with a message that contains `says`. */
static bool
refused(struct pair *t, enum plan_place place, const char *says)
{
	struct err err = {0};
	enum rc rc = plan_check_plans(&t->a, place, t->plans, NULL, &err);

	plan_free_all(t->plans, P);
	if (rc == RC_FAILED && strstr(err.text, says))
		return true;
	printf("#   want: %s\n#   got %d: %s\n", says, rc, err.text);
	return false;
}

static void
drop_last(struct pair *t, uint32_t rank)
{
	t->plans[rank].nstep--;
}

static void
swap(struct plan_step *x, struct plan_step *y)
{
	struct plan_step s = *x;

	*x = *y;
	*y = s;
}

/* Naive allreduce of two: rank 0 is recv-reduce, finish, send; rank 1 is send, recv. */
static void
test_messages(void)
{
	struct pair t;

	if (!pair_init(&t, GPUSIM_ALLREDUCE, "naive"))
		return;
	swap(step(&t, 1, 0), step(&t, 1, 1));
	step(&t, 1, 0)->round = 0;
	ok(refused(&t, PLAN_OUT_OF_PLACE,
		   "allreduce: rank 0 step 0 (recv-reduce, round 0): deadlock: waits for rank 1"),
	   "two ranks that wait for each other");

	pair_init(&t, GPUSIM_ALLREDUCE, "naive");
	drop_last(&t, 1);
	ok(refused(&t, PLAN_IN_PLACE, "rank 0 step 2: rank 1 never receives it"),
	   "a message that no rank receives");

	pair_init(&t, GPUSIM_ALLREDUCE, "naive");
	drop_last(&t, 0);
	ok(refused(&t, PLAN_OUT_OF_PLACE, "rank 1 step 1 (receive, round 1): deadlock"),
	   "a message that no rank sends");

	pair_init(&t, GPUSIM_ALLREDUCE, "naive");
	step(&t, 1, 1)->count--;
	ok(refused(&t, PLAN_OUT_OF_PLACE, "expects 3 elements, but step 2 of rank 0 sends 4"),
	   "a receive of another count");

	pair_init(&t, GPUSIM_ALLREDUCE, "naive");
	step(&t, 1, 1)->peer = 1;
	ok(refused(&t, PLAN_OUT_OF_PLACE, "peer 1 of 2 ranks"), "a rank that is its own peer");

	pair_init(&t, GPUSIM_ALLREDUCE, "naive");
	t.a.chunk = N - 1;
	ok(refused(&t, PLAN_OUT_OF_PLACE, "more than the chunk 3"),
	   "a message larger than the chunk");

	pair_init(&t, GPUSIM_ALLREDUCE, "naive");
	step(&t, 0, 0)->round = 7;
	ok(refused(&t, PLAN_OUT_OF_PLACE, "comes after round 7"), "a round that decreases");

	pair_init(&t, GPUSIM_ALLREDUCE, "naive");
	step(&t, 1, 0)->count = 0;
	ok(refused(&t, PLAN_OUT_OF_PLACE, "an empty message"), "an empty message outside barrier");

	pair_init(&t, GPUSIM_ALLREDUCE, "naive");
	step(&t, 1, 0)->kind = STEP_RECV_ALL + 1;
	ok(refused(&t, PLAN_OUT_OF_PLACE, "unknown kind"), "a step of no kind");
}

static void
test_memory(void)
{
	struct pair t;

	pair_init(&t, GPUSIM_ALLREDUCE, "naive");
	step(&t, 1, 0)->src_off = 1;
	ok(refused(&t, PLAN_OUT_OF_PLACE, "elements 1..+4 of in, which has 4"),
	   "a read past the end of a buffer");

	pair_init(&t, GPUSIM_ALLREDUCE, "naive");
	step(&t, 1, 0)->src_off = UINT64_MAX;
	ok(refused(&t, PLAN_OUT_OF_PLACE, "of in, which has 4"), "an offset that would wrap");

	pair_init(&t, GPUSIM_REDUCE, "naive");
	step(&t, 0, 0)->src = PLAN_OUT;
	ok(refused(&t, PLAN_IN_PLACE, "of out, which has 0"), "OUT at a rank that has none");

	pair_init(&t, GPUSIM_ALLREDUCE, "naive");
	step(&t, 1, 0)->src = PLAN_OUT;
	ok(refused(&t, PLAN_OUT_OF_PLACE, "reads element 0, which nothing wrote"),
	   "a read of an element that nothing wrote");

	pair_init(&t, GPUSIM_ALLREDUCE, "naive");
	step(&t, 1, 1)->dst = PLAN_IN;
	ok(refused(&t, PLAN_OUT_OF_PLACE, "writes to in, element 0"), "a write to the input");
}

/* Both send IN and add what they receive: right out of place, a race in place. */
static void
test_race(void)
{
	struct pair t = {.a = {.coll = GPUSIM_ALLREDUCE, .nranks = P, .nelem = N}};
	struct plan plans[P] = {{0}};
	struct err err = {0};

	for (uint32_t r = 0; r < P; r++) {
		plan_append(&plans[r],
			    (struct plan_step){.kind = STEP_SEND, .peer = 1 - r, .count = N});
		plan_append(&plans[r], (struct plan_step){.kind = STEP_RECV_REDUCE,
							  .dst = PLAN_OUT,
							  .peer = 1 - r,
							  .count = N});
		plan_append(&plans[r],
			    (struct plan_step){.kind = STEP_FINISH, .dst = PLAN_OUT, .count = N});
	}
	ok(!plan_check_plans(&t.a, PLAN_OUT_OF_PLACE, plans, NULL, &err),
	   "an exchange of whole vectors is right out of place");
	ok(plan_check_plans(&t.a, PLAN_IN_PLACE, plans, NULL, &err) == RC_FAILED &&
	       strstr(err.text, "overwrites what step 0 posted to rank"),
	   "in place it overwrites data that the peer may not have read yet");
	for (uint32_t r = 0; r < P; r++)
		plan_fini(&plans[r]);
}

/* The message has been received, but the sender cannot know: rank 1 sent before it received. */
static void
test_unknown(void)
{
	struct pair t;

	pair_init(&t, GPUSIM_ALLREDUCE, "naive");
	t.plans[0].nstep = t.plans[1].nstep = 0;
	t.plans[1].ntmp = N;
	for (uint32_t r = 0; r < P; r++) {
		plan_append(&t.plans[r],
			    (struct plan_step){.kind = STEP_SEND, .peer = 1 - r, .count = N});
		plan_append(&t.plans[r], (struct plan_step){.kind = STEP_RECV,
							    .dst = r ? PLAN_TMP : PLAN_OUT,
							    .peer = 1 - r,
							    .count = N});
	}
	ok(refused(&t, PLAN_IN_PLACE,
		   "rank 0 step 1 (receive, round 0): overwrites what step 0 posted to rank 1"),
	   "a range is safe once the sender knows that it was read, not once it was read");
}

/* Each posts two chunks before it receives: with one in flight, neither rank reaches its receive. */
static void
test_window(void)
{
	struct pair t;

	pair_init(&t, GPUSIM_ALLREDUCE, "naive");
	t.plans[0].nstep = t.plans[1].nstep = 0;
	for (uint32_t r = 0; r < P; r++) {
		for (uint32_t i = 0; i <= PLAN_WINDOW; i++)
			plan_append(&t.plans[r], (struct plan_step){.kind = STEP_SEND,
								    .peer = 1 - r,
								    .src_off = i,
								    .count = 1});
		for (uint32_t i = 0; i <= PLAN_WINDOW; i++)
			plan_append(&t.plans[r], (struct plan_step){.kind = STEP_RECV_REDUCE,
								    .dst = PLAN_OUT,
								    .peer = 1 - r,
								    .src_off = i,
								    .dst_off = i,
								    .count = 1});
	}
	ok(refused(&t, PLAN_OUT_OF_PLACE,
		   "rank 0 step 1 (send, round 0): deadlock: waits for rank 1 to receive"),
	   "a plan that needs more than PLAN_WINDOW chunks in flight");
}

static void
test_contributions(void)
{
	struct pair t;

	pair_init(&t, GPUSIM_ALLREDUCE, "naive");
	t.plans[1].nstep = 0;
	plan_append(&t.plans[1],
		    (struct plan_step){.kind = STEP_COPY, .dst = PLAN_OUT, .count = N});
	t.plans[0].nstep = 0;
	plan_append(&t.plans[0],
		    (struct plan_step){.kind = STEP_COPY, .dst = PLAN_OUT, .count = N});
	ok(refused(&t, PLAN_OUT_OF_PLACE, "rank 0 out element 0: without rank 1"),
	   "an output without one rank's contribution");

	pair_init(&t, GPUSIM_REDUCE, "naive");
	plan_append(&t.plans[0], *step(&t, 0, 0));
	swap(step(&t, 1, 0), step(&t, 1, 1));
	*step(&t, 1, 0) = *step(&t, 1, 1);
	step(&t, 1, 1)->src = PLAN_OUT;
	ok(refused(&t, PLAN_OUT_OF_PLACE, "counts rank 0 twice in element 0"),
	   "a contribution counted twice");

	pair_init(&t, GPUSIM_ALLREDUCE, "naive");
	step(&t, 0, 0)->count = step(&t, 1, 0)->count = 2;
	step(&t, 1, 0)->src_off = 2;
	ok(refused(&t, PLAN_OUT_OF_PLACE, "is input element 2, reduced with 0"),
	   "two different elements reduced together");

	pair_init(&t, GPUSIM_BROADCAST, "naive");
	step(&t, 1, 1)->count--;
	ok(refused(&t, PLAN_OUT_OF_PLACE, "broadcast: rank 1 out element 3: never written"),
	   "an output element that nothing wrote");

	pair_init(&t, GPUSIM_ALLTOALL, "pairwise");
	step(&t, 1, 0)->src_off = 2;
	ok(refused(&t, PLAN_OUT_OF_PLACE,
		   "alltoall: rank 0 out element 2: is input element 2, not 0"),
	   "the wrong block");

	pair_init(&t, GPUSIM_BARRIER, NULL);
	t.plans[0].nstep = t.plans[1].nstep = 1;
	swap(step(&t, 1, 0), step(&t, 1, 1));
	ok(refused(&t, PLAN_OUT_OF_PLACE, "rank 0 leaves without knowing that rank 1 entered"),
	   "a barrier that one rank can leave too early");
}

static void
test_finish(void)
{
	struct pair t;

	pair_init(&t, GPUSIM_REDUCE, "naive");
	drop_last(&t, 1);
	ok(refused(&t, PLAN_OUT_OF_PLACE, "reduce: rank 1 out element 0: never finished"),
	   "no STEP_FINISH");

	pair_init(&t, GPUSIM_ALLREDUCE, "naive");
	plan_append(&t.plans[1], (struct plan_step){
				     .kind = STEP_FINISH, .dst = PLAN_OUT, .round = 9, .count = N});
	ok(refused(&t, PLAN_OUT_OF_PLACE,
		   "rank 1 step 2 (finish, round 9): finishes element 0 twice"),
	   "STEP_FINISH twice on one path");

	pair_init(&t, GPUSIM_REDUCE, "naive");
	swap(step(&t, 1, 0), step(&t, 1, 1));
	ok(refused(&t, PLAN_IN_PLACE, "finishes element 0 without rank 0"),
	   "STEP_FINISH before the last contribution");

	pair_init(&t, GPUSIM_ALLREDUCE, "naive");
	step(&t, 1, 1)->kind = STEP_RECV_REDUCE;
	ok(refused(&t, PLAN_OUT_OF_PLACE, "reduces element 0 of the message after it was finished"),
	   "a reduction after STEP_FINISH");

	pair_init(&t, GPUSIM_ALLGATHER, "naive");
	plan_append(&t.plans[1], (struct plan_step){
				     .kind = STEP_FINISH, .dst = PLAN_OUT, .round = 9, .count = N});
	ok(refused(&t, PLAN_OUT_OF_PLACE, "nothing to finish"),
	   "STEP_FINISH where nothing is reduced");
}

/* Each of two ranks sends its vector, keeps the other's in scratch, and adds. */
static bool
reduce_init(struct pair *t, bool wide)
{
	t->a = (struct plan_args){.coll = GPUSIM_ALLREDUCE, .nranks = P, .nelem = N, .wide = wide};
	t->plans = calloc(P, sizeof *t->plans);
	for (uint32_t r = 0; r < P; r++) {
		struct plan *p = &t->plans[r];

		p->ntmp = N;
		plan_append(p, (struct plan_step){.kind = STEP_SEND, .peer = 1 - r, .count = N});
		plan_append(p, (struct plan_step){
				   .kind = STEP_RECV, .dst = PLAN_TMP, .peer = 1 - r, .count = N});
		plan_append(p, (struct plan_step){.kind = STEP_REDUCE,
						  .last = wide,
						  .src = PLAN_TMP,
						  .dst = PLAN_OUT,
						  .count = N});
		if (!wide)
			plan_append(p, (struct plan_step){
					   .kind = STEP_FINISH, .dst = PLAN_OUT, .count = N});
	}
	return true;
}

static void
test_reduce(void)
{
	struct pair t;
	bool good = true;

	for (int wide = 0; wide < 2; wide++) {
		reduce_init(&t, wide);
		good = good && !plan_check_plans(&t.a, PLAN_OUT_OF_PLACE, t.plans, NULL, NULL);
		plan_free_all(t.plans, P);
	}
	ok(good, "a local reduction, wide or not");
	reduce_init(&t, false);
	ok(refused(&t, PLAN_IN_PLACE, "(reduce, round 0): overwrites what step 0 posted"),
	   "a local reduction over a posted range");

	reduce_init(&t, true);
	step(&t, 1, 2)->last = false;
	step(&t, 1, 2)->dst = PLAN_WIDE;
	t.plans[1].nwide = N;
	step(&t, 0, 1)->dst = PLAN_WIDE;
	t.plans[0].nwide = N;
	ok(refused(&t, PLAN_OUT_OF_PLACE,
		   "rank 0 step 1 (receive, round 0): the message and its "
		   "place differ in width"),
	   "a message of short elements to a place of f32");

	reduce_init(&t, false);
	step(&t, 1, 2)->with = PLAN_TMP;
	ok(refused(&t, PLAN_OUT_OF_PLACE, "rank 1 step 2 (reduce, round 0): counts rank 0 twice"),
	   "a contribution reduced with itself");

	reduce_init(&t, false);
	step(&t, 1, 2)->with_off = 1;
	step(&t, 1, 2)->count--;
	ok(refused(&t, PLAN_OUT_OF_PLACE, "reduced with"), "elements that differ");
}

static void
test_arguments(void)
{
	struct plan_args a = {.coll = GPUSIM_ALLTOALL, .nranks = P, .nelem = N};
	struct plan none[P] = {{0}};
	struct err err = {0};

	ok(plan_check(&a, NULL, PLAN_IN_PLACE, NULL, &err) == RC_INVAL &&
	       strstr(err.text, "no in-place form"),
	   "alltoall in place is rejected");
	a = (struct plan_args){.coll = GPUSIM_ALLREDUCE, .nranks = P, .nelem = UINT64_MAX};
	ok(plan_check(&a, NULL, PLAN_OUT_OF_PLACE, NULL, &err) == RC_INVAL &&
	       strstr(err.text, "too large to check"),
	   "a vector too large to check is rejected");
	a = (struct plan_args){.coll = GPUSIM_ALLTOALL, .nranks = P, .nelem = 1};
	ok(plan_check_plans(&a, PLAN_OUT_OF_PLACE, none, NULL, &err) == RC_INVAL,
	   "arguments are also checked for plans made elsewhere");
	a = (struct plan_args){.coll = GPUSIM_ALLREDUCE, .nranks = P, .nelem = N};
	ok(plan_check_plans(&a, PLAN_IN_PLACE, none, NULL, NULL) == RC_FAILED,
	   "plans that do nothing are rejected, also with err NULL");
}

int
main(void)
{
	test_messages();
	test_memory();
	test_race();
	test_unknown();
	test_window();
	test_contributions();
	test_finish();
	test_reduce();
	test_arguments();
	return tap_done();
}
