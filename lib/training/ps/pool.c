#include "ps/pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "train/order.h"

#define QUEUE_FACTOR 2 /* items in the queue for each learner */

enum state { PENDING, CLAIMED, HELD, APPLYING, APPLIED };

struct item {
	enum state state;
	bool queued;
	uint32_t first, rows;
	/* Of a claim: */
	uint64_t learner, version;
	uint32_t slot;
	double loss;
};

struct slot {
	bool used;
	uint64_t silent; /* the learner that may still write there; 0: none */
};

struct learner {
	uint64_t id; /* 0: none */
	bool silent;
	bool claims; /* it has one */
};

struct pool {
	struct pool_config c;
	uint32_t nitems, nslots, allowed; /* slots: the most there can be, and the current number */
	struct item *item;
	struct slot *slot;
	uint32_t *arrived; /* items that are held, in order of arrival */
	struct learner learner[POOL_MAX_LEARNERS];
	uint32_t epoch;
	uint64_t version;
	uint32_t pending, claimed, held, applying, applied; /* items */
	uint32_t queued;
	uint32_t lowest; /* no item below is pending */
	uint64_t rows;
	double loss;
};

/* ---- the items of an epoch */

/* The parts of a global batch of n images that begins at first; returns the number of parts that
 * are not empty. */
static uint32_t
share_out(struct item *item, uint32_t first, uint32_t n, uint32_t leaf, uint32_t parts)
{
	uint32_t k = 0;

	for (uint32_t i = 0; i < parts; i++) {
		uint64_t begin, end;

		order_share(n, leaf ? leaf : 1, i, parts, &begin, &end);
		if (end > begin)
			item[k++] = (struct item){.first = first + (uint32_t)begin,
						  .rows = (uint32_t)(end - begin)};
	}
	return k;
}

/* Images of an update. */
static uint64_t
global_of(const struct pool_config *c)
{
	return c->global ? c->global : (uint64_t)c->batch * c->aggregate;
}

/* Cut the images into global batches of batch * aggregate if a global batch is one update; else
 * into minibatches. */
static void
lay_out(struct pool *p)
{
	uint64_t global = p->c.staleness ? p->c.batch : global_of(&p->c);
	uint32_t parts = p->c.staleness ? 1 : p->c.aggregate;

	p->nitems = 0;
	for (uint64_t at = 0; at < p->c.images; at += global) {
		uint64_t left = p->c.images - at;

		p->nitems += share_out(p->item + p->nitems, (uint32_t)at,
				       (uint32_t)(left < global ? left : global), p->c.leaf, parts);
	}
}

enum rc
pool_new(const struct pool_config *c, struct pool **out, struct err *err)
{
	struct pool *p;
	uint64_t most;

	if (c->images == 0 || c->batch == 0 || c->aggregate == 0 ||
	    c->aggregate > POOL_MAX_AGGREGATE)
		return err_set(err, RC_INVAL, "%u gradients an update: must be 1 to %u",
			       c->aggregate, POOL_MAX_AGGREGATE);
	p = must_alloc(1, sizeof *p);
	most = c->staleness ? (uint64_t)c->images / c->batch + 1
			    : (c->images / global_of(c) + 1) * c->aggregate;
	p->c = *c;
	p->nslots = c->aggregate + POOL_MAX_LEARNERS;
	p->item = must_alloc(most, sizeof *p->item);
	p->slot = must_alloc(p->nslots, sizeof *p->slot);
	p->arrived = must_alloc(most, sizeof *p->arrived);
	lay_out(p);
	/* No epoch has begun, so its samples have no order. */
	for (uint32_t i = 0; i < p->nitems; i++)
		p->item[i].state = APPLIED;
	p->applied = p->nitems;
	*out = p;
	return RC_OK;
}

void
pool_free(struct pool *p)
{
	if (!p)
		return;
	free(p->item);
	free(p->slot);
	free(p->arrived);
	free(p);
}

uint32_t
pool_items(const struct pool *p)
{
	return p->nitems;
}

bool
pool_item(const struct pool *p, uint32_t item, uint32_t *first, uint32_t *rows)
{
	if (item >= p->nitems)
		return false;
	*first = p->item[item].first;
	*rows = p->item[item].rows;
	return true;
}

uint32_t
pool_updates(const struct pool *p)
{
	return (p->nitems + p->c.aggregate - 1) / p->c.aggregate;
}

uint32_t
pool_slots(const struct pool *p)
{
	uint32_t n = p->c.aggregate;

	for (uint32_t i = 0; i < POOL_MAX_LEARNERS; i++)
		n += p->learner[i].id != 0;
	return n;
}

void
pool_allow(struct pool *p, uint32_t nslots)
{
	p->allowed = nslots < p->nslots ? nslots : p->nslots;
}

uint64_t
pool_version(const struct pool *p)
{
	return p->version;
}

void
pool_restore(struct pool *p, uint64_t version)
{
	p->version = version;
}

void
pool_begin(struct pool *p, uint32_t epoch)
{
	for (uint32_t i = 0; i < p->nitems; i++) {
		struct item *it = &p->item[i];

		*it = (struct item){.first = it->first, .rows = it->rows};
	}
	p->epoch = epoch;
	p->pending = p->nitems;
	p->claimed = p->held = p->applying = p->applied = p->queued = p->lowest = 0;
	p->rows = 0;
	p->loss = 0;
}

bool
pool_done(const struct pool *p)
{
	return p->applied == p->nitems;
}

uint64_t
pool_rows(const struct pool *p)
{
	return p->rows;
}

double
pool_loss(const struct pool *p)
{
	return p->loss;
}

/* ---- learners */

static struct learner *
find(const struct pool *p, uint64_t id)
{
	for (uint32_t i = 0; i < POOL_MAX_LEARNERS; i++)
		if (id != 0 && p->learner[i].id == id)
			return (struct learner *)&p->learner[i];
	return NULL;
}

enum rc
pool_join(struct pool *p, uint64_t id, struct err *err)
{
	if (id == 0 || find(p, id))
		return err_set(err, RC_BUSY, "that learner has already joined");
	for (uint32_t i = 0; i < POOL_MAX_LEARNERS; i++)
		if (p->learner[i].id == 0) {
			p->learner[i] = (struct learner){.id = id};
			return RC_OK;
		}
	return err_set(err, RC_BUSY, "the server already has %d learners", POOL_MAX_LEARNERS);
}

uint32_t
pool_learners(const struct pool *p)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < POOL_MAX_LEARNERS; i++)
		n += p->learner[i].id != 0 && !p->learner[i].silent;
	return n;
}

/* Release a claim: any learner may compute the item. */
static void
put_back(struct pool *p, uint32_t i)
{
	struct item *it = &p->item[i];

	it->state = PENDING;
	it->learner = 0;
	p->claimed--;
	p->pending++;
	p->lowest = i < p->lowest ? i : p->lowest;
}

void
pool_leave(struct pool *p, uint64_t id, enum pool_leave how)
{
	struct learner *l = find(p, id);

	if (!l)
		return;
	for (uint32_t i = 0; l->claims && i < p->nitems; i++)
		if (p->item[i].state == CLAIMED && p->item[i].learner == id) {
			p->slot[p->item[i].slot].silent = id;
			put_back(p, i);
			l->claims = false;
		}
	for (uint32_t s = 0; how == POOL_GONE && s < p->nslots; s++)
		if (p->slot[s].silent == id)
			p->slot[s] = (struct slot){0};
	l->silent = true;
	if (how == POOL_GONE)
		*l = (struct learner){0};
}

/* ---- the queue */

bool
pool_queue(struct pool *p, uint32_t *item)
{
	if (p->queued >= QUEUE_FACTOR * pool_learners(p))
		return false;
	for (uint32_t i = p->lowest; i < p->nitems; i++)
		if (p->item[i].state == PENDING && !p->item[i].queued) {
			p->item[i].queued = true;
			p->queued++;
			*item = i;
			return true;
		}
	return false;
}

void
pool_unqueue(struct pool *p, uint32_t item)
{
	uint32_t begin = item == POOL_NO_ITEM ? 0 : item;
	uint32_t end = item == POOL_NO_ITEM ? p->nitems : item + 1;

	for (uint32_t i = begin; i < end && i < p->nitems; i++) {
		p->queued -= p->item[i].queued;
		p->item[i].queued = false;
	}
}

/* ---- claims */

/* The oldest version at which a claim was granted; the current one if no item is claimed. */
static uint64_t
oldest(const struct pool *p)
{
	uint64_t v = p->version;

	for (uint32_t i = 0, left = p->claimed; left > 0 && i < p->nitems; i++)
		if (p->item[i].state == CLAIMED) {
			v = p->item[i].version < v ? p->item[i].version : v;
			left--;
		}
	return v;
}

/* With one more claim, if the gradient of the oldest claim came last, would it still be young enough? */
static bool
ahead(const struct pool *p)
{
	uint64_t before = p->claimed + p->held + p->applying;

	return p->c.staleness != POOL_ASYNC &&
	       p->version + before / p->c.aggregate - oldest(p) > p->c.staleness;
}

/* The item for a claim; POOL_NO_ITEM: none. Within a global batch, only an item of that batch. */
static uint32_t
choose(struct pool *p, uint32_t hint)
{
	uint64_t end = p->c.staleness ? p->nitems : (uint64_t)p->applied + p->c.aggregate;

	if (hint < p->nitems && hint < end && p->item[hint].state == PENDING)
		return hint;
	while (p->lowest < p->nitems && p->item[p->lowest].state != PENDING)
		p->lowest++;
	return p->lowest < p->nitems && p->lowest < end ? p->lowest : POOL_NO_ITEM;
}

static uint32_t
free_slot(const struct pool *p)
{
	uint32_t s = 0;

	while (s < p->allowed && (p->slot[s].used || p->slot[s].silent))
		s++;
	return s;
}

enum pool_answer
pool_claim(struct pool *p, uint64_t id, uint32_t hint, struct pool_claim *out)
{
	struct learner *l = find(p, id);
	uint32_t i, s;
	struct item *it;

	if (!l || l->silent || l->claims)
		return POOL_STRANGER;
	if (hint < p->nitems)
		pool_unqueue(p, hint);
	s = free_slot(p);
	if (ahead(p) || s == p->allowed || (i = choose(p, hint)) == POOL_NO_ITEM)
		return POOL_WAIT;
	pool_unqueue(p, i);
	it = &p->item[i];
	it->state = CLAIMED;
	it->learner = id;
	it->version = p->version;
	it->slot = s;
	p->slot[s].used = true;
	p->pending--;
	p->claimed++;
	l->claims = true;
	*out = (struct pool_claim){p->epoch, i, it->first, it->rows, s, p->version};
	return POOL_WORK;
}

/* ---- gradients */

enum pool_verdict
pool_gradient(struct pool *p, const struct pool_gradient *g)
{
	struct learner *l = find(p, g->learner);
	struct item *it = g->item < p->nitems ? &p->item[g->item] : NULL;
	uint64_t used_at = p->version + (p->held + p->applying) / p->c.aggregate;

	if (!l || !it || g->epoch != p->epoch || it->state != CLAIMED ||
	    it->learner != g->learner || it->slot != g->slot || it->rows != g->rows ||
	    g->version < it->version || g->version > p->version + (p->applying > 0))
		return POOL_REFUSED;
	l->claims = false;
	if (p->c.staleness != POOL_ASYNC && used_at > g->version + p->c.staleness) {
		p->slot[it->slot].used = false;
		put_back(p, g->item);
		return POOL_STALE;
	}
	it->state = HELD;
	it->version = g->version;
	it->loss = g->loss;
	p->claimed--;
	p->arrived[p->held++] = g->item;
	return POOL_TAKEN;
}

static int
by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

bool
pool_due(struct pool *p, struct pool_update *out)
{
	bool last = p->pending + p->claimed == 0;
	uint32_t n;

	if (p->applying || p->held == 0 || (p->held < p->c.aggregate && !last))
		return false;
	n = p->held < p->c.aggregate ? p->held : p->c.aggregate;
	qsort(p->arrived, n, sizeof *p->arrived, by_number);
	*out = (struct pool_update){.nslots = n, .version = p->version};
	for (uint32_t k = 0; k < n; k++) {
		struct item *it = &p->item[p->arrived[k]];

		it->state = APPLYING;
		out->slot[k] = it->slot;
		out->rows_of[k] = it->rows;
		out->age[k] = p->version > it->version ? p->version - it->version : 0;
		out->rows += it->rows;
	}
	p->applying = n;
	p->held -= n;
	memmove(p->arrived, p->arrived + n, p->held * sizeof *p->arrived);
	return true;
}

void
pool_applied(struct pool *p)
{
	double loss = 0;

	for (uint32_t i = 0; i < p->nitems && p->applying > 0; i++) {
		struct item *it = &p->item[i];

		if (it->state != APPLYING)
			continue;
		it->state = APPLIED;
		p->slot[it->slot].used = false;
		p->rows += it->rows;
		loss += it->loss;
		p->applying--;
		p->applied++;
	}
	p->loss += p->c.leaf ? (double)(float)loss : loss;
	p->version++;
}
