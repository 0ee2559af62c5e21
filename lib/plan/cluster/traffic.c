#include "cluster/traffic_impl.h"
#include "base/must.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The plans of ranks that represent all. */
struct crowd {
	struct plan *plan;
	uint32_t nplans, nranks;
	size_t nstep;
};

static void
crowd_fini(struct crowd *c)
{
	plan_free_all(c->plan, c->nplans);
	*c = (struct crowd){0};
}

bool
traffic_knows(enum gpusim_coll coll, const char *algo)
{
	const struct plan_algo *row;

	if (scheme_find(coll, algo))
		return true;
	return plan_algo_find(coll, algo, &row, NULL) == RC_OK && !plan_algo_mapped(row) &&
	       !coll_is_sendrecv(coll);
}

/* Ranks 0 .. nplans-1. RC_INVAL, too: too many steps. */
static enum rc
build(const struct traffic_ask *a, const struct plan_args *all, uint32_t nplans, struct crowd *out,
      struct err *err)
{
	struct crowd c = {.nplans = nplans, .nranks = a->ngpus};
	enum rc rc =
	    plan_build_first(all, a->algo, nplans, TRAFFIC_MAX_STEPS, &c.plan, &c.nstep, err);

	if (rc == RC_OK && !c.plan)
		rc =
		    err_set(err, RC_INVAL, "%s on %" PRIu32 " GPUs: more than %u steps to simulate",
			    a->schedule ? "the file" : a->algo, a->ngpus, TRAFFIC_MAX_STEPS);
	if (rc == RC_OK)
		*out = c;
	return rc;
}

/* Return true if the first period of ranks represents all. Groups a power of two away are compared, which
 * distinguishes rings from trees and cubes. */
static bool
repeats(const struct traffic_ask *a, const struct plan_args *all, const struct crowd *c)
{
	uint32_t groups = c->nranks / c->nplans;
	bool same = true;

	for (uint32_t k = 1; k < 2 * groups && same; k *= 2) {
		uint32_t group = k < groups ? k : groups - 1;

		for (uint32_t r = 0; r < c->nplans && same;
		     r += c->nplans > 1 ? c->nplans - 1 : 1) {
			struct plan plan = {0};
			struct plan_args one = *all;

			one.rank = group * c->nplans + r;
			same = plan_build(&one, a->algo, &plan, NULL) == RC_OK &&
			       plan_alike(&c->plan[r], r, &plan, one.rank, c->nranks);
			plan_fini(&plan);
		}
	}
	return same;
}

/* The fewest ranks that represent all. */
static enum rc
gather(const struct traffic_ask *a, const struct links *l, uint64_t message, struct crowd *out,
       struct err *err)
{
	struct plan_args all = {.coll = a->coll,
				.nranks = a->ngpus,
				.root = a->root,
				.nelem = a->nelem,
				.chunk = message / a->elem,
				.wide = a->wide,
				.schedule = a->schedule};
	uint32_t period = links_period(l);
	struct crowd c = {0};
	enum rc rc;

	if (!a->schedule && period < a->ngpus && !coll_has_root(a->coll)) {
		all.nelem += (a->ngpus - all.nelem % a->ngpus) % a->ngpus;
		rc = build(a, &all, period, &c, err);
		if (rc != RC_OK || repeats(a, &all, &c)) {
			*out = c;
			return rc;
		}
		crowd_fini(&c);
		all.nelem = a->nelem;
	}
	return build(a, &all, a->ngpus, out, err);
}

static enum rc
run(const struct crowd *c, const struct traffic_ask *a, const struct links *l, double *us,
    struct flow_report *report, struct err *err)
{
	struct flow_plans p = {c->plan, c->nplans, c->nranks, a->elem, 1, true};

	return flow_simulate(&p, l, us, report, err);
}

/* The fastest of some sizes of messages, as far as the steps allow: from whole parts to ever shorter ones. */
static enum rc
fastest(const struct traffic_ask *a, const struct links *l, struct crowd *best, uint64_t *message,
	struct err *err)
{
	static const uint64_t sizes[] = {TRAFFIC_MESSAGE, 128u << 10, 32u << 10};
	double least, us;
	size_t nstep;
	enum rc rc = gather(a, l, 0, best, err);

	*message = 0;
	nstep = best->nstep;
	if (rc == RC_OK && nstep <= TRAFFIC_MAX_STEPS / 2)
		rc = run(best, a, l, &least, NULL, err);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes && rc == RC_OK; i++) {
		struct crowd other = {0};

		if (nstep > TRAFFIC_MAX_STEPS / 8)
			break;
		rc = gather(a, l, sizes[i], &other, err);
		if (rc == RC_INVAL) /* too many */
			return RC_OK;
		if (rc == RC_OK && other.nstep != nstep)
			rc = run(&other, a, l, &us, NULL, err);
		else
			us = INFINITY;
		nstep = other.nstep;
		if (rc == RC_OK && us < least) {
			struct crowd was = *best;

			least = us;
			*best = other;
			other = was;
			*message = sizes[i];
		}
		crowd_fini(&other);
	}
	return rc;
}

/* An algorithm that gpusim has, or a file's. */
static enum rc
by_plans(const struct traffic_ask *ask, struct traffic_answer *t, struct flow_report *report,
	 struct err *err)
{
	struct crowd crowd = {0};
	enum rc rc = fastest(ask, &t->links, &crowd, &t->message_bytes, err);

	if (rc == RC_OK)
		rc = run(&crowd, ask, &t->links, &t->us, report, err);
	t->simulated = crowd.nplans;
	t->us += t->launch_us;
	t->channels = 1;
	crowd_fini(&crowd);
	return rc;
}

enum rc
traffic_plans(const struct cluster *c, const struct flow_plans *p, enum cluster_proto proto,
	      struct traffic_answer *out, struct flow_report *report, struct err *err)
{
	struct traffic_answer t = {
	    .launch_us = c->launch_us, .nranks = p->nranks, .simulated = p->nplans, .channels = 1};
	enum rc rc = cluster_check_gpus(c, p->nranks, err);

	if (rc != RC_OK)
		return rc;
	t.links = links_of_cluster(c, p->nranks, proto);
	t.links.reduce_byte_us *= p->blocks;
	rc = flow_simulate(p, &t.links, &t.us, report, err);
	t.us += t.launch_us;
	if (rc == RC_OK)
		*out = t;
	return rc;
}

enum rc
traffic_time(const struct cluster *c, const struct traffic_ask *ask, struct traffic_answer *out,
	     struct flow_report *report, struct err *err)
{
	struct traffic_answer t = {
	    .launch_us = c->launch_us, .nranks = ask->ngpus, .algo = ask->algo};
	const struct scheme *scheme = ask->schedule ? NULL : scheme_find(ask->coll, ask->algo);
	struct scheme_ask a = {.nranks = ask->ngpus,
			       .nbytes = ask->nelem * ask->elem,
			       .channels = ask->channels ? ask->channels
					   : c->nics	 ? 2 * c->nics
							 : 16,
			       .simple = ask->proto == CLUSTER_SIMPLE};
	enum rc rc;

	rc = cluster_check_gpus(c, ask->ngpus, err);
	if (rc != RC_OK)
		return rc;
	t.links = links_of_cluster(c, ask->ngpus, ask->proto);
	if (scheme)
		rc = traffic_scheme(scheme, &a, SCHEME_MOST_STEPS, &t, report, err);
	else
		rc = by_plans(ask, &t, report, err);
	t.bound = cluster_bound(c, &(struct cluster_bound_ask){
				       .coll = ask->coll, .ngpus = ask->ngpus, .nbytes = a.nbytes});
	if (rc == RC_OK && t.extrapolated && t.us < t.launch_us + t.bound.us) {
		if (report)
			report->why_us[FLOW_BYTES] += t.launch_us + t.bound.us - t.us;
		t.us = t.launch_us + t.bound.us;
		if (report)
			report->us = t.bound.us;
	}
	if (rc == RC_OK)
		rc = cluster_bound_check(&t.bound, t.us, err);
	if (rc == RC_OK)
		*out = t;
	return rc;
}

/* The scheme or algorithm that simulates NCCL's choice; NULL: none. */
static const char *
messages_of(enum gpusim_coll coll, enum cluster_algo algo)
{
	switch (algo) {
	case CLUSTER_RING:
		return "ring-rails";
	case CLUSTER_TREE:
		return "tree-rails";
	case CLUSTER_P2P:
		return coll_is_sendrecv(coll)	 ? "next"
		       : coll == GPUSIM_ALLTOALL ? "group"
						 : "linear";
	default:
		return NULL;
	}
}

enum rc
traffic_of_choice(const struct cluster *c, const struct cluster_ask *ask,
		  const struct tuning_choice *choice, struct traffic_answer *out,
		  struct flow_report *report, struct err *err)
{
	struct traffic_ask t = {.coll = ask->coll,
				.ngpus = ask->ngpus,
				.nelem = ask->nbytes,
				.elem = 1,
				.algo = messages_of(ask->coll, choice->algo),
				.proto = choice->proto,
				.channels = choice->channels};

	if (!t.algo || !traffic_knows(ask->coll, t.algo) || ask->ngpus < 2)
		return err_set(err, RC_INVAL, "%s: its messages are not simulated",
			       cluster_algo_name(choice->algo));
	return traffic_time(c, &t, out, report, err);
}
