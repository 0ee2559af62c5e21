/*
 * metrics_sums.c - sums of the devices' counters, which only grow.
 *
 * For each device the counters' last values are kept, and a sum grows by the difference. So a device
 * that is lost, or cannot be read for a while, does not reduce it. Counters that have decreased, in
 * another process of the device, have restarted at 0.
 */
#include "view/metrics_sums.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_MAX 4096 /* devices; beyond, lost ones are forgotten, but remain in the sums */

_Static_assert(sizeof(_Atomic uint64_t) == sizeof(uint64_t), "counters are words");

/* A word that is not 0. */
struct word {
	uint32_t at;
	uint64_t value;
};

struct kept {
	struct sums_device sums;
	uint64_t incarnation;
	bool here;	   /* in the world that was taken last */
	struct word *last; /* last values, in order */
	size_t n;
};

struct metrics {
	uint64_t total[SUM_WORDS];
	struct kept *kept; /* by id */
	size_t n, cap;
};

struct metrics *
metrics_new(void)
{
	return alloc_zeroed(1, sizeof(struct metrics));
}

void
metrics_free(struct metrics *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n; i++)
		free(m->kept[i].last);
	free(m->kept);
	free(m);
}

/* ---- known devices */

/* The index of the device, or the one where it belongs. */
static size_t
place(const struct metrics *m, uint64_t id)
{
	size_t lo = 0, hi = m->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (m->kept[mid].sums.id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* NULL: out of memory. */
static struct kept *
keep(struct metrics *m, uint64_t id)
{
	size_t i = place(m, id);

	if (i < m->n && m->kept[i].sums.id == id)
		return &m->kept[i];
	if (!alloc_room(&m->kept, m->n, &m->cap, sizeof *m->kept))
		return NULL;
	memmove(&m->kept[i + 1], &m->kept[i], (m->n - i) * sizeof *m->kept);
	m->n++;
	m->kept[i] = (struct kept){.sums.id = id};
	return &m->kept[i];
}

static void
forget_gone(struct metrics *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n; i++)
		if (m->n <= KEPT_MAX || m->kept[i].here)
			m->kept[n++] = m->kept[i];
		else
			free(m->kept[i].last);
	m->n = n;
}

/* ---- reading */

/* The sum over a recorder's rings. */
static void
add_up(const struct world_recorder *r, uint64_t now[SUM_WORDS])
{
	memset(now, 0, SUM_WORDS * sizeof *now);
	now[SUM_UNRECORDED] = atomic_load_explicit(&r->header.unrecorded, memory_order_relaxed);
	for (size_t i = 0; i < r->nrings; i++) {
		const struct flight_ring *ring = &r->ring[i].ring;
		const _Atomic uint64_t *word = (const _Atomic uint64_t *)&ring->counts;
		uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

		for (size_t k = 0; k < SUM_COUNTS; k++)
			now[k] += atomic_load_explicit(&word[k], memory_order_relaxed);
		now[SUM_RECORDS] += head;
		now[SUM_LOST] += head > r->header.nrecords ? head - r->header.nrecords : 0;
	}
}

static bool
has_shrunk(const struct kept *k, const uint64_t now[SUM_WORDS])
{
	for (size_t i = 0; i < k->n; i++)
		if (now[k->last[i].at] < k->last[i].value)
			return true;
	return false;
}

static bool
remember(struct kept *k, const uint64_t now[SUM_WORDS])
{
	struct word *last;
	size_t n = 0;

	for (uint32_t i = 0; i < SUM_WORDS; i++)
		n += now[i] != 0;
	last = alloc_resize(k->last, n + 1, sizeof *last);
	if (!last)
		return false;
	k->last = last;
	k->n = 0;
	for (uint32_t i = 0; i < SUM_WORDS; i++)
		if (now[i])
			last[k->n++] = (struct word){i, now[i]};
	return true;
}

static void
grow(struct metrics *m, struct kept *k, size_t word, uint64_t by)
{
	m->total[word] += by;
	if (word >= SUM_OPS)
		k->sums.own[word - SUM_OPS] += by;
}

/* False: out of memory, and nothing has grown. */
static bool
take(struct metrics *m, struct kept *k, const struct world_recorder *r)
{
	uint64_t now[SUM_WORDS], by[SUM_WORDS];
	bool shrunk;

	add_up(r, now);
	shrunk = has_shrunk(k, now);
	/* A ring could not be read this time. */
	if (shrunk && r->header.incarnation == k->incarnation)
		return true;
	memcpy(by, now, sizeof by);
	for (size_t i = 0; i < k->n && !shrunk; i++)
		by[k->last[i].at] -= k->last[i].value;
	if (!remember(k, now))
		return false;
	k->incarnation = r->header.incarnation;
	for (size_t i = 0; i < SUM_WORDS; i++)
		if (by[i])
			grow(m, k, i, by[i]);
	return true;
}

enum rc
sums_take(struct metrics *m, const struct world *w, struct err *err)
{
	bool good = true;

	for (size_t i = 0; i < m->n; i++)
		m->kept[i].here = false;
	for (size_t i = 0; i < w->ndevices; i++) {
		const struct world_device *d = &w->device[i];
		struct kept *k;

		if (!d->recorder || !d->meta->deviceid)
			continue;
		k = keep(m, d->meta->deviceid->value);
		if (k)
			k->here = true;
		good = k && take(m, k, d->recorder) && good;
	}
	forget_gone(m);
	return good ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

/* ---- results */

uint64_t
sums_total(const struct metrics *m, size_t word)
{
	return m->total[word];
}

struct sums_op
sums_op(const struct metrics *m, unsigned coll, unsigned class)
{
	struct sums_op s;

	_Static_assert(sizeof s == sizeof(struct flight_count), "the same words");
	memcpy(&s,
	       &m->total[SUM_OF(op[0][0]) +
			 (coll * FLIGHT_CLASSES + class) * (sizeof s / sizeof(uint64_t))],
	       sizeof s);
	return s;
}

const struct sums_device *
sums_device(const struct metrics *m, uint64_t id)
{
	size_t i = place(m, id);

	return i < m->n && m->kept[i].sums.id == id ? &m->kept[i].sums : NULL;
}
