/*
 * Design notes. The blocks, used and free, tile [lo, hi) without gaps and form one treap keyed by
 * address: a search tree, and a heap in a hash of the address. Each node knows the largest hole of
 * its subtree, so first fit goes left whenever the left subtree has a hole that fits. No two holes touch.
 * The depth is logarithmic in expectation for any order of calls, so recursion is safe.
 *
 * Source: Seidel & Aragon, Algorithmica 16, 1996, doi:10.1007/BF01940876
 */
#include "mem/arena.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/buf.h"

struct arena_block {
	struct arena_block *left, *right;
	uint64_t addr, nbytes;
	uint64_t priority, largest;
	bool used;
};

/* splitmix64's finaliser. */
static uint64_t
hash(uint64_t x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static uint64_t
largest(const struct arena_block *b)
{
	return b ? b->largest : 0;
}

static void
update(struct arena_block *b)
{
	uint64_t l = largest(b->left), r = largest(b->right);

	b->largest = b->used ? 0 : b->nbytes;
	if (l > b->largest)
		b->largest = l;
	if (r > b->largest)
		b->largest = r;
}

static struct arena_block *
block_new(uint64_t addr, uint64_t nbytes)
{
	struct arena_block *b = alloc_zeroed(1, sizeof *b);

	if (!b)
		return NULL;
	b->addr = addr;
	b->nbytes = b->largest = nbytes;
	b->priority = hash(addr);
	return b;
}

/* Cut t into the addresses below addr and the rest. */
static void
split(struct arena_block *t, uint64_t addr, struct arena_block **l, struct arena_block **r)
{
	if (!t) {
		*l = *r = NULL;
		return;
	}
	if (t->addr < addr) {
		split(t->right, addr, &t->right, r);
		*l = t;
	} else {
		split(t->left, addr, l, &t->left);
		*r = t;
	}
	update(t);
}

/* All addresses of l are below all of r. */
static struct arena_block *
merge(struct arena_block *l, struct arena_block *r)
{
	assert(!l || !r || l->addr + l->nbytes <= r->addr);
	if (!l || !r)
		return l ? l : r;
	if (l->priority > r->priority) {
		l->right = merge(l->right, r);
		update(l);
		return l;
	}
	r->left = merge(l, r->left);
	update(r);
	return r;
}

/* Take the block at addr, which exists, out of the tree. */
static struct arena_block *
detach(struct arena *a, uint64_t addr)
{
	struct arena_block *l, *b, *r;

	split(a->root, addr, &l, &r);
	split(r, addr + 1, &b, &r);
	assert(b && b->addr == addr && !b->left && !b->right);
	a->root = merge(l, r);
	return b;
}

static void
attach(struct arena *a, struct arena_block *b)
{
	struct arena_block *l, *r;

	assert(b->nbytes > 0 && b->addr >= a->lo && b->nbytes <= a->hi - b->addr);
	b->left = b->right = NULL;
	update(b);
	split(a->root, b->addr, &l, &r);
	a->root = merge(merge(l, b), r);
}

/* The block that starts at addr, and the ones before and after it; NULL where there is none. */
static struct arena_block *
find(const struct arena *a, uint64_t addr, struct arena_block **before, struct arena_block **after)
{
	struct arena_block *b = a->root, *hit = NULL;

	*before = *after = NULL;
	while (b) {
		if (b->addr < addr) {
			*before = b;
			b = b->right;
		} else if (b->addr > addr) {
			*after = b;
			b = b->left;
		} else {
			hit = b;
			break;
		}
	}
	if (!hit)
		return NULL;
	for (b = hit->left; b; b = b->right)
		*before = b;
	for (b = hit->right; b; b = b->left)
		*after = b;
	return hit;
}

enum rc
arena_init(struct arena *a, uint64_t lo, uint64_t hi, uint64_t unit, struct err *err)
{
	struct arena_block *b = block_new(lo, hi - lo);

	if (!b)
		return err_set(err, RC_NOMEM, "out of memory");
	*a = (struct arena){.root = b, .lo = lo, .hi = hi, .unit = unit};
	return RC_OK;
}

static void
free_tree(struct arena_block *b)
{
	if (!b)
		return;
	free_tree(b->left);
	free_tree(b->right);
	free(b);
}

void
arena_fini(struct arena *a)
{
	free_tree(a->root);
	*a = (struct arena){0};
}

uint64_t
arena_largest(const struct arena *a)
{
	return largest(a->root);
}

enum rc
arena_take(struct arena *a, uint64_t nbytes, uint64_t *addr, struct err *err)
{
	const uint64_t room = a->hi - a->lo;
	struct arena_block *b = a->root, *rest = NULL;
	uint64_t want = nbytes ? nbytes : 1;

	if (want <= room)
		want = (want + a->unit - 1) / a->unit * a->unit;
	if (want > largest(b))
		return err_set(err, RC_NOMEM,
			       "no room for %" PRIu64 " bytes: %" PRIu64 " of %" PRIu64
			       " are free, the largest hole has %" PRIu64,
			       nbytes, room - a->used, room, largest(b));
	while (largest(b->left) >= want || b->used || b->nbytes < want)
		b = largest(b->left) >= want ? b->left : b->right;
	assert(want % a->unit == 0 && b->largest >= want);
	if (b->nbytes > want) {
		rest = block_new(b->addr + want, b->nbytes - want);
		if (!rest)
			return err_set(err, RC_NOMEM, "out of memory");
	}
	b = detach(a, b->addr);
	b->nbytes = want;
	b->used = true;
	attach(a, b);
	if (rest)
		attach(a, rest);
	a->used += want;
	a->nallocs++;
	assert(a->used <= room);
	*addr = b->addr;
	return RC_OK;
}

enum rc
arena_give(struct arena *a, uint64_t addr, struct err *err)
{
	struct arena_block *before, *after, *b = find(a, addr, &before, &after);

	if (!b || !b->used)
		return err_set(err, RC_INVAL, "0x%" PRIx64 " is not the start of an allocation",
			       addr);
	assert(a->used >= b->nbytes && a->nallocs > 0);
	a->used -= b->nbytes;
	a->nallocs--;
	b = detach(a, addr);
	b->used = false;
	if (after && !after->used) {
		b->nbytes += after->nbytes;
		free(detach(a, after->addr));
	}
	if (before && !before->used) {
		before = detach(a, before->addr);
		before->nbytes += b->nbytes;
		free(b);
		b = before;
	}
	attach(a, b);
	return RC_OK;
}

/* The block that addr is in; addr is inside. */
static struct arena_block *
block_at(const struct arena *a, uint64_t addr)
{
	struct arena_block *before, *after, *b = find(a, addr, &before, &after);

	return b ? b : before;
}

enum rc
arena_put(struct arena *a, uint64_t addr, uint64_t nbytes, struct err *err)
{
	struct arena_block *hole, *used = NULL, *rest = NULL;
	uint64_t end;

	if (addr < a->lo || addr >= a->hi || nbytes == 0 || nbytes > a->hi - addr ||
	    (addr - a->lo) % a->unit || nbytes % a->unit)
		return err_set(err, RC_INVAL, "no allocation can be at 0x%" PRIx64, addr);
	hole = block_at(a, addr);
	assert(hole); /* blocks tile the arena */
	end = hole->addr + hole->nbytes;
	if (hole->used || end - addr < nbytes)
		return err_set(err, RC_INVAL, "0x%" PRIx64 " is allocated", addr);
	if (addr > hole->addr)
		used = block_new(addr, nbytes);
	if (end > addr + nbytes)
		rest = block_new(addr + nbytes, end - addr - nbytes);
	if ((addr > hole->addr && !used) || (end > addr + nbytes && !rest)) {
		free(used);
		free(rest);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	hole = detach(a, hole->addr);
	if (used) {
		hole->nbytes = addr - hole->addr;
		attach(a, hole);
	} else {
		used = hole;
		used->nbytes = nbytes;
	}
	used->used = true;
	attach(a, used);
	if (rest)
		attach(a, rest);
	a->used += nbytes;
	a->nallocs++;
	return RC_OK;
}

uint64_t
arena_size(const struct arena *a, uint64_t addr)
{
	struct arena_block *before, *after, *b = find(a, addr, &before, &after);

	return b && b->used ? b->nbytes : 0;
}

bool
arena_covers(const struct arena *a, uint64_t addr, uint64_t nbytes)
{
	const struct arena_block *b;

	for (uint64_t n; nbytes; addr += n, nbytes -= n) {
		if (addr < a->lo || addr >= a->hi)
			return false;
		b = block_at(a, addr);
		if (!b->used)
			return false;
		n = b->addr + b->nbytes - addr;
		n = n < nbytes ? n : nbytes;
	}
	return true;
}
