#include "algo/algo.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* Properties of a kind; one row each. */
static const struct {
	const char *name;
	bool sends, recvs, reads, writes;
} kinds[ALGO_NKINDS] = {
    [ALGO_NOP] = {"nop", false, false, false, false},
    [ALGO_SEND] = {"s", true, false, true, false},
    [ALGO_RECV] = {"r", false, true, false, true},
    [ALGO_RCS] = {"rcs", true, true, false, true},
    [ALGO_RRC] = {"rrc", false, true, true, true},
    [ALGO_RRS] = {"rrs", true, true, true, false},
    [ALGO_RRCS] = {"rrcs", true, true, true, true},
    [ALGO_COPY] = {"cpy", false, false, true, true},
    [ALGO_REDUCE] = {"re", false, false, true, true},
};

static const struct {
	const char *name, *word;
} bufs[ALGO_NBUFS] = {{"i", "input"}, {"o", "output"}, {"s", "scratch"}};

const char *
algo_kind_name(unsigned kind)
{
	return kind < ALGO_NKINDS ? kinds[kind].name : "?";
}

const char *
algo_buf_name(unsigned buf)
{
	return buf < ALGO_NBUFS ? bufs[buf].name : "?";
}

const char *
algo_buf_word(unsigned buf)
{
	return buf < ALGO_NBUFS ? bufs[buf].word : "?";
}

#define KIND(does)                                             \
	bool algo_kind_##does(unsigned kind)                   \
	{                                                      \
		return kind < ALGO_NKINDS && kinds[kind].does; \
	}
KIND(sends)
KIND(recvs)
KIND(reads)
KIND(writes)

struct algo_block *
algo_add_block(struct algo_rank *rank, uint32_t send, uint32_t recv, uint32_t channel)
{
	struct algo_block *b;

	if (!alloc_room(&rank->block, rank->nblock, &rank->cap, sizeof *rank->block))
		return NULL;
	b = &rank->block[rank->nblock];
	*b = (struct algo_block){
	    .id = (uint32_t)rank->nblock, .send = send, .recv = recv, .channel = channel};
	rank->nblock++;
	return b;
}

struct algo_step *
algo_add_step(struct algo_block *block, struct algo_step step)
{
	if (!alloc_room(&block->step, block->nstep, &block->cap, sizeof *block->step))
		return NULL;
	block->step[block->nstep] = step;
	return &block->step[block->nstep++];
}

struct algo *
algo_new(uint32_t nranks)
{
	struct algo *a = alloc_zeroed(1, sizeof *a);

	if (!a)
		return NULL;
	a->nranks = nranks;
	a->rank = alloc_zeroed(nranks, sizeof *a->rank);
	if (!a->rank) {
		free(a);
		return NULL;
	}
	return a;
}

void
algo_free(struct algo *a)
{
	if (!a)
		return;
	for (uint32_t r = 0; a->rank && r < a->nranks; r++) {
		for (size_t b = 0; b < a->rank[r].nblock; b++)
			free(a->rank[r].block[b].step);
		free(a->rank[r].block);
	}
	free(a->rank);
	free(a);
}

const char *
algo_coll_name(const struct algo *a)
{
	return a->custom ? "custom" : coll_name(a->coll);
}

enum rc
algo_coll_parse(const char *word, struct algo *a, struct err *err)
{
	static const enum gpusim_coll known[] = {GPUSIM_ALLREDUCE,     GPUSIM_ALLGATHER,
						 GPUSIM_REDUCESCATTER, GPUSIM_ALLTOALL,
						 GPUSIM_BROADCAST,     GPUSIM_REDUCE};
	enum gpusim_coll coll = GPUSIM_NCOLLS;

	if (strcmp(word, "custom") == 0) {
		a->custom = true;
		return RC_OK;
	}
	coll_parse(word, &coll, NULL);
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (known[i] == coll) {
			a->coll = coll;
			return RC_OK;
		}
	return err_set(err, RC_BADDATA,
		       "unknown collective '%.40s': must be allreduce, allgather, reducescatter, "
		       "alltoall, broadcast, reduce or custom",
		       word);
}

bool
algo_name_ok(const char *name)
{
	size_t n =
	    strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return n > 0 && n < ALGO_NAME_MAX && name[n] == '\0' && !strchr("._-", name[0]);
}

uint32_t
algo_chunks(const struct algo *a, uint32_t rank, unsigned buf)
{
	const uint32_t *n = a->rank[rank].chunks;

	if (a->in_place && !a->custom && buf != ALGO_SCRATCH)
		return n[ALGO_IN] > n[ALGO_OUT] ? n[ALGO_IN] : n[ALGO_OUT];
	return n[buf];
}

/* ---- digest */

/* FNV-1a, 64 bits. */
static void
mix(uint64_t *h, uint64_t v)
{
	for (int i = 0; i < 8; i++) {
		*h ^= v >> (8 * i) & 0xff;
		*h *= 0x100000001b3u;
	}
}

static void
mix_block(uint64_t *h, const struct algo_block *b)
{
	mix(h, (uint64_t)b->send << 32 | b->recv);
	mix(h, (uint64_t)b->channel << 32 | b->nstep);
	for (size_t i = 0; i < b->nstep; i++) {
		const struct algo_step *s = &b->step[i];

		mix(h, (uint64_t)s->kind << 16 | (uint64_t)s->src << 8 | s->dst);
		mix(h, (uint64_t)s->src_at << 32 | s->dst_at);
		mix(h, (uint64_t)s->dep_block << 32 | s->dep_step);
		mix(h, s->count);
	}
}

void
algo_digest(const struct algo *a, char out[static 17])
{
	static const char digits[] = "0123456789abcdef";
	uint64_t h = 0xcbf29ce484222325u;

	mix(&h, a->custom ? UINT64_MAX : (uint64_t)a->coll);
	mix(&h, (uint64_t)a->root << 32 | a->nranks);
	mix(&h, (uint64_t)a->nchunks << 2 | (uint64_t)a->in_place << 1 | a->out_of_place);
	for (uint32_t r = 0; r < a->nranks; r++) {
		for (unsigned b = 0; b < ALGO_NBUFS; b++)
			mix(&h, algo_chunks(a, r, b));
		mix(&h, a->rank[r].nblock);
		for (size_t b = 0; b < a->rank[r].nblock; b++)
			mix_block(&h, &a->rank[r].block[b]);
	}
	for (int i = 0; i < 16; i++)
		out[i] = digits[h >> (60 - 4 * i) & 0xf];
	out[16] = '\0';
}

/* ---- limits of work */

enum rc
algo_spend(struct algo_budget *b, uint64_t work, struct err *err)
{
	if (!b)
		return RC_OK;
	if (b->stop && atomic_load_explicit(b->stop, memory_order_relaxed))
		return err_set(err, RC_ABORTED, "the proof of an algorithm was stopped");
	if (work > b->max_work - b->work) {
		b->work = b->max_work;
		return err_set(err, RC_INVAL,
			       "too much work: more than %" PRIu64
			       " units: use fewer ranks, chunks or steps",
			       b->max_work);
	}
	b->work += work;
	return RC_OK;
}

uint32_t
algo_max_steps(const struct algo_budget *b)
{
	return b ? b->max_steps : ALGO_MAX_STEPS;
}
