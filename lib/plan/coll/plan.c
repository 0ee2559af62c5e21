/*
 * plan.c - names, the table of algorithms, argument checks, and building.
 */
#include "coll/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "coll/algo.h"
#include "coll/parts.h"
#include "coll/schedule.h"

#define PLAN_ALGO_ROW(coll, name, build, summary) {GPUSIM_##coll, name, summary, build},
const struct plan_algo plan_algos[] = {PLAN_ALGOS(PLAN_ALGO_ROW){0}};
#undef PLAN_ALGO_ROW

const struct plan_algo plan_algo_file = {.name = "file", .summary = "an algorithm from a file"};

bool
plan_algo_named(const struct plan_algo *row, const char *name)
{
	bool old = row->coll == GPUSIM_ALLREDUCE && !strcmp(name, "direct");

	return nearest_same(old ? "twoshot" : name, row->name);
}

enum rc
plan_algo_find(enum gpusim_coll coll, const char *name, const struct plan_algo **out,
	       struct err *err)
{
	bool any = !name || !*name || !strcmp(name, "auto");
	struct buf known = {0};
	struct nearest near;

	if ((unsigned)coll >= GPUSIM_NCOLLS)
		return err_set(err, RC_INVAL, "unknown collective %u", (unsigned)coll);
	for (const struct plan_algo *row = plan_algos; row->name; row++) {
		if (row->coll == coll && (any || plan_algo_named(row, name))) {
			*out = row;
			return RC_OK;
		}
	}
	near = nearest_begin(name);
	for (const struct plan_algo *row = plan_algos; row->name; row++) {
		if (row->coll != coll)
			continue;
		buf_addf(&known, ", %s", row->name);
		nearest_offer(&near, row->name);
	}
	err_set(err, RC_INVAL, "%s: unknown algorithm '%.64s': %s%s%sauto%s", coll_name(coll), name,
		near.name ? "did you mean '" : "not one of ", near.name ? near.name : "",
		near.name ? "'? One of " : "", known.data ? known.data : "");
	buf_fini(&known);
	return RC_INVAL;
}

enum rc
plan_algo_takes(const struct plan_algo *row, const struct plan_args *a, struct err *err)
{
	const struct plan_algo *dflt;

	if (!a->part || (!a->recv_part && parts_packed(a->part, a->nranks)))
		return RC_OK;
	if (plan_algo_find(a->coll, NULL, &dflt, NULL) != RC_OK || row == dflt)
		return RC_OK;
	return err_set(err, RC_INVAL, "algorithm %s does not accept %s; %s does", row->name,
		       a->recv_part ? "counts" : "displacements", dflt->name);
}

bool
plan_algo_is_built_in(const char *name)
{
	if (!*name || !strcmp(name, "auto") || !strcmp(name, plan_algo_file.name))
		return true;
	for (const struct plan_algo *row = plan_algos; row->name; row++)
		if (plan_algo_named(row, name))
			return true;
	return false;
}

const struct plan_algo *
plan_algo_at(enum gpusim_coll coll, unsigned number)
{
	if (number == PLAN_ALGO_FILE)
		return &plan_algo_file;
	for (const struct plan_algo *row = plan_algos; row->name; row++)
		if (row->coll == coll && number-- == 0)
			return row;
	return NULL;
}

unsigned
plan_algo_number(const struct plan_algo *row)
{
	unsigned n = 0;

	if (row == &plan_algo_file)
		return PLAN_ALGO_FILE;
	for (const struct plan_algo *at = plan_algos; at != row; at++)
		n += at->coll == row->coll;
	return n;
}

void
plan_fini(struct plan *plan)
{
	free(plan->step);
	*plan = (struct plan){0};
}

enum rc
plan_args_check(const struct plan_args *a, struct err *err)
{
	const char *name = coll_name(a->coll);

	if ((unsigned)a->coll >= GPUSIM_NCOLLS)
		return err_set(err, RC_INVAL, "unknown collective %u", (unsigned)a->coll);
	if (a->nranks < 1 || a->nranks > PLAN_MAX_RANKS)
		return err_set(err, RC_INVAL, "%s: %u ranks: must be 1..%u", name, a->nranks,
			       PLAN_MAX_RANKS);
	if (a->rank >= a->nranks)
		return err_set(err, RC_INVAL, "%s: no rank %u in %u ranks", name, a->rank,
			       a->nranks);
	if ((coll_has_root(a->coll) || coll_is_sendrecv(a->coll)) && a->root >= a->nranks)
		return err_set(err, RC_INVAL, "%s: no %s rank %u in %u ranks", name,
			       coll_is_sendrecv(a->coll) ? "peer" : "root", a->root, a->nranks);
	if (coll_is_sendrecv(a->coll) && a->root == a->rank)
		return err_set(err, RC_INVAL, "%s: rank %u is its own peer", name, a->rank);
	if (a->part)
		return parts_check(a, err);
	if (a->coll == GPUSIM_ALLTOALL && a->nelem % a->nranks)
		return err_set(err, RC_INVAL, "%s: %llu elements do not divide by %u ranks", name,
			       (unsigned long long)a->nelem, a->nranks);
	if (a->coll == GPUSIM_BARRIER && a->nelem)
		return err_set(err, RC_INVAL, "%s: does not accept elements, got %llu", name,
			       (unsigned long long)a->nelem);
	return RC_OK;
}

/* The kinds of steps in an algorithm's smallest plan. */
static void
sample(const struct plan_algo *row, bool *mapped, bool *stores)
{
	struct plan_args a = {.coll = row->coll, .nranks = 2, .root = coll_is_sendrecv(row->coll)};
	struct plan p = {0};
	bool built;

	a.nelem = row->coll == GPUSIM_BARRIER ? 0 : 2;
	if (row->build)
		row->build(&a, &p);
	built = p.rc == RC_OK;
	*mapped = built && p.mapped;
	*stores = built && p.stores;
	plan_fini(&p);
}

bool
plan_algo_mapped(const struct plan_algo *row)
{
	bool mapped, stores;

	sample(row, &mapped, &stores);
	return mapped;
}

bool
plan_algo_stores(const struct plan_algo *row)
{
	bool mapped, stores;

	sample(row, &mapped, &stores);
	return stores;
}

bool
plan_algo_canonical(const struct plan_algo *row)
{
	struct plan_args a = {.coll = row->coll, .nranks = 3, .nelem = 3, .canonical = true};
	bool all = true;

	for (a.rank = 0; a.rank < a.nranks && all && coll_reduces(row->coll); a.rank++) {
		struct plan p = {0};

		row->build(&a, &p);
		all = p.rc == RC_OK;
		for (size_t i = 0; i < p.nstep; i++)
			all &= p.step[i].kind != STEP_RECV_REDUCE && p.step[i].kind != STEP_REDUCE;
		plan_fini(&p);
	}
	return all;
}

enum rc
plan_algo_check_canonical(const struct plan_algo *row, struct err *err)
{
	struct buf known = {0};

	if (plan_algo_canonical(row))
		return RC_OK;
	for (const struct plan_algo *other = plan_algos; other->name; other++)
		if (other->coll == row->coll && plan_algo_canonical(other))
			buf_addf(&known, "%s%s", known.len ? ", " : "", other->name);
	err_set(err, RC_INVAL,
		"%s %s: its summation order depends on more than the ranks, so it cannot be "
		"deterministic; these can: %s",
		coll_name(row->coll), row->name, known.data ? known.data : "none");
	buf_fini(&known);
	return RC_INVAL;
}

/* One rank alone: its output is its input. */
static void
build_single(const struct plan_args *a, struct plan *out)
{
	bool from_part = a->coll == GPUSIM_SCATTER || a->coll == GPUSIM_REDUCESCATTER ||
			 a->coll == GPUSIM_ALLTOALL;
	bool to_part = a->coll == GPUSIM_GATHER || a->coll == GPUSIM_ALLGATHER;
	struct span to = whole(a);

	if (a->part)
		to = to_part ? part_of(a, 0)
			     : (struct span){a->recv_part ? a->recv_part->off : 0, a->part->count};
	plan_local(out,
		   step_copy(PLAN_IN, a->part && from_part ? a->part->off : 0, PLAN_OUT, to, 0));
	if (coll_reduces(a->coll))
		plan_local(out, step_finish(PLAN_OUT, whole(a), 0));
}

/* Find the algorithm, by name or from a file, and its name. */
static enum rc
find(const struct plan_args *a, const char *algo, const struct plan_algo **row, const char **name,
     struct err *err)
{
	enum rc rc;

	*row = NULL;
	if (a->schedule) {
		*name = a->schedule->name;
		return schedule_takes(a->schedule, a, err);
	}
	rc = plan_algo_find(a->coll, algo, row, err);
	if (rc == RC_OK)
		rc = plan_algo_takes(*row, a, err);
	if (rc == RC_OK && a->canonical && a->nranks > 1)
		rc = plan_algo_check_canonical(*row, err);
	if (rc == RC_OK)
		*name = (*row)->name;
	return rc;
}

/* Append the steps of an operation of more than one rank. */
static void
build(const struct plan_args *a, const struct plan_algo *row, struct plan *plan)
{
	size_t nstep = plan->nstep;

	if (!row) {
		schedule_build(a, plan);
		return;
	}
	row->build(a, plan);
	if (!plan->rc && a->wide && coll_reduces(a->coll) && !plan->mapped)
		plan_widen(plan, nstep);
}

enum rc
plan_build(const struct plan_args *a, const char *algo, struct plan *plan, struct err *err)
{
	const struct plan before = *plan;
	const struct plan_algo *row;
	const char *name;
	enum rc rc = plan_args_check(a, err);

	if (!rc)
		rc = find(a, algo, &row, &name, err);
	if (rc)
		return rc;
	if (a->nranks == 1)
		build_single(a, plan);
	else if (a->nelem || a->recv_part || a->coll == GPUSIM_BARRIER)
		build(a, row, plan);
	if (!plan->rc)
		return RC_OK;
	rc = plan->rc;
	plan->rc = RC_OK;
	plan->nstep = before.nstep;
	plan->ntmp = before.ntmp;
	plan->nwide = before.nwide;
	plan->mapped = before.mapped;
	plan->stores = before.stores;
	if (rc == RC_INVAL)
		return err_set(err, rc, "%s %s: more than %u steps in rank %u: use larger chunks",
			       coll_name(a->coll), name, PLAN_MAX_STEPS, a->rank);
	if (rc == RC_INTERNAL)
		return err_set(err, rc, "%s %s: a sum is finished after it was sent",
			       coll_name(a->coll), name);
	return err_set(err, rc, "%s %s: no memory for the plan of rank %u", coll_name(a->coll),
		       name, a->rank);
}

bool
plan_args_of(const struct plan_args *a, uint32_t r, struct plan_args *out)
{
	*out = *a;
	out->rank = r;
	if (a->schedule)
		out->schedule = a->schedule + r;
	if (a->recv_part) {
		out->part = a->part + (size_t)r * a->nranks;
		out->recv_part = a->recv_part + (size_t)r * a->nranks;
		out->nelem = parts_end(out->part, a->nranks);
	}
	if (!coll_is_sendrecv(a->coll) || r == a->rank)
		return true;
	out->coll = a->coll == GPUSIM_SEND ? GPUSIM_RECV : GPUSIM_SEND;
	out->root = a->rank;
	return r == a->root;
}

enum rc
plan_build_first(const struct plan_args *a, const char *algo, uint32_t nplans, size_t max_steps,
		 struct plan **plans, size_t *nstep, struct err *err)
{
	struct plan *first = alloc_zeroed(nplans, sizeof *first);
	struct plan_args mine;
	enum rc rc = RC_OK;

	if (!first)
		return err_set(err, RC_NOMEM, "%s: no memory for the plans of %u ranks",
			       coll_name(a->coll), nplans);
	*nstep = 0;
	for (uint32_t r = 0; r < nplans && !rc && *nstep <= max_steps; r++) {
		if (plan_args_of(a, r, &mine))
			rc = plan_build(&mine, algo, &first[r], err);
		*nstep += first[r].nstep;
	}
	*plans = first;
	if (rc || *nstep > max_steps) {
		plan_free_all(first, nplans);
		*plans = NULL;
	}
	return rc;
}

enum rc
plan_build_all(const struct plan_args *a, const char *algo, struct plan **plans, struct err *err)
{
	struct plan_args first = *a, mine;
	struct plan *all;
	size_t total;
	enum rc rc;

	if (!coll_is_sendrecv(a->coll))
		first.rank = 0;
	plan_args_of(&first, first.rank, &mine);
	rc = plan_args_check(&mine, err);
	if (!rc)
		rc = plan_build_first(&first, algo, a->nranks, PLAN_MAX_STEPS, &all, &total, err);
	if (!rc && !all)
		rc = err_set(err, RC_INVAL, "%s: more than %u steps in all %u ranks",
			     coll_name(a->coll), PLAN_MAX_STEPS, a->nranks);
	if (!rc)
		*plans = all;
	return rc;
}

bool
plan_alike(const struct plan *x, uint32_t a, const struct plan *y, uint32_t b, uint32_t nranks)
{
	if (x->nstep != y->nstep)
		return false;
	for (size_t i = 0; i < x->nstep; i++) {
		const struct plan_step *s = &x->step[i], *t = &y->step[i];
		bool meets = s->kind <= STEP_RECV_REDUCE;

		if (s->kind != t->kind || s->count != t->count || s->kind >= STEP_SYNC)
			return false;
		if (meets && (s->peer + nranks - a) % nranks != (t->peer + nranks - b) % nranks)
			return false;
	}
	return true;
}

void
plan_free_all(struct plan *plans, uint32_t nranks)
{
	for (uint32_t r = 0; plans && r < nranks; r++)
		plan_fini(&plans[r]);
	free(plans);
}
