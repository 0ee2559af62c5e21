/*
 * check.c - the proof that a schedule is right.
 *
 * Design notes. First each row by itself: what an action needs must stand in an earlier cell of its row. Then the
 * sends of each ordered pair of ranks against the receives, by number. Then the rows run together, where a send ends
 * only when its receive is posted, and a pass begins when its value was sent. Nothing that happens makes another
 * action wait, so it does not matter which row goes on first: if one order comes to the end, each does, and so does
 * each in which sends do not wait. Each of the three takes a time that grows with the number of actions alone.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/pipeline_impl.h"

/* What has happened to a microbatch in a stage, bits by kind. */
typedef uint8_t passed;

struct checker {
	struct pipeline *p;
	struct pipeline_facts *out;
	struct err *err;
	passed *done;	   /* by stage and microbatch: bits by kind, of F to RECV_B */
	uint8_t *here;	   /* by stage: its parameters are there */
	uint32_t *backs;   /* by stage: passes back that have ended */
	uint8_t *reduced;  /* by stage */
	uint32_t rank;	   /* of the row, and ... */
	uint32_t progress; /* ... its passes forward that are not back */
};

static passed *
state(const struct checker *c, uint32_t stage, uint32_t micro)
{
	return &c->done[(size_t)stage * c->p->nmicro + micro];
}

static bool
has(const struct checker *c, enum pipeline_kind k, uint32_t stage, uint32_t micro)
{
	return *state(c, stage, micro) >> k & 1;
}

/* Back has passed, as far as the stage before needs it. */
static bool
is_back(const struct checker *c, uint32_t stage, uint32_t micro)
{
	return has(c, PIPELINE_B, stage, micro) || has(c, PIPELINE_I, stage, micro);
}

__attribute__((format(printf, 3, 4))) static enum rc
wrong(const struct checker *c, const struct pipeline_action *a, const char *fmt, ...)
{
	struct buf cell = {0}, why = {0};
	va_list ap;
	enum rc rc;

	va_start(ap, fmt);
	buf_addv(&why, fmt, ap);
	va_end(ap);
	pipeline_print_action(a, &cell);
	rc = err_set(c->err, RC_BADDATA, "row %u, column %u: %s %s", c->rank + 1, a->column,
		     cell.data ? cell.data : "", why.data ? why.data : "");
	buf_fini(&cell);
	buf_fini(&why);
	return rc;
}

/* ---- a row by itself */

static enum rc
needs(const struct checker *c, const struct pipeline_action *a, uint32_t stage, const char *kind)
{
	return wrong(c, a, "needs %u%s%u in an earlier cell of its row", stage, kind, a->micro);
}

/* The value that a pass forward or back needs is there: made in this row, or received. */
static enum rc
check_value(const struct checker *c, const struct pipeline_action *a)
{
	bool forward = a->kind == PIPELINE_F;
	uint32_t from = pipeline_before(c->p, a->kind, a->stage);
	enum pipeline_kind recv = forward ? PIPELINE_RECV_F : PIPELINE_RECV_B;

	if (from == PIPELINE_NOBODY)
		return RC_OK;
	if (c->p->rank_of[from] != c->rank)
		return !c->p->sends || has(c, recv, a->stage, a->micro)
			   ? RC_OK
			   : needs(c, a, a->stage, pipeline_kind_name(recv));
	if (forward ? has(c, PIPELINE_F, from, a->micro) : is_back(c, from, a->micro))
		return RC_OK;
	return needs(c, a, from, forward ? "F" : "B");
}

static enum rc
check_pass(const struct checker *c, const struct pipeline_action *a)
{
	if (c->p->shards && !c->here[a->stage])
		return wrong(c, a,
			     "uses parameters that are not there: it needs %uUNSHARD before it, "
			     "and no %uRESHARD between",
			     a->stage, a->stage);
	if (c->reduced[a->stage] && a->kind != PIPELINE_F)
		return wrong(c, a, "comes after %uREDUCE_GRAD", a->stage);
	if (a->kind != PIPELINE_F && !has(c, PIPELINE_F, a->stage, a->micro))
		return needs(c, a, a->stage, "F");
	if (a->kind != PIPELINE_W)
		return check_value(c, a);
	if (has(c, PIPELINE_B, a->stage, a->micro))
		return wrong(c, a, "comes after %uB%u, which has the weights' gradients too",
			     a->stage, a->micro);
	return has(c, PIPELINE_I, a->stage, a->micro) ? RC_OK : needs(c, a, a->stage, "I");
}

/* A send or a receive. */
static enum rc
check_message(const struct checker *c, const struct pipeline_action *a)
{
	bool forward = a->kind == PIPELINE_SEND_F || a->kind == PIPELINE_RECV_F,
	     send = pipeline_sends(a->kind);
	uint32_t other = pipeline_peer(c->p, a);

	if (other == PIPELINE_NOBODY)
		return wrong(c, a, "has no stage %s it", forward == send ? "after" : "before");
	if (c->p->rank_of[other] == c->rank)
		return wrong(c, a, "is needless: stage %u is in the same row", other);
	if (send &&
	    !(forward ? has(c, PIPELINE_F, a->stage, a->micro) : is_back(c, a->stage, a->micro)))
		return needs(c, a, a->stage, forward ? "F" : "B");
	return RC_OK;
}

/* UNSHARD, RESHARD, REDUCE_GRAD. */
static enum rc
check_shards(struct checker *c, const struct pipeline_action *a)
{
	bool unshard = a->kind == PIPELINE_UNSHARD;

	if (a->kind == PIPELINE_REDUCE_GRAD) {
		if (c->backs[a->stage] < c->p->nmicro)
			return wrong(
			    c, a, "comes before the last pass back of its stage: %u of %u are done",
			    c->backs[a->stage], c->p->nmicro);
		return c->reduced[a->stage]++ ? wrong(c, a, "is there twice") : RC_OK;
	}
	if (c->here[a->stage] == unshard)
		return wrong(c, a, "comes where the parameters are %s",
			     unshard ? "there already" : "not there");
	c->here[a->stage] = unshard;
	return RC_OK;
}

/* It has happened, at the end of its cell. */
static enum rc
mark(struct checker *c, const struct pipeline_action *a)
{
	if (a->kind >= PIPELINE_UNSHARD)
		return RC_OK;
	if (has(c, a->kind, a->stage, a->micro))
		return wrong(c, a, "is there twice");
	if ((a->kind == PIPELINE_B || a->kind == PIPELINE_I) && is_back(c, a->stage, a->micro))
		return wrong(c, a, "is a second pass back");
	*state(c, a->stage, a->micro) |= (passed)(1u << a->kind);
	if (a->kind == PIPELINE_F && ++c->progress > c->out->peak[c->rank])
		c->out->peak[c->rank] = c->progress;
	if (a->kind == PIPELINE_B || a->kind == PIPELINE_W) {
		c->progress--;
		c->backs[a->stage]++;
	}
	return RC_OK;
}

/* The row has everything of a stage and microbatch; its receives were seen with their passes. */
static enum rc
check_whole(const struct checker *c, uint32_t s, uint32_t m)
{
	const struct pipeline *p = c->p;
	bool up = p->sends && s + 1 < p->nstages && p->rank_of[s + 1] != c->rank;
	bool down = p->sends && s > 0 && p->rank_of[s - 1] != c->rank;
	const char *what = NULL;

	if (!has(c, PIPELINE_F, s, m))
		what = "F";
	else if (!is_back(c, s, m))
		what = "B";
	else if (has(c, PIPELINE_I, s, m) && !has(c, PIPELINE_W, s, m))
		what = "W";
	else if (up && !has(c, PIPELINE_SEND_F, s, m))
		what = "SEND_F";
	else if (down && !has(c, PIPELINE_SEND_B, s, m))
		what = "SEND_B";
	return what ? err_set(c->err, RC_BADDATA, "row %u lacks %u%s%u", c->rank + 1, s, what, m)
		    : RC_OK;
}

static enum rc
check_row(struct checker *c)
{
	const struct pipeline_row *row = &c->p->row[c->rank];
	enum rc rc = RC_OK;

	c->progress = 0;
	for (size_t i = 0, end; i < row->n && rc == RC_OK; i = end) {
		for (end = i; rc == RC_OK && (end == i || row->v[end - 1].joined); end++) {
			const struct pipeline_action *a = &row->v[end];

			if (pipeline_computes(a->kind))
				rc = check_pass(c, a);
			else
				rc = a->kind < PIPELINE_UNSHARD ? check_message(c, a)
								: check_shards(c, a);
		}
		for (size_t k = i; k < end && rc == RC_OK; k++)
			rc = mark(c, &row->v[k]);
	}
	for (uint32_t s = 0; s < c->p->nstages && rc == RC_OK; s++) {
		if (c->p->rank_of[s] != c->rank)
			continue;
		for (uint32_t m = 0; m < c->p->nmicro && rc == RC_OK; m++)
			rc = check_whole(c, s, m);
		if (rc == RC_OK && c->p->reduces && !c->reduced[s])
			rc = err_set(c->err, RC_BADDATA, "row %u lacks %uREDUCE_GRAD", c->rank + 1,
				     s);
	}
	return rc;
}

/* ---- sends against receives */

/* Number the receives of a row from each rank, or hold its sends against those numbers. */
static enum rc
number(struct checker *c, bool sends, uint32_t *nth, uint32_t *count)
{
	const struct pipeline *p = c->p;
	const struct pipeline_row *row = &p->row[c->rank];

	memset(count, 0, p->nranks * sizeof *count);
	for (size_t i = 0; i < row->n; i++) {
		const struct pipeline_action *a = &row->v[i];
		bool back = a->kind == PIPELINE_SEND_B || a->kind == PIPELINE_RECV_B;
		uint32_t peer, k, *of;

		if (!pipeline_is_message(a->kind) || pipeline_sends(a->kind) != sends)
			continue;
		peer = pipeline_peer(p, a);
		k = ++count[p->rank_of[peer]];
		of = &nth[((size_t)(sends ? peer : a->stage) * p->nmicro + a->micro) * 2 + back];
		if (sends && *of != k)
			return wrong(c, a, "is send %u to row %u, where %u%s%u is receive %u", k,
				     p->rank_of[peer] + 1, peer, back ? "RECV_B" : "RECV_F",
				     a->micro, *of);
		*of = k;
		c->out->messages[c->rank] += sends;
	}
	return RC_OK;
}

/* The k-th send from a rank to another is the k-th receive there. Each message has one send and one receive. */
static enum rc
check_order(struct checker *c)
{
	const struct pipeline *p = c->p;
	uint32_t *nth = alloc_zeroed((size_t)p->nstages * p->nmicro, 2 * sizeof *nth);
	uint32_t *count = alloc_zeroed(p->nranks, sizeof *count);
	enum rc rc = nth && count ? RC_OK : err_set(c->err, RC_NOMEM, "out of memory");

	for (int sends = 0; sends < 2; sends++)
		for (c->rank = 0; c->rank < p->nranks && rc == RC_OK; c->rank++)
			rc = number(c, sends, nth, count);
	free(nth);
	free(count);
	return rc;
}

/* ---- all rows together */

static void
wake(const struct pipeline *p, uint32_t stage, uint32_t *queue, bool *queued, uint32_t *last)
{
	uint32_t rank = stage < p->nstages ? p->rank_of[stage] : PIPELINE_NOBODY;

	if (rank == PIPELINE_NOBODY || queued[rank])
		return;
	queued[rank] = true;
	queue[(*last)++ % p->nranks] = rank;
}

bool
pipeline_run(const struct pipeline *p, pipeline_step *step, void *arg, size_t *at)
{
	uint32_t *queue = alloc_zeroed(p->nranks, sizeof *queue), first = 0, last = 0;
	bool *queued = alloc_zeroed(p->nranks, sizeof *queued), room = queue && queued;

	for (uint32_t s = 0; room && s < p->nstages; s++)
		wake(p, s, queue, queued, &last);
	while (room && first != last) {
		uint32_t r = queue[first++ % p->nranks];
		const struct pipeline_row *row = &p->row[r];

		queued[r] = false;
		for (; at[r] < row->n && step(arg, r, at[r]); at[r]++) {
			wake(p, row->v[at[r]].stage + 1, queue, queued, &last);
			wake(p, row->v[at[r]].stage - 1, queue, queued, &last);
		}
	}
	free(queue);
	free(queued);
	return room;
}

/* The rank for which an action waits: a send until its receive is posted, a pass until its value was sent;
 * PIPELINE_NOBODY: for none. */
static uint32_t
waits_for(const struct checker *c, const struct pipeline_action *a)
{
	const struct pipeline *p = c->p;
	bool forward = a->kind == PIPELINE_F || a->kind == PIPELINE_SEND_F, there;
	uint32_t other;

	if (pipeline_sends(a->kind)) {
		other = pipeline_peer(p, a);
		there = has(c, forward ? PIPELINE_RECV_F : PIPELINE_RECV_B, other, a->micro);
	} else {
		other = pipeline_computes(a->kind) && a->kind != PIPELINE_W
			    ? pipeline_before(p, a->kind, a->stage)
			    : PIPELINE_NOBODY;
		if (other == PIPELINE_NOBODY || p->rank_of[other] == p->rank_of[a->stage])
			return PIPELINE_NOBODY; /* check_value has seen it */
		there = has(c, forward ? PIPELINE_SEND_F : PIPELINE_SEND_B, other, a->micro);
	}
	return there ? PIPELINE_NOBODY : p->rank_of[other];
}

static bool
go_on(void *arg, uint32_t rank, size_t i)
{
	const struct checker *c = arg;
	const struct pipeline_action *a = &c->p->row[rank].v[i];

	if (waits_for(c, a) != PIPELINE_NOBODY)
		return false;
	if (a->kind < PIPELINE_UNSHARD)
		*state(c, a->stage, a->micro) |= (passed)(1u << a->kind);
	return true;
}

/* Name the ranks that wait for each other. From any that waits, each waits for another: so there is a circle. */
static enum rc
stuck(struct checker *c, const size_t *at)
{
	const struct pipeline *p = c->p;
	struct buf text = {0};
	uint32_t r = 0, first;
	enum rc rc;

	while (at[r] == p->row[r].n)
		r++;
	for (uint32_t i = 0; i < p->nranks; i++) /* into the circle */
		r = waits_for(c, &p->row[r].v[at[r]]);
	first = c->rank = r;
	for (unsigned n = 0; n == 0 || r != first; n++) {
		const struct pipeline_action *a = &p->row[r].v[at[r]];

		r = waits_for(c, a);
		if (n > 3)
			continue; /* enough to see it */
		if (n)
			buf_addf(&text, "; there column %u, %u%s%u, ", a->column, a->stage,
				 pipeline_kind_name(a->kind), a->micro);
		buf_addf(&text, "waits for row %u", r + 1);
	}
	rc = wrong(c, &p->row[first].v[at[first]], "waits for ever: it %s",
		   text.data ? text.data : "");
	buf_fini(&text);
	return rc;
}

static enum rc
check_together(struct checker *c)
{
	size_t *at = alloc_zeroed(c->p->nranks, sizeof *at);
	enum rc rc = RC_OK;

	memset(c->done, 0, (size_t)c->p->nstages * c->p->nmicro);
	if (!at || !pipeline_run(c->p, go_on, c, at))
		rc = err_set(c->err, RC_NOMEM, "out of memory");
	for (uint32_t r = 0; r < c->p->nranks && rc == RC_OK; r++)
		if (at[r] < c->p->row[r].n)
			rc = stuck(c, at);
	free(at);
	return rc;
}

enum rc
pipeline_check(struct pipeline *p, struct pipeline_facts *out, struct err *err)
{
	size_t n = (size_t)p->nstages * (p->nmicro ? p->nmicro : 1);
	struct checker c = {.p = p,
			    .out = out,
			    .err = err,
			    .done = alloc_zeroed(n, 1),
			    .here = alloc_zeroed(p->nstages, 1),
			    .backs = alloc_zeroed(p->nstages, sizeof *c.backs),
			    .reduced = alloc_zeroed(p->nstages, 1)};
	enum rc rc = c.done && c.here && c.backs && c.reduced
			 ? RC_OK
			 : err_set(err, RC_NOMEM, "out of memory");

	memset(out, 0, sizeof *out);
	if (rc == RC_OK && p->nmicro == 0)
		rc = err_set(err, RC_BADDATA, "no microbatch");
	for (; c.rank < p->nranks && rc == RC_OK; c.rank++)
		rc = check_row(&c);
	if (rc == RC_OK && !p->sends)
		rc = pipeline_derive(p, err);
	if (rc == RC_OK)
		rc = check_order(&c);
	if (rc == RC_OK)
		rc = check_together(&c);
	free(c.done);
	free(c.here);
	free(c.backs);
	free(c.reduced);
	return rc;
}
