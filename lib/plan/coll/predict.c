#include "coll/simulate.h"

#include <math.h>
#include <stdlib.h>

#include "coll/check.h"

#define LOOKED_AT 4 /* ranks that are compared before one represents all */

/* Return true if the last rank's plan shows that all ranks' steps will be too many. */
static bool
hopeless(const struct plan_args *all, const char *algo)
{
	struct plan_args a;
	struct plan plan = {0};
	bool too_many;

	if (!plan_args_of(all, all->nranks - 1, &a))
		return false;
	(void)plan_build(&a, algo, &plan, NULL);
	too_many = (double)plan.nstep * all->nranks > 2.0 * PREDICT_MAX_STEPS;
	plan_fini(&plan);
	return too_many;
}

/* Build rank 0's plan; *fit is false when it does not represent all ranks. */
static enum rc
build_one(const struct plan_args *all, const char *algo, struct plan *out, bool *fit,
	  struct err *err)
{
	struct plan_args a = *all;
	uint32_t n = all->nranks;
	uint64_t rest = all->nelem % n;
	enum rc rc;

	*fit = !all->part && !coll_has_root(all->coll) && !coll_is_sendrecv(all->coll);
	if (!*fit)
		return RC_OK;
	a.nelem += rest ? n - rest : 0;
	a.rank = 0;
	rc = plan_build(&a, algo, out, err);
	for (unsigned i = 1; i < LOOKED_AT && rc == RC_OK && *fit; i++) {
		struct plan other = {0};

		a.rank = i == 1 ? 1 : i == 2 ? n / 2 : n - 1;
		rc = plan_build(&a, algo, &other, err);
		*fit = rc == RC_OK && plan_alike(out, 0, &other, a.rank, n);
		plan_fini(&other);
	}
	return rc;
}

static enum rc
whole(const struct plan_args *a, const char *algo, size_t elem, const struct cost_model *m,
      struct prediction *out, bool *fit, struct err *err)
{
	struct plan_counts counts;
	struct plan *plans = NULL;
	size_t nstep;
	enum rc rc = RC_OK;

	if (!hopeless(a, algo))
		rc = plan_build_first(a, algo, a->nranks, PREDICT_MAX_STEPS, &plans, &nstep, err);
	*fit = plans;
	if (!*fit)
		return rc;
	plan_count(plans, a->nranks, &counts);
	out->rounds = counts.rounds;
	out->max_messages = counts.max_messages;
	rc = plan_simulate(plans, a->nranks, elem, m, &out->us, err);
	plan_free_all(plans, a->nranks);
	return rc;
}

static enum rc
by_shift(const struct plan_args *a, const char *algo, size_t elem, const struct cost_model *m,
	 struct prediction *out, bool *fit, struct err *err)
{
	struct plan one = {0};
	struct plan_counts counts;
	enum rc rc = build_one(a, algo, &one, fit, err);

	if (rc == RC_OK && *fit) {
		plan_count(&one, 1, &counts);
		out->rounds = counts.rounds;
		out->max_messages = counts.max_messages;
		out->how = PREDICT_SHIFT;
		rc = plan_simulate_shifted(&one, 1, a->nranks, elem, m, &out->us, err);
	}
	plan_fini(&one);
	return rc;
}

/* Halve the vector until the plans fit, simulate that length and half of it, and extrapolate. */
static enum rc
by_slope(const struct plan_args *a, const char *algo, size_t elem, const struct cost_model *m,
	 struct prediction *out, struct err *err)
{
	struct plan_args part = *a;
	struct prediction longer, shorter;
	double grow;
	bool fit = false;
	enum rc rc = RC_OK;

	while (rc == RC_OK && !fit && part.nelem / 2 >= a->nranks) {
		part.nelem = part.nelem / 2 / a->nranks * a->nranks;
		rc = whole(&part, algo, elem, m, &longer, &fit, err);
	}
	if (rc == RC_OK && !fit)
		return err_set(err, RC_INVAL, "more than %u steps", PREDICT_MAX_STEPS);
	grow = (double)part.nelem;
	part.nelem = part.nelem / 2 / a->nranks * a->nranks;
	if (rc == RC_OK)
		rc = whole(&part, algo, elem, m, &shorter, &fit, err);
	if (rc != RC_OK)
		return rc;
	*out = longer;
	out->how = PREDICT_SLOPE;
	grow = ((double)a->nelem - grow) / (grow - (double)part.nelem);
	out->us += grow * (longer.us - shorter.us);
	out->max_messages +=
	    (uint64_t)(grow * (double)(longer.max_messages - shorter.max_messages));
	return RC_OK;
}

enum rc
predict(const struct plan_args *a, const char *algo, size_t elem, const struct cost_model *m,
	struct prediction *out, struct err *err)
{
	struct prediction f = {.how = PREDICT_WHOLE};
	bool fit = false;
	enum rc rc = RC_OK;

	if (a->nranks > 512)
		rc = by_shift(a, algo, elem, m, &f, &fit, err);
	if (rc == RC_OK && !fit)
		rc = whole(a, algo, elem, m, &f, &fit, err);
	if (rc == RC_OK && !fit)
		rc = by_slope(a, algo, elem, m, &f, err);
	if (rc == RC_OK)
		*out = f;
	return rc;
}
