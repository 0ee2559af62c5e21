#include "algo/algo.h"

#include <stdlib.h>
#include <string.h>

struct making {
	const struct algo *a;
	uint64_t chunk;
	uint32_t blocks;
	struct plan *plans;
	size_t nstep;
};

static void
put(struct making *m, uint32_t at, enum plan_step_kind kind, uint32_t peer, uint64_t count)
{
	(void)plan_append(&m->plans[at], (struct plan_step){.kind = (uint8_t)kind,
							    .peer = kind == STEP_COPY ? 0 : peer,
							    .count = count});
	m->nstep++;
}

/* The block of `to` that receives from `from` over a channel; or the block of `from` that sends. */
static uint32_t
other_end(const struct making *m, uint32_t rank, uint32_t peer, uint32_t channel, bool receives)
{
	const struct algo_rank *r = &m->a->rank[rank];
	uint32_t b = 0;

	while (b + 1 < r->nblock && ((receives ? r->block[b].recv : r->block[b].send) != peer ||
				     r->block[b].channel != channel))
		b++;
	return rank * m->blocks + b;
}

/* One rank's dependencies. Steps are numbered block by block. */
struct waits {
	uint32_t *base; /* by block: its first step */
	uint32_t *first,
	    *next; /* by step: a step that waits for it, and the next that does; + 1, 0: none */
	uint32_t *block; /* by step: the block that it is of */
	bool *anew;	 /* by step: its wait is not implied by an earlier step of its block */
	uint32_t *most;	 /* by block, for the current one: the last step waited for, + 1 */
};

static void
waits_fini(struct waits *w)
{
	free(w->base);
	free(w->first);
	free(w->next);
	free(w->block);
	free(w->anew);
	free(w->most);
}

static bool
waits_make(const struct algo_rank *r, struct waits *w)
{
	uint32_t n = 0;

	w->base = alloc_zeroed(r->nblock + 1, sizeof *w->base);
	w->most = alloc_zeroed(r->nblock + 1, sizeof *w->most);
	for (uint32_t b = 0; w->base && b < r->nblock; b++) {
		w->base[b] = n;
		n += (uint32_t)r->block[b].nstep;
	}
	w->first = alloc_zeroed((size_t)n + 1, sizeof *w->first);
	w->next = alloc_zeroed((size_t)n + 1, sizeof *w->next);
	w->block = alloc_zeroed((size_t)n + 1, sizeof *w->block);
	w->anew = alloc_zeroed((size_t)n + 1, sizeof *w->anew);
	return w->base && w->most && w->first && w->next && w->block && w->anew;
}

static void
find_waits(const struct algo_rank *r, struct waits *w)
{
	for (uint32_t b = 0; b < r->nblock; b++) {
		memset(w->most, 0, r->nblock * sizeof *w->most);
		for (uint32_t i = 0; i < r->block[b].nstep; i++) {
			const struct algo_step *s = &r->block[b].step[i];
			uint32_t me = w->base[b] + i, it;

			w->block[me] = b;
			if (s->dep_block == ALGO_NONE || s->dep_block == b ||
			    w->most[s->dep_block] > s->dep_step)
				continue;
			w->most[s->dep_block] = s->dep_step + 1;
			it = w->base[s->dep_block] + s->dep_step;
			w->anew[me] = true;
			w->next[me] = w->first[it];
			w->first[it] = me + 1;
		}
	}
}

static void
add_block(struct making *m, uint32_t rank, uint32_t block, const struct waits *w)
{
	const struct algo_block *b = &m->a->rank[rank].block[block];
	uint32_t first = rank * m->blocks, at = first + block,
		 from = b->recv == ALGO_NONE ? 0 : other_end(m, b->recv, rank, b->channel, false),
		 to = b->send == ALGO_NONE ? 0 : other_end(m, b->send, rank, b->channel, true);

	for (uint32_t i = 0; i < b->nstep && m->nstep <= BLOCKS_MAX_STEPS; i++) {
		const struct algo_step *s = &b->step[i];
		uint64_t count = s->count * m->chunk;
		bool reduces = s->kind == ALGO_RRC || s->kind == ALGO_RRS || s->kind == ALGO_RRCS;

		if (w->anew[w->base[block] + i])
			put(m, at, STEP_RECV, first + s->dep_block, 0);
		if (algo_kind_recvs(s->kind))
			put(m, at, reduces ? STEP_RECV_REDUCE : STEP_RECV, from, count);
		if (algo_kind_sends(s->kind))
			put(m, at, STEP_SEND, to, count);
		if (s->kind == ALGO_COPY || s->kind == ALGO_REDUCE)
			put(m, at, STEP_COPY, 0, count);
		for (uint32_t k = w->first[w->base[block] + i]; k; k = w->next[k - 1])
			put(m, at, STEP_SEND, first + w->block[k - 1], 0);
	}
}

static enum rc
add_rank(struct making *m, uint32_t rank, struct err *err)
{
	const struct algo_rank *r = &m->a->rank[rank];
	struct waits w = {0};
	enum rc rc = RC_OK;

	if (waits_make(r, &w)) {
		find_waits(r, &w);
		for (uint32_t b = 0; b < r->nblock; b++)
			add_block(m, rank, b, &w);
	} else {
		rc = err_set(err, RC_NOMEM, "out of memory");
	}
	waits_fini(&w);
	return rc;
}

enum rc
algo_blocks(const struct algo *a, uint64_t chunk, struct plan **plans, uint32_t *blocks,
	    struct err *err)
{
	struct making m = {.a = a, .chunk = chunk, .blocks = 1};
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < a->nranks; r++)
		if (a->rank[r].nblock > m.blocks)
			m.blocks = (uint32_t)a->rank[r].nblock;
	m.plans = alloc_zeroed((size_t)a->nranks * m.blocks, sizeof *m.plans);
	if (!m.plans)
		return err_set(err, RC_NOMEM, "out of memory");
	for (uint32_t r = 0; r < a->nranks && rc == RC_OK; r++)
		rc = add_rank(&m, r, err);
	for (uint32_t i = 0; i < a->nranks * m.blocks && rc == RC_OK; i++)
		rc = m.plans[i].rc ? err_set(err, m.plans[i].rc, "out of memory") : RC_OK;
	if (rc == RC_OK && m.nstep > BLOCKS_MAX_STEPS)
		rc = err_set(err, RC_INVAL, "more than %u steps to simulate", BLOCKS_MAX_STEPS);
	if (rc != RC_OK) {
		plan_free_all(m.plans, a->nranks * m.blocks);
		return rc;
	}
	*plans = m.plans;
	*blocks = m.blocks;
	return RC_OK;
}
