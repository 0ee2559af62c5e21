/*
 * value.c - reference-counted sets of ranks with a chunk.
 *
 * An entry is [count of holders | next free][state << 48 | rank << 32 | chunk][set of ranks]. Of a mixed one
 * the set's first word has the other contribution. Single contributions, which inputs are, need no entry.
 */
#include "algo/value.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define ONE	  (1ull << 63)
#define MAX_BYTES (256ull << 20)

void
values_init(struct values *v, uint32_t nranks)
{
	*v = (struct values){.nranks = nranks, .words = (nranks + 63) / 64, .nentry = 1};
	v->stride = 2 + v->words;
}

void
values_fini(struct values *v)
{
	free(v->entry);
	*v = (struct values){0};
}

value
value_one(uint32_t rank, uint32_t chunk)
{
	return ONE | (uint64_t)rank << 32 | chunk;
}

static bool
is_entry(value x)
{
	return x != VALUE_NONE && !(x & ONE);
}

static uint64_t *
entry_of(const struct values *v, value x)
{
	return v->entry + x * v->stride;
}

value
value_keep(struct values *v, value x)
{
	if (is_entry(x))
		entry_of(v, x)[0]++;
	return x;
}

void
value_drop(struct values *v, value x)
{
	if (!is_entry(x) || --entry_of(v, x)[0])
		return;
	entry_of(v, x)[0] = v->free;
	v->free = (uint32_t)x;
}

static bool
grow(struct values *v)
{
	uint32_t cap = v->cap ? 2 * v->cap : 256;
	uint64_t *entry = NULL;

	if ((uint64_t)cap * v->stride * sizeof *entry <= MAX_BYTES)
		entry = alloc_resize(v->entry, cap, v->stride * sizeof *entry);
	if (!entry) {
		v->full = true;
		return false;
	}
	v->entry = entry;
	v->cap = cap;
	return true;
}

/* A new entry with one holder; VALUE_NONE: no room. */
static value
new_entry(struct values *v)
{
	value x = v->free;

	if (x) {
		v->free = (uint32_t)entry_of(v, x)[0];
	} else {
		if (v->nentry >= v->cap && !grow(v))
			return VALUE_NONE;
		x = v->nentry++;
	}
	memset(entry_of(v, x), 0, v->stride * sizeof(uint64_t));
	entry_of(v, x)[0] = 1;
	return x;
}

struct value_what
value_what(const struct values *v, value x)
{
	struct value_what w = {.rank = (uint32_t)(x >> 32) & 0xffff, .chunk = (uint32_t)x};
	const uint64_t *e;

	if (!is_entry(x))
		return w;
	e = entry_of(v, x);
	w = (struct value_what){.state = (enum value_state)(e[1] >> 48),
				.rank = (uint32_t)(e[1] >> 32) & 0xffff,
				.chunk = (uint32_t)e[1],
				.other_rank = (uint32_t)(e[2] >> 32),
				.other_chunk = (uint32_t)e[2]};
	for (uint32_t i = 0; w.state == VALUE_GOOD && i < v->words; i++)
		if (e[2 + i]) {
			w.rank = 64 * i + (uint32_t)__builtin_ctzll(e[2 + i]);
			break;
		}
	return w;
}

/* Word i of the set of ranks. */
static uint64_t
word_of(const struct values *v, value x, uint32_t i)
{
	uint32_t rank = (uint32_t)(x >> 32) & 0xffff;

	if (is_entry(x))
		return entry_of(v, x)[2 + i];
	return rank / 64 == i ? 1ull << rank % 64 : 0;
}

static value
spoilt(struct values *v, enum value_state state, struct value_what a, struct value_what b)
{
	value x = new_entry(v);

	if (x) {
		entry_of(v, x)[1] = (uint64_t)state << 48 | (uint64_t)a.rank << 32 | a.chunk;
		entry_of(v, x)[2] = (uint64_t)b.rank << 32 | b.chunk;
	}
	return x;
}

value
value_sum(struct values *v, value x, value y)
{
	struct value_what a = value_what(v, x), b = value_what(v, y);
	value sum;

	if (a.state != VALUE_GOOD || b.state != VALUE_GOOD)
		return value_keep(v, a.state != VALUE_GOOD ? x : y);
	if (a.chunk != b.chunk)
		return spoilt(v, VALUE_MIXED, a, b);
	for (uint32_t i = 0; i < v->words; i++) {
		uint64_t both = word_of(v, x, i) & word_of(v, y, i);

		if (both) {
			a.rank = 64 * i + (uint32_t)__builtin_ctzll(both);
			return spoilt(v, VALUE_TWICE, a, a);
		}
	}
	sum = new_entry(v);
	if (!sum)
		return VALUE_NONE;
	entry_of(v, sum)[1] = a.chunk;
	for (uint32_t i = 0; i < v->words; i++)
		entry_of(v, sum)[2 + i] = word_of(v, x, i) | word_of(v, y, i);
	return sum;
}

/* The first rank, except `but`, whose membership equals `want`. */
static uint32_t
first_rank(const struct values *v, value x, bool want, uint32_t but)
{
	for (uint32_t i = 0; i < v->words; i++) {
		uint64_t w = want ? word_of(v, x, i) : ~word_of(v, x, i);
		uint32_t rank;

		if (but / 64 == i)
			w &= ~(1ull << but % 64);
		rank = w ? 64 * i + (uint32_t)__builtin_ctzll(w) : v->nranks;
		if (rank < v->nranks)
			return rank;
	}
	return v->nranks;
}

uint32_t
value_lacks(const struct values *v, value x)
{
	return first_rank(v, x, false, UINT32_MAX);
}

uint32_t
value_has_beside(const struct values *v, value x, uint32_t but)
{
	return first_rank(v, x, true, but);
}
