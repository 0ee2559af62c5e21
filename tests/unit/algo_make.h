/*
 * algo_make.h - algorithms for tests, by transfers: each is done before the next one begins.
 *
 * Every rank has one order of steps: each depends on the one before it, so there are no races and
 * no deadlock. A block for each connection.
 */
#ifndef ALGO_MAKE_H
#define ALGO_MAKE_H

#include <string.h>

#include "algo/algo.h"
#include "tap.h"

/* The last step of each rank. */
struct make {
	struct algo *a;
	uint32_t *block, *step;
};

struct place {
	uint32_t rank, buf, at;
};

static inline struct make
make_new(enum gpusim_coll coll, uint32_t nranks, uint32_t nchunks, bool in_place)
{
	struct make m = {.a = algo_new(nranks)};

	m.block = calloc(nranks, sizeof *m.block);
	m.step = calloc(nranks, sizeof *m.step);
	if (!m.a || !m.block || !m.step)
		tap_bail("out of memory");
	snprintf(m.a->name, sizeof m.a->name, "made");
	m.a->coll = coll;
	m.a->nchunks = nchunks;
	m.a->nchannels = 1;
	m.a->in_place = in_place;
	m.a->out_of_place = !in_place;
	for (uint32_t r = 0; r < nranks; r++) {
		uint32_t *n = m.a->rank[r].chunks;

		n[ALGO_IN] = n[ALGO_OUT] = nchunks;
		if (!in_place && coll == GPUSIM_ALLGATHER)
			n[ALGO_IN] = nchunks / nranks;
		if (!in_place && coll == GPUSIM_REDUCESCATTER)
			n[ALGO_OUT] = nchunks / nranks;
		m.block[r] = ALGO_NONE;
	}
	return m;
}

/* The algorithm, which is the caller's. */
static inline struct algo *
make_done(struct make *m)
{
	free(m->block);
	free(m->step);
	return m->a;
}

static inline void
make_scratch(struct make *m, uint32_t nchunks)
{
	for (uint32_t r = 0; r < m->a->nranks; r++)
		m->a->rank[r].chunks[ALGO_SCRATCH] = nchunks;
}

/* The block of a rank with that peer to send to, or to receive from; both NONE: the local one. */
static inline uint32_t
make_block(struct make *m, uint32_t rank, uint32_t send, uint32_t recv)
{
	struct algo_rank *r = &m->a->rank[rank];

	for (uint32_t b = 0; b < r->nblock; b++)
		if (r->block[b].send == send && r->block[b].recv == recv)
			return b;
	if (!algo_add_block(r, send, recv, 0))
		tap_bail("out of memory");
	return (uint32_t)r->nblock - 1;
}

/* Append to the rank's order. */
static inline void
make_step(struct make *m, uint32_t rank, uint32_t block, struct algo_step s)
{
	struct algo_block *b = &m->a->rank[rank].block[block];

	s.dep_block = s.dep_step = ALGO_NONE;
	if (m->block[rank] != ALGO_NONE && m->block[rank] != block) {
		s.dep_block = m->block[rank];
		s.dep_step = m->step[rank];
	}
	m->block[rank] = block;
	m->step[rank] = (uint32_t)b->nstep;
	if (!algo_add_step(b, s))
		tap_bail("out of memory");
}

static inline void
make_move(struct make *m, struct place from, struct place to, uint32_t count, bool reduce)
{
	struct algo_step s = {.src = (uint8_t)from.buf,
			      .src_at = from.at,
			      .dst = (uint8_t)to.buf,
			      .dst_at = to.at,
			      .count = count};

	if (from.rank == to.rank) {
		s.kind = reduce ? ALGO_REDUCE : ALGO_COPY;
		make_step(m, from.rank, make_block(m, from.rank, ALGO_NONE, ALGO_NONE), s);
		return;
	}
	s.kind = ALGO_SEND;
	make_step(m, from.rank, make_block(m, from.rank, to.rank, ALGO_NONE), s);
	s.kind = reduce ? ALGO_RRC : ALGO_RECV;
	s.src = s.dst;
	s.src_at = s.dst_at;
	make_step(m, to.rank, make_block(m, to.rank, ALGO_NONE, from.rank), s);
}

static inline void
make_copy(struct make *m, struct place from, struct place to, uint32_t count)
{
	make_move(m, from, to, count, false);
}

static inline void
make_reduce(struct make *m, struct place from, struct place to, uint32_t count)
{
	make_move(m, from, to, count, true);
}

#define IN(r, i)      ((struct place){(r), ALGO_IN, (i)})
#define OUT(r, i)     ((struct place){(r), ALGO_OUT, (i)})
#define SCRATCH(r, i) ((struct place){(r), ALGO_SCRATCH, (i)})

/* ---- algorithms */

static inline struct algo *
make_allreduce_ring(uint32_t n)
{
	struct make m = make_new(GPUSIM_ALLREDUCE, n, n, true);

	for (uint32_t step = 0; step < 2 * (n - 1); step++)
		for (uint32_t c = 0; c < n; c++) {
			uint32_t from = (c + step) % n, to = (from + 1) % n;

			make_move(&m, OUT(from, c), OUT(to, c), 1, step < n - 1);
		}
	return make_done(&m);
}

/* As in NCCL: one block a rank, which sends before it receives. */
static inline struct algo *
make_ring_of_blocks(uint32_t n)
{
	struct make m = make_new(GPUSIM_ALLREDUCE, n, n, true);

	for (uint32_t r = 0; r < n; r++) {
		uint32_t b = make_block(&m, r, (r + 1) % n, (r + n - 1) % n);

		for (uint32_t k = 0; k < 2 * n - 1; k++) {
			uint8_t kind = k == 0	       ? ALGO_SEND
				       : k < n	       ? ALGO_RRCS
				       : k < 2 * n - 2 ? ALGO_RCS
						       : ALGO_RECV;
			uint32_t c = (r + 2 * n - k) % n;

			make_step(&m, r, b,
				  (struct algo_step){.kind = kind,
						     .src = ALGO_IN,
						     .dst = ALGO_IN,
						     .src_at = c,
						     .dst_at = c,
						     .count = 1});
		}
	}
	return make_done(&m);
}

/* Each rank sends each other rank a part, reduces its own in scratch, and sends it to all. */
static inline struct algo *
make_allreduce_allpairs(uint32_t n)
{
	struct make m = make_new(GPUSIM_ALLREDUCE, n, n, true);

	make_scratch(&m, n);
	for (uint32_t r = 0; r < n; r++)
		for (uint32_t q = 0; q < n; q++)
			if (q != r)
				make_copy(&m, IN(q, r), SCRATCH(r, q), 1);
	for (uint32_t r = 0; r < n; r++) {
		for (uint32_t q = 0; q < n; q++)
			if (q != r)
				make_reduce(&m, SCRATCH(r, q), OUT(r, r), 1);
		for (uint32_t q = 0; q < n; q++)
			if (q != r)
				make_copy(&m, OUT(r, r), OUT(q, r), 1);
	}
	return make_done(&m);
}

/* Hosts of h ranks: reduce-scatter inside, all-reduce of each part over hosts by a chain, allgather
 * inside. */
static inline struct algo *
make_allreduce_hierarchical(uint32_t hosts, uint32_t h)
{
	struct make m = make_new(GPUSIM_ALLREDUCE, hosts * h, h, true);

	for (uint32_t host = 0; host < hosts; host++)
		for (uint32_t c = 0; c < h; c++)
			for (uint32_t q = 1; q < h; q++)
				make_reduce(&m, OUT(host * h + (c + q) % h, c),
					    OUT(host * h + c, c), 1);
	for (uint32_t c = 0; c < h; c++) {
		for (uint32_t host = 1; host < hosts; host++)
			make_reduce(&m, OUT((host - 1) * h + c, c), OUT(host * h + c, c), 1);
		for (uint32_t host = hosts - 1; host > 0; host--)
			make_copy(&m, OUT(host * h + c, c), OUT((host - 1) * h + c, c), 1);
	}
	for (uint32_t host = 0; host < hosts; host++)
		for (uint32_t c = 0; c < h; c++)
			for (uint32_t q = 1; q < h; q++)
				make_copy(&m, OUT(host * h + c, c), OUT(host * h + (c + q) % h, c),
					  1);
	return make_done(&m);
}

/* Up and down a binary tree of ranks r > (r - 1) / 2, in `nchunks` chunks. */
static inline struct algo *
make_tree(enum gpusim_coll coll, uint32_t n, uint32_t nchunks)
{
	struct make m = make_new(coll, n, nchunks, true);

	for (uint32_t r = n - 1; coll != GPUSIM_BROADCAST && r > 0; r--)
		make_reduce(&m, OUT(r, 0), OUT((r - 1) / 2, 0), nchunks);
	for (uint32_t r = 1; coll != GPUSIM_REDUCE && r < n; r++)
		make_copy(&m, OUT((r - 1) / 2, 0), OUT(r, 0), nchunks);
	return make_done(&m);
}

/* Two steps: to the rank with the peer's number on the own host, then across hosts, all chunks of a
 * host in one message. */
static inline struct algo *
make_alltoall_two_step(uint32_t hosts, uint32_t h)
{
	uint32_t n = hosts * h;
	struct make m = make_new(GPUSIM_ALLTOALL, n, n, false);

	make_scratch(&m, n);
	for (uint32_t r = 0; r < n; r++)
		for (uint32_t q = 0; q < n; q++)
			make_copy(&m, IN(r, q), SCRATCH(r / h * h + q % h, q / h * h + r % h), 1);
	for (uint32_t r = 0; r < n; r++)
		for (uint32_t host = 0; host < hosts; host++)
			make_copy(&m, SCRATCH(r, host * h), OUT(host * h + r % h, r / h * h), h);
	return make_done(&m);
}

static inline struct algo *
make_reducescatter_direct(uint32_t n, uint32_t per, bool in_place)
{
	struct make m = make_new(GPUSIM_REDUCESCATTER, n, n * per, in_place);

	for (uint32_t r = 0; r < n; r++) {
		struct place own = in_place ? IN(r, r * per) : OUT(r, 0);

		if (!in_place)
			make_copy(&m, IN(r, r * per), own, per);
		for (uint32_t q = 0; q < n; q++)
			if (q != r)
				make_reduce(&m, IN(q, r * per), own, per);
	}
	return make_done(&m);
}

/* n is a power of two. */
static inline struct algo *
make_allgather_doubling(uint32_t n, bool in_place)
{
	struct make m = make_new(GPUSIM_ALLGATHER, n, n, in_place);

	for (uint32_t r = 0; !in_place && r < n; r++)
		make_copy(&m, IN(r, 0), OUT(r, r), 1);
	for (uint32_t d = 1; d < n; d *= 2)
		for (uint32_t r = 0; r < n; r++)
			make_copy(&m, OUT(r, r / d * d), OUT(r ^ d, r / d * d), d);
	return make_done(&m);
}

#endif
