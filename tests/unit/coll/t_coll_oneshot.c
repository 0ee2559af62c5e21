/* The one-sided algorithms: right for every shape, at the cost that each one's comment states; and
 * races that only the order of accesses reveals. */
#include "coll_sweep.h"

static struct plan_counts
twoshot_cost(const struct plan_args *a)
{
	uint64_t part = 0;

	for (uint32_t r = 0; r < a->nranks; r++)
		if (part < part_size(a, r))
			part = part_size(a, r);
	return (struct plan_counts){
	    .syncs = 2, .max_read = part * a->nranks, .max_written = part * a->nranks};
}

static struct plan_counts
oneshot_cost(const struct plan_args *a)
{
	return (struct plan_counts){.syncs = (uint32_t)nmessages(a, a->nelem),
				    .max_read = (a->nranks + 1) * a->nelem,
				    .max_written = 2 * a->nelem};
}

static const struct plan_args args = {
    .coll = GPUSIM_ALLREDUCE, .nranks = 3, .nelem = 6, .chunk = 0};

/* Check three ranks' plans after a change to rank 1's. */
static enum rc
changed(void (*change)(struct plan *), enum plan_place place, struct err *err)
{
	struct plan *plans;
	enum rc rc;

	*err = (struct err){0};
	rc = plan_build_all(&args, "twoshot", &plans, err);

	if (rc)
		return rc;
	change(&plans[1]);
	rc = plan_check_plans(&args, place, plans, NULL, err);
	plan_free_all(plans, args.nranks);
	return rc;
}

/* The reduction before the first sync: the others' inputs may not be ready yet. */
static void
too_early(struct plan *p)
{
	struct plan_step sync = p->step[0];

	p->step[0] = p->step[1];
	p->step[1] = sync;
}

static void
too_late(struct plan *p)
{
	struct plan_step sync = p->step[2];

	p->step[2] = p->step[1];
	p->step[1] = sync;
	p->step[1].round = p->step[2].round = 1;
}

static void
to_one_other(struct plan *p)
{
	p->step[1].peer = 0;
}

/* Writes to its output, which the others may be reading: in place only. */
static void
copies_first(struct plan *p)
{
	p->step[1].src_off = p->step[1].dst_off = 0;
	p->step[1].count = 6;
}

static void
leave(struct plan *p)
{
	p->nstep = 2;
}

int
main(void)
{
	struct err err;

	check_algo(GPUSIM_ALLREDUCE, "twoshot", twoshot_cost);
	check_algo(GPUSIM_ALLREDUCE, "oneshot", oneshot_cost);
	ok(changed(leave, PLAN_OUT_OF_PLACE, &err) == RC_FAILED && strstr(err.text, "deadlock"),
	   "one rank skips a sync: %s", err.text);
	ok(changed(too_early, PLAN_IN_PLACE, &err) == RC_FAILED &&
	       strstr(err.text, "not have begun"),
	   "reading before the sync: %s", err.text);
	ok(changed(too_late, PLAN_OUT_OF_PLACE, &err) == RC_FAILED && strstr(err.text, "leaves"),
	   "writing after the last sync: %s", err.text);
	ok(changed(to_one_other, PLAN_OUT_OF_PLACE, &err) == RC_FAILED &&
	       strstr(err.text, "rank 0 alone"),
	   "writing to one other rank: %s", err.text);
	ok(changed(copies_first, PLAN_OUT_OF_PLACE, &err) == RC_FAILED &&
	       strstr(err.text, "unordered"),
	   "two ranks write one range: %s", err.text);
	return tap_done();
}
