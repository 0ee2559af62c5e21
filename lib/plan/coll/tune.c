#include "coll/tune.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "coll/tune_impl.h"

/*
 * Default costs, from one machine. Sockets: the latency of a message, a byte with its checksum, a byte
 * added, the work of each device's thread. Shared memory: a sync of all ranks, a byte copied, a byte added.
 */
static const struct cost_model defaults[TUNE_NTRANSPORTS] = {
    [TUNE_NET] = {.alpha_us = 8, .beta_us = 0.001, .gamma_us = 0.00004, .host_us = 16},
    [TUNE_P2P] = {.alpha_us = 1.4, .beta_us = 0.0001, .gamma_us = 0.0002},
};

static bool
allows(const struct tuner *t, const struct plan_algo *row)
{
	return (t->select[row->coll].allowed & tune_bit(row)) != 0;
}

void
tuner_init(struct tuner *t)
{
	*t = (struct tuner){0};
	memcpy(t->model, defaults, sizeof t->model);
	for (const struct plan_algo *row = plan_algos; row->name; row++)
		t->select[row->coll].allowed |= tune_bit(row);
}

void
tuner_fini(struct tuner *t)
{
	tune_rules_free(t);
}

enum rc
tuner_configure(struct tuner *t, const char *algo, const char *path, struct err *err)
{
	struct buf text = {0};
	enum rc rc;

	if (algo && tuner_select(t, algo, err) != RC_OK)
		return err_prefix(err, "GPUSIM_ALGO");
	if (!path || !*path)
		return RC_OK;
	rc = file_text(path, "a tuner file", &text, err);
	if (rc == RC_OK)
		rc = tuner_rules(t, text.data, path, err);
	buf_fini(&text);
	return rc;
}

/* ---- choosing */

struct cost_model
tuner_model(const struct tuner *t, enum tune_transport by, const struct link_shape *links)
{
	if (by != TUNE_NET || t->measured[by])
		return t->model[by];
	return cost_shaped(&t->model[by], links);
}

static double
cost(const struct tuner *t, const struct tune_ask *ask, const struct cost_algo *row,
     uint64_t chunk_bytes)
{
	const struct plan_args *op = &ask->args;
	struct cost_args a = {op->nranks, (double)plan_args_bytes(op), (double)chunk_bytes, 1};
	struct cost_model m = tuner_model(t, ask->transport, &ask->links);

	if (!row || ask->args.nranks < 2)
		return NAN;
	a.widening = cost_widening(row->coll, row->name, op->nranks, plan_args_widening(op));
	return row->us(&a, &m);
}

/* A large vector goes through sockets in pieces, of which a window fits a core's cache. */
static uint64_t
largest_chunk(const struct tune_ask *ask)
{
	return ask->transport == TUNE_NET && plan_args_bytes(&ask->args) > TUNE_LARGE_BYTES
		   ? TUNE_LARGE_CHUNK_BYTES
		   : TUNE_CHUNK_BYTES;
}

/* Find the algorithm's best message size: a smaller one must be faster by 2 %. */
static void
best_chunk(const struct tuner *t, const struct tune_ask *ask, struct tune_answer *a)
{
	const struct cost_algo *row = cost_find(ask->args.coll, a->algo->name);

	a->chunk_bytes = ask->chunk_bytes ? ask->chunk_bytes : largest_chunk(ask);
	a->us = cost(t, ask, row, a->chunk_bytes);
	if (ask->chunk_bytes || !row || !row->pipelined)
		return;
	for (uint64_t c = largest_chunk(ask) / 2; c >= TUNE_MIN_CHUNK_BYTES; c /= 2) {
		double us = cost(t, ask, row, c);

		if (us < 0.98 * a->us) {
			a->us = us;
			a->chunk_bytes = c;
		}
	}
}

/* A single rank does not store into a peer. */
static bool
is_barred(const struct tune_ask *ask, const struct plan_algo *algo)
{
	return ask->no_stores && ask->args.nranks > 1 && plan_algo_stores(algo);
}

/* Return true if the algorithm is allowed, and possible with this transport. */
static bool
usable(const struct tuner *t, const struct tune_ask *ask, const struct plan_algo *algo)
{
	const struct cost_algo *row = cost_find(algo->coll, algo->name);

	return algo->coll == ask->args.coll && allows(t, algo) &&
	       !(ask->args.canonical && ask->args.nranks > 1 && !plan_algo_canonical(algo)) &&
	       (!row || !row->shared || ask->transport == TUNE_P2P) && !is_barred(ask, algo);
}

/* Find an algorithm of a file that a rule or GPUSIM_ALGO names; NULL: it does not fit the operation. */
static const struct tune_file *
fitting(const struct tune_ask *ask, const char *name)
{
	const struct tune_file *f = tune_file_find(ask->files, name);

	return f && tune_file_check(f, ask, NULL) == RC_OK &&
		       plan_args_bytes(&ask->args) >= f->min_bytes &&
		       (!f->max_bytes || plan_args_bytes(&ask->args) <= f->max_bytes)
		   ? f
		   : NULL;
}

/* Return true if GPUSIM_ALGO lists the algorithm of a file, or lists nothing. */
static bool
lists(const struct tune_select *s, const char *file)
{
	if (!s->named)
		return true;
	for (unsigned i = 0; i < s->nfiles; i++)
		if (strcmp(s->file[i], file) == 0)
			return true;
	return false;
}

static const struct tune_rule *
find_rule(const struct tuner *t, const struct tune_ask *ask)
{
	for (size_t i = 0; i < t->nrules; i++) {
		const struct tune_rule *r = &t->rule[i];

		if (r->coll == ask->args.coll && plan_args_bytes(&ask->args) >= r->min_bytes &&
		    plan_args_bytes(&ask->args) <= r->max_bytes &&
		    (r->file ? lists(&t->select[r->coll], r->file) && fitting(ask, r->file)
			     : usable(t, ask, r->algo)) &&
		    (r->transport < 0 || r->transport == (int)ask->transport) &&
		    (!r->nranks || r->nranks == ask->args.nranks))
			return r;
	}
	return NULL;
}

/* The cheapest algorithm; of equals the first in cost_algos. algo is NULL: the model may choose none. */
static void
by_model(const struct tuner *t, const struct tune_ask *ask, struct tune_answer *out)
{
	*out = (struct tune_answer){.us = INFINITY};
	for (const struct cost_algo *row = cost_algos; row->name; row++) {
		struct tune_answer a = {.by = TUNE_BY_MODEL};

		if (row->coll != ask->args.coll || (row->slow && !t->select[row->coll].named) ||
		    plan_algo_find(row->coll, row->name, &a.algo, NULL) != RC_OK ||
		    !usable(t, ask, a.algo))
			continue;
		best_chunk(t, ask, &a);
		if (!out->algo || a.us < 0.98 * out->us)
			*out = a;
	}
}

/* GPUSIM_ALGO allows only algorithms that the model does not choose: take the first of them. If this
 * transport can do none of them, ignore GPUSIM_ALGO. */
static void
by_name(const struct tuner *t, const struct tune_ask *ask, struct tune_answer *out)
{
	struct tuner all;

	for (const struct plan_algo *row = plan_algos; row->name; row++) {
		if (!usable(t, ask, row))
			continue;
		*out = (struct tune_answer){.algo = row, .by = TUNE_BY_NAME};
		best_chunk(t, ask, out);
		return;
	}
	tuner_init(&all);
	memcpy(all.model, t->model, sizeof all.model);
	memcpy(all.measured, t->measured, sizeof all.measured);
	by_model(&all, ask, out);
}

/* Find the call's own algorithm, built in or from a file. */
static enum rc
by_call(const struct tune_ask *ask, struct tune_answer *out, struct err *err)
{
	const struct tune_file *f = tune_file_find(ask->files, ask->algo);

	if (!f)
		return plan_algo_find(ask->args.coll, ask->algo, &out->algo, err);
	out->algo = &plan_algo_file;
	out->file = f;
	return tune_file_check(f, ask, err);
}

/* Choose for a call that leaves the algorithm open. */
static void
by_tuner(const struct tuner *t, const struct tune_ask *ask, struct tune_answer *a)
{
	const struct tune_select *s = &t->select[ask->args.coll];
	const struct tune_rule *rule;

	/* GPUSIM_ALGO's first algorithm of a file that fits. */
	for (unsigned i = 0; i < s->nfiles && !a->file; i++)
		a->file = fitting(ask, s->file[i]);
	if (a->file) {
		a->by = TUNE_BY_NAME;
		a->algo = &plan_algo_file;
	} else if ((rule = find_rule(t, ask))) {
		a->by = TUNE_BY_FILE;
		a->algo = rule->algo;
		a->file = rule->file ? fitting(ask, rule->file) : NULL;
	} else {
		by_model(t, ask, a);
		if (!a->algo)
			by_name(t, ask, a);
		return;
	}
	best_chunk(t, ask, a);
}

enum rc
tuner_choose(const struct tuner *t, const struct tune_ask *ask, struct tune_answer *out,
	     struct err *err)
{
	struct tune_answer a = {.by = TUNE_BY_CALL};
	bool open = !ask->algo || !*ask->algo || strcmp(ask->algo, "auto") == 0;
	enum rc rc = by_call(ask, &a, err);

	if (rc != RC_OK)
		return rc;
	if (!open && !a.file && is_barred(ask, a.algo))
		return err_set(err, RC_INVAL,
			       "%s %s writes to other ranks' memory, which a communicator that "
			       "recovers from failures does not allow",
			       coll_name(ask->args.coll), a.algo->name);
	if (!open && !a.file && ask->args.canonical && ask->args.nranks > 1 &&
	    plan_algo_check_canonical(a.algo, err) != RC_OK)
		return RC_INVAL;
	if (open)
		by_tuner(t, ask, &a);
	else
		best_chunk(t, ask, &a);
	*out = a;
	return RC_OK;
}
