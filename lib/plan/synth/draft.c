#include "synth/draft.h"
#include "base/must.h"

#include <stdlib.h>

void
draft_fini(struct draft *d)
{
	free(d->move);
	*d = (struct draft){0};
}

void
draft_move(struct draft *d, uint32_t round, bool reduce, struct draft_place from,
	   struct draft_place to, uint32_t count)
{
	if (d->nmove == DRAFT_MAX_MOVES)
		d->full = true;
	if (d->full)
		return;
	must_room(&d->move, d->nmove, &d->cap, sizeof *d->move);
	d->move[d->nmove++] = (struct move){from, to, count, round, reduce};
}

void
draft_pass(struct draft *d, uint32_t round, uint32_t from, uint32_t to, uint32_t at, uint32_t count)
{
	draft_move(d, round, false, (struct draft_place){from, ALGO_OUT, at},
		   (struct draft_place){to, ALGO_OUT, at}, count);
}

uint32_t
draft_rounds(const struct draft *d)
{
	uint32_t last = 0;

	for (size_t i = 0; i < d->nmove; i++)
		if (d->move[i].round + 1 > last)
			last = d->move[i].round + 1;
	return last;
}

/* Counting sort, which keeps the order within a round. */
void
draft_sort(struct draft *d)
{
	uint32_t rounds = draft_rounds(d);
	size_t *next = must_alloc(rounds + 1ul, sizeof *next);
	struct move *sorted = must_alloc(d->cap + 1, sizeof *sorted);

	for (size_t i = 0; i < d->nmove; i++)
		next[d->move[i].round + 1]++;
	for (uint32_t r = 0; r < rounds; r++)
		next[r + 1] += next[r];
	for (size_t i = 0; i < d->nmove; i++)
		sorted[next[d->move[i].round]++] = d->move[i];
	free(d->move);
	free(next);
	d->move = sorted;
}

void
draft_turn(const struct draft *passes, struct draft *out)
{
	uint32_t last = draft_rounds(passes) - 1;

	for (size_t i = passes->nmove; i-- > 0;) {
		const struct move *m = &passes->move[i];

		draft_move(out, last - m->round, true, m->to, m->from, m->count);
	}
}

void
draft_append(const struct draft *d, uint32_t round, struct draft *out)
{
	for (size_t i = 0; i < d->nmove; i++)
		draft_move(out, round + d->move[i].round, d->move[i].reduce, d->move[i].from,
			   d->move[i].to, d->move[i].count);
}

static bool
has_parts(enum gpusim_coll coll)
{
	return coll == GPUSIM_ALLGATHER || coll == GPUSIM_REDUCESCATTER || coll == GPUSIM_ALLTOALL;
}

void
draft_slice(const struct draft *d, uint32_t k, uint32_t interval, struct draft *out)
{
	bool parts = has_parts(d->coll);

	out->nchunks = d->nchunks * k;
	out->scratch = d->scratch * k;
	for (uint32_t j = 0; j < k; j++)
		for (size_t i = 0; i < d->nmove; i++) {
			struct move m = d->move[i];
			uint32_t n = parts ? m.count : 1, count = parts ? 1 : m.count;

			for (uint32_t c = 0; c < n; c++) {
				struct draft_place from = m.from, to = m.to;
				uint32_t whole_from =
				    from.buf == ALGO_SCRATCH ? d->scratch : d->nchunks;
				uint32_t whole_to =
				    to.buf == ALGO_SCRATCH ? d->scratch : d->nchunks;

				from.at = parts ? (from.at + c) * k + j : from.at + j * whole_from;
				to.at = parts ? (to.at + c) * k + j : to.at + j * whole_to;
				draft_move(out, m.round + j * interval, m.reduce, from, to, count);
			}
		}
	draft_sort(out);
}

/* ---- plans */

/* The elements of chunks [at, at + count). Scratch has the length of the vector's chunks in turn. */
static void
range_of(const struct draft *d, uint64_t nelem, struct draft_place p, uint32_t count, uint64_t *off,
	 uint64_t *n)
{
	uint64_t end, last;

	plan_part(nelem, d->nchunks, p.at % d->nchunks, off, n);
	if (p.at % d->nchunks + count <= d->nchunks) {
		plan_part(nelem, d->nchunks, p.at % d->nchunks + count - 1, &end, &last);
		*n = end + last - *off;
	} else {
		*n *= count;
	}
}

static enum plan_buf
buf_of(struct draft_place p)
{
	return p.buf == ALGO_IN ? PLAN_IN : p.buf == ALGO_OUT ? PLAN_OUT : PLAN_TMP;
}

/* A move's step on one of its ranks, or the local one. */
static void
append_step(struct plan *plan, enum plan_step_kind kind, const struct move *m, uint32_t peer,
	    uint64_t off, uint64_t n)
{
	struct plan_step s = {.kind = (uint8_t)kind,
			      .src = (uint8_t)buf_of(kind == STEP_RECV_REDUCE ? m->to : m->from),
			      .dst = (uint8_t)buf_of(m->to),
			      .peer = peer,
			      .round = m->round,
			      .src_off = off,
			      .dst_off = off,
			      .count = n};

	plan_append(plan, s);
}

/* One round: all sends, then the receives, then local moves. */
static void
append_round(const struct draft *d, size_t first, size_t end, uint64_t nelem, struct plan *plans)
{
	uint64_t off, n;

	for (int pass = 0; pass < 3; pass++)
		for (size_t i = first; i < end; i++) {
			const struct move *m = &d->move[i];
			bool local = m->from.rank == m->to.rank;

			range_of(d, nelem, m->from, m->count, &off, &n);
			if (pass == 0 && !local)
				append_step(&plans[m->from.rank], STEP_SEND, m, m->to.rank, off, n);
			if (pass == 1 && !local)
				append_step(&plans[m->to.rank],
					    m->reduce ? STEP_RECV_REDUCE : STEP_RECV, m,
					    m->from.rank, off, n);
			if (pass == 2 && local)
				append_step(&plans[m->to.rank], m->reduce ? STEP_REDUCE : STEP_COPY,
					    m, 0, off, n);
		}
}

enum rc
draft_plans(const struct draft *d, uint64_t nelem, struct plan **out, struct err *err)
{
	struct plan *plans = must_alloc(d->nranks, sizeof *plans);
	enum rc rc = d->full ? RC_INVAL : RC_OK;

	for (size_t i = 0, end; i < d->nmove; i = end) {
		for (end = i + 1; end < d->nmove && d->move[end].round == d->move[i].round;)
			end++;
		append_round(d, i, end, nelem, plans);
	}
	for (uint32_t r = 0; r < d->nranks && !rc; r++)
		rc = plans[r].rc;
	if (rc) {
		plan_free_all(plans, d->nranks);
		return err_set(err, rc, "%s has too many steps to be timed", d->name);
	}
	*out = plans;
	return RC_OK;
}

/* ---- text */

static void
print_place(struct draft_place p, uint32_t count, struct buf *out)
{
	static const char *const name[] = {"in", "out", "scratch"};

	if (count == 1) {
		must_addf(out, "%u.%s[%u]", p.rank, name[p.buf], p.at);
		return;
	}
	must_addf(out, "%u.%s[%u:%u]", p.rank, name[p.buf], p.at, count);
}

void
draft_print(const struct draft *d, struct buf *out)
{
	uint32_t round = UINT32_MAX;

	must_addf(out, "algorithm %s\ncollective %s\nranks %u\nchunks %u\n", d->name,
		  coll_name(d->coll), d->nranks, d->nchunks);
	if (coll_has_root(d->coll))
		must_addf(out, "root %u\n", d->root);
	if (d->scratch)
		must_addf(out, "scratch %u\n", d->scratch);
	must_addf(out, "%s", d->in_place ? "inplace\noutofplace\n" : "outofplace\n");
	for (size_t i = 0; i < d->nmove; i++) {
		const struct move *m = &d->move[i];

		if (m->round != round)
			must_addf(out, "# round %u\n", round = m->round);
		must_addf(out, m->reduce ? "reduce " : "copy ");
		print_place(m->from, m->count, out);
		must_addf(out, " -> ");
		print_place(m->to, m->count, out);
		must_addf(out, "\n");
	}
}
