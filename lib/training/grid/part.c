#include "grid/part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

/* What the tp ranks have of a node's output. */
enum have {
	HAVE_ALL,      /* all of it, each rank */
	HAVE_FEATURES, /* some features of each row */
	HAVE_ROWS,     /* some rows */
};

struct maker {
	const struct net *whole;
	struct part *p;
	bool sequence;
	uint32_t to[NET_MAX_NODES];    /* by node of the whole net: the part's */
	enum have have[NET_MAX_NODES]; /* by node of the part */
	struct err *err;
	enum rc rc;
};

/* ---- the whole net */

static uint32_t
unit_end(const struct net *n, uint32_t unit)
{
	return unit + 1 < n->ncuts ? n->cut[unit + 1] : n->nnodes;
}

/* The only reader of a node's output; NULL: none or several. */
static const struct net_node *
reader(const struct net *n, uint32_t k)
{
	const struct net_node *found = NULL;

	for (uint32_t i = k + 1; i < n->nnodes; i++) {
		if (n->node[i].in[0] != k && n->node[i].in[1] != k)
			continue;
		if (found)
			return NULL;
		found = &n->node[i];
	}
	return found;
}

/* Is a dense layer, whose input is whole, divided by its outputs? */
static bool
by_columns(const struct net *n, uint32_t k)
{
	const struct net_node *next = reader(n, k);

	return k + 1 == n->nnodes ||
	       (next && (next->kind == NET_DENSE || next->kind == NET_ATTENTION));
}

/* ---- making */

static uint32_t
add(struct maker *m, const struct net_node *node, enum have have)
{
	struct net *n = &m->p->net;

	if (n->nnodes == NET_MAX_NODES) {
		m->rc = err_set(m->err, RC_INVAL, "a part of a net of more than %d nodes",
				NET_MAX_NODES);
		return 0;
	}
	n->node[n->nnodes] = *node;
	n->node[n->nnodes].sharded = have == HAVE_ROWS;
	m->have[n->nnodes] = have;
	return n->nnodes++;
}

/* A node that changes what the ranks have of another's output. */
static uint32_t
exchange(struct maker *m, enum net_kind kind, uint32_t in, enum have have)
{
	struct net_node node = m->p->net.node[in];

	node = (struct net_node){
	    .kind = kind, .in = {in, NET_INPUT}, .shape = node.shape, .tokens = node.tokens};
	return add(m, &node, have);
}

/* Give a node its own copy of an array, or of a part. */
static void
own(struct maker *m, const struct part_array *a, uint64_t *at, uint64_t *count)
{
	struct net *n = &m->p->net;

	m->p->array[m->p->narrays] = *a;
	m->p->array[m->p->narrays++].part = n->nparams;
	*at = n->nparams;
	*count = part_array_size(a);
	n->nparams += *count;
}

static void
own_whole(struct maker *m, uint64_t offset, uint64_t n, uint64_t *at, uint64_t *count)
{
	const struct part_array a = {.whole = offset, .rows = 1, .cols = (uint32_t)n, .groups = 1};

	if (n)
		own(m, &a, at, count);
}

static void
fail(struct maker *m, const struct net_node *node, const char *what)
{
	if (m->rc == RC_OK)
		m->rc = err_set(m->err, RC_INVAL, "tp=%u: %s %s", m->p->tp,
				node->name[0] ? node->name : "the net", what);
}

/* A dense layer by columns: each rank computes some of its outputs. */
static uint32_t
add_columns(struct maker *m, uint32_t k, struct net_node node)
{
	const struct net_node *from = &m->whole->node[k], *next = reader(m->whole, k);
	bool last = k + 1 == m->whole->nnodes;
	uint32_t groups = next && next->kind == NET_ATTENTION ? 3 : 1, tp = m->p->tp;
	uint32_t rows = from->shape.channels, each = (rows / groups + tp - 1) / tp;
	uint32_t cols = (uint32_t)net_shape_size(net_in_shape(m->whole, from));
	struct part_array a = {from->weight, 0, rows, cols, groups, PART_ROWS, each};

	if (!last && rows % (groups * tp) != 0)
		fail(m, from, "has outputs that tp does not divide");
	if (groups == 3 && next->heads % tp != 0)
		fail(m, next, "has heads that tp does not divide");
	if (last && m->whole->loss == NET_L2)
		fail(m, from, "is divided by its outputs, which --loss l2 does not allow");
	if (node.in[0] != NET_INPUT)
		node.in[0] = exchange(m, NET_ENTER, node.in[0], HAVE_ALL);
	node.shape.channels = groups * each;
	own(m, &a, &node.weight, &node.nweight);
	a.whole = from->bias;
	a.cols = 1;
	own(m, &a, &node.bias, &node.nbias);
	m->p->net.each = last ? each : 0;
	return add(m, &node, HAVE_FEATURES);
}

/* A dense layer by rows: each rank has some of its inputs, and the sum over the ranks follows, then bias and
 * activation. */
static uint32_t
add_rows(struct maker *m, uint32_t k, struct net_node node)
{
	const struct net_node *from = &m->whole->node[k];
	uint32_t cols = (uint32_t)net_shape_size(net_in_shape(m->whole, from));
	const struct part_array a = {from->weight,   0, from->shape.channels, cols, 1, PART_COLUMNS,
				     cols / m->p->tp};
	uint32_t at;
	struct net_node *leave;

	node.act = NET_LINEAR;
	node.nbias = 0;
	own(m, &a, &node.weight, &node.nweight);
	at = add(m, &node, HAVE_FEATURES);
	if (m->rc != RC_OK)
		return 0;
	at = exchange(m, NET_LEAVE, at, m->sequence ? HAVE_ROWS : HAVE_ALL);
	leave = &m->p->net.node[at];
	leave->act = from->act;
	snprintf(leave->name, sizeof leave->name, "%s", from->name);
	own_whole(m, from->bias, from->nbias, &leave->bias, &leave->nbias);
	return at;
}

/* What a node's input is on a rank. */
static enum have
have(const struct maker *m, uint32_t in)
{
	return in == NET_INPUT ? HAVE_ALL : m->have[in];
}

static uint32_t
add_node(struct maker *m, uint32_t k)
{
	struct net_node node = m->whole->node[k];
	enum have of;
	uint32_t at;

	for (unsigned i = 0; i < 2; i++)
		node.in[i] = node.in[i] == NET_INPUT ? NET_INPUT : m->to[node.in[i]];
	of = have(m, node.in[0]);
	if (m->p->tp > 1 && node.kind == NET_DENSE && of == HAVE_FEATURES)
		return add_rows(m, k, node);
	if (m->p->tp > 1 && node.kind == NET_DENSE && by_columns(m->whole, k))
		return add_columns(m, k, node);
	if (of == HAVE_FEATURES && node.kind == NET_ATTENTION) {
		node.shape.channels /= m->p->tp;
		node.heads /= m->p->tp;
	} else if (of == HAVE_FEATURES ||
		   (m->p->tp > 1 && (node.kind == NET_CONV || node.kind == NET_BATCHNORM))) {
		fail(m, &node, "cannot be divided");
	}
	if (of == HAVE_ROWS && node.kind == NET_PICK) {
		node.in[0] = exchange(m, NET_GATHER, node.in[0], HAVE_ALL);
		of = HAVE_ALL;
	}
	own_whole(m, m->whole->node[k].weight, node.nweight, &node.weight, &node.nweight);
	own_whole(m, m->whole->node[k].bias, node.nbias, &node.bias, &node.nbias);
	at = add(m, &node, of);
	if (node.kind == NET_TOKENS && m->sequence && m->rc == RC_OK)
		at = exchange(m, NET_SCATTER, at, HAVE_ROWS);
	return at;
}

/* The stage before gives the output of a node, in the form in which its ranks have it. */
static enum have
form_of(const struct maker *m, uint32_t k)
{
	const struct net *n = m->whole;
	struct part *before;
	struct err ignored;
	enum have form = HAVE_ALL;
	uint32_t unit = 0;

	while (unit_end(n, unit) <= k)
		unit++;
	/* Only an mlp's layers alternate; all earlier units decide. */
	if (m->p->tp > 1 &&
	    part_build(n, 0, unit + 1, m->p->tp, m->sequence, &before, &ignored) == RC_OK) {
		const struct net_node *last = &before->net.node[before->net.nnodes - 1];

		form = last->sharded					   ? HAVE_ROWS
		       : net_item_size(last) != net_item_size(&n->node[k]) ? HAVE_FEATURES
									   : HAVE_ALL;
		free(before);
	}
	return form;
}

static void
add_input(struct maker *m, uint32_t k)
{
	const struct net_node *from = &m->whole->node[k];
	struct net_node node = {.kind = NET_RECV,
				.in = {NET_INPUT, NET_INPUT},
				.shape = from->shape,
				.tokens = from->tokens};
	enum have form = form_of(m, k);

	if (form == HAVE_FEATURES)
		node.shape.channels /= m->p->tp;
	m->to[k] = add(m, &node, form);
}

static void
add_unit(struct maker *m, uint32_t unit)
{
	struct part_unit *u = &m->p->unit[m->p->nunits++];

	*u = (struct part_unit){.node = m->p->net.nnodes, .first = m->p->net.nparams};
	for (uint32_t k = m->whole->cut[unit]; k < unit_end(m->whole, unit) && m->rc == RC_OK; k++)
		m->to[k] = add_node(m, k);
	u->nnodes = m->p->net.nnodes - u->node;
	u->n = m->p->net.nparams - u->first;
}

enum rc
part_build(const struct net *whole, uint32_t first, uint32_t n, uint32_t tp, bool sequence,
	   struct part **out, struct err *err)
{
	struct maker *m = must_alloc(1, sizeof *m);
	enum rc rc;

	*m = (struct maker){.whole = whole,
			    .p = must_alloc(1, sizeof *m->p),
			    .sequence = sequence && tp > 1,
			    .err = err};
	m->p->tp = tp;
	m->p->net.tp = tp;
	m->p->net.sequence = m->sequence;
	m->p->net.input = whole->input;
	m->p->net.nclasses = whole->nclasses;
	m->p->net.loss = whole->loss;
	if (first > 0)
		add_input(m, whole->cut[first] - 1);
	for (uint32_t u = first; u < first + n && m->rc == RC_OK; u++)
		add_unit(m, u);
	if (first > 0 && m->rc == RC_OK) { /* the input is the first unit's */
		m->p->unit[0].node = 0;
		m->p->unit[0].nnodes++;
	}
	rc = m->rc;
	if (rc == RC_OK)
		*out = m->p;
	else
		free(m->p);
	free(m);
	return rc;
}

const char *
part_either(const uint32_t *v, uint32_t n, char out[PART_TEXT])
{
	size_t at = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < n && at < PART_TEXT; i++)
		at += (size_t)snprintf(out + at, PART_TEXT - at, "%s%u",
				       i == 0	   ? ""
				       : i + 1 < n ? ", "
						   : " or ",
				       v[i]);
	return out;
}

const char *
part_choices(const struct net *whole, bool sequence, char out[PART_TEXT])
{
	uint32_t tp[64], n = 0;

	for (uint32_t t = 1; t <= 64; t++) {
		struct part *p;
		struct err ignored;

		if (part_build(whole, 0, whole->ncuts, t, sequence, &p, &ignored) != RC_OK)
			continue;
		free(p);
		tp[n++] = t;
	}
	return part_either(tp, n, out);
}

/* ---- values */

/* Where a part's row lies in the whole array: its row, or UINT32_MAX if it is beyond. */
static uint32_t
whole_row(const struct part_array *a, uint32_t t, uint32_t row)
{
	uint32_t per_group = a->rows / a->groups, in_group;

	if (a->split != PART_ROWS)
		return row;
	in_group = t * a->each + row % a->each;
	return in_group < per_group ? row / a->each * per_group + in_group : UINT32_MAX;
}

/* Visit the runs of a part's values. whole NULL: they are beyond the whole net. */
static void
visit(const struct part *p, uint32_t t, float *part, float *whole,
      void (*run)(float *part, float *whole, size_t n))
{
	for (uint32_t i = 0; i < p->narrays; i++) {
		const struct part_array *a = &p->array[i];
		uint32_t rows = a->split == PART_ROWS ? a->groups * a->each : a->rows;
		uint32_t cols = a->split == PART_COLUMNS ? a->each : a->cols;
		uint64_t first = a->split == PART_COLUMNS ? (uint64_t)t * a->each : 0;

		for (uint32_t r = 0; r < rows; r++) {
			uint32_t from = whole_row(a, t, r);

			run(part + a->part + (uint64_t)r * cols,
			    from == UINT32_MAX
				? NULL
				: whole + a->whole + (uint64_t)from * a->cols + first,
			    cols);
		}
	}
}

static void
take_run(float *part, float *whole, size_t n)
{
	if (whole)
		memcpy(part, whole, n * sizeof *part);
	else
		memset(part, 0, n * sizeof *part);
}

static void
give_run(float *part, float *whole, size_t n)
{
	if (whole)
		memcpy(whole, part, n * sizeof *part);
}

void
part_take(const struct part *p, uint32_t t, const float *whole, float *part)
{
	visit(p, t, part, (float *)(uintptr_t)whole, take_run);
}

void
part_give(const struct part *p, uint32_t t, const float *part, float *whole)
{
	visit(p, t, (float *)(uintptr_t)part, whole, give_run);
}

/* ---- cost */

double
part_flops(const struct net *whole, uint32_t first, uint32_t n)
{
	double sum = 0;

	for (uint32_t k = whole->cut[first]; k < unit_end(whole, first + n - 1); k++) {
		const struct net_node *node = &whole->node[k];
		double rows = node->tokens, out = (double)net_shape_size(node->shape);

		if (node->kind == NET_DENSE)
			sum += 2 * rows * out * (double)net_shape_size(net_in_shape(whole, node));
		else if (node->kind == NET_ATTENTION)
			sum += 4 * rows * rows * out;
		else
			sum +=
			    8 * rows * out; /* a norm, an addition: a few operations an element */
	}
	return sum;
}
