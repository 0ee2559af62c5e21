/*
 * Design notes. The vectors are taken in blocks that stay in the first-level cache: all sources of
 * a block are folded, up to REDUCE_FOLD_MAX at a time, the last fold writes the block's result, and
 * from there it is copied to the other destinations. A block's destinations are written after its
 * sources were read, so a destination may be any source. Only short floats, which are folded in f32, and
 * unfinished folds need a buffer. Past the caches a result is staged, but for sums, which go from registers
 * to all destinations: reading and storing overlap better.
 *
 * The canonical tree is walked for each block. A partial result has a room of its own, and there are as many
 * rooms as levels: the right half begins when the left one is done.
 */
#include "mem/reduce_many.h"

#include <stdbool.h>
#include <string.h>

#include "mem/dtype.h"
#include "mem/redop.h"
#include "mem/reduce_isa.h"

#define BLOCK_BYTES 2048
#define BLOCK_HALF  (BLOCK_BYTES / 2) /* elements of floats shorter than f32 */
#define ALIAS_MAX   64		      /* sources among which a destination is looked for */
#define TREE_ROOMS  20 /* one per level of REDUCE_TREE_MAX sources, and four leaves */
#define SUM_MAX	    8  /* vectors on each side of a sum that goes past the caches */

struct many {
	const struct reduce_isa *isa;
	enum gpusim_dtype t;
	enum gpusim_redop redop;
	void *const *dst;
	const void *const *src;
	unsigned ndst, nsrc;
	bool stream, mean, tree;
	size_t size; /* bytes of an element */
};

/* Not 4096 bytes apart: a load would wait for a store that differs only in higher address bits. */
struct room {
	_Alignas(64) float wide[BLOCK_HALF + 144];
};
_Static_assert(sizeof(struct room) >= BLOCK_BYTES, "a block of f64 fits too");

static const void *
src_at(const struct many *m, unsigned k, size_t off)
{
	return (const unsigned char *)m->src[k] + off;
}

static void *
dst_at(const struct many *m, unsigned j, size_t off)
{
	return (unsigned char *)m->dst[j] + off;
}

/* Widen short floats to f32. */
static const void *
leaf(const struct many *m, unsigned k, size_t off, size_t n, struct room *room)
{
	if (!dtype_is_half(m->t))
		return src_at(m, k, off);
	m->isa->widen(m->t, room->wide, src_at(m, k, off), n);
	return room->wide;
}

/* Narrow from f32. Min and max return one of the elements, so an infinity of f8e5m2, the upper byte of a
 * binary16, is then not an overflow. */
static void
narrow(const struct many *m, void *dst, const float *src, size_t n)
{
	unsigned char *element = dst;

	if (m->t != GPUSIM_F8E5M2 || redop_widening(m->redop, m->t) > 1)
		m->isa->narrow(m->t, dst, src, n);
	else
		for (size_t i = 0; i < n; i++)
			element[i] = (unsigned char)(f16_from_f32(src[i]) >> 8);
}

/* The largest power of two below n, which is at least 2. */
static unsigned
left_half(unsigned n)
{
	return 1u << (31 - __builtin_clz(n - 1));
}

/* Reduce sources [lo, lo + k) of a block by the canonical tree; return the result, which may be a source. */
static const void *
fold_tree(const struct many *m, unsigned lo, unsigned k, size_t off, size_t n, struct room *room)
{
	enum gpusim_dtype t = dtype_is_half(m->t) ? GPUSIM_F32 : m->t;
	const void *half[REDUCE_FOLD_MAX];
	unsigned left;

	if (k == 1)
		return leaf(m, lo, off, n, room);
	if (k == REDUCE_FOLD_MAX) {
		for (unsigned i = 0; i < k; i++)
			half[i] = leaf(m, lo + i, off, n, room + i);
		m->isa->fold_pairs[t][m->redop](room, half, n);
		return room;
	}
	left = left_half(k);
	half[0] = fold_tree(m, lo, left, off, n, room);
	half[1] = fold_tree(m, lo + left, k - left, off, n, room + 1);
	m->isa->fold[t][m->redop](room, half, 2, n);
	return room;
}

/* Reduce n elements by the canonical tree into out, which may be a destination. */
static void
tree_block(const struct many *m, void *out, size_t off, size_t n)
{
	enum gpusim_dtype t = dtype_is_half(m->t) ? GPUSIM_F32 : m->t;
	const void *part[REDUCE_FOLD_MAX];
	struct room room[TREE_ROOMS];
	void *sum = dtype_is_half(m->t) ? room : out;
	unsigned k = m->nsrc, left = left_half(k);

	if (k <= REDUCE_FOLD_MAX) {
		for (unsigned i = 0; i < k; i++)
			part[i] = leaf(m, i, off, n, room + i);
	} else {
		part[0] = fold_tree(m, 0, left, off, n, room);
		part[1] = fold_tree(m, left, k - left, off, n, room + 1);
	}
	m->isa->fold_last[t][m->redop](sum, part, k <= REDUCE_FOLD_MAX ? k : 2, n);
	if (m->mean)
		m->isa->divide(t, sum, n, k);
	if (sum != out)
		narrow(m, out, sum, n);
}

/* Reduce n elements, off bytes on, into out, which may be a destination. */
static void
fold_block(const struct many *m, void *out, size_t off, size_t n)
{
	_Alignas(64) unsigned char acc[BLOCK_BYTES];
	const void *group[REDUCE_FOLD_MAX];
	unsigned taken = 0, g = 0;
	bool last;

	do {
		while (g < REDUCE_FOLD_MAX && taken < m->nsrc)
			group[g++] = src_at(m, taken++, off);
		last = taken == m->nsrc;
		m->isa->fold[m->t][m->redop](last ? out : acc, group, g, n);
		group[0] = acc;
		g = 1;
	} while (!last);
	if (m->mean)
		m->isa->divide(m->t, out, n, m->nsrc);
}

static void
fold_half_block(const struct many *m, void *out, size_t off, size_t n)
{
	/* Not 4096 bytes apart: a load would wait for a store that differs only in higher address bits. */
	_Alignas(64) float wide[REDUCE_FOLD_MAX][BLOCK_HALF + 144];
	const void *group[REDUCE_FOLD_MAX] = {wide[0], wide[1], wide[2], wide[3]};
	unsigned taken = 0, g = 0;

	while (taken < m->nsrc) {
		while (g < REDUCE_FOLD_MAX && taken < m->nsrc)
			m->isa->widen(m->t, wide[g++], src_at(m, taken++, off), n);
		m->isa->fold[GPUSIM_F32][m->redop](wide[0], group, g, n);
		g = 1;
	}
	if (m->mean)
		m->isa->divide(GPUSIM_F32, wide[0], n, m->nsrc);
	narrow(m, out, wide[0], n);
}

/* A destination that was just read is in the cache, so storing past it gains nothing. */
static bool
is_source(const struct many *m, const void *dst)
{
	unsigned k;

	for (k = 0; k < m->nsrc && k < ALIAS_MAX; k++) {
		if (m->src[k] == dst)
			return true;
	}
	return false;
}

static void
put_block(const struct many *m, unsigned j, size_t off, const void *block, size_t nbytes)
{
	if (m->stream && !is_source(m, m->dst[j]))
		m->isa->stream(dst_at(m, j, off), block, nbytes);
	else
		memcpy(dst_at(m, j, off), block, nbytes);
}

static void
reduce_block(const struct many *m, size_t off, size_t n)
{
	_Alignas(64) unsigned char staged[BLOCK_BYTES];
	void *out = m->stream ? staged : dst_at(m, 0, off);
	unsigned j;

	if (m->tree)
		tree_block(m, out, off, n);
	else if (dtype_is_half(m->t))
		fold_half_block(m, out, off, n);
	else
		fold_block(m, out, off, n);
	for (j = m->stream ? 0 : 1; j < m->ndst; j++)
		put_block(m, j, off, out, n * m->size);
}

/* One source, which folds to itself. */
static void
copy_block(const struct many *m, size_t off, size_t n)
{
	const void *from = src_at(m, 0, off);
	unsigned j;

	for (j = 0; j < m->ndst; j++) {
		if (m->dst[j] != m->src[0])
			put_block(m, j, off, from, n * m->size);
	}
}

/* One source, or few for one destination, need no staging. */
static bool
is_straight(const struct many *m)
{
	return m->nsrc <= REDUCE_FOLD_MAX && m->ndst == 1 && !m->stream && !m->mean &&
	       !dtype_is_half(m->t);
}

/* Elements [i, end), in blocks. */
static void
reduce_range(const struct many *m, size_t i, size_t end)
{
	size_t block = dtype_is_half(m->t) ? BLOCK_HALF : BLOCK_BYTES / m->size, n;

	if (is_straight(m))
		block = end - i;
	for (; i < end; i += n) {
		n = end - i < block ? end - i : block;
		if (m->nsrc == 1)
			copy_block(m, i * m->size, n);
		else
			reduce_block(m, i * m->size, n);
	}
}

/* Return true if storing past the caches pays. */
static bool
wants_stream(const struct many *m, unsigned flags)
{
	unsigned j;

	for (j = 0; j < m->ndst && (flags & REDUCE_STREAM); j++) {
		if (!is_source(m, m->dst[j]))
			return true;
	}
	return false;
}

/* A sum that no destination is a source of, all destinations equally far from a line's begin. */
static bool
is_stream_sum(const struct many *m, size_t head)
{
	bool is_float = m->t == GPUSIM_F32 || m->t == GPUSIM_F64;
	unsigned j;

	if (!m->stream || !m->isa->stream_sum || dtype_is_half(m->t) || head % m->size != 0 ||
	    !(m->redop == GPUSIM_SUM || (m->mean && is_float)) || m->nsrc > SUM_MAX ||
	    m->ndst > SUM_MAX)
		return false;
	for (j = 0; j < m->ndst; j++) {
		if (-(uintptr_t)m->dst[j] % REDUCE_LINE != head || is_source(m, m->dst[j]))
			return false;
	}
	return true;
}

void
reduce_many_on(const struct reduce_isa *isa, enum gpusim_dtype t, enum gpusim_redop redop,
	       void *const dst[], unsigned ndst, const void *const src[], unsigned nsrc,
	       size_t nelem, unsigned flags)
{
	struct many m = {
	    .isa = isa, .t = t, .redop = redop, .dst = dst, .src = src, .ndst = ndst, .nsrc = nsrc};
	size_t head, first, lines = 0;

	if (!redop_takes(redop, t) || !ndst || !nsrc)
		return;
	m.size = dtype_size(t);
	m.mean = redops[redop].mean && !(flags & REDUCE_PARTIAL);
	m.tree = (flags & REDUCE_CANONICAL) && dtype_is_float(t) && nsrc > 1;
	m.stream = wants_stream(&m, flags);
	/* The rest begins with a line of the first destination. */
	head = -(uintptr_t)dst[0] % REDUCE_LINE;
	first = m.stream && head / m.size < nelem ? head / m.size : 0;
	reduce_range(&m, 0, first);
	if (is_stream_sum(&m, head)) {
		lines = (nelem - first) * m.size / REDUCE_LINE;
		(m.tree ? isa->stream_tree : isa->stream_sum)(t, m.mean, dst, ndst, src, nsrc,
							      first * m.size, lines * REDUCE_LINE);
	}
	reduce_range(&m, first + lines * (REDUCE_LINE / m.size), nelem);
	if (m.stream)
		reduce_isa_fence();
}

void
reduce_many(enum gpusim_dtype t, enum gpusim_redop redop, void *const dst[], unsigned ndst,
	    const void *const src[], unsigned nsrc, size_t nelem, unsigned flags)
{
	reduce_many_on(reduce_isa_at(0), t, redop, dst, ndst, src, nsrc, nelem, flags);
}
