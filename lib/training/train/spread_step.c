/* Records a step of a spread training: the actions of the schedule on each stage's ranks. */
#include "train/spread_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"

/* ---- a stage's actions */

static void
act(struct row_recorder *r, const struct pipeline_action *a)
{
	const struct layout_chunk *c = row_chunk(r, a->stage);

	row_name_pass(r, a);
	switch (a->kind) {
	case PIPELINE_F:
		row_forward(r, c, a->micro);
		if (r->test && a->stage + 1 == r->s->nstages)
			row_end_test(r, c);
		break;
	case PIPELINE_B:
		row_backward(r, c, a->micro, HALF_BOTH);
		break;
	case PIPELINE_I:
		row_backward(r, c, a->micro, HALF_INPUT);
		break;
	case PIPELINE_W:
		row_backward(r, c, a->micro, HALF_WEIGHTS);
		break;
	case PIPELINE_SEND_F:
	case PIPELINE_RECV_F:
		row_message(r, a, false, a->kind == PIPELINE_SEND_F);
		break;
	case PIPELINE_SEND_B:
	case PIPELINE_RECV_B:
		row_message(r, a, true, a->kind == PIPELINE_SEND_B);
		break;
	default: /* parameters and gradients follow --zero */
		break;
	}
}

/* What lies ahead: uses of parameters, passes that make gradients. */
static void
look_ahead(struct row_recorder *r)
{
	const struct pipeline_row *row = &r->s->row[r->p];

	for (size_t i = 0; i < row->n; i++) {
		const struct pipeline_action *a = &row->v[i];
		const struct layout_chunk *c = row_chunk(r, a->stage);

		for (uint32_t u = 0; a->kind == PIPELINE_F && u < c->nunits; u++)
			row_add_use(r, c->unit0 + u);
		for (uint32_t u = c->nunits;
		     (a->kind == PIPELINE_B || a->kind == PIPELINE_I) && u-- > 0;)
			row_add_use(r, c->unit0 + u);
		r->left[c - r->row->chunk] += a->kind == PIPELINE_B || a->kind == PIPELINE_W;
	}
}

static void
begin_row(struct row_recorder *r)
{
	const struct pipeline_row *row = &r->s->row[r->p];
	size_t each = (size_t)r->row->nchunks * r->s->nmicro;

	r->n = r->l->c.grid.dp * r->l->c.grid.tp;
	r->first = r->p * r->n;
	r->place = must_alloc(r->n, sizeof *r->place);
	r->rows = must_alloc(r->n, sizeof *r->rows);
	r->send = must_alloc(r->n, sizeof *r->send);
	r->recv = must_alloc(r->n, sizeof *r->recv);
	r->members = must_alloc(r->n, sizeof *r->members);
	r->sent = must_alloc(each, sizeof *r->sent);
	r->came[0] = must_alloc(each, sizeof *r->came[0]);
	r->came[1] = must_alloc(each, sizeof *r->came[1]);
	r->talks = must_alloc(2ull * r->s->nranks, sizeof *r->talks);
	r->left = must_alloc(r->row->nchunks, sizeof *r->left);
	r->begun = must_alloc(r->row->nunits, sizeof *r->begun);
	r->use = must_alloc(row->n * r->row->nunits + 1, sizeof *r->use);
	look_ahead(r);
}

static void
end_row(struct row_recorder *r)
{
	for (uint32_t u = 0; r->narrow && u < r->row->nunits; u++)
		row_spread(r, u);
	if (!r->test && !r->narrow)
		row_step(r);
	for (uint32_t q = 0; q < 2 * r->s->nranks; q++)
		if (r->talks[q])
			row_join(r, (struct gpusim_stream){P2P_FIRST + q}, STREAM_COMPUTE);
	row_join(r, STREAM_COMM, STREAM_COMPUTE);
}

static void
free_row(struct row_recorder *r)
{
	free(r->place);
	free(r->rows);
	free(r->send);
	free(r->recv);
	free(r->members);
	free(r->sent);
	free(r->came[0]);
	free(r->came[1]);
	free(r->talks);
	free(r->left);
	free(r->begun);
	free(r->use);
}

/* The next action of a stage's ranks; NULL: no more. */
static const struct pipeline_action *
next_of(const struct row_recorder *r)
{
	const struct pipeline_row *row = &r->s->row[r->p];

	return r->next < row->n ? &row->v[r->next] : NULL;
}

/* The rank at the other end of a message. */
static uint32_t
peer_of(const struct row_recorder *r, const struct pipeline_action *a)
{
	bool up = a->kind == PIPELINE_SEND_F || a->kind == PIPELINE_RECV_B;

	return r->s->rank_of[up ? a->stage + 1 : a->stage - 1];
}

/* Record the next action, except a receive, which comes right before its send, and a send that has to wait for it. */
static bool
advance(struct row_recorder *r, uint32_t *posted)
{
	const struct pipeline_action *a = next_of(r), *other;
	struct row_recorder *peer;
	uint32_t *early;

	if (!a || a->kind == PIPELINE_RECV_F || a->kind == PIPELINE_RECV_B)
		return false;
	if (a->kind == PIPELINE_SEND_F || a->kind == PIPELINE_SEND_B) {
		peer = &r->lists->row[peer_of(r, a)];
		early = &posted[(size_t)r->p * r->s->nranks + peer->p];
		other = next_of(peer);
		if (*early) {
			--*early;
			r->lists->open--;
		} else if (other &&
			   (other->kind == PIPELINE_RECV_F || other->kind == PIPELINE_RECV_B) &&
			   peer_of(peer, other) == r->p) {
			act(peer, other);
			peer->next++;
		} else {
			return false;
		}
	} else {
		row_end_list(r);
	}
	act(r, a);
	r->next++;
	return true;
}

/* Nothing else can go on: post a receive before its send. */
static bool
post(struct lists *l, uint32_t *posted)
{
	for (uint32_t p = 0; p < l->nrows; p++) {
		struct row_recorder *r = &l->row[p];
		const struct pipeline_action *a = next_of(r);

		if (!a || (a->kind != PIPELINE_RECV_F && a->kind != PIPELINE_RECV_B))
			continue;
		act(r, a);
		r->next++;
		posted[(size_t)peer_of(r, a) * l->nrows + p]++;
		l->open++;
		return true;
	}
	return false;
}

/* All stages' actions, in an order in which they may run. */
static void
record(struct trainer *t, struct lists *l, const struct pipeline *s,
       const struct row_recorder *common)
{
	uint32_t *posted = must_alloc((size_t)s->nranks * s->nranks, sizeof *posted);
	bool more = !common->narrow, steps = !common->narrow && !common->test;

	l->nrows = s->nranks;
	l->row = must_alloc(s->nranks, sizeof *l->row);
	for (uint32_t p = 0; p < s->nranks; p++) {
		struct row_recorder *r = &l->row[p];

		*r = *common;
		r->events = l->events;
		r->lists = l;
		r->t = t;
		r->o = l->v[l->n - 1];
		r->l = t->spread->layout;
		r->s = s;
		r->row = &r->l->row[p];
		r->p = p;
		r->sink = (struct emit_sink){.arg = r, .launch = row_launch, .tensor = row_tensor};
		begin_row(r);
	}
	while (more && !l->full) {
		more = false;
		for (uint32_t p = 0; p < s->nranks; p++)
			more |= advance(&l->row[p], posted);
		more = more || post(l, posted);
	}
	for (uint32_t p = 0; p < s->nranks && steps; p++)
		row_close(&l->row[p]);
	if (steps && l->row->l->c.normed)
		row_decide(l->row);
	for (uint32_t p = 0; p < s->nranks; p++)
		end_row(&l->row[p]);
	for (uint32_t p = 0; p < s->nranks; p++)
		free_row(&l->row[p]);
	free(l->row);
	free(posted);
}

/* Begin with an empty list. */
static struct lists
lists_of(struct trainer *t, struct gpusim_ops **v, unsigned most)
{
	uint32_t n = gpusim_comm_count(t->comm);

	v[0] = gpusim_ops_new(n);
	return (struct lists){.v = v, .n = 1, .most = most, .ops = must_alloc(n, sizeof(uint64_t))};
}

/* The number of lists, or 0 and none. */
static unsigned
lists_end(struct lists *l)
{
	free(l->ops);
	while (l->full && l->n > 0)
		gpusim_ops_free(l->v[--l->n]);
	return l->n;
}

unsigned
spread_step(struct trainer *t, bool moving, struct gpusim_ops **lists, unsigned most)
{
	const struct grid *g = &t->spread->grid;
	struct lists l = lists_of(t, lists, most);
	struct batch *batch = must_alloc(g->dp, sizeof *batch);
	const struct row_recorder common = {
	    .moving = moving, .batch = batch, .total = moving ? t->global : t->rest};

	for (uint32_t d = 0; d < g->dp; d++)
		batch[d] = train_batch(t, moving, grid_rank(g, d, 0, 0));
	record(t, &l, t->spread->schedule, &common);
	free(batch);
	return lists_end(&l);
}

struct gpusim_ops *
spread_narrow(struct trainer *t)
{
	const struct row_recorder common = {.narrow = true};
	struct gpusim_ops *o;
	struct lists l = lists_of(t, &o, 1);

	record(t, &l, t->spread->forward, &common);
	lists_end(&l);
	return o;
}

unsigned
spread_test(struct trainer *t, unsigned part, bool moving, struct gpusim_ops **lists, unsigned most)
{
	const struct grid *g = &t->spread->grid;
	const struct tests *tests = &t->tests[part];
	struct lists l = lists_of(t, lists, most);
	struct batch *batch = must_alloc(g->dp, sizeof *batch);
	const struct row_recorder common = {
	    .moving = moving, .batch = batch, .test = true, .tested = part};

	for (uint64_t k = 0; k < (moving ? 1 : tests->more) && !l.full; k++) {
		for (uint32_t d = 0; d < g->dp; d++)
			batch[d] = test_batch(t, part, moving ? 0 : tests->full + k, moving,
					      grid_rank(g, d, 0, 0));
		record(t, &l, t->spread->forward, &common);
	}
	free(batch);
	return lists_end(&l);
}
