#include "synth/synth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "base/must.h"
#include "coll/tune.h"
#include "synth/synth_impl.h"
#include "synth/trial.h"

#define MAX_TEXT (1u << 19) /* of a built-in algorithm's file that is tried */

bool
search_goes_on(struct search *s)
{
	return !s->rc && (!s->ask->go_on || s->ask->go_on(s->ask->arg));
}

void
search_fail(struct search *s, enum rc rc)
{
	if (!s->rc)
		s->rc = rc;
}

bool
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

uint64_t
search_nelem(const struct search *s)
{
	return nelem_of(s->ask);
}

double
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
	enum rc rc = trial_run(s->ask, s->links, text, search_nelem(s), &t, s->err);

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
			      .nelem = even_nelem(search_nelem(s), s->ask->nranks),
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
