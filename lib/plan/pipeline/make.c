/*
 * make.c - the known schedules, and where sends and receives go.
 *
 * Design notes. A row is written down as its rank works: passes forward before the first pass back (warm-up), then one
 * forward and one back in turn, then the rest. What differs is the number of the first ones, and when W follows I.
 *
 * ZB-H1: rank r has p - r - 1 passes forward first, and W of a microbatch follows r passes back later: so each rank
 * has p microbatches between F and W, as rank 0 of 1F1B, and the last ranks fill their wait with W. ZB-H2: 2 (p - r)
 * - 1 first, W is 2 r later, and forward comes after back: 2 p - 1 on each. Both are checked against the paper's
 * bubbles in tests/unit/pipeline (arXiv 2401.10241, sections 2 and 3). ZB-V is its section 6.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/parse.h"
#include "pipeline/pipeline_impl.h"

static const char *const scheme_names[PIPELINE_NSCHEMES] = {"gpipe", "1f1b",  "interleaved",
							    "zb-h1", "zb-h2", "zb-v"};

const char *
pipeline_scheme_name(enum pipeline_scheme s)
{
	return scheme_names[s];
}

/* A row that is written. The microbatches of each kind come in order. */
struct writer {
	struct pipeline *p;
	uint32_t rank;
	bool failed;
};

static void
put(struct writer *w, enum pipeline_kind k, uint32_t stage, uint32_t micro)
{
	struct pipeline_action a = {.kind = k, .stage = stage, .micro = micro};

	a.column = (uint32_t)w->p->row[w->rank].n + 1;
	w->p->splits |= k == PIPELINE_I;
	w->failed |= !pipeline_append(w->p, w->rank, a);
}

static void
write_gpipe(struct writer *w)
{
	for (uint32_t i = 0; i < w->p->nmicro; i++)
		put(w, PIPELINE_F, w->rank, i);
	for (uint32_t i = 0; i < w->p->nmicro; i++)
		put(w, PIPELINE_B, w->rank, i);
}

/* The i-th of the passes forward (or back) of a rank with v stages: groups of p microbatches pass one stage after the
 * other. */
static void
put_interleaved(struct writer *w, enum pipeline_kind k, uint32_t i, uint32_t v)
{
	uint32_t p = w->p->nranks, chunk = i % (p * v) / p;

	put(w, k, (k == PIPELINE_F ? chunk : v - 1 - chunk) * p + w->rank, i / (p * v) * p + i % p);
}

static void
write_1f1b(struct writer *w, uint32_t v)
{
	uint32_t p = w->p->nranks, total = w->p->nmicro * v;
	uint32_t first = v == 1 ? p - w->rank - 1 : (p - w->rank - 1) * 2 + (v - 1) * p;

	first = first < total ? first : total;
	for (uint32_t i = 0; i < first; i++)
		put_interleaved(w, PIPELINE_F, i, v);
	for (uint32_t i = 0; i < total; i++) {
		if (first + i < total)
			put_interleaved(w, PIPELINE_F, first + i, v);
		put_interleaved(w, PIPELINE_B, i, v);
	}
}

/* `first` passes forward, then back and forward in turn; W is `later` passes back behind. */
static void
write_zero_bubble(struct writer *w, uint32_t first, uint32_t later, bool forward_first)
{
	uint32_t m = w->p->nmicro, nf = 0, nw = 0;

	while (nf < first && nf < m)
		put(w, PIPELINE_F, w->rank, nf++);
	for (uint32_t ni = 0; ni < m; ni++) {
		if (forward_first && nf < m)
			put(w, PIPELINE_F, w->rank, nf++);
		put(w, PIPELINE_I, w->rank, ni);
		if (ni >= later)
			put(w, PIPELINE_W, w->rank, nw++);
		if (!forward_first && nf < m)
			put(w, PIPELINE_F, w->rank, nf++);
	}
	while (nw < m)
		put(w, PIPELINE_W, w->rank, nw++);
}

/* Of ZB-V: passes of the rank's stage on the way there (0) or back (1); those of microbatches that the schedule does
 * not have are left out. */
struct v_writer {
	struct writer *w;
	uint32_t n[PIPELINE_W + 1][2];
};

static void
put_v(struct v_writer *v, enum pipeline_kind k, unsigned way)
{
	uint32_t micro = v->n[k][way]++, p = v->w->p->nranks;

	if (micro < v->w->p->nmicro)
		put(v->w, k, way ? 2 * p - 1 - v->w->rank : v->w->rank, micro);
}

static void
put_v_back(struct v_writer *v, unsigned way)
{
	put_v(v, PIPELINE_I, way);
	put_v(v, PIPELINE_W, way);
}

static void
write_zb_v(struct writer *w)
{
	struct v_writer v = {w, {{0}}};
	uint32_t p = w->p->nranks, r = w->rank, m = w->p->nmicro;

	m = m < 2 * p - 1 ? 2 * p - 1 : m; /* the form needs so many */
	for (uint32_t i = 0; i < 2 * (p - r) - 1; i++)
		put_v(&v, PIPELINE_F, 0);
	for (uint32_t i = 0; i < r; i++) {
		put_v(&v, PIPELINE_F, 1);
		put_v(&v, PIPELINE_F, 0);
	}
	for (uint32_t i = 0; i < p - r; i++) {
		put_v(&v, PIPELINE_F, 1);
		put_v_back(&v, 1);
	}
	while (v.n[PIPELINE_F][1] < v.n[PIPELINE_F][0] || v.n[PIPELINE_F][0] < m) {
		if (v.n[PIPELINE_F][0] < m)
			put_v(&v, PIPELINE_F, 0);
		put_v_back(&v, 0);
		put_v(&v, PIPELINE_F, 1);
		put_v_back(&v, 1);
	}
	for (uint32_t i = 0; i < r; i++) {
		put_v(&v, PIPELINE_I, 0);
		put_v(&v, PIPELINE_I, 1);
	}
	for (uint32_t i = 0; i < p - r; i++)
		put_v_back(&v, 0);
	while (v.n[PIPELINE_W][1] < v.n[PIPELINE_I][1])
		put_v(&v, PIPELINE_W, 1);
	while (v.n[PIPELINE_W][0] < v.n[PIPELINE_I][0])
		put_v(&v, PIPELINE_W, 0);
}

static enum rc
check_numbers(enum pipeline_scheme s, uint32_t p, uint32_t m, uint32_t v, struct err *err)
{
	uint64_t actions = 3ull * m * v * p * (s == PIPELINE_ZB_V ? 2 : 1);

	if (p == 0 || p > PIPELINE_MAX_RANKS)
		return err_set(err, RC_INVAL, "%u ranks: a pipeline has 1 to %u", p,
			       PIPELINE_MAX_RANKS);
	if (m == 0 || m > PIPELINE_MAX_MICRO)
		return err_set(err, RC_INVAL, "%u microbatches: there are 1 to %u", m,
			       PIPELINE_MAX_MICRO);
	if (v == 0 || (v != 1 && s != PIPELINE_INTERLEAVED))
		return err_set(err, RC_INVAL,
			       "%u stages of a rank: only interleaved has more than one", v);
	if ((uint64_t)p * v > PIPELINE_MAX_STAGES)
		return err_set(err, RC_INVAL, "%llu stages: there are at most %u",
			       (unsigned long long)p * v, PIPELINE_MAX_STAGES);
	if (s == PIPELINE_INTERLEAVED && v > 1 && m % p)
		return err_set(err, RC_INVAL,
			       "%u microbatches: interleaved needs a multiple of its %u ranks", m,
			       p);
	if (actions > PIPELINE_MAX_ACTIONS)
		return err_set(err, RC_INVAL, "%llu actions: there are at most 2^20",
			       (unsigned long long)actions);
	return RC_OK;
}

static bool
write_rows(enum pipeline_scheme s, struct pipeline *p, uint32_t v)
{
	struct writer w = {.p = p};
	uint32_t n = p->nranks;

	for (w.rank = 0; w.rank < n; w.rank++)
		switch (s) {
		case PIPELINE_GPIPE:
			write_gpipe(&w);
			break;
		case PIPELINE_1F1B:
		case PIPELINE_INTERLEAVED:
			write_1f1b(&w, v);
			break;
		case PIPELINE_ZB_H1:
			write_zero_bubble(&w, n - w.rank - 1, w.rank, true);
			break;
		case PIPELINE_ZB_H2:
			write_zero_bubble(&w, 2 * (n - w.rank) - 1, 2 * w.rank, false);
			break;
		default:
			write_zb_v(&w);
			break;
		}
	return !w.failed;
}

enum rc
pipeline_make(enum pipeline_scheme s, uint32_t p, uint32_t m, uint32_t v, struct pipeline **out,
	      struct err *err)
{
	struct pipeline *new;

	*out = NULL;
	if (check_numbers(s, p, m, v, err) != RC_OK)
		return err->rc;
	new = pipeline_new();
	if (new)
		new->row = alloc_zeroed(p, sizeof *new->row);
	if (!new || !new->row) {
		pipeline_free(new);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	new->nranks = p;
	new->nmicro = m;
	new->nstages = s == PIPELINE_ZB_V ? 2 * p : p *v;
	for (uint32_t i = 0; i < new->nstages; i++)
		new->rank_of[i] = s == PIPELINE_ZB_V &&i >= p ? 2 * p - 1 - i : i % p;
	if (!write_rows(s, new, v)) {
		pipeline_free(new);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	*out = new;
	return RC_OK;
}

/* A scheme's name, and the V of interleaved=V. False: no scheme. */
static bool
scheme_of(const char *name, enum pipeline_scheme *s, uint32_t *v)
{
	static const char interleaved[] = "interleaved=";
	struct err err;

	*v = 1;
	for (unsigned k = 0; k < PIPELINE_NSCHEMES; k++)
		if (strcmp(name, scheme_names[k]) == 0) {
			*s = (enum pipeline_scheme)k;
			*v = k == PIPELINE_INTERLEAVED ? 2 : 1;
			return true;
		}
	*s = PIPELINE_INTERLEAVED;
	return strncmp(name, interleaved, sizeof interleaved - 1) == 0 &&
	       parse_u32(name + sizeof interleaved - 1, 1, PIPELINE_MAX_STAGES, v, &err) == RC_OK;
}

static enum rc
read_file(const char *name, uint32_t p, uint32_t m, struct pipeline **out, struct err *err)
{
	const char *path = strcmp(name, "-") == 0 ? "/dev/stdin" : name;
	struct buf text = {0};
	enum rc rc;

	if (!strpbrk(path, "/.") && access(path, F_OK) != 0)
		return err_set(err, RC_INVAL,
			       "'%.64s': no schedule and no file; the schedules are gpipe, 1f1b, "
			       "interleaved=V, zb-h1, zb-h2, "
			       "zb-v",
			       name);
	rc = file_text_upto(path, "a schedule", PIPELINE_MAX_BYTES, &text, err);
	if (rc == RC_OK && pipeline_parse(text.data, text.len - 1, out, err) != RC_OK)
		rc = err_prefix(err, "%.200s", name);
	else if (rc == RC_OK && ((p && p != (*out)->nranks) || (m && m != (*out)->nmicro))) {
		rc = err_set(err, RC_INVAL, "%.200s: it has %u ranks and %u microbatches", name,
			     (*out)->nranks, (*out)->nmicro);
		pipeline_free(*out);
		*out = NULL;
	}
	buf_fini(&text);
	return rc;
}

bool
pipeline_is_scheme(const char *name)
{
	enum pipeline_scheme s;
	uint32_t v;

	return scheme_of(name, &s, &v);
}

enum rc
pipeline_named(const char *name, uint32_t p, uint32_t m, struct pipeline **out, struct err *err)
{
	enum pipeline_scheme s;
	uint32_t v;

	*out = NULL;
	if (!scheme_of(name, &s, &v))
		return read_file(name, p, m, out, err);
	if (!p || !m)
		return err_set(err, RC_INVAL, "%s: needs the numbers of ranks and microbatches",
			       name);
	return pipeline_make(s, p, m, v, out, err) == RC_OK ? RC_OK : err_prefix(err, "%s", name);
}

/* ---- sends and receives */

/* What the derivation knows: the rows that are left, the rows that it writes, and what is there, by stage and
 * microbatch: bit F: a value from the stage before; bit B: one from the stage after. */
struct derive {
	struct pipeline *p;
	struct pipeline_row *old;
	size_t *next;
	uint8_t *here;
	bool *waits; /* by rank: nothing came since its next cell was not ready, or it has none */
	bool failed;
};

enum { HERE_F = 1, HERE_B = 2 };

static bool
ready(const struct derive *d, const struct pipeline_action *a)
{
	uint8_t need = a->kind == PIPELINE_F ? HERE_F : HERE_B;

	if (!pipeline_computes(a->kind) || a->kind == PIPELINE_W ||
	    pipeline_before(d->p, a->kind, a->stage) == PIPELINE_NOBODY)
		return true;
	return d->here[(size_t)a->stage * d->p->nmicro + a->micro] & need;
}

/* A value is made: send it, if the stage that needs it is another rank's. */
static void
made(struct derive *d, uint32_t rank, const struct pipeline_action *a)
{
	struct pipeline *p = d->p;
	bool forward = a->kind == PIPELINE_F;
	uint32_t to = forward ? a->stage + 1 : a->stage - 1;
	struct pipeline_action send = {.stage = a->stage, .micro = a->micro, .column = a->column},
			       recv = send;

	if (!pipeline_computes(a->kind) || a->kind == PIPELINE_W ||
	    (forward ? to == p->nstages : a->stage == 0))
		return;
	d->here[(size_t)to * p->nmicro + a->micro] |= forward ? HERE_F : HERE_B;
	d->waits[p->rank_of[to]] = false;
	if (p->rank_of[to] == rank)
		return;
	send.kind = forward ? PIPELINE_SEND_F : PIPELINE_SEND_B;
	recv.kind = forward ? PIPELINE_RECV_F : PIPELINE_RECV_B;
	recv.stage = to;
	d->failed |= !pipeline_append(p, rank, send) || !pipeline_append(p, p->rank_of[to], recv);
}

/* Take a cell of a row, if its actions are ready. */
static bool
take(struct derive *d, uint32_t rank)
{
	const struct pipeline_row *old = &d->old[rank];
	size_t begin = d->next[rank], end = begin;

	do
		if (end == old->n || !ready(d, &old->v[end])) {
			d->waits[rank] = true;
			return false;
		}
	while (old->v[end++].joined);
	for (size_t i = begin; i < end; i++)
		d->failed |= !pipeline_append(d->p, rank, old->v[i]);
	for (size_t i = begin; i < end; i++)
		made(d, rank, &old->v[i]);
	d->next[rank] = end;
	return true;
}

static enum rc
run_derive(struct derive *d, struct err *err)
{
	struct pipeline *p = d->p;

	for (bool any = true; any && !d->failed;) {
		any = false;
		for (uint32_t r = 0; r < p->nranks && !d->failed; r++)
			any |= !d->waits[r] && take(d, r);
	}
	if (d->failed)
		return err_set(err, RC_NOMEM, "out of memory");
	for (uint32_t r = 0; r < p->nranks; r++) {
		const struct pipeline_action *a = &d->old[r].v[d->next[r]];
		uint32_t from;

		if (d->next[r] == d->old[r].n)
			continue;
		while (ready(d, a))
			a++; /* of the cell */
		from = pipeline_before(p, a->kind, a->stage);
		return err_set(
		    err, RC_BADDATA,
		    "row %u, column %u: %u%s%u waits for ever: it waits for stage %u, in row %u",
		    r + 1, a->column, a->stage, pipeline_kind_name(a->kind), a->micro, from,
		    p->rank_of[from] + 1);
	}
	return RC_OK;
}

enum rc
pipeline_derive(struct pipeline *p, struct err *err)
{
	struct derive d = {.p = p,
			   .old = p->row,
			   .next = alloc_zeroed(p->nranks, sizeof *d.next),
			   .here = alloc_zeroed(p->nstages, p->nmicro),
			   .waits = alloc_zeroed(p->nranks, sizeof *d.waits)};
	struct pipeline_row *fresh = alloc_zeroed(p->nranks, sizeof *fresh);
	enum rc rc =
	    d.next && d.here && d.waits && fresh ? RC_OK : err_set(err, RC_NOMEM, "out of memory");

	if (rc == RC_OK) {
		p->row = fresh;
		rc = run_derive(&d, err);
		if (rc == RC_OK)
			fresh = d.old;
		else
			p->row = d.old;
		p->sends |= rc == RC_OK;
	}
	for (uint32_t r = 0; fresh && r < p->nranks; r++)
		free(fresh[r].v);
	free(fresh);
	free(d.next);
	free(d.here);
	free(d.waits);
	return rc;
}
