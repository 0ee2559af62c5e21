/*
 * The parameter server's pool: some rules by hand, then seeded random epochs in which learners die,
 * fall silent, come back and join, and messages are lost, repeated, late and reordered.
 */
#include "ps/pool.h"

#include <stdlib.h>
#include <string.h>

#include "nn/rng.h"
#include "tap.h"

static struct pool *
make(uint32_t images, uint32_t batch, uint32_t aggregate, uint32_t staleness)
{
	struct pool_config c = {
	    .images = images, .batch = batch, .aggregate = aggregate, .staleness = staleness};
	struct pool *p = NULL;
	struct err err = {0};

	if (pool_new(&c, &p, &err) != RC_OK)
		printf("# %s\n", err.text);
	else
		pool_allow(p, 1000);
	return p;
}

static struct pool_gradient
gradient_of(uint64_t learner, const struct pool_claim *c)
{
	return (struct pool_gradient){.learner = learner,
				      .epoch = c->epoch,
				      .item = c->item,
				      .slot = c->slot,
				      .rows = c->rows,
				      .version = c->version,
				      .loss = c->rows};
}

/* ---- by hand */

/* 70 images, 4 learners with batches of 8: groups of 32, 32 and 6 images. */
static void
test_layout(void)
{
	static const uint32_t rest[] = {1, 2, 1, 2};
	struct pool *p = make(70, 8, 4, 0);
	struct pool_update u;
	struct pool_claim c[12], next;
	uint32_t at = 0;
	bool good = true;

	ok(pool_items(p) == 12 && pool_updates(p) == 3, "items of an epoch");
	pool_join(p, 1, NULL);
	pool_begin(p, 0);
	for (unsigned g = 0; g < 3; g++) {
		for (unsigned k = 0; k < 4; k++) {
			struct pool_claim *now = &c[g * 4 + k];
			struct pool_gradient of;

			good = good && pool_claim(p, 1, POOL_NO_ITEM, now) == POOL_WORK &&
			       now->first == at && now->rows == (g < 2 ? 8 : rest[k]) &&
			       now->version == g;
			at += now->rows;
			of = gradient_of(1, now);
			good = good && !pool_due(p, &u) && pool_gradient(p, &of) == POOL_TAKEN;
		}
		good = good && pool_claim(p, 1, POOL_NO_ITEM, &next) == POOL_WAIT &&
		       pool_due(p, &u) && u.nslots == 4 && u.rows == (g < 2 ? 32 : 6) &&
		       u.version == g && !pool_due(p, &u);
		pool_applied(p);
	}
	ok(good && at == 70, "a learner alone does global batches, the last one shared out evenly");
	ok(pool_done(p) && pool_rows(p) == 70 && pool_version(p) == 3, "then the epoch is done");
	pool_free(p);
	p = make(3, 8, 4, 0);
	ok(pool_items(p) == 3, "parts without images are no items");
	pool_free(p);
	p = make(70, 8, 4, POOL_ASYNC);
	ok(pool_items(p) == 9 && pool_updates(p) == 3, "minibatches where there are no groups");
	pool_free(p);
}

static void
test_refused(void)
{
	struct pool_config none = {.images = 5, .batch = 1, .aggregate = 0};
	struct pool *p = NULL;
	struct pool_claim a, b, c;
	struct pool_gradient g, lie;
	struct err err = {0};
	uint32_t item;

	ok(pool_new(&none, &p, &err) == RC_INVAL, "0 gradients an update are refused");
	p = make(100, 10, 2, 0);
	pool_join(p, 4, &err);
	ok(pool_claim(p, 4, POOL_NO_ITEM, &a) == POOL_WAIT && !pool_queue(p, &item),
	   "before the first epoch nothing is queued, and nobody gets anything");
	pool_leave(p, 4, POOL_GONE);
	pool_begin(p, 7);
	ok(pool_claim(p, 5, 0, &a) == POOL_STRANGER, "who has not joined gets nothing");
	ok(pool_join(p, 5, &err) == RC_OK && pool_join(p, 5, &err) == RC_BUSY, "joined once");
	ok(pool_claim(p, 5, 1, &a) == POOL_WORK && a.item == 1, "an item taken from the queue");
	ok(pool_claim(p, 5, 0, &b) == POOL_STRANGER, "not more than one");
	pool_join(p, 6, &err);
	ok(pool_claim(p, 6, 9, &b) == POOL_WORK && b.item == 0,
	   "one of the next global batch is not given yet");
	pool_join(p, 7, &err);
	ok(pool_claim(p, 7, 2, &c) == POOL_WAIT, "who runs ahead waits");
	g = gradient_of(5, &a);
	lie = g, lie.item = 4000000000u;
	ok(pool_gradient(p, &lie) == POOL_REFUSED, "a gradient of an item that is none");
	lie = g, lie.epoch = 8;
	ok(pool_gradient(p, &lie) == POOL_REFUSED, "... of another epoch");
	lie = g, lie.rows = 11;
	ok(pool_gradient(p, &lie) == POOL_REFUSED, "... of other rows");
	lie = g, lie.slot = b.slot;
	ok(pool_gradient(p, &lie) == POOL_REFUSED, "... in another slot");
	lie = g, lie.version = 1;
	ok(pool_gradient(p, &lie) == POOL_REFUSED, "... of a version that is not there yet");
	ok(pool_gradient(p, &g) == POOL_TAKEN && pool_gradient(p, &g) == POOL_REFUSED,
	   "a gradient counts once");
	pool_free(p);
}

static void
test_slots(void)
{
	struct pool *p = make(100, 10, 1, 0);
	struct pool_claim a, b, c;
	struct pool_gradient g;
	struct err err = {0};

	pool_begin(p, 0);
	pool_join(p, 1, &err);
	pool_join(p, 2, &err);
	pool_claim(p, 1, POOL_NO_ITEM, &a);
	pool_leave(p, 1, POOL_SILENT);
	ok(pool_claim(p, 2, POOL_NO_ITEM, &b) == POOL_WORK && b.item == a.item && b.slot != a.slot,
	   "an item of who is silent goes to another, to another slot");
	g = gradient_of(1, &a);
	ok(pool_gradient(p, &g) == POOL_REFUSED, "the silent one's gradient comes too late");
	ok(pool_learners(p) == 1, "it is no learner any more");
	pool_leave(p, 1, POOL_GONE);
	pool_leave(p, 2, POOL_GONE);
	pool_join(p, 3, &err);
	ok(pool_claim(p, 3, POOL_NO_ITEM, &c) == POOL_WORK && c.slot == a.slot,
	   "the slot is free when it is gone");
	pool_free(p);
}

static void
test_queue(void)
{
	struct pool *p = make(100, 10, 2, POOL_ASYNC);
	struct pool_claim c;
	uint32_t i[4], n = 0;

	pool_begin(p, 0);
	ok(!pool_queue(p, i), "nothing is queued for nobody");
	pool_join(p, 1, NULL);
	while (n < 4 && pool_queue(p, &i[n]))
		n++;
	ok(n == 2 && i[0] == 0 && i[1] == 1, "some items a learner, in order");
	ok(pool_claim(p, 1, 1, &c) == POOL_WORK && c.item == 1, "one is taken");
	ok(pool_queue(p, i) && i[0] == 2 && !pool_queue(p, i), "and makes room for one");
	pool_unqueue(p, POOL_NO_ITEM);
	ok(pool_queue(p, i) && i[0] == 0, "what may be lost is queued again");
	pool_free(p);
}

static void
test_staleness(void)
{
	struct pool *p = make(100, 10, 1, 1);
	struct pool_claim a, b;
	struct pool_gradient g;
	struct pool_update u;

	pool_join(p, 1, NULL);
	pool_join(p, 2, NULL);
	pool_begin(p, 0);
	pool_claim(p, 1, POOL_NO_ITEM, &a);
	ok(pool_claim(p, 2, POOL_NO_ITEM, &b) == POOL_WORK, "staleness 1: a step ahead");
	g = gradient_of(2, &b);
	ok(pool_gradient(p, &g) == POOL_TAKEN && pool_due(p, &u), "its gradient is applied");
	pool_applied(p);
	ok(pool_claim(p, 2, POOL_NO_ITEM, &b) == POOL_WAIT, "two steps ahead: it waits");
	g = gradient_of(1, &a);
	ok(pool_gradient(p, &g) == POOL_TAKEN && pool_due(p, &u) && u.version == 1,
	   "the slow one's is not too old");
	pool_applied(p);
	ok(pool_claim(p, 2, POOL_NO_ITEM, &b) == POOL_WORK, "and the other goes on");
	pool_free(p);
}

/* ---- at random */

#define ACTORS 6
#define MAIL   64

struct actor {
	uint64_t id; /* 0: dead */
	bool silent;
	struct pool_claim claim;
	bool claims;
};

struct world {
	struct rng rng;
	struct pool *pool;
	struct pool_config c;
	struct actor actor[ACTORS];
	struct pool_gradient mail[MAIL]; /* in flight */
	uint32_t nmail;
	uint64_t next_id;
	uint32_t *applied;	   /* by item */
	struct pool_update update; /* under way */
	uint32_t slot_item[4096];  /* the last message about a slot */
	uint64_t slot_version[4096];
	bool updating, bad;
	const char *why;
};

static uint32_t
roll(struct world *w, uint32_t n)
{
	return (uint32_t)rng_below(&w->rng, n);
}

static void
expect(struct world *w, bool good, const char *why)
{
	if (!good && !w->bad) {
		w->bad = true;
		w->why = why;
	}
}

static void
join(struct world *w, struct actor *a)
{
	*a = (struct actor){.id = ++w->next_id};
	if (pool_join(w->pool, a->id, NULL) != RC_OK)
		*a = (struct actor){0};
}

static void
leave(struct world *w, struct actor *a)
{
	pool_leave(w->pool, a->id, POOL_GONE);
	*a = (struct actor){0};
}

/* Post a gradient, now and then twice, now and then not at all. */
static void
post(struct world *w, struct actor *a, bool calm)
{
	struct pool_gradient g = gradient_of(a->id, &a->claim);
	uint32_t copies = calm ? 1 : roll(w, 8) == 0 ? 2 : 1;

	g.version += roll(w, 2) && g.version < pool_version(w->pool);
	while (copies-- > 0)
		w->mail[w->nmail++] = g;
	a->claims = false;
}

static void
deliver(struct world *w)
{
	uint32_t k = w->nmail ? roll(w, w->nmail) : 0;
	struct pool_gradient g;
	uint64_t before = pool_version(w->pool);

	if (w->nmail == 0)
		return;
	g = w->mail[k];
	w->mail[k] = w->mail[--w->nmail];
	if (pool_gradient(w->pool, &g) == POOL_TAKEN) {
		w->slot_item[g.slot] = g.item;
		w->slot_version[g.slot] = g.version;
	}
	expect(w, pool_version(w->pool) == before, "a gradient changes no version");
}

static void
claim(struct world *w, struct actor *a)
{
	uint32_t hint = roll(w, 3) ? POOL_NO_ITEM : roll(w, pool_items(w->pool) + 2), ignored;

	if (roll(w, 4) == 0)
		(void)pool_queue(w->pool, &ignored);
	if (!a->claims)
		a->claims = pool_claim(w->pool, a->id, hint, &a->claim) == POOL_WORK;
}

static void
update(struct world *w)
{
	uint64_t before = pool_version(w->pool);
	uint32_t last = 0;

	if (w->updating) {
		pool_applied(w->pool);
		expect(w, pool_version(w->pool) == before + 1, "an update is one version");
		w->updating = false;
		return;
	}
	w->updating = pool_due(w->pool, &w->update);
	for (uint32_t k = 0; w->updating && k < w->update.nslots; k++) {
		uint32_t s = w->update.slot[k], item = w->slot_item[s];

		expect(w, k == 0 || item > last, "gradients are in the order of their items");
		expect(w,
		       w->c.staleness == POOL_ASYNC ||
			   before - w->slot_version[s] <= w->c.staleness,
		       "no gradient is too old");
		expect(w, w->update.age[k] == before - w->slot_version[s], "its age is told");
		w->applied[item]++;
		last = item;
	}
}

/* An actor dies, or falls silent, or a silent one ends, or a new one joins. */
static void
happen(struct world *w, struct actor *a)
{
	if (a->id == 0) {
		join(w, a);
	} else if (a->silent || roll(w, 2)) {
		leave(w, a);
	} else {
		pool_leave(w->pool, a->id, POOL_SILENT);
		a->silent = true;
	}
}

static void
step(struct world *w, bool calm)
{
	struct actor *a = &w->actor[roll(w, ACTORS)];

	if (!calm && roll(w, 30) == 0)
		happen(w, a);
	pool_allow(w->pool, pool_slots(w->pool));
	switch (roll(w, 4)) {
	case 0:
		deliver(w);
		break;
	case 1:
		update(w);
		break;
	case 2:
		if (a->claims && w->nmail + 2 <= MAIL)
			post(w, a, calm);
		break;
	default:
		if (a->id)
			claim(w, a);
	}
}

/* An epoch with faults; then without, when it must end. */
static void
play_epoch(struct world *w, uint32_t epoch)
{
	uint32_t n = pool_items(w->pool), i;

	memset(w->applied, 0, n * sizeof *w->applied);
	pool_begin(w->pool, epoch);
	for (i = 0; i < 20 * n && !pool_done(w->pool); i++)
		step(w, false);
	leave(w, &w->actor[0]);
	join(w, &w->actor[0]);
	for (i = 0; i < 4000 * n && !pool_done(w->pool); i++)
		step(w, true);
	expect(w, pool_done(w->pool), "the epoch ends");
	expect(w, pool_rows(w->pool) == w->c.images, "every image is applied once");
	expect(w, pool_loss(w->pool) == w->c.images, "and so is its loss");
	for (i = 0; i < n; i++)
		expect(w, w->applied[i] == 1, "every item is applied once");
}

static bool
play(uint64_t seed)
{
	struct world *w = calloc(1, sizeof *w);
	bool good;

	rng_init(&w->rng, seed);
	w->c = (struct pool_config){.images = 1 + roll(w, 200),
				    .batch = 1 + roll(w, 12),
				    .aggregate = 1 + roll(w, 6),
				    .staleness = roll(w, 5)};
	if (w->c.staleness == 4)
		w->c.staleness = POOL_ASYNC;
	w->pool = make(w->c.images, w->c.batch, w->c.aggregate, w->c.staleness);
	w->applied = calloc(pool_items(w->pool), sizeof *w->applied);
	for (uint32_t epoch = 0; epoch < 3 && !w->bad; epoch++) {
		play_epoch(w, epoch);
	}
	if (w->bad)
		printf("# seed %llu: not so: %s\n", (unsigned long long)seed, w->why);
	good = !w->bad;
	pool_free(w->pool);
	free(w->applied);
	free(w);
	return good;
}

int
main(void)
{
	unsigned good = 0, n = 2000;

	test_layout();
	test_refused();
	test_slots();
	test_queue();
	test_staleness();
	for (uint64_t seed = 1; seed <= n; seed++)
		good += play(seed);
	ok(good == n, "%u of %u random worlds: every item once, versions grow by one, an end", good,
	   n);
	return tap_done();
}
