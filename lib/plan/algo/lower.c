/*
 * lower.c - the variants of a lowering; the simulator chooses the fastest, and the checker verifies it.
 */
#include "algo/algo.h"

#include <inttypes.h>
#include <stdlib.h>

#include "algo/lower_impl.h"
#include "base/buf.h"
#include "coll/check.h"
#include "coll/tune.h"

#define SLICE	  65536u     /* elements of f32 in a message, for comparing variants */
#define NSLICES	  4	     /* slices of a chunk, for comparing intervals */
#define MAX_STEPS (1u << 20) /* of the simulated plans */

struct lowering {
	const struct algo *a;
	struct cost_model model;
	struct schedule *best;
	double best_us;
};

static struct plan_args
args_of(const struct algo *a, const struct schedule *s, uint64_t nelem, uint64_t chunk)
{
	return (struct plan_args){.coll = a->coll,
				  .nranks = a->nranks,
				  .root = a->root,
				  .nelem = nelem,
				  .chunk = chunk,
				  .schedule = s};
}

static uint64_t
plans_steps(const struct plan *plans, uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t r = 0; r < n; r++)
		sum += plans[r].nstep;
	return sum;
}

static enum rc
simulate(const struct lowering *l, const struct schedule *s, uint64_t nelem, uint64_t chunk,
	 double *us, struct err *err)
{
	const struct plan_args a = args_of(l->a, s, nelem, chunk);
	struct plan *plans;
	enum rc rc = plan_build_all(&a, NULL, &plans, err);

	if (rc != RC_OK)
		return rc;
	rc = algo_spend(l->a->budget, 100 * plans_steps(plans, a.nranks), err);
	if (rc == RC_OK)
		rc = plan_simulate(plans, a.nranks, sizeof(float), &l->model, us, err);
	plan_free_all(plans, a.nranks);
	return rc;
}

/* ---- variants */

static enum rc
lower(const struct algo *a, bool fused, uint32_t ports, struct schedule **out, struct err *err)
{
	struct flow f;
	enum rc rc = flow_trace(a, fused, &f, err);

	if (rc == RC_OK)
		rc = algo_spend(a->budget, 100 * f.nval, err);
	if (rc == RC_OK)
		rc = flow_rounds(&f, ports, err);
	if (rc == RC_OK)
		rc = flow_place(&f, err);
	if (rc == RC_OK)
		rc = flow_emit(&f, out, err);
	flow_fini(&f);
	for (uint32_t r = 0; rc == RC_OK && r < a->nranks; r++)
		if (schedule_check(&(*out)[r], err) != RC_OK)
			rc = RC_INVAL;
	if (rc == RC_INVAL && *out) {
		schedule_free_all(*out, a->nranks);
		*out = NULL;
	}
	return rc;
}

/* Short and long vectors count alike. */
static enum rc
try_variant(struct lowering *l, bool fused, uint32_t ports, struct err *err)
{
	struct schedule *s = NULL;
	double few, many;
	enum rc rc = lower(l->a, fused, ports, &s, err);

	if (rc == RC_OK)
		rc = simulate(l, s, l->a->nchunks, 0, &few, err);
	if (rc == RC_OK)
		rc = simulate(l, s, (uint64_t)l->a->nchunks * SLICE, SLICE, &many, err);
	if (rc == RC_OK && (!l->best || few * many < l->best_us)) {
		schedule_free_all(l->best, l->a->nranks);
		l->best = s;
		l->best_us = few * many;
		s = NULL;
	}
	schedule_free_all(s, l->a->nranks);
	return rc == RC_FAILED && fused ? RC_OK : rc;
}

static void
set_interval(struct lowering *l, uint32_t interval)
{
	for (uint32_t r = 0; r < l->a->nranks; r++)
		l->best[r].interval = interval;
}

/* Rounds of all ranks, and the most messages that a rank sends or receives. */
static void
measure(const struct lowering *l, uint32_t *rounds, uint32_t *most, size_t *nstep)
{
	*rounds = *most = 1;
	*nstep = 0;
	for (uint32_t r = 0; r < l->a->nranks; r++) {
		const struct schedule *s = &l->best[r];
		uint32_t sends = 0, recvs = 0;

		*nstep += s->nstep;
		for (size_t i = 0; i < s->nstep; i++) {
			sends += s->step[i].kind == STEP_SEND;
			recvs +=
			    s->step[i].kind == STEP_RECV || s->step[i].kind == STEP_RECV_REDUCE;
		}
		if (s->nstep && *rounds <= s->step[s->nstep - 1].round)
			*rounds = s->step[s->nstep - 1].round + 1;
		if (*most < sends)
			*most = sends;
		if (*most < recvs)
			*most = recvs;
	}
}

/* One slice after the other, unless overlapping them is faster. */
static enum rc
choose_interval(struct lowering *l, struct err *err)
{
	uint32_t rounds, most, best;
	double us, best_us = 0;
	size_t nstep;
	enum rc rc = RC_OK;

	measure(l, &rounds, &most, &nstep);
	best = rounds;
	set_interval(l, best);
	if (nstep * NSLICES > MAX_STEPS)
		return RC_OK;
	const uint32_t candidates[] = {rounds, (rounds + 1) / 2, 2 * most, most, 2, 1};

	for (size_t i = 0; i < sizeof candidates / sizeof *candidates && rc == RC_OK; i++) {
		if (candidates[i] > rounds || (i && candidates[i] == candidates[i - 1]))
			continue;
		set_interval(l, candidates[i]);
		rc = simulate(l, l->best, (uint64_t)l->a->nchunks * NSLICES * SLICE, SLICE, &us,
			      err);
		if (rc == RC_OK && (i == 0 || us < 0.99 * best_us)) {
			best = candidates[i];
			best_us = us;
		}
	}
	set_interval(l, best);
	return rc;
}

/* ---- the check */

static enum rc
check_one(const struct lowering *l, uint64_t nelem, uint64_t chunk, bool wide,
	  enum plan_place place, struct err *err)
{
	struct plan_args a = args_of(l->a, l->best, nelem, chunk);
	struct plan *plans;
	struct err why = {0};
	enum rc rc;

	a.wide = wide;
	rc = plan_build_all(&a, NULL, &plans, err);
	if (rc != RC_OK)
		return rc;
	rc = algo_spend(l->a->budget, 200 * plans_steps(plans, a.nranks) + 4 * nelem * a.nranks,
			&why);
	if (rc == RC_OK)
		rc = plan_check_plans(&a, place, plans, NULL, &why);
	plan_free_all(plans, a.nranks);
	if (rc == RC_OK || rc == RC_NOMEM || rc == RC_INVAL || rc == RC_ABORTED)
		return rc == RC_OK ? rc : err_set(err, rc, "%s", why.text);
	return err_set(err, RC_INTERNAL, "algorithm %s is correct, but its lowering is not: %s",
		       l->a->name, why.text);
}

/* Short chunks, chunks that differ in length, slices; in and out of place. */
static enum rc
check(const struct lowering *l, struct err *err)
{
	const struct algo *a = l->a;
	uint64_t n = a->nchunks, odd = a->coll == GPUSIM_ALLTOALL ? a->nranks : 1;
	bool large = (double)n * a->nranks * a->nranks > 1 << 16;
	const struct {
		uint64_t nelem, chunk;
	} of[] = {{n, 0}, {3 * n + odd, 2}, {2 * n - odd, 0}, {2 * n, n < 4 ? 1 : 4}};
	bool reduces = coll_reduces(a->coll);
	enum rc rc = RC_OK;

	for (size_t i = 0; i < (large ? 1 : sizeof of / sizeof *of); i++)
		for (int place = 0; place < (a->coll == GPUSIM_ALLTOALL ? 1 : 2); place++)
			for (int wide = 0; wide < (reduces ? 2 : 1) && rc == RC_OK; wide++)
				rc = check_one(l, of[i].nelem, of[i].chunk, wide,
					       (enum plan_place)place, err);
	return rc;
}

/* ---- all of it */

/* The digest of all ranks' packed schedules. */
static bool
sign(struct lowering *l)
{
	uint64_t h = 0xcbf29ce484222325u;
	struct buf b = {0};

	for (uint32_t r = 0; r < l->a->nranks; r++) {
		b.len = 0;
		if (!schedule_pack(&l->best[r], &b)) {
			buf_fini(&b);
			return false;
		}
		for (size_t i = 0; i < b.len; i++)
			h = (h ^ (unsigned char)b.data[i]) * 0x100000001b3u;
	}
	buf_fini(&b);
	for (uint32_t r = 0; r < l->a->nranks; r++)
		l->best[r].digest = h;
	return true;
}

static struct cost_model
default_model(void)
{
	struct tuner t;
	struct cost_model m;

	tuner_init(&t);
	m = t.model[TUNE_NET];
	tuner_fini(&t);
	return m;
}

enum rc
algo_lower(const struct algo *a, const struct cost_model *model, struct schedule **out,
	   struct err *err)
{
	struct lowering l = {.a = a, .model = model ? *model : default_model()};
	enum rc rc = RC_OK;

	if (a->custom)
		return err_set(err, RC_INVAL, "algorithm %s is custom: it can be shown, not run",
			       a->name);
	if (a->nranks < 2)
		return err_set(err, RC_INVAL, "algorithm %s is for one rank", a->name);
	for (int i = 0; i < 4 && rc == RC_OK; i++)
		rc = try_variant(&l, !(i & 1), i & 2 ? 0 : 1, err);
	if (rc == RC_OK)
		rc = choose_interval(&l, err);
	if (rc == RC_OK)
		rc = check(&l, err);
	if (rc == RC_OK && !sign(&l))
		rc = err_set(err, RC_NOMEM, "no memory to lower algorithm %s", a->name);
	if (rc != RC_OK)
		schedule_free_all(l.best, a->nranks);
	else
		*out = l.best;
	return rc;
}
