#include "synth/synth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/text.h"
#include "cluster/flow.h"
#include "coll/tune.h"
#include "synth/family.h"
#include "synth/greedy.h"

#define ELEM		4u
#define SMALLEST	4096u	   /* bytes of a chunk in a tree's pipeline */
#define KEPT		8u	   /* of which slices are tried */
#define MAX_DRAFT_MOVES (1u << 18) /* of a candidate that is timed */

struct search {
	const struct synth_ask *ask;
	const struct links *links;
	struct synth_result *out;
	struct draft kept[KEPT]; /* the fastest first */
	double us[KEPT], score[KEPT];
	size_t nkept;
	uint64_t chunk; /* of the best built-in, elements */
	enum rc rc;
	struct err *err;
};

static bool
goes_on(struct search *s)
{
	return !s->rc && (!s->ask->go_on || s->ask->go_on(s->ask->arg));
}

static void
fail(struct search *s, enum rc rc)
{
	if (!s->rc)
		s->rc = rc;
}

/* Of what is as fast the first stays. */
static bool
is_faster(double us, double than)
{
	return us < than * (1 - 1e-9);
}

/* Twice as many moves must be worth a hundredth: they cost more than the simulator counts. */
static double
score_of(const struct draft *d, double us)
{
	return us * (1 + 0.01 * log2((double)d->nmove));
}

static void
add_row(struct search *s, const char *name, double us, bool builtin)
{
	struct synth_result *o = s->out;
	struct synth_row row = {.us = us, .builtin = builtin};
	size_t at = o->nrow;

	if (o->nrow == o->cap) {
		size_t cap = o->cap ? 2 * o->cap : 64;
		struct synth_row *r = alloc_resize(o->row, cap, sizeof *r);

		if (!r) {
			fail(s, err_set(s->err, RC_NOMEM, "out of memory"));
			return;
		}
		o->row = r;
		o->cap = cap;
	}
	snprintf(row.name, sizeof row.name, "%s", name);
	for (; at && is_faster(us, o->row[at - 1].us); at--)
		o->row[at] = o->row[at - 1];
	o->row[at] = row;
	o->nrow++;
	if (builtin && is_faster(us, o->builtin.us))
		o->builtin = row;
}

static uint64_t
nelem_of(const struct synth_ask *ask)
{
	uint64_t n = ask->nbytes / ELEM;

	return ask->coll == GPUSIM_ALLTOALL ? n - n % ask->nranks : n;
}

static double
time_of(struct search *s, const struct plan *plans)
{
	struct flow_plans p = {plans, s->ask->nranks, s->ask->nranks, ELEM};
	double us = INFINITY;

	fail(s, flow_simulate(&p, s->links, &us, NULL, s->err));
	return us;
}

/* ---- candidates */

static struct draft
new_draft(const struct search *s, const char *name)
{
	struct draft d = {.coll = s->ask->coll,
			  .nranks = s->ask->nranks,
			  .root = s->ask->root,
			  .in_place = s->ask->coll != GPUSIM_ALLTOALL};

	snprintf(d.name, sizeof d.name, "%s", name);
	return d;
}

/* Keep it if it is among the best; the draft is taken. */
static void
keep(struct search *s, struct draft *d, double us)
{
	double score = score_of(d, us);
	size_t at = s->nkept;

	if (at == KEPT && !is_faster(score, s->score[KEPT - 1])) {
		draft_fini(d);
		return;
	}
	if (at == KEPT)
		draft_fini(&s->kept[--at]);
	for (; at && is_faster(score, s->score[at - 1]); at--) {
		s->kept[at] = s->kept[at - 1];
		s->us[at] = s->us[at - 1];
		s->score[at] = s->score[at - 1];
	}
	s->kept[at] = *d;
	s->us[at] = us;
	s->score[at] = score;
	if (s->nkept < KEPT)
		s->nkept++;
	*d = (struct draft){0};
}

/* Time a draft, which is taken. One that is too large is none. */
static void
try(struct search *s, struct draft *d)
{
	struct plan *plans;
	double us;

	if (d->rc == RC_NOMEM)
		fail(s, err_set(s->err, RC_NOMEM, "out of memory"));
	if (s->rc || d->rc || !d->nmove || d->nmove > MAX_DRAFT_MOVES ||
	    d->nchunks > ALGO_MAX_CHUNKS) {
		draft_fini(d);
		return;
	}
	if (draft_plans(d, nelem_of(s->ask), &plans, s->err)) {
		draft_fini(d);
		return;
	}
	us = time_of(s, plans);
	plan_free_all(plans, d->nranks);
	add_row(s, d->name, us, false);
	keep(s, d, us);
}

/* What passes to all become in this collective: themselves, turned round, or both. The passes are taken. */
static void
try_passes(struct search *s, struct draft *passes)
{
	struct draft d = new_draft(s, passes->name);
	enum gpusim_coll coll = s->ask->coll;

	d.nchunks = passes->nchunks;
	d.rc = passes->rc;
	if (passes->nmove && coll != GPUSIM_ALLGATHER && coll != GPUSIM_BROADCAST)
		draft_turn(passes, &d);
	if (coll != GPUSIM_REDUCESCATTER && coll != GPUSIM_REDUCE)
		draft_append(passes, draft_rounds(&d), &d);
	draft_fini(passes);
	try(s, &d);
}

static void
try_gather(struct search *s, uint32_t group, enum exchange outer, enum exchange inner,
	   uint32_t parts)
{
	struct draft d = new_draft(s, "");

	if (group == s->ask->nranks)
		snprintf(d.name, sizeof d.name, "%s.%u", exchange_name(inner), parts);
	else
		snprintf(d.name, sizeof d.name, "%s-%s.%ux%u.%u", exchange_name(outer),
			 exchange_name(inner), s->ask->nranks / group, group, parts);
	family_gather(&d, group, outer, inner, parts);
	try_passes(s, &d);
}

static void
try_gathers(struct search *s)
{
	uint32_t n = s->ask->nranks;

	for (uint32_t group = 2; group <= n; group++) {
		bool wanted = group == n || group == s->ask->group || n <= 16;

		if (n % group || !wanted)
			continue;
		for (unsigned outer = 0; outer < EXCHANGE_NKINDS; outer++)
			for (unsigned inner = 0; inner < EXCHANGE_NKINDS; inner++)
				for (uint32_t parts = 1; parts <= 8 && goes_on(s); parts *= 2)
					if (outer == 0 || group < n)
						try_gather(s, group, outer, inner, parts);
	}
}

/* The root first, then the ranks behind it, or before it. */
static void
rotate(const struct search *s, bool back, uint32_t *order)
{
	uint32_t n = s->ask->nranks, root = coll_has_root(s->ask->coll) ? s->ask->root : 0;

	for (uint32_t i = 0; i < n; i++)
		order[i] = (root + (back ? n - i : i)) % n;
}

/* Two trees, each with half of the chunks, in opposite orders: fan 0 is the binomial tree. */
static void
try_tree(struct search *s, uint32_t fan, uint32_t chunks, bool two)
{
	uint32_t *order = alloc_zeroed(s->ask->nranks, sizeof *order);
	struct draft d = new_draft(s, "");

	snprintf(d.name, sizeof d.name, "%s%s%.0u.%u", two ? "two-" : "",
		 fan == 0   ? "binomial"
		 : fan == 1 ? "chain"
			    : "tree",
		 fan > 1 ? fan : 0, chunks);
	d.nchunks = chunks;
	if (!order)
		d.rc = RC_NOMEM;
	for (unsigned k = 0; order && k <= two; k++) {
		uint32_t n = chunks >> two;

		rotate(s, k, order);
		if (fan)
			family_tree(&d, order, fan, k * n, n);
		else
			family_binomial(&d, order, k * n, n);
	}
	draft_sort(&d);
	free(order);
	try_passes(s, &d);
}

static void
try_trees(struct search *s)
{
	uint64_t most = s->ask->nbytes / SMALLEST;

	if (most > 1024)
		most = 1024;
	if (most < 1)
		most = 1;
	for (uint32_t fan = 0; fan <= 3; fan++)
		for (uint32_t chunks = 1; chunks <= most && goes_on(s); chunks *= 2)
			for (unsigned two = 0; two <= (chunks > 1); two++)
				if (fan || chunks <= 2)
					try_tree(s, fan, chunks, two);
}

static void
try_greedy(struct search *s, uint32_t parts, uint32_t number)
{
	bool rooted = coll_has_root(s->ask->coll);
	struct draft d = new_draft(s, "");
	uint32_t *owner;

	d.nchunks = rooted ? parts : s->ask->nranks * parts;
	snprintf(d.name, sizeof d.name, "search.%u.%u", parts, number);
	owner = alloc_zeroed(d.nchunks, sizeof *owner);
	for (uint32_t c = 0; owner && c < d.nchunks; c++)
		owner[c] = rooted ? s->ask->root : c / parts;
	if (owner)
		greedy_passes(&d, s->links, owner, (double)s->ask->nbytes / d.nchunks,
			      s->ask->seed + number * 7919ull + parts);
	else
		d.rc = RC_NOMEM;
	free(owner);
	try_passes(s, &d);
}

static void
try_alltoall(struct search *s)
{
	uint32_t n = s->ask->nranks;

	for (uint32_t group = 2; group <= n && goes_on(s); group++) {
		struct draft d;

		if (n % group)
			continue;
		d = new_draft(s, "direct");
		if (group < n)
			snprintf(d.name, sizeof d.name, "two-step.%ux%u", n / group, group);
		family_alltoall(&d, group);
		try(s, &d);
	}
}

static void
try_whole(struct search *s)
{
	struct draft d = new_draft(s, "oneshot");

	family_oneshot(&d);
	try(s, &d);
	if (s->ask->nranks & (s->ask->nranks - 1))
		return;
	d = new_draft(s, "exchange");
	family_doubling(&d);
	try(s, &d);
}

/* The fastest ones in slices, so that their rounds overlap. */
static void
try_slices(struct search *s)
{
	struct draft whole[KEPT];
	double us[KEPT];
	size_t n = s->nkept;

	memcpy(whole, s->kept, sizeof whole);
	memcpy(us, s->us, sizeof us);
	s->nkept = 0;
	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 2; k <= 16; k *= 2)
			for (uint32_t interval = 1; interval <= 2 && goes_on(s); interval++) {
				struct draft d = new_draft(s, "");

				snprintf(d.name, sizeof d.name, "%.48s.s%u.%u", whole[i].name, k,
					 interval);
				draft_slice(&whole[i], k, interval, &d);
				try(s, &d);
			}
	for (size_t i = 0; i < n; i++)
		keep(s, &whole[i], us[i]);
}

/* ---- built-in algorithms */

static void
try_builtin(struct search *s, const struct tuner *t, const struct plan_algo *row)
{
	const struct synth_ask *ask = s->ask;
	struct plan_args p = {
	    .coll = ask->coll, .nranks = ask->nranks, .root = ask->root, .nelem = nelem_of(ask)};
	struct tune_ask q = {
	    .coll = p.coll, .nranks = p.nranks, .nbytes = ask->nbytes, .algo = row->name};
	struct tune_answer answer;
	struct plan *plans;
	double us;

	if (tuner_choose(t, &q, &answer, NULL))
		return;
	p.chunk = answer.chunk_bytes / ELEM;
	if (plan_build_all(&p, row->name, &plans, NULL))
		return;
	us = time_of(s, plans);
	plan_free_all(plans, p.nranks);
	if (is_faster(us, s->out->builtin.us))
		s->chunk = p.chunk;
	add_row(s, row->name, us, true);
}

static void
try_builtins(struct search *s)
{
	struct tuner t;

	tuner_init(&t);
	for (const struct plan_algo *row = plan_algos; row->name && !s->rc; row++)
		if (row->coll == s->ask->coll && !plan_algo_mapped(row))
			try_builtin(s, &t, row);
	tuner_fini(&t);
}

/* ---- the answer */

static enum rc
check_ask(const struct synth_ask *ask, struct err *err)
{
	switch (ask->coll) {
	case GPUSIM_ALLREDUCE:
	case GPUSIM_ALLGATHER:
	case GPUSIM_REDUCESCATTER:
	case GPUSIM_ALLTOALL:
	case GPUSIM_BROADCAST:
	case GPUSIM_REDUCE:
		break;
	default:
		return err_set(err, RC_INVAL,
			       "%s: none is searched for; of allreduce, allgather, reducescatter, "
			       "alltoall, broadcast and reduce",
			       coll_name(ask->coll));
	}
	if (ask->nranks < 2 || ask->nranks > SYNTH_MAX_RANKS)
		return err_set(err, RC_INVAL, "%u ranks; 2 to %u are possible", ask->nranks,
			       SYNTH_MAX_RANKS);
	if (ask->root >= ask->nranks)
		return err_set(err, RC_INVAL, "root %u, but %u ranks", ask->root, ask->nranks);
	if (nelem_of(ask) == 0)
		return err_set(err, RC_INVAL, "a vector of %llu bytes has nothing to move",
			       (unsigned long long)ask->nbytes);
	return RC_OK;
}

static enum rc
prove(struct synth_result *out, struct err *err)
{
	struct algo *a = NULL;
	enum rc rc = algo_parse(out->text.data, out->text.len, "synth", &a, err);

	if (!rc)
		rc = algo_prove(a, &out->proof, err);
	algo_free(a);
	if (rc == RC_BADDATA) {
		err->rc = RC_INTERNAL;
		rc = err_prefix(err, "%s", out->best.name);
	}
	return rc;
}

static enum rc
write_best(struct search *s, struct err *err)
{
	struct synth_result *o = s->out;
	const struct synth_ask *ask = s->ask;
	char about[400], against[120] = "";

	if (!o->nrow)
		return err_set(err, RC_INTERNAL, "no candidate could be timed");
	o->best = o->builtin;
	if (s->nkept && !is_faster(o->builtin.us, s->us[0])) {
		o->best = (struct synth_row){.us = s->us[0]};
		snprintf(o->best.name, sizeof o->best.name, "%s", s->kept[0].name);
	}
	if (isfinite(o->builtin.us))
		snprintf(against, sizeof against, "; %s, the best built-in algorithm, %.1f us",
			 o->builtin.name, o->builtin.us);
	snprintf(about, sizeof about, "# %s of %llu bytes: %s takes %.1f us by simulation%s\n",
		 coll_name(ask->coll), (unsigned long long)ask->nbytes, o->best.name, o->best.us,
		 against);
	if (o->best.builtin) {
		struct plan_args p = {.coll = ask->coll,
				      .nranks = ask->nranks,
				      .root = ask->root,
				      .nelem = nelem_of(ask),
				      .chunk = s->chunk};

		return buf_addf(&o->text, "%s", about)
			   ? text_print_plans(&p, o->best.name, &o->text, err)
			   : err_set(err, RC_NOMEM, "out of memory");
	}
	if (!draft_print(&s->kept[0], about, &o->text))
		return err_set(err, RC_NOMEM, "out of memory");
	return RC_OK;
}

static void
try_all(struct search *s)
{
	const struct synth_ask *ask = s->ask;

	try_builtins(s);
	if (ask->coll == GPUSIM_ALLTOALL) {
		try_alltoall(s);
		return;
	}
	if (ask->coll == GPUSIM_ALLREDUCE)
		try_whole(s);
	if (!coll_has_root(ask->coll))
		try_gathers(s);
	if (ask->coll == GPUSIM_ALLREDUCE || coll_has_root(ask->coll))
		try_trees(s);
	for (uint32_t i = 0; i < ask->tries && ask->nranks <= SYNTH_GREEDY_MAX && goes_on(s); i++)
		for (uint32_t parts = 1; parts <= (coll_has_root(ask->coll) ? 16 : 2); parts *= 2)
			try_greedy(s, parts, i);
	try_slices(s);
}

enum rc
synth_search(const struct synth_ask *ask, const struct links *links, struct synth_result *out,
	     struct err *err)
{
	struct search s = {.ask = ask, .links = links, .out = out, .err = err};
	enum rc rc = check_ask(ask, err);

	if (rc)
		return rc;
	*out = (struct synth_result){.builtin.us = INFINITY};
	try_all(&s);
	rc = s.rc ? s.rc : write_best(&s, err);
	if (!rc)
		rc = prove(out, err);
	for (size_t i = 0; i < s.nkept; i++)
		draft_fini(&s.kept[i]);
	if (rc)
		synth_fini(out);
	return rc;
}

void
synth_fini(struct synth_result *r)
{
	free(r->row);
	buf_fini(&r->text);
	*r = (struct synth_result){0};
}
