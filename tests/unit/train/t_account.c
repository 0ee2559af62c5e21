/* The account of a step: numbers known from the papers' formulas; each number that is wrong is told. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/account.h"

#include "base/must.h"
#include "tap.h"

#define MAX_RANKS 16

/* A training without devices. */
struct world {
	struct train_config c;
	struct net net;
	struct spread spread;
	struct account_input in;
	struct account_seen seen[MAX_RANKS];
	uint32_t units[NET_MAX_CUTS];
};

static struct err err;

/* A vit of 2 blocks, h 16, 5 tokens: 7556 parameters; 48 samples of 14 x 14, 4 classes. */
static void
make(struct world *w, struct grid g, uint32_t micro, const char *schedule)
{
	const struct net_config net = {.model = NET_VIT, .vit = {2, 16, 4, 7}};
	struct pipeline_facts *facts = must_alloc(1, sizeof *facts);
	struct layout_config l = {.grid = g,
				  .sequence = w->c.sequence,
				  .zero = w->c.zero,
				  .shards = w->c.shard_size,
				  .keep = w->c.no_reshard,
				  .recompute = w->c.recompute,
				  .nstate = optimizer_adapts(w->c.optimizer) ? 2 : 1,
				  .rows = 48 / g.dp / micro,
				  .units = w->units};

	w->c.pipeline = schedule;
	if (net_build(&net, (struct net_shape){1, 14, 14}, 4, &w->net, &err) != RC_OK ||
	    pipeline_named(schedule, g.pp, micro, &w->spread.made, &err) != RC_OK ||
	    pipeline_check(w->spread.made, facts, &err) != RC_OK)
		tap_bail(err.text);
	w->spread.schedule = w->spread.made;
	layout_balance(&w->net, w->spread.schedule->nstages, w->units);
	l.schedule = w->spread.schedule;
	if (layout_new(&w->net, &l, &w->spread.layout, &err) != RC_OK)
		tap_bail(err.text);
	w->spread.grid = g;
	w->spread.units = w->units;
	w->in = (struct account_input){.c = &w->c,
				       .net = &w->net,
				       .grid = g,
				       .spread = &w->spread,
				       .global = 48,
				       .most = 48,
				       .seen = w->seen};
	free(facts);
}

static void
drop(struct world *w)
{
	layout_free(w->spread.layout);
	pipeline_free(w->spread.made);
}

/* The number that a line expects; NAN: there is no such line. */
static double
expected(const struct account *a, const char *what, uint32_t row)
{
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->line[i].what, what) == 0 && a->line[i].row == row)
			return a->line[i].expected;
	return NAN;
}

/* Give the first rank of each pipeline rank all that its ranks are expected to have done. */
static void
obey(struct world *w)
{
	uint32_t each = w->in.grid.dp * w->in.grid.tp;
	struct account a;
	char what[64];

	memset(w->seen, 0, sizeof w->seen);
	account_make(&w->in, &a);
	for (uint32_t p = 0; p < w->in.grid.pp; p++)
		for (unsigned g = 0; g < ACCOUNT_NGROUPS; g++)
			for (unsigned k = 0; k < ACCOUNT_NCOLLS; k++) {
				struct account_count *to = &w->seen[p * each].by[g][k];
				double v;

				snprintf(what, sizeof what, "%s %s, elements sent",
					 account_group_name(g), account_coll_name(k));
				v = expected(&a, what, p);
				to->elements = isnan(v) ? 0 : (uint64_t)llround(v * each);
				snprintf(what, sizeof what, "%s %s, number", account_group_name(g),
					 account_coll_name(k));
				v = expected(&a, what, p);
				to->n = isnan(v) ? 0 : (uint64_t)llround(v * each);
			}
	for (uint32_t r = 0; r < each * w->in.grid.pp; r++)
		w->seen[r].used_bytes =
		    (uint64_t)expected(&a, "device memory in use, bytes, most", UINT32_MAX);
	account_fini(&a);
}

/* Lines that differ. */
static size_t
differ(struct world *w)
{
	struct account a;
	size_t n;

	account_make(&w->in, &a);
	n = a.ndisagree;
	account_fini(&a);
	return n;
}

/* One too many or too few of each number that was counted is one line, or both of a name that has no other. */
static bool
each_is_told(struct world *w)
{
	bool told = true;

	for (unsigned r = 0; r < MAX_RANKS; r++)
		for (unsigned g = 0; g < ACCOUNT_NGROUPS; g++)
			for (unsigned k = 0; k < ACCOUNT_NCOLLS; k++) {
				struct account_count *at = &w->seen[r].by[g][k];

				if (r >= grid_size(&w->in.grid))
					continue;
				at->n++;
				told = told && differ(w) == 1;
				at->n--;
				if (at->elements == 0)
					continue;
				at->elements--;
				told = told && differ(w) == 1;
				at->elements++;
			}
	w->seen[0].used_bytes += 256;
	told = told && differ(w) == (grid_size(&w->in.grid) == 1 ? 2 : 1);
	w->seen[0].used_bytes -= 256;
	return told && differ(w) == 0;
}

static void
test_zero(void)
{
	static const double gathered[] = {0, 5667, 5667, 11259};
	static const double bytes[][3] = {{30224, 30224, 60448},
					  {30224, 30224, 15112},
					  {30224, 7556, 15112},
					  {7556, 7556, 15112}};
	bool sent = true, memory = true, told = true;

	for (uint32_t zero = 0; zero < 4; zero++) {
		struct world w = {.c = {.zero = zero, .optimizer = OPTIMIZER_ADAM}};
		struct account a;

		make(&w, (struct grid){4, 1, 1}, 1, "gpipe");
		obey(&w);
		account_make(&w.in, &a);
		/* 2 (N-1)/N of 7556 is 11334; zero 3 gathers the head's 100 once for two passes. */
		if (zero == 0)
			sent = sent && expected(&a, "dp all-reduce, elements sent", 0) == 11334;
		else
			sent = sent &&
			       expected(&a, "dp reduce-scatter, elements sent", 0) == 5667 &&
			       expected(&a, "dp all-gather, elements sent", 0) == gathered[zero];
		memory = memory && a.ndisagree == 0 && a.line[0].expected - bytes[zero][0] < 256 &&
			 a.line[1].expected - bytes[zero][1] < 256 &&
			 a.line[2].expected - bytes[zero][2] < 512 &&
			 a.line[0].expected >= bytes[zero][0];
		told = told && each_is_told(&w);
		account_fini(&a);
		drop(&w);
	}
	ok(sent, "zero: 2 (N-1)/N Psi, and 3 (N-1)/N Psi less a unit that two passes share");
	ok(memory, "zero: bytes a parameter, and the layout has them");
	ok(told, "zero: each wrong number is told");
}

/* Groups of 2 of 4 ranks: half of 7556 parameters, (S-1)/S of them within a group, then 2 (R-1)/R of the half. */
static void
test_hybrid(void)
{
	/* zero 3, of 2 microbatches: 4 passes, of which two share the head of 100 */
	static const double gathered[] = {0, 3778, 3778, (4 * 7556 - 100) / 2};
	static const double bytes[][3] = {
	    {0}, {30224, 30224, 30224}, {30224, 15112, 30224}, {15112, 15112, 30224}};
	bool sent = true, memory = true, told = true;

	for (uint32_t zero = 1; zero < 4; zero++) {
		struct world w = {
		    .c = {.zero = zero, .shard_size = 2, .optimizer = OPTIMIZER_ADAM}};
		unsigned micro = zero == 3 ? 2 : 1;
		struct account a;

		make(&w, (struct grid){4, 1, 1}, micro, "gpipe");
		obey(&w);
		account_make(&w.in, &a);
		sent = sent &&
		       expected(&a, "dp reduce-scatter, elements sent", 0) == 3778 * micro &&
		       expected(&a, "rep all-reduce, elements sent", 0) == 3778 &&
		       expected(&a, "dp all-gather, elements sent", 0) == gathered[zero];
		memory = memory && a.ndisagree == 0;
		for (unsigned i = 0; i < 3; i++)
			memory = memory && a.line[i].expected >= bytes[zero][i] &&
				 a.line[i].expected - bytes[zero][i] < 512;
		told = told && each_is_told(&w);
		account_fini(&a);
		drop(&w);
	}
	ok(sent,
	   "groups of 2: (S-1)/S Psi in a group, 2 (R-1)/R Psi / S over replicas, once a step");
	ok(memory, "groups of 2: bytes a parameter, and the layout has them");
	ok(told, "groups of 2: each wrong number is told");
}

static void
test_tensor(void)
{
	struct world w = {0}, rows = {.c = {.sequence = true, .recompute = RECOMPUTE_FULL}};
	struct account a;

	make(&w, (struct grid){1, 4, 1}, 1, "gpipe");
	obey(&w);
	account_make(&w.in, &a);
	/* 8 bsh (t-1)/t of 2 blocks, 2 (b h + 4 b)(t-1)/t of the head */
	ok(expected(&a, "tp all-reduce, elements sent", 0) ==
		   8 * 48 * 5 * 16 * .75 * 2 + 2 * (48 * 16 + 4 * 48) * .75 &&
	       expected(&a, "tp all-reduce, number", 0) == 2 * 4 + 3,
	   "tp: 8 b s h (t-1)/t a block, and the head");
	ok(a.ndisagree == 0 && each_is_told(&w), "tp: each wrong number is told");
	account_fini(&a);
	drop(&w);
	make(&rows, (struct grid){1, 4, 1}, 3, "gpipe");
	obey(&rows);
	account_make(&rows.in, &a);
	/* 16 * 5 rows are 80; 6 of 2 blocks, 1 of the embedding, 2 of the head; 3 microbatches */
	ok(expected(&a, "tp all-gather, elements sent", 0) == 15 * 3 * 80 * 16 * .75 &&
	       expected(&a, "tp reduce-scatter, elements sent", 0) == 12 * 3 * 80 * 16 * .75,
	   "rows divided, full recomputation: 6 all-gathers and reduce-scatters a block");
	ok(a.ndisagree == 0 && each_is_told(&rows), "rows divided: each wrong number is told");
	account_fini(&a);
	drop(&rows);
}

static void
test_pipeline(void)
{
	static const struct {
		const char *name;
		double bubble, peak;
	} want[] = {{"gpipe", 0.125, 8},   {"1f1b", 0.125, 2}, {"interleaved=2", 0.0625, 5},
		    {"zb-h1", 1 / 24., 2}, {"zb-h2", 0, 3},    {"zb-v", 0, 4}};
	bool right = true, told = true;

	for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
		struct world w = {0};
		struct account a;

		make(&w, (struct grid){1, 1, 2}, 8, want[i].name);
		obey(&w);
		account_make(&w.in, &a);
		right =
		    right && a.ndisagree == 0 &&
		    expected(&a, "bubble / busy time, of the schedule, F=B=W", UINT32_MAX) ==
			want[i].bubble &&
		    expected(&a, "microbatches in progress, peak", UINT32_MAX) == want[i].peak &&
		    expected(&a, "pp send, elements sent", 0) == 8 * 6 * 5 * 16 *
								     (i == 2   ? 3
								      : i == 5 ? 2
									       : 1);
		told = told && each_is_told(&w);
		account_fini(&a);
		drop(&w);
	}
	ok(right, "pipelines: b s h a boundary and microbatch, bubbles, peaks");
	ok(told, "pipelines: each wrong number is told");
}

int
main(void)
{
	test_zero();
	test_hybrid();
	test_tensor();
	test_pipeline();
	return tap_done();
}
