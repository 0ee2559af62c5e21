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
#include "synth/trial.h"

#define ELEM		4u
#define SMALLEST	4096u	   /* bytes of a chunk in a tree's pipeline */
#define MAX_TEXT	(1u << 19) /* of a built-in algorithm's file that is tried */
#define KEPT		12u	   /* of which slices are tried, and which are tried as files */
#define KIN		3u	   /* of one family among them */
#define MAX_DRAFT_MOVES (1u << 16) /* of a candidate that is timed */

struct search {
	const struct synth_ask *ask;
	const struct links *links;
	struct synth_result *out;
	struct draft kept[KEPT]; /* the fastest first */
	double us[KEPT], score[KEPT];
	size_t nkept;
	bool timed;	/* the best one has run in a trial */
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
	struct flow_plans p = {plans, s->ask->nranks, s->ask->nranks, ELEM, 1};
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

static bool
is_kin(const struct draft *a, const struct draft *b)
{
	size_t n = strcspn(a->name, ".");

	return n == strcspn(b->name, ".") && memcmp(a->name, b->name, n) == 0;
}

/* The one that has to go for another: the worst of its family where there are two, else the worst; KEPT: none. */
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
	return s->nkept == KEPT ? KEPT - 1 : KEPT;
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

/* Keep it if it is among the best; the draft is taken. */
static void
keep(struct search *s, struct draft *d, double us)
{
	double score = score_of(d, us);
	size_t at = victim(s, d);

	if (at < KEPT && !is_faster(score, s->score[at])) {
		draft_fini(d);
		return;
	}
	if (at < KEPT)
		drop_kept(s, at);
	at = s->nkept;
	for (; at && is_faster(score, s->score[at - 1]); at--) {
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
	s->out->tried++;
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
time_builtin(struct search *s, const struct tuner *t, const struct plan_algo *row, bool whole,
	     double *best, uint64_t *chunk)
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
	p.chunk = whole ? 0 : answer.chunk_bytes / ELEM;
	if (plan_build_all(&p, row->name, &plans, NULL))
		return;
	us = time_of(s, plans);
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
	if (is_faster(us, s->out->builtin.us))
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

/* Try a file as it would run, and keep it if it is the best. The text is taken. */
static void
finish(struct search *s, const char *name, double drafted_us, struct buf *text)
{
	struct synth_result *o = s->out;
	struct synth_row row = {.us = drafted_us};
	struct trial t;
	enum rc rc = trial_run(text, s->links, nelem_of(s->ask), s->ask->any_chunk, &t, s->err);

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
	fail(s, rc);
	/* Times of drafts and of what runs are not compared: a file that is too long for a trial is the last resort. */
	if (!rc && isfinite(t.us))
		row.us = t.us;
	if (!rc &&
	    (!o->text.len || (isfinite(t.us) && (!s->timed || is_faster(row.us, o->best.us))))) {
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

/* The built-in algorithm as a file, in whole messages or in those that it is run with. */
static void
finish_builtin(struct search *s, const struct plan_algo *row, uint64_t chunk)
{
	struct plan_args p = {.coll = s->ask->coll,
			      .nranks = s->ask->nranks,
			      .root = s->ask->root,
			      .nelem = nelem_of(s->ask),
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

		if (draft_print(&s->kept[i], "", &text))
			finish(s, s->kept[i].name, s->us[i], &text);
		else
			fail(s, err_set(s->err, RC_NOMEM, "out of memory"));
	}
	for (const struct plan_algo *row = plan_algos; row->name && !s->rc; row++)
		if (row->coll == s->ask->coll && !plan_algo_mapped(row)) {
			finish_builtin(s, row, 0);
			if (goes_on(s) && strcmp(row->name, s->out->builtin.name) == 0)
				finish_builtin(s, row, s->chunk);
		}
}

/* Say in the file's first line what it is, and give it a name that no built-in algorithm has. */
static enum rc
write_about(struct search *s, struct err *err)
{
	struct synth_result *o = s->out;
	struct buf all = {0};
	size_t body = 0;
	bool good = buf_addf(&all, "# %s of %llu bytes: %s takes %.1f us by simulation",
			     coll_name(s->ask->coll), (unsigned long long)s->ask->nbytes,
			     o->best.name, o->best.us);

	if (good && isfinite(o->builtin.us))
		good = buf_addf(&all, "; %s, the best built-in algorithm, %.1f us", o->builtin.name,
				o->builtin.us);
	while (body < o->text.len && o->text.data[body] != '\n')
		body++;
	good = good && buf_addf(&all, "\nalgorithm synth-%.*s", ALGO_NAME_MAX - 7, o->best.name) &&
	       buf_add(&all, o->text.data + body, o->text.len - body);
	buf_fini(&o->text);
	o->text = all;
	return good ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
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
	if (!s.rc)
		finish_all(&s);
	rc = s.rc;
	if (!rc && !out->text.len)
		rc = err_set(err, RC_INTERNAL, "no candidate could be timed");
	if (!rc)
		rc = write_about(&s, err);
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
