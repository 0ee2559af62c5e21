/*
 * The memory of ranks: areas that do not overlap, slots as many as the schedule's peak and never used twice at a time,
 * ZeRO's parts, stages of about the same cost.
 */
#include "grid/layout.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

static struct err err;

static struct net
vit(uint32_t blocks)
{
	const struct net_config c = {.model = NET_VIT, .vit = {blocks, 12, 4, 3}};
	struct net n;

	if (net_build(&c, (struct net_shape){1, 6, 9}, 10, &n, &err) != RC_OK)
		tap_bail(err.text);
	return n;
}

static struct pipeline *
schedule(const char *name, uint32_t p, uint32_t m)
{
	struct pipeline_facts *facts = malloc(sizeof *facts);
	struct pipeline *s;

	if (pipeline_named(name, p, m, &s, &err) != RC_OK ||
	    pipeline_check(s, facts, &err) != RC_OK)
		tap_bail(err.text);
	free(facts);
	return s;
}

static struct pipeline *
parse(const char *text)
{
	struct pipeline_facts *facts = malloc(sizeof *facts);
	struct pipeline *s;

	if (pipeline_parse(text, strlen(text), &s, &err) != RC_OK ||
	    pipeline_check(s, facts, &err) != RC_OK)
		tap_bail(err.text);
	free(facts);
	return s;
}

/* ---- areas */

struct area {
	uint64_t begin, end;
};

struct areas {
	struct area v[8192];
	size_t n;
};

static void
add(struct areas *a, uint64_t at, uint64_t nbytes)
{
	if (nbytes && a->n < sizeof a->v / sizeof a->v[0])
		a->v[a->n++] = (struct area){at, at + nbytes};
}

static int
by_begin(const void *a, const void *b)
{
	const struct area *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static bool
apart(struct areas *a, uint64_t end)
{
	bool good = a->n > 0 && a->n < sizeof a->v / sizeof a->v[0];

	qsort(a->v, a->n, sizeof a->v[0], by_begin);
	for (size_t i = 0; i < a->n; i++)
		good = good && a->v[i].end <= (i + 1 < a->n ? a->v[i + 1].begin : end);
	return good;
}

/* Vectors and slots of a rank. */
static bool
areas_apart(const struct layout *l, const struct layout_row *row)
{
	struct areas *a = calloc(1, sizeof *a);
	uint64_t size = l->c.leaf ? 8 : 4;
	uint64_t shard = row->nshard, whole = row->n;
	bool good;

	add(a, row->params, 4 * (layout_shards_params(l) ? shard : whole));
	for (unsigned i = 0; i < l->c.nstate; i++)
		add(a, row->state[i], 4 * (layout_shards_state(l) ? shard : whole));
	add(a, row->counts, 8ull * row->nunits);
	add(a, row->grads, size * (layout_shards_grads(l) ? shard : whole));
	for (unsigned i = 0; i < 2; i++) {
		uint64_t part = 0;

		for (uint32_t u = 0; u < row->nunits; u++)
			part = row->unit[u].each > part ? row->unit[u].each : part;
		if (row->fresh[i])
			add(a, row->fresh[i], 4 * row->largest);
		if (row->sums[i])
			add(a, row->sums[i], size * row->largest);
		if (row->part[i])
			add(a, row->part[i], size * part);
		if (row->gathered[i])
			add(a, row->gathered[i], 4 * (l->c.keep ? whole : row->largest));
	}
	add(a, row->losses, 4ull * l->c.schedule->nmicro * l->pieces);
	add(a, row->loss_sum, 8);
	add(a, row->scratch, 16 * l->piece_rows);
	for (uint32_t i = 0; i < row->nchunks; i++) {
		const struct layout_chunk *c = &row->chunk[i];

		for (uint32_t s = 0; s < c->nslots; s++)
			add(a, c->slots + s * c->slot_bytes, c->slot_bytes);
		add(a, c->work, l->pieces * c->work_bytes);
	}
	good = apart(a, row->bytes) && row->bytes <= l->bytes;
	free(a);
	return good;
}

/* Each node's output and gradient lie in the piece's part of its slot, or in the shared area. */
static bool
nodes_inside(const struct layout *l, const struct layout_chunk *c, uint32_t t)
{
	struct emit_place *p = calloc(1, sizeof *p);
	uint64_t base = UINT64_C(1) << 40;
	bool good = true;

	for (uint32_t slot = 0; slot < c->nslots; slot++)
		for (uint32_t piece = 0; piece < l->pieces; piece++) {
			uint64_t kept =
			    base + c->slots + slot * c->slot_bytes + piece * c->piece_bytes;
			uint64_t work = base + c->work + piece * c->work_bytes;

			layout_place(l, c, slot, piece, t, l->piece_rows, base, p);
			for (uint32_t k = 0; k < c->part->net.nnodes; k++) {
				const struct net *n = &c->part->net;
				uint64_t nbytes = emit_have(n, &n->node[k], l->piece_rows, t) *
						  net_shape_size(n->node[k].shape) * 4;
				const uint64_t at[] = {p->y[k], p->pre[k], p->dy[k]};

				for (unsigned i = 0; i < 3; i++)
					good = good && (at[i] == 0 ||
							(at[i] >= kept &&
							 at[i] + nbytes <= kept + c->piece_bytes) ||
							(at[i] >= work &&
							 at[i] + nbytes <= work + c->work_bytes));
				/* Between two stages nothing may be computed again, nor at a unit's end. */
				if (k + 1 == n->nnodes || n->node[k].kind == NET_RECV)
					good = good && p->y[k] >= kept &&
					       p->y[k] + nbytes <= kept + c->piece_bytes;
			}
		}
	free(p);
	return good;
}

/* ---- slots */

/* Walk a row: a microbatch has its slot to itself from its arrival to the last use of its values. Returns the most that
 * are in use of a stage; 0: two at a time. */
static uint32_t
walk(const struct layout *l, uint32_t p, const struct layout_chunk *c)
{
	const struct pipeline *s = l->c.schedule;
	const struct pipeline_row *row = &s->row[p];
	uint32_t used[64], most = 0, now = 0;
	size_t *last = calloc(s->nmicro, sizeof *last);

	memset(used, 0xff, sizeof used);
	for (size_t i = 0; i < row->n; i++) {
		const struct pipeline_action *a = &row->v[i];
		bool below =
		    a->stage + 1 == c->stage && (a->kind == PIPELINE_B || a->kind == PIPELINE_I);

		if ((a->stage == c->stage && a->kind <= PIPELINE_RECV_B) || below)
			last[a->micro] = i;
	}
	for (size_t i = 0; i < row->n && most < 64; i++) {
		const struct pipeline_action *a = &row->v[i];
		uint32_t slot = l->slot[(size_t)c->stage * s->nmicro + a->micro];

		if (a->stage == c->stage && a->kind <= PIPELINE_RECV_B) {
			if (slot >= c->nslots ||
			    (used[slot] != UINT32_MAX && used[slot] != a->micro))
				most = UINT32_MAX;
			else if (used[slot] == UINT32_MAX && ++now > most)
				most = now;
			used[slot % 64] = a->micro;
		}
		for (uint32_t k = 0; k < c->nslots; k++)
			if (used[k] != UINT32_MAX && last[used[k]] == i) {
				used[k] = UINT32_MAX;
				now--;
			}
	}
	free(last);
	return most == UINT32_MAX ? 0 : most;
}

static bool
slots_right(const struct layout *l)
{
	bool good = true;

	for (uint32_t p = 0; p < l->c.schedule->nranks; p++)
		for (uint32_t i = 0; i < l->row[p].nchunks; i++) {
			const struct layout_chunk *c = &l->row[p].chunk[i];

			good = good && walk(l, p, c) == c->nslots;
		}
	return good;
}

/* ---- ZeRO's parts */

/* The units of all stages are the net's; the parts of each group that shards cover each unit once, in their order. */
static bool
parts_cover(const struct layout *l)
{
	bool good = true;
	uint32_t units = 0;

	for (uint32_t p = 0; p < l->c.schedule->nranks; p++) {
		const struct layout_row *row = &l->row[p];
		uint64_t n = 0, shard = 0;

		for (uint32_t u = 0; u < row->nunits; u++) {
			const struct layout_unit *unit = &row->unit[u];
			uint64_t at = 0, count;

			for (uint32_t d = 0; d < l->c.grid.dp; d++) {
				if (d && d % l->c.shards == 0) {
					good = good && at == unit->n;
					at = 0;
				}
				good = good && layout_part(l, unit->n, d, &count) == at &&
				       count <= unit->each;
				at += count;
			}
			good = good && at == unit->n && unit->first == n && unit->shard >= shard &&
			       unit->n <= row->largest;
			n += unit->n;
			shard = unit->shard + unit->each;
		}
		good = good && n == row->n && shard <= row->nshard;
		units += row->nunits;
	}
	return good && units == l->whole->ncuts;
}

/* ---- all of it */

static unsigned tried;

/* A rank of groups of S has the memory of one of S ranks alone. */
static bool
as_group(const struct net *net, const struct layout *l)
{
	struct layout_config c = l->c;
	struct layout *alone = NULL;
	bool good = true;

	c.grid.dp = l->c.shards;
	c.shards = 0;
	if (layout_new(net, &c, &alone, &err) != RC_OK)
		tap_bail(err.text);
	for (uint32_t p = 0; p < c.schedule->nranks; p++)
		good = good && l->row[p].nshard == alone->row[p].nshard &&
		       l->row[p].bytes == alone->row[p].bytes;
	layout_free(alone);
	return good;
}

static void
check(const struct net *net, struct layout_config c, const char *what)
{
	uint32_t units[64];
	struct layout *l = NULL;
	bool good;

	if (c.schedule->nstages > net->ncuts)
		tap_bail(what);
	layout_balance(net, c.schedule->nstages, units);
	c.units = units;
	if (layout_new(net, &c, &l, &err) != RC_OK)
		tap_bail(err.text);
	good = slots_right(l) && parts_cover(l) && as_group(net, l);
	for (uint32_t p = 0; p < c.schedule->nranks; p++) {
		good = good && areas_apart(l, &l->row[p]);
		for (uint32_t i = 0; i < l->row[p].nchunks; i++)
			for (uint32_t t = 0; t < c.grid.tp; t++)
				good = good && nodes_inside(l, &l->row[p].chunk[i], t);
	}
	if (!good)
		ok(false, "%s: dp %u tp %u shards %u zero %u leaf %u recompute %u", what, c.grid.dp,
		   c.grid.tp, c.shards, c.zero, c.leaf, c.recompute);
	tried += good;
	layout_free(l);
}

/* One schedule with every way to keep and share. */
static void
sweep(const struct net *net, const char *what, const struct pipeline *s)
{
	unsigned before = tried, all = 0;

	static const struct {
		uint32_t dp, shards;
	} over[] = {{1, 0}, {2, 0}, {3, 0}, {4, 2}, {6, 3}, {2, 1}};

	for (unsigned k = 0; k < 4 * 2 * 3 * 6 * 2; k++) {
		struct layout_config c = {.zero = k % 4,
					  .leaf = k / 4 % 2 ? 2 : 0,
					  .recompute = (enum recompute)(k / 8 % 3),
					  .grid = {over[k / 24 % 6].dp, 1u << k / 144, s->nranks},
					  .shards = over[k / 24 % 6].shards,
					  .sequence = k / 144,
					  .keep = k % 5 == 0,
					  .nstate = 1 + k % 2,
					  .rows = 5,
					  .schedule = s};

		if (c.recompute && s->splits)
			continue;
		all++;
		check(net, c, what);
	}
	ok(tried - before == all && all > 40, "%s: %u layouts", what, all);
}

static void
schedules(void)
{
	static const struct {
		const char *name;
		uint32_t p, m;
	} named[] = {{"gpipe", 1, 1},	      {"gpipe", 1, 3}, {"gpipe", 3, 4}, {"1f1b", 3, 7},
		     {"interleaved=2", 2, 4}, {"zb-h1", 3, 5}, {"zb-h2", 3, 7}, {"zb-v", 3, 6}};
	static const char *const files[] = {
	    "0F0,1F0,1B0,0F1,1F1,1B1,0B0,0B1\n",
	    "0F0,1F0,1I0,1W0,0F1,1F1,1I1,1W1,0I0,0I1,0W1,0W0\n",
	};
	struct net net = vit(5);

	for (size_t i = 0; i < sizeof named / sizeof named[0]; i++) {
		struct pipeline *s = schedule(named[i].name, named[i].p, named[i].m);

		sweep(&net, named[i].name, s);
		pipeline_free(s);
	}
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
		struct pipeline *s = parse(files[i]);

		sweep(&net, "a gradient that waits for the stage before", s);
		pipeline_free(s);
	}
}

/* Slots are what the schedules' sources say, and one more where an input may arrive meanwhile. */
static void
peaks(void)
{
	struct net net = vit(6);
	uint32_t units[8];
	const struct {
		const char *name;
		uint32_t most[4];
	} want[] = {{"gpipe", {9, 9, 9, 9}},
		    {"1f1b", {4, 4, 3, 2}},
		    {"zb-h1", {4, 5, 5, 5}},
		    {"zb-h2", {7, 8, 8, 8}}};

	for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
		struct pipeline *s = schedule(want[i].name, 4, 9);
		struct layout_config c = {.grid = {1, 1, 4}, .nstate = 1, .rows = 1, .schedule = s};
		struct layout *l;
		bool good = true;

		layout_balance(&net, 4, units);
		c.units = units;
		if (layout_new(&net, &c, &l, &err) != RC_OK)
			tap_bail(err.text);
		for (uint32_t p = 0; p < 4; p++)
			good = good && l->row[p].chunk[0].nslots == want[i].most[p];
		ok(good, "%s: %u, %u, %u and %u microbatches in progress", want[i].name,
		   l->row[0].chunk[0].nslots, l->row[1].chunk[0].nslots, l->row[2].chunk[0].nslots,
		   l->row[3].chunk[0].nslots);
		layout_free(l);
		pipeline_free(s);
	}
}

/* ---- balance */

/* The least cost of the costliest stage, by trying all cuts. */
static double
best(const double *cost, uint32_t n, uint32_t stages)
{
	double least = 1e300, sum = 0;

	for (uint32_t i = 0; stages == 1 && i < n; i++)
		sum += cost[i];
	if (stages == 1)
		return sum;
	for (uint32_t i = 0; i + stages <= n; i++) {
		double rest = best(cost + i + 1, n - i - 1, stages - 1);

		sum += cost[i];
		rest = rest > sum ? rest : sum;
		least = rest < least ? rest : least;
	}
	return least;
}

static void
balance(void)
{
	bool good = true;

	for (uint32_t blocks = 1; blocks <= 9; blocks++) {
		struct net net = vit(blocks);
		double cost[NET_MAX_CUTS];

		for (uint32_t u = 0; u < net.ncuts; u++)
			cost[u] = part_flops(&net, u, 1);
		for (uint32_t n = 1; n <= net.ncuts; n++) {
			uint32_t units[NET_MAX_CUTS], at = 0;
			double most = 0, least = best(cost, net.ncuts, n);

			memset(units, 0, sizeof units);
			layout_balance(&net, n, units);
			for (uint32_t s = 0; s < n; s++) {
				double sum = 0;

				good = good && units[s] > 0;
				for (uint32_t k = 0; k < units[s] && at < net.ncuts; k++)
					sum += cost[at++];
				most = sum > most ? sum : most;
			}
			good = good && at == net.ncuts && most <= least * (1 + 1e-9);
		}
	}
	ok(good, "stages: each has a unit, and the costliest costs the least that is possible");
}

int
main(void)
{
	schedules();
	peaks();
	balance();
	return tap_done();
}
