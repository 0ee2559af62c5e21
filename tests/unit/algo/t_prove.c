/*
 * t_prove.c - what is proven is right under random timings, and each thing that can be wrong has its
 * sentence.
 *
 * The executor here knows no graph and no sets: each contribution is a random number, sums are sums, and the
 * next step is any that can run.
 */
#include "algo/algo.h"

#include <string.h>

#include "algo_make.h"
#include "chance.h"
#include "tap.h"

/* ---- the executor */

enum verdict { RIGHT, WRONG, STUCK };

struct world {
	const struct algo *a;
	uint32_t slots;
	uint64_t **cell;  /* by rank: input, output, scratch; in place the first two are one */
	uint32_t *out_at; /* by rank: where the output begins */
	uint32_t **pc;	  /* by rank and block */
	struct link *link;
	size_t nlink;
	bool unread; /* a step read what was never written */
};

struct link {
	uint32_t from, to, channel;
	uint64_t *data; /* all messages ever sent */
	size_t ndata, cap, nread;
	size_t sent, taken;
};

#define UNWRITTEN 0xdeadbeefdeadbeefull

static uint64_t
weight(uint32_t rank, uint32_t chunk)
{
	uint64_t x = ((uint64_t)rank << 32 | chunk) + 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static uint64_t *
at(struct world *w, uint32_t r, unsigned buf, uint32_t i)
{
	uint32_t data = w->out_at[r] + algo_chunks(w->a, r, ALGO_OUT);

	return &w->cell[r][(buf == ALGO_SCRATCH ? data : buf == ALGO_OUT ? w->out_at[r] : 0) + i];
}

static struct link *
link_of(struct world *w, uint32_t from, uint32_t to, uint32_t channel)
{
	for (size_t i = 0; i < w->nlink; i++)
		if (w->link[i].from == from && w->link[i].to == to && w->link[i].channel == channel)
			return &w->link[i];
	w->link = realloc(w->link, (w->nlink + 1) * sizeof *w->link);
	w->link[w->nlink] = (struct link){from, to, channel, NULL, 0, 0, 0, 0, 0};
	return &w->link[w->nlink++];
}

static void
world_init(struct world *w, const struct algo *a, uint32_t slots)
{
	*w = (struct world){.a = a, .slots = slots};
	w->cell = calloc(a->nranks, sizeof *w->cell);
	w->out_at = calloc(a->nranks, sizeof *w->out_at);
	w->pc = calloc(a->nranks, sizeof *w->pc);
	for (uint32_t r = 0; r < a->nranks; r++) {
		uint32_t nin = algo_chunks(a, r, ALGO_IN), per = a->nchunks / a->nranks;
		uint32_t n = nin + algo_chunks(a, r, ALGO_OUT) + algo_chunks(a, r, ALGO_SCRATCH);

		w->out_at[r] = a->in_place ? 0 : nin;
		w->cell[r] = calloc(n + 1, sizeof **w->cell);
		w->pc[r] = calloc(a->rank[r].nblock + 1, sizeof **w->pc);
		for (uint32_t i = 0; i < n; i++)
			w->cell[r][i] = UNWRITTEN;
		for (uint32_t i = 0; i < a->nchunks; i++) {
			if (a->coll == GPUSIM_BROADCAST && r != a->root)
				continue;
			if (a->coll == GPUSIM_ALLGATHER && i / per != r)
				continue;
			*at(w, r, ALGO_IN,
			    a->coll == GPUSIM_ALLGATHER && !a->in_place ? i % per : i) =
			    weight(r, i);
		}
	}
	for (uint32_t r = 0; r < a->nranks; r++)
		for (size_t b = 0; b < a->rank[r].nblock; b++) {
			const struct algo_block *k = &a->rank[r].block[b];

			if (k->send != ALGO_NONE)
				link_of(w, r, k->send, k->channel);
			if (k->recv != ALGO_NONE)
				link_of(w, k->recv, r, k->channel);
		}
}

static void
world_fini(struct world *w)
{
	for (uint32_t r = 0; r < w->a->nranks; r++) {
		free(w->cell[r]);
		free(w->pc[r]);
	}
	for (size_t i = 0; i < w->nlink; i++)
		free(w->link[i].data);
	free(w->link);
	free(w->cell);
	free(w->out_at);
	free(w->pc);
}

static uint64_t
load(struct world *w, uint32_t r, unsigned buf, uint32_t i)
{
	uint64_t x = *at(w, r, buf, i);

	w->unread |= x == UNWRITTEN;
	return x;
}

static void
push(struct link *l, uint64_t x)
{
	if (l->ndata == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 16;
		l->data = realloc(l->data, l->cap * sizeof *l->data);
	}
	l->data[l->ndata++] = x;
}

/* Run the next step of a block, if it can. */
static bool
advance(struct world *w, uint32_t r, uint32_t b)
{
	const struct algo_block *k = &w->a->rank[r].block[b];
	const struct algo_step *s;
	struct link *in, *out;

	if (w->pc[r][b] == k->nstep)
		return false;
	s = &k->step[w->pc[r][b]];
	in = algo_kind_recvs(s->kind) ? link_of(w, k->recv, r, k->channel) : NULL;
	out = algo_kind_sends(s->kind) ? link_of(w, r, k->send, k->channel) : NULL;
	if ((s->dep_block != ALGO_NONE && w->pc[r][s->dep_block] <= s->dep_step) ||
	    (in && in->sent == in->taken) || (out && out->sent - out->taken >= w->slots))
		return false;
	for (uint32_t i = 0; i < s->count; i++) {
		uint64_t x = in ? in->data[in->nread++] : 0;

		if (s->kind == ALGO_REDUCE)
			x = load(w, r, s->dst, s->dst_at + i);
		if (algo_kind_reads(s->kind))
			x += load(w, r, s->src, s->src_at + i);
		if (algo_kind_writes(s->kind))
			*at(w, r, s->dst, s->dst_at + i) = x;
		if (out)
			push(out, x);
	}
	if (in)
		in->taken++;
	if (out)
		out->sent++;
	w->pc[r][b]++;
	return true;
}

static uint64_t
sum_of_all(const struct algo *a, uint32_t chunk)
{
	uint64_t x = 0;

	for (uint32_t r = 0; r < a->nranks; r++)
		x += weight(r, chunk);
	return x;
}

static bool
is_right(struct world *w, uint32_t r, uint32_t i)
{
	const struct algo *a = w->a;
	uint32_t per = a->nchunks / a->nranks;

	switch (a->coll) {
	case GPUSIM_REDUCE:
		return r != a->root || *at(w, r, ALGO_OUT, i) == sum_of_all(a, i);
	case GPUSIM_BROADCAST:
		return *at(w, r, ALGO_OUT, i) == weight(a->root, i);
	case GPUSIM_ALLGATHER:
		return *at(w, r, ALGO_OUT, i) == weight(i / per, i);
	case GPUSIM_ALLTOALL:
		return *at(w, r, ALGO_OUT, i) == weight(i / per, r * per + i % per);
	case GPUSIM_REDUCESCATTER:
		return i / per != r ||
		       *at(w, r, ALGO_OUT, a->in_place ? i : i % per) == sum_of_all(a, i);
	default:
		return *at(w, r, ALGO_OUT, i) == sum_of_all(a, i);
	}
}

/* One run, in which any block that can run may be the next. Each has a weight, so that some are far ahead of others. */
static enum verdict
run(const struct algo *a, uint32_t slots, uint64_t *chance)
{
	struct world w;
	enum verdict v = RIGHT;
	size_t idle = 0, nblock = 0, left = 0;
	uint32_t(*block)[2] = NULL;

	world_init(&w, a, slots);
	for (uint32_t r = 0; r < a->nranks; r++) {
		block = realloc(block, (nblock + a->rank[r].nblock + 1) * sizeof *block);
		for (uint32_t b = 0; b < a->rank[r].nblock; b++) {
			block[nblock][0] = r;
			block[nblock++][1] = b;
			left += a->rank[r].block[b].nstep;
		}
	}
	while (left && idle < nblock) {
		size_t i = xorshift_star(chance) % nblock;
		size_t burst = 1 + xorshift_star(chance) % 6;
		bool any = false;

		for (idle = 0; idle < nblock && !any; idle++, i = (i + 1) % nblock)
			for (size_t k = 0; k < burst && advance(&w, block[i][0], block[i][1]);
			     k++, left--)
				any = true;
		if (any)
			idle = 0;
	}
	if (left)
		v = STUCK;
	for (uint32_t r = 0; v == RIGHT && r < a->nranks; r++)
		for (uint32_t i = 0; i < a->nchunks; i++)
			if (!is_right(&w, r, i))
				v = WRONG;
	for (size_t i = 0; v == RIGHT && i < w.nlink; i++)
		if (w.link[i].sent != w.link[i].taken)
			v = WRONG;
	if (v == RIGHT && w.unread)
		v = WRONG;
	free(block);
	world_fini(&w);
	return v;
}

/* ---- what is right */

#define RUNS (SANITIZED ? 4 : 24)

static void
expect_right(struct algo *a, const char *what, uint32_t min_slots)
{
	struct proof p = {0};
	struct err e = {0};
	uint64_t chance = 7;
	unsigned good = 0;

	if (!ok(algo_prove(a, &p, &e) == RC_OK, "%s is proven %s", what, e.text))
		goto out;
	ok(p.min_slots == min_slots, "%s wants %u slots a connection, and %u was said", what,
	   min_slots, p.min_slots);
	for (unsigned i = 0; i < RUNS; i++)
		good += run(a, i % 2 ? ALGO_SLOTS : p.min_slots, &chance) == RIGHT;
	ok(good == RUNS, "%s is right for %u of %u timings", what, good, RUNS);
	if (p.min_slots > 1)
		ok(run(a, p.min_slots - 1, &chance) == STUCK, "%s is stuck with a slot less", what);
out:
	algo_free(a);
}

static void
right_ones(void)
{
	for (uint32_t n = 2; n <= 6; n++) {
		expect_right(make_allreduce_ring(n), "a ring of transfers", 1);
		expect_right(make_ring_of_blocks(n), "a ring of one block a rank", 2);
		expect_right(make_allreduce_allpairs(n), "allpairs", 1);
		expect_right(make_tree(GPUSIM_ALLREDUCE, n, 3), "an all-reduce by a tree", 1);
		expect_right(make_tree(GPUSIM_BROADCAST, n, 2), "a broadcast by a tree", 1);
		expect_right(make_tree(GPUSIM_REDUCE, n, 2), "a reduce by a tree", 1);
		expect_right(make_reducescatter_direct(n, 2, true), "reduce-scatter in place", 1);
		expect_right(make_reducescatter_direct(n, 1, false), "reduce-scatter", 1);
	}
	expect_right(make_allreduce_hierarchical(2, 3), "a hierarchical all-reduce", 1);
	expect_right(make_alltoall_two_step(2, 3), "an all-to-all in two steps", 1);
	expect_right(make_allgather_doubling(8, true), "an allgather by doubling, in place", 1);
	expect_right(make_allgather_doubling(4, false), "an allgather by doubling", 1);
	expect_right(make_allreduce_ring(1), "an all-reduce of one rank", 0);
}

/* ---- mutations */

static struct algo *
make_any(unsigned i)
{
	switch (i % 10) {
	case 0:
		return make_allreduce_ring(4);
	case 1:
		return make_ring_of_blocks(4);
	case 2:
		return make_allreduce_allpairs(3);
	case 3:
		return make_allreduce_hierarchical(2, 2);
	case 4:
		return make_tree(GPUSIM_ALLREDUCE, 5, 2);
	case 5:
		return make_alltoall_two_step(2, 2);
	case 6:
		return make_reducescatter_direct(3, 2, i % 20 < 10);
	case 7:
		return make_allgather_doubling(4, i % 20 < 10);
	case 8:
		return make_tree(GPUSIM_REDUCE, 4, 2);
	default:
		return make_tree(GPUSIM_BROADCAST, 4, 2);
	}
}

static struct algo_block *
any_block(struct algo *a, uint64_t *chance)
{
	struct algo_rank *r = &a->rank[xorshift_star(chance) % a->nranks];

	return r->nblock ? &r->block[xorshift_star(chance) % r->nblock] : NULL;
}

/* Dependencies on later steps of the block go on naming the same place. */
static void
drop_step(struct algo_block *b, size_t i)
{
	memmove(b->step + i, b->step + i + 1, (b->nstep - i - 1) * sizeof *b->step);
	b->nstep--;
}

static void
mutate(struct algo *a, uint64_t *chance)
{
	struct algo_block *b = any_block(a, chance);
	struct algo_step *s, *t;
	size_t i;

	if (!b || !b->nstep)
		return;
	i = xorshift_star(chance) % b->nstep;
	s = &b->step[i];
	t = &b->step[xorshift_star(chance) % b->nstep];
	switch (xorshift_star(chance) % 9) {
	case 0:
		drop_step(b, i);
		break;
	case 1: {
		struct algo_step old = *s;

		s->src_at = s->dst_at = t->dst_at;
		t->src_at = t->dst_at = old.dst_at;
		break;
	}
	case 2:
		s->dep_block = s->dep_step = ALGO_NONE;
		break;
	case 3:
		s->dep_step = s->dep_block == ALGO_NONE ? ALGO_NONE : (uint32_t)i / 2;
		break;
	case 4:
		s->dep_block = 0;
		s->dep_step = (uint32_t)(xorshift_star(chance) % b->nstep);
		break;
	case 5:
		b->send = b->send == ALGO_NONE ? ALGO_NONE : (b->send + 1) % a->nranks;
		break;
	case 6:
		s->kind = s->kind == ALGO_RRC	   ? ALGO_RECV
			  : s->kind == ALGO_RRCS   ? ALGO_RCS
			  : s->kind == ALGO_RCS	   ? ALGO_RRCS
			  : s->kind == ALGO_COPY   ? ALGO_REDUCE
			  : s->kind == ALGO_REDUCE ? ALGO_COPY
						   : ALGO_RRC;
		break;
	case 7:
		s->src = (uint8_t)(xorshift_star(chance) % ALGO_NBUFS);
		break;
	default: {
		struct algo_step old = *s;

		*s = *t;
		*t = old;
		break;
	}
	}
}

/* Kinds of refusals whose runs must show it. */
static const char *
refusal(const struct err *e)
{
	if (strncmp(e->text, "deadlock", 8) == 0)
		return "deadlock";
	if (strncmp(e->text, "race", 4) == 0)
		return "race";
	if (strstr(e->text, "before it is written"))
		return "unwritten";
	if (strstr(e->text, " ends with") || strstr(e->text, " never written"))
		return "value";
	return "shape";
}

static void
mutations(void)
{
	enum { ACCEPTED, DEADLOCK, RACE, UNWRITTEN_READ, VALUE, SHAPE, NSEEN };
	unsigned seen[NSEEN] = {0}, lies = 0, races_shown = 0, n = SANITIZED ? 2000 : 20000;
	uint64_t chance = 11;

	for (unsigned i = 0; i < n; i++) {
		struct algo *a = make_any(i);
		struct proof p = {0};
		struct err e = {0};
		enum verdict v = RIGHT;
		bool wrong = false, stuck = false, accepted;

		for (unsigned k = 0; k <= i % 3; k++)
			mutate(a, &chance);
		accepted = algo_prove(a, &p, &e) == RC_OK;
		if (!accepted && strcmp(refusal(&e), "shape") == 0) {
			seen[SHAPE]++;
			algo_free(a);
			continue;
		}
		for (unsigned k = 0; k < 6; k++) {
			v = run(a, accepted && k % 2 ? p.min_slots : ALGO_SLOTS, &chance);
			wrong |= v == WRONG;
			stuck |= v == STUCK;
		}
		if (accepted) {
			seen[ACCEPTED]++;
			lies += wrong || stuck ||
				(p.min_slots > 1 && run(a, p.min_slots - 1, &chance) != STUCK);
		} else if (strcmp(refusal(&e), "deadlock") == 0) {
			seen[DEADLOCK]++;
			lies += !stuck;
		} else if (strcmp(refusal(&e), "race") == 0) {
			seen[RACE]++;
			races_shown += wrong;
		} else if (strcmp(refusal(&e), "unwritten") == 0) {
			seen[UNWRITTEN_READ]++;
			lies += stuck;
		} else {
			seen[VALUE]++;
			lies += !wrong || stuck;
		}
		if (lies == 1)
			printf("# mutation %u: %s\n", i, accepted ? "accepted" : e.text);
		algo_free(a);
	}
	ok(lies == 0,
	   "of %u mutants none is judged wrongly: %u accepted, %u deadlocks, %u races (%u shown), "
	   "%u read too "
	   "early, %u wrong values, %u wrong in themselves",
	   n, seen[ACCEPTED], seen[DEADLOCK], seen[RACE], races_shown, seen[UNWRITTEN_READ],
	   seen[VALUE], seen[SHAPE]);
	for (unsigned i = 0; i < NSEEN; i++)
		ok(seen[i] > n / 200, "kind %u of verdict occurs: %u times", i, seen[i]);
	ok(races_shown > seen[RACE] / 8, "random timings show many of the races");
}

/* ---- sentences */

/* Two ranks with buffers of two chunks and scratch of four, in place; and steps in blocks as they are needed. */
static struct algo *
pair_of_ranks(bool custom)
{
	struct make m = make_new(GPUSIM_ALLREDUCE, 2, 2, true);

	make_scratch(&m, 4);
	m.a->custom = custom;
	m.a->nchannels = 2;
	return make_done(&m);
}

static struct algo_block *
block(struct algo *a, uint32_t rank, uint32_t send, uint32_t recv, uint32_t channel)
{
	struct algo_block *b = algo_add_block(&a->rank[rank], send, recv, channel);

	if (!b)
		tap_bail("out of memory");
	return b;
}

/* Of one chunk, in the buffer `buf`, with no dependency. */
static struct algo_step
step(unsigned kind, unsigned src, uint32_t src_at, unsigned dst, uint32_t dst_at)
{
	return (struct algo_step){.kind = (uint8_t)kind,
				  .src = (uint8_t)src,
				  .src_at = src_at,
				  .dst = (uint8_t)dst,
				  .dst_at = dst_at,
				  .count = 1,
				  .dep_block = ALGO_NONE,
				  .dep_step = ALGO_NONE};
}

static struct algo_step
after(struct algo_step s, uint32_t dep_block, uint32_t dep_step)
{
	s.dep_block = dep_block;
	s.dep_step = dep_step;
	return s;
}

/* RC_BADDATA with this sentence. */
static void
refused(struct algo *a, const char *sentence)
{
	struct proof p;
	struct err e = {0};
	enum rc rc = algo_prove(a, &p, &e);

	if (!ok(rc == RC_BADDATA && strcmp(e.text, sentence) == 0, "refused: %s", sentence))
		printf("#   %d: %s\n", rc, e.text);
	algo_free(a);
}

static void
messages_that_do_not_meet(void)
{
	struct make m = make_new(GPUSIM_BROADCAST, 2, 2, true);
	struct algo *a;

	make_copy(&m, OUT(0, 0), OUT(1, 0), 1);
	make_copy(&m, OUT(0, 1), OUT(1, 1), 1);
	a = make_done(&m);
	a->rank[1].block[0].nstep--;
	refused(a,
		"rank 0 step 1 sends a message to rank 1 on channel 0 that rank 1 never receives");
	m = make_new(GPUSIM_BROADCAST, 2, 2, true);
	make_copy(&m, OUT(0, 0), OUT(1, 0), 1);
	a = make_done(&m);
	a->rank[0].block[0].nstep--;
	refused(
	    a,
	    "rank 1 step 0 waits for a message from rank 0 on channel 0 that rank 0 never sends");
	a = make_allreduce_ring(3);
	a->rank[0].block[0].step[1].count = 2;
	a->rank[0].block[0].step[1].src_at = 0;
	a->rank[0].block[0].step[1].line = 12;
	refused(a, "rank 0 block 0 step 1 sends 2 chunks (line 12), but rank 1 block 0 step 1 "
		   "receives 1");
	a = make_ring_of_blocks(3);
	a->rank[2].block[0].channel = 1;
	a->nchannels = 2;
	refused(a,
		"rank 1 step 0 sends a message to rank 2 on channel 0 that rank 2 never receives");
}

static void
deadlocks(void)
{
	struct algo *a = pair_of_ranks(false);

	for (uint32_t r = 0; r < 2; r++) {
		struct algo_block *b = block(a, r, 1 - r, 1 - r, 0);

		algo_add_step(b, step(ALGO_RRC, ALGO_IN, 0, ALGO_IN, 0));
		algo_add_step(b, step(ALGO_SEND, ALGO_IN, 0, ALGO_IN, 0));
	}
	refused(a,
		"deadlock: rank 0 step 0 waits for rank 1 step 0, which waits for rank 0 step 0");
	a = pair_of_ranks(false);
	algo_add_step(block(a, 0, ALGO_NONE, ALGO_NONE, 0),
		      after(step(ALGO_COPY, ALGO_IN, 0, ALGO_SCRATCH, 0), 1, 0));
	algo_add_step(block(a, 0, ALGO_NONE, ALGO_NONE, 0),
		      after(step(ALGO_COPY, ALGO_IN, 0, ALGO_SCRATCH, 1), 0, 0));
	refused(a, "deadlock: rank 0 block 0 step 0 waits for rank 0 block 1 step 0, which waits "
		   "for rank 0 "
		   "block 0 step 0");
	a = make_ring_of_blocks(9);
	for (uint32_t r = 0; r < 9; r++) {
		struct algo_step *s = a->rank[r].block[0].step, old = s[0];

		memmove(s, s + 1, 15 * sizeof *s);
		s[15] = old;
	}
	refused(a, "deadlock: rank 0 step 0 waits for rank 8 step 0, which waits for rank 7 step "
		   "0, which waits "
		   "for rank 6 step 0, which waits for rank 5 step 0, which waits for rank 4 step "
		   "0, which waits "
		   "for ... (3 more) ..., which waits for rank 0 step 0");
}

/* Both ranks send `n` messages before they receive any. */
static struct algo *
flood(uint32_t n)
{
	struct algo *a = pair_of_ranks(false);

	for (uint32_t r = 0; r < 2; r++) {
		struct algo_block *b = block(a, r, 1 - r, 1 - r, 0);

		a->rank[r].chunks[ALGO_SCRATCH] = n;
		for (uint32_t i = 0; i < n; i++)
			algo_add_step(b, step(ALGO_SEND, ALGO_IN, i % 2, ALGO_IN, 0));
		for (uint32_t i = 0; i < n; i++)
			algo_add_step(b, step(ALGO_RECV, ALGO_IN, 0, ALGO_SCRATCH, i));
		for (uint32_t i = 0; i < 2; i++)
			algo_add_step(b, step(ALGO_REDUCE, ALGO_SCRATCH, i, ALGO_IN, i));
	}
	return a;
}

static void
slots(void)
{
	for (uint32_t n = 2; n <= ALGO_SLOTS; n++)
		expect_right(flood(n), "a flood", n);
	refused(flood(ALGO_SLOTS + 1),
		"deadlock with 8 messages a connection: rank 0 step 8 waits for rank 1 step "
		"8, which waits for rank 0 step 8");
}

static void
races(void)
{
	struct algo *a = make_allreduce_ring(3);
	struct algo_step *s = &a->rank[0].block[0].step[1];

	ok(s->kind == ALGO_SEND && s->dep_block != ALGO_NONE, "a send that waits for a receive");
	s->dep_block = s->dep_step = ALGO_NONE;
	refused(a, "race: rank 0 block 1 step 0 writes output 2, which block 0 step 1 reads, "
		   "without a fixed order");
	a = pair_of_ranks(true);
	algo_add_step(block(a, 0, ALGO_NONE, ALGO_NONE, 0),
		      step(ALGO_COPY, ALGO_IN, 0, ALGO_SCRATCH, 1));
	algo_add_step(block(a, 0, ALGO_NONE, ALGO_NONE, 0),
		      step(ALGO_COPY, ALGO_IN, 1, ALGO_SCRATCH, 1));
	a->rank[0].block[1].step[0].line = 7;
	refused(a, "race: rank 0 block 1 step 0 writes scratch 1, which block 0 step 0 writes, "
		   "without a fixed order (line 7)");
	a = pair_of_ranks(true);
	algo_add_step(block(a, 0, ALGO_NONE, ALGO_NONE, 0),
		      step(ALGO_COPY, ALGO_IN, 0, ALGO_IN, 1));
	a->rank[0].chunks[ALGO_IN] = 3;
	a->rank[0].block[0].step[0].count = 2;
	refused(a, "race: rank 0 step 0 reads and writes input 1 at different places of one range");
}

/* Rank 0 writes to scratch, tells rank 1, and rank 1's answer releases another block of rank 0, which reads. */
static void
order_through_another_rank(bool told)
{
	struct algo *a = pair_of_ranks(true);
	struct algo_block *b = block(a, 0, 1, ALGO_NONE, 0);

	algo_add_step(b, step(ALGO_COPY, ALGO_IN, 0, ALGO_SCRATCH, 0));
	algo_add_step(b, step(ALGO_SEND, ALGO_IN, 0, ALGO_IN, 0));
	b = block(a, 0, ALGO_NONE, 1, 1);
	algo_add_step(b, step(ALGO_RECV, ALGO_IN, 0, ALGO_SCRATCH, 1));
	algo_add_step(b, step(ALGO_SEND, ALGO_IN, 0, ALGO_IN, 0));
	b->step[1] = step(ALGO_COPY, ALGO_SCRATCH, 0, ALGO_SCRATCH, 2);
	b = block(a, 1, ALGO_NONE, 0, 0);
	algo_add_step(b, step(ALGO_RECV, ALGO_IN, 0, ALGO_SCRATCH, 0));
	b = block(a, 1, 0, ALGO_NONE, 1);
	algo_add_step(b, step(ALGO_SEND, ALGO_IN, 0, ALGO_IN, 0));
	if (told)
		b->step[0] = after(b->step[0], 0, 0);
	if (!told) {
		refused(a, "race: rank 0 block 1 step 1 reads scratch 0, which block 0 step 0 "
			   "writes, without a fixed order");
		return;
	}
	{
		struct proof p;
		struct err e = {0};

		ok(algo_prove(a, &p, &e) == RC_OK, "an order through another rank counts %s",
		   e.text);
	}
	algo_free(a);
}

static void
unwritten(void)
{
	struct algo *a = pair_of_ranks(false);

	algo_add_step(block(a, 1, ALGO_NONE, ALGO_NONE, 0),
		      step(ALGO_REDUCE, ALGO_SCRATCH, 3, ALGO_IN, 0));
	refused(a, "rank 1 step 0 reads scratch 3 before it is written");
	a = pair_of_ranks(true);
	algo_add_step(block(a, 1, ALGO_NONE, ALGO_NONE, 0),
		      step(ALGO_REDUCE, ALGO_IN, 0, ALGO_SCRATCH, 2));
	a->rank[1].block[0].step[0].line = 3;
	refused(a, "rank 1 step 0 reads scratch 2 before it is written (line 3)");
	a = make_allgather_doubling(2, false);
	a->rank[1].block[0].step[0].kind = ALGO_NOP;
	refused(a, "rank 1 block 2 step 0 reads output 1 before it is written");
}

/* What rank 1 of two does with chunk 0 of rank 0. */
static struct algo *
one_message(enum gpusim_coll coll, unsigned kind)
{
	struct make m = make_new(coll, 2, 2, true);

	m.a->root = coll == GPUSIM_REDUCE;
	make_copy(&m, OUT(0, 0), OUT(1, 0), 1);
	m.a->rank[1].block[0].step[0].kind = (uint8_t)kind;
	return make_done(&m);
}

static void
wrong_values(void)
{
	struct algo *a = one_message(GPUSIM_REDUCE, ALGO_RRC);
	struct make m;

	refused(a, "rank 1 chunk 1 ends without the contribution of rank 0");
	refused(one_message(GPUSIM_REDUCE, ALGO_RECV),
		"rank 1 chunk 0 ends without the contribution of rank 1");
	refused(one_message(GPUSIM_BROADCAST, ALGO_RECV),
		"rank 1 chunk 1 of the output is never written");
	a = make_tree(GPUSIM_BROADCAST, 2, 2);
	a->rank[1].block[0].step[0].kind = ALGO_RRC;
	refused(a, "rank 1 step 0 reads output 0 before it is written");
	a = one_message(GPUSIM_ALLREDUCE, ALGO_RECV);
	a->rank[1].block[0].step[0].dst_at = 1;
	refused(a, "rank 0 chunk 0 ends without the contribution of rank 1");
	a = one_message(GPUSIM_REDUCE, ALGO_RECV);
	a->rank[1].block[0].step[0].dst_at = 1;
	a->rank[0].block[0].step[0].src_at = 1;
	a->rank[1].block[0].step[0].kind = ALGO_RRC;
	refused(a, "rank 1 chunk 0 ends without the contribution of rank 0");
	a = one_message(GPUSIM_REDUCE, ALGO_RRC);
	a->rank[0].block[0].step[0].src_at = 1;
	refused(a, "rank 1 chunk 0 ends with chunk 1 of rank 0, which does not belong there");
	a = one_message(GPUSIM_REDUCE, ALGO_RECV);
	a->rank[0].block[0].step[0].src_at = 1;
	refused(a, "rank 1 chunk 0 ends with chunk 1 of rank 0 instead of chunk 0");
	m = make_new(GPUSIM_REDUCE, 2, 1, true);
	make_reduce(&m, OUT(1, 0), OUT(0, 0), 1);
	make_reduce(&m, OUT(1, 0), OUT(0, 0), 1);
	refused(make_done(&m), "rank 0 chunk 0 ends with the contribution of rank 1 twice");
	m = make_new(GPUSIM_ALLGATHER, 2, 2, true);
	make_copy(&m, OUT(0, 0), OUT(1, 0), 1);
	make_copy(&m, OUT(1, 0), OUT(0, 1), 1);
	refused(make_done(&m),
		"rank 0 chunk 1 ends with chunk 0 of rank 0 instead of that of rank 1");
	m = make_new(GPUSIM_ALLTOALL, 2, 2, false);
	for (uint32_t r = 0; r < 2; r++)
		for (uint32_t q = 0; q < 2; q++)
			make_copy(&m, IN(r, q), OUT(q, r), 1);
	make_reduce(&m, IN(0, 0), OUT(1, 1), 1);
	refused(make_done(&m),
		"rank 1 chunk 1 ends with chunk 0 of rank 0, which does not belong there");
	m = make_new(GPUSIM_ALLTOALL, 2, 2, false);
	for (uint32_t r = 0; r < 2; r++)
		for (uint32_t q = 0; q < 2; q++)
			make_copy(&m, IN(r, q), OUT(q, r), 1);
	make_reduce(&m, IN(0, 1), OUT(1, 1), 1);
	refused(make_done(&m),
		"rank 1 chunk 1 ends with the contribution of rank 0, which does not belong there");
}

/* Sizes that must be proven, and what is refused before it is tried. */
static void
limits(void)
{
	struct proof p;
	struct err e = {0};
	struct algo *a = make_ring_of_blocks(SANITIZED ? 64 : 256);

	ok(algo_prove(a, &p, &e) == RC_OK && p.min_slots == 2, "a ring of %u ranks %s", a->nranks,
	   e.text);
	algo_free(a);
	a = make_allreduce_allpairs(64);
	ok(algo_prove(a, &p, &e) == RC_OK, "allpairs of 64 ranks and 64 chunks %s", e.text);
	algo_free(a);
	a = make_tree(GPUSIM_ALLREDUCE, 128, ALGO_MAX_CHUNKS);
	ok(algo_prove(a, &p, &e) == RC_INVAL &&
	       strcmp(e.text, "too large to prove: the ranks' buffers have 8388608 chunks; "
			      "at most 4194304 are allowed") == 0,
	   "too many chunks: %s", e.text);
	algo_free(a);
	a = make_tree(GPUSIM_ALLREDUCE, 50, ALGO_MAX_CHUNKS);
	ok(algo_prove(a, &p, &e) == RC_INVAL &&
	       strcmp(e.text, "too large to prove: the steps move 12845056 chunks; at most 8388608 "
			      "are allowed") == 0,
	   "too many chunks moved: %s", e.text);
	algo_free(a);
}

int
main(void)
{
	right_ones();
	messages_that_do_not_meet();
	deadlocks();
	slots();
	races();
	order_through_another_rank(true);
	order_through_another_rank(false);
	unwritten();
	wrong_values();
	limits();
	mutations();
	return tap_done();
}
