#include "synth/synth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "base/must.h"
#include "coll/tune.h"
#include "synth/draft.h"
#include "synth/exact.h"
#include "synth/family.h"
#include "synth/greedy.h"
#include "synth/trial.h"

#define SYNTH_KEPT	12u	   /* of which slices are tried, and which are tried as files */
#define SMALLEST	4096u	   /* bytes of a chunk in a tree's pipeline */
#define KIN		3u	   /* most kept drafts of one family */
#define MAX_DRAFT_MOVES (1u << 16) /* of a candidate that is timed */
#define MAX_TEXT	(1u << 19) /* of a built-in algorithm's file that is tried */

struct search {
	const struct synth_ask *ask;
	const struct links *links;
	struct synth_result *out;
	struct draft kept[SYNTH_KEPT]; /* the fastest first */
	double us[SYNTH_KEPT], score[SYNTH_KEPT];
	size_t nkept;
	bool timed;	/* the best one has run in a trial */
	uint64_t chunk; /* of the best built-in, elements */
	enum rc rc;
	struct err *err;
};

/* No failure, and time is left. */
static bool
search_goes_on(struct search *s)
{
	return !s->rc && (!s->ask->go_on || s->ask->go_on(s->ask->arg));
}

static void
search_fail(struct search *s, enum rc rc)
{
	if (!s->rc)
		s->rc = rc;
}

/* Of equally fast ones the first stays. */
static bool
search_is_faster(double us, double than)
{
	return us < than * (1 - 1e-9);
}

static void
add_row(struct search *s, const char *name, double us, bool builtin)
{
	struct synth_result *o = s->out;
	struct synth_row row = {.us = us, .builtin = builtin};
	size_t at = o->nrow;

	must_room(&o->row, o->nrow, &o->cap, sizeof *o->row);
	snprintf(row.name, sizeof row.name, "%s", name);
	for (; at && search_is_faster(us, o->row[at - 1].us); at--)
		o->row[at] = o->row[at - 1];
	o->row[at] = row;
	o->nrow++;
	if (builtin && search_is_faster(us, o->builtin.us))
		o->builtin = row;
}

static uint64_t
nelem_of(const struct synth_ask *ask)
{
	uint64_t n = ask->nbytes / SYNTH_ELEM;

	return ask->coll == GPUSIM_ALLTOALL ? n - n % ask->nranks : n;
}

/* INFINITY: devices cannot run these plans. */
static double
search_time(struct search *s, const struct plan *plans)
{
	double us = INFINITY;
	struct err err = {0};
	enum rc rc = trial_time(s->ask, s->links, plans, &us, &err);

	if (rc == RC_FAILED && s->ask->device)
		return INFINITY; /* it needs more messages in flight than a device allows */
	if (rc != RC_OK)
		*s->err = err;
	search_fail(s, rc);
	return us;
}

/* ---- the drafts that a search times, and those that it keeps */

/* Twice as many moves must be worth a hundredth: they cost more than the simulator counts. */
static double
score_of(const struct draft *d, double us)
{
	return us * (1 + 0.01 * log2((double)d->nmove));
}

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

static bool
is_kin(const struct draft *a, const struct draft *b)
{
	size_t n = strcspn(a->name, ".");

	return n == strcspn(b->name, ".") && memcmp(a->name, b->name, n) == 0;
}

/* The draft to replace: the worst of its family if there are enough, else the worst; SYNTH_KEPT: none. */
static size_t
victim(const struct search *s, const struct draft *d)
{
	size_t kin = 0, last = 0;

	for (size_t i = 0; i < s->nkept; i++)
		if (is_kin(&s->kept[i], d)) {
			kin++;
			last = i;
		}
	if (kin >= KIN)
		return last;
	return s->nkept == SYNTH_KEPT ? SYNTH_KEPT - 1 : SYNTH_KEPT;
}

static void
drop_kept(struct search *s, size_t i)
{
	draft_fini(&s->kept[i]);
	for (s->nkept--; i < s->nkept; i++) {
		s->kept[i] = s->kept[i + 1];
		s->us[i] = s->us[i + 1];
		s->score[i] = s->score[i + 1];
	}
}

/* Keep the draft if it is among the best. Takes ownership. */
static void
keep(struct search *s, struct draft *d, double us)
{
	double score = score_of(d, us);
	size_t at = victim(s, d);

	if (at < SYNTH_KEPT && !search_is_faster(score, s->score[at])) {
		draft_fini(d);
		return;
	}
	if (at < SYNTH_KEPT)
		drop_kept(s, at);
	at = s->nkept;
	for (; at && search_is_faster(score, s->score[at - 1]); at--) {
		s->kept[at] = s->kept[at - 1];
		s->us[at] = s->us[at - 1];
		s->score[at] = s->score[at - 1];
	}
	s->kept[at] = *d;
	s->us[at] = us;
	s->score[at] = score;
	s->nkept++;
	*d = (struct draft){0};
}

/* Time a draft, and take ownership. Too large ones are dropped. */
static void
try(struct search *s, struct draft *d)
{
	struct plan *plans;
	double us;

	if (s->rc || d->full || !d->nmove || d->nmove > MAX_DRAFT_MOVES ||
	    d->nchunks > ALGO_MAX_CHUNKS) {
		draft_fini(d);
		return;
	}
	if (draft_plans(d, nelem_of(s->ask), &plans, s->err)) {
		draft_fini(d);
		return;
	}
	us = search_time(s, plans);
	plan_free_all(plans, d->nranks);
	s->out->tried++;
	if (isfinite(us))
		keep(s, d, us);
	else
		draft_fini(d);
}

/* Turn passes into the collective: as they are, reversed, or both. Takes ownership of the passes. */
static void
try_passes(struct search *s, struct draft *passes)
{
	struct draft d = new_draft(s, passes->name);
	enum gpusim_coll coll = s->ask->coll;

	d.nchunks = passes->nchunks;
	d.full = passes->full;
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
				for (uint32_t parts = 1; parts <= 8 && search_goes_on(s);
				     parts *= 2)
					if (outer == 0 || group < n)
						try_gather(s, group, outer, inner, parts);
	}
}

/* The root first, then the ranks after it, or before it. */
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
	uint32_t *order = must_alloc(s->ask->nranks, sizeof *order);
	struct draft d = new_draft(s, "");

	snprintf(d.name, sizeof d.name, "%s%s%.0u.%u", two ? "two-" : "",
		 fan == 0   ? "binomial"
		 : fan == 1 ? "chain"
			    : "tree",
		 fan > 1 ? fan : 0, chunks);
	d.nchunks = chunks;
	for (unsigned k = 0; k <= two; k++) {
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
		for (uint32_t chunks = 1; chunks <= most && search_goes_on(s); chunks *= 2)
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
	owner = must_alloc(d.nchunks, sizeof *owner);
	for (uint32_t c = 0; c < d.nchunks; c++)
		owner[c] = rooted ? s->ask->root : c / parts;
	greedy_passes(&d, s->links, owner, (double)s->ask->nbytes / d.nchunks,
		      s->ask->seed + number * 7919ull + parts);
	free(owner);
	try_passes(s, &d);
}

static void
try_alltoall(struct search *s)
{
	uint32_t n = s->ask->nranks;

	for (uint32_t group = 2; group <= n && search_goes_on(s); group++) {
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
	struct draft whole[SYNTH_KEPT];
	double us[SYNTH_KEPT];
	size_t n = s->nkept;

	memcpy(whole, s->kept, sizeof whole);
	memcpy(us, s->us, sizeof us);
	s->nkept = 0;
	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 2; k <= 16; k *= 2)
			for (uint32_t interval = 1; interval <= 2 && search_goes_on(s);
			     interval++) {
				struct draft d = new_draft(s, "");

				snprintf(d.name, sizeof d.name, "%.48s.s%u.%u", whole[i].name, k,
					 interval);
				draft_slice(&whole[i], k, interval, &d);
				try(s, &d);
			}
	for (size_t i = 0; i < n; i++)
		keep(s, &whole[i], us[i]);
}

static void
try_exact(struct search *s, uint32_t parts, uint32_t most)
{
	bool rooted = coll_has_root(s->ask->coll);
	uint32_t n = s->ask->nranks, owner[EXACT_MAX_CELLS];
	struct draft d = new_draft(s, "");

	d.nchunks = rooted ? parts : n * parts;
	snprintf(d.name, sizeof d.name, "exact.%u.%u", parts, most);
	for (uint32_t c = 0; c < d.nchunks; c++)
		owner[c] = rooted ? s->ask->root : c / parts;
	(void)exact_passes(&d, s->links, owner, most);
	try_passes(s, &d);
}

/* The fewest rounds, with one chunk a link and round, or more. */
static void
try_exacts(struct search *s)
{
	uint32_t n = s->ask->nranks;
	uint32_t chunks = coll_has_root(s->ask->coll) ? 1 : n;

	for (uint32_t parts = 1; n * chunks * parts <= EXACT_MAX_CELLS; parts *= 2)
		for (uint32_t most = 1; most < n * parts && search_goes_on(s); most++)
			try_exact(s, parts, most);
}

/* Draft, time and keep the fastest of all kinds but the built-in ones. */
static void
search_candidates(struct search *s)
{
	const struct synth_ask *ask = s->ask;

	if (ask->coll == GPUSIM_ALLTOALL) {
		try_alltoall(s);
		return;
	}
	if (ask->coll == GPUSIM_ALLREDUCE)
		try_whole(s);
	try_exacts(s);
	if (!coll_has_root(ask->coll))
		try_gathers(s);
	if (ask->coll == GPUSIM_ALLREDUCE || coll_has_root(ask->coll))
		try_trees(s);
	for (uint32_t i = 0; i < ask->tries && ask->nranks <= SYNTH_GREEDY_MAX && search_goes_on(s);
	     i++)
		for (uint32_t parts = 1; parts <= (coll_has_root(ask->coll) ? 16 : 2); parts *= 2)
			try_greedy(s, parts, i);
	try_slices(s);
}

/* ---- built-in algorithms */

static void
time_builtin(struct search *s, const struct tuner *t, const struct plan_algo *row, bool whole,
	     double *best, uint64_t *chunk)
{
	const struct synth_ask *ask = s->ask;
	struct plan_args p = {
	    .coll = ask->coll, .nranks = ask->nranks, .root = ask->root, .nelem = nelem_of(ask)};
	struct tune_ask q = {.args = p, .algo = row->name, .links = ask->shape};
	struct tune_answer answer;
	struct plan *plans;
	double us;

	q.args.dtype = GPUSIM_U8; /* bytes, also where they are not whole elements */
	q.args.nelem = ask->nbytes;
	if (tuner_choose(t, &q, &answer, NULL))
		return;
	p.chunk = whole ? 0 : answer.chunk_bytes / SYNTH_ELEM;
	if (plan_build_all(&p, row->name, &plans, NULL))
		return;
	us = search_time(s, plans);
	plan_free_all(plans, p.nranks);
	if (us < *best) {
		*best = us;
		*chunk = p.chunk;
	}
}

/* In messages as it is run with, and whole ones. */
static void
try_builtin(struct search *s, const struct tuner *t, const struct plan_algo *row)
{
	double us = INFINITY;
	uint64_t chunk = 0;

	time_builtin(s, t, row, false, &us, &chunk);
	if (s->ask->any_chunk)
		time_builtin(s, t, row, true, &us, &chunk);
	if (!isfinite(us))
		return;
	if (search_is_faster(us, s->out->builtin.us))
		s->chunk = chunk;
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
			       "%s: must be allreduce, allgather, reducescatter, alltoall, "
			       "broadcast or reduce",
			       coll_name(ask->coll));
	}
	if (ask->nranks < 2 || ask->nranks > SYNTH_MAX_RANKS)
		return err_set(err, RC_INVAL, "%u ranks: must be 2 to %u", ask->nranks,
			       SYNTH_MAX_RANKS);
	if (ask->root >= ask->nranks)
		return err_set(err, RC_INVAL, "root %u, but %u ranks", ask->root, ask->nranks);
	if (nelem_of(ask) == 0)
		return err_set(err, RC_INVAL, "a vector of %llu bytes has nothing to move",
			       (unsigned long long)ask->nbytes);
	return RC_OK;
}

/* Try a file as it would run, and keep it if it is the best. The text is taken. */
static void
finish(struct search *s, const char *name, double drafted_us, struct buf *text)
{
	struct synth_result *o = s->out;
	struct synth_row row = {.us = drafted_us};
	struct trial t;
	enum rc rc = trial_run(s->ask, s->links, text, nelem_of(s->ask), &t, s->err);

	snprintf(row.name, sizeof row.name, "%s", name);
	/* Built-in ones cut parts unevenly where the vector is no multiple; files do not. */
	if (rc == RC_INTERNAL && isinf(drafted_us)) {
		buf_fini(text);
		return;
	}
	if (rc == RC_INTERNAL) {
		s->err->rc = rc;
		err_prefix(s->err, "%s", name);
	}
	search_fail(s, rc);
	/* Times of drafts and of trials are not comparable: a file that is too long for a trial is the last
	 * resort. */
	if (!rc && isfinite(t.us))
		row.us = t.us;
	if (!rc && (!o->text.len ||
		    (isfinite(t.us) && (!s->timed || search_is_faster(row.us, o->best.us))))) {
		s->timed = isfinite(t.us);
		struct buf old = o->text;

		o->text = *text;
		*text = old;
		o->best = row;
		o->proof = t.proof;
	}
	if (!rc && isfinite(t.us))
		add_row(s, name, row.us, false);
	buf_fini(text);
}

/* Of a vector about as long, whose parts and halves are equal: a file of it has few chunks, and is for any
 * length. */
static uint64_t
even_nelem(uint64_t nelem, uint32_t nranks)
{
	uint64_t unit = nranks;

	for (uint32_t p = 1; p <= nranks / 2; p *= 2)
		unit *= 2;
	return nelem < unit ? nelem : nelem - nelem % unit;
}

/* The built-in algorithm as a file, in whole messages or in those that it is run with. */
static void
finish_builtin(struct search *s, const struct plan_algo *row, uint64_t chunk)
{
	struct plan_args p = {.coll = s->ask->coll,
			      .nranks = s->ask->nranks,
			      .root = s->ask->root,
			      .nelem = even_nelem(nelem_of(s->ask), s->ask->nranks),
			      .chunk = chunk};
	struct buf text = {0};
	char name[ALGO_NAME_MAX];

	snprintf(name, sizeof name, "file-of-%s%s", row->name, chunk ? ".s" : "");
	if (text_print_plans(&p, row->name, &text, NULL) || text.len > MAX_TEXT)
		buf_fini(&text);
	else
		finish(s, name, INFINITY, &text);
}

static void
finish_all(struct search *s)
{
	for (size_t i = 0; i < s->nkept && !s->rc; i++) {
		struct buf text = {0};

		draft_print(&s->kept[i], &text);
		finish(s, s->kept[i].name, s->us[i], &text);
	}
	for (const struct plan_algo *row = plan_algos; row->name && !s->rc; row++)
		if (row->coll == s->ask->coll && !plan_algo_mapped(row)) {
			finish_builtin(s, row, 0);
			if (search_goes_on(s) && strcmp(row->name, s->out->builtin.name) == 0)
				finish_builtin(s, row, s->chunk);
		}
}

/* Say in the file's first line what it is, and give it a name that no built-in algorithm has. */
static void
write_about(struct search *s)
{
	struct synth_result *o = s->out;
	struct buf all = {0};
	size_t body = 0;

	must_addf(&all, "# %s of %llu bytes: %s takes %.1f us by simulation",
		  coll_name(s->ask->coll), (unsigned long long)s->ask->nbytes, o->best.name,
		  o->best.us);
	if (isfinite(o->builtin.us))
		must_addf(&all, "; %s, the best built-in algorithm, %.1f us%s", o->builtin.name,
			  o->builtin.us,
			  synth_builtin_wins(o) ? ": it is faster than this file" : "");
	while (body < o->text.len && o->text.data[body] != '\n')
		body++;
	must_addf(&all, "\nalgorithm synth-%.*s", ALGO_NAME_MAX - 7, o->best.name);
	must_add(&all, o->text.data + body, o->text.len - body);
	buf_fini(&o->text);
	o->text = all;
}

bool
synth_builtin_wins(const struct synth_result *r)
{
	return search_is_faster(r->builtin.us, r->best.us);
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
	try_builtins(&s);
	search_candidates(&s);
	if (!s.rc)
		finish_all(&s);
	rc = s.rc;
	if (!rc && !out->text.len)
		rc = err_set(err, RC_INTERNAL, "no candidate could be timed");
	if (!rc)
		write_about(&s);
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
