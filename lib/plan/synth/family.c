#include "synth/family.h"

/* Chunks `first`, first + stride ...: what a member of a group has. */
struct set {
	uint32_t first, stride, n;
};

/* Members of a group: rank first + i * stride. */
struct members {
	uint32_t first, stride, n;
	/* of what the i-th place in a ring is: rotated by it; odd: the other way round */
	uint32_t turn;
};

const char *
exchange_name(enum exchange kind)
{
	static const char *const name[EXCHANGE_NKINDS] = {"ring", "direct", "doubling"};

	return name[kind];
}

/* The member at place i of the ring. */
static uint32_t
member(const struct members *m, uint32_t i)
{
	uint32_t k = i % m->n;

	if (m->turn % 2)
		k = m->n - 1 - k;
	return (k + m->turn / 2) % m->n;
}

static uint32_t
rank_of(const struct members *m, uint32_t i)
{
	return m->first + i * m->stride;
}

/* Member `from` passes the set of member `whose` to member `to`; sets of members lie `apart`. */
static void
pass_set(struct draft *d, uint32_t round, const struct members *m, uint32_t from, uint32_t to,
	 uint32_t whose, struct set s, uint32_t apart)
{
	uint32_t at = s.first + whose * apart;

	if (s.stride == 1) {
		draft_pass(d, round, rank_of(m, from), rank_of(m, to), at, s.n);
		return;
	}
	for (uint32_t i = 0; i < s.n; i++)
		draft_pass(d, round, rank_of(m, from), rank_of(m, to), at + i * s.stride, 1);
}

/* Sets of members one after the other, from `whose` on; those that touch are one move. */
static void
pass_run(struct draft *d, uint32_t round, const struct members *m, uint32_t from, uint32_t to,
	 uint32_t whose, uint32_t n, struct set s, uint32_t apart)
{
	if (s.stride == 1 && s.n == apart) {
		draft_pass(d, round, rank_of(m, from), rank_of(m, to), s.first + whose * apart,
			   n * apart);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		pass_set(d, round, m, from, to, whose + i, s, apart);
}

static void
ring(struct draft *d, uint32_t round, const struct members *m, struct set s, uint32_t apart)
{
	for (uint32_t k = 0; k + 1 < m->n; k++)
		for (uint32_t i = 0; i < m->n; i++)
			pass_set(d, round + k, m, member(m, i), member(m, i + 1),
				 member(m, i + m->n - k), s, apart);
}

static void
direct(struct draft *d, uint32_t round, const struct members *m, struct set s, uint32_t apart)
{
	for (uint32_t k = 1; k < m->n; k++)
		for (uint32_t i = 0; i < m->n; i++)
			pass_set(d, round, m, i, (i + k) % m->n, i, s, apart);
}

/* Rank i has n sets, from i on, and gets those of rank i + n. Of a power of two: those of the other half of a
 * block. */
static void
bruck(struct draft *d, uint32_t round, const struct members *m, struct set s, uint32_t apart)
{
	bool power = (m->n & (m->n - 1)) == 0;

	for (uint32_t have = 1; have < m->n; have *= 2, round++)
		for (uint32_t i = 0; i < m->n; i++) {
			uint32_t more = have < m->n - have ? have : m->n - have;
			uint32_t from = (i + have) % m->n,
				 n = more < m->n - from ? more : m->n - from;

			if (power) {
				pass_run(d, round, m, i, i ^ have, i / have * have, have, s, apart);
				continue;
			}
			pass_run(d, round, m, from, i, from, n, s, apart);
			if (n < more)
				pass_run(d, round, m, from, i, 0, more - n, s, apart);
		}
}

static void
exchange(struct draft *d, enum exchange kind, uint32_t round, const struct members *m, struct set s,
	 uint32_t apart)
{
	if (kind == EXCHANGE_RING)
		ring(d, round, m, s, apart);
	else if (kind == EXCHANGE_DIRECT)
		direct(d, round, m, s, apart);
	else
		bruck(d, round, m, s, apart);
}

void
family_gather(struct draft *d, uint32_t group, enum exchange outer, enum exchange inner,
	      uint32_t parts)
{
	uint32_t hosts = d->nranks / group, rounds;

	d->nchunks = d->nranks * parts;
	for (uint32_t l = 0; l < group && hosts > 1; l++)
		for (uint32_t j = 0; j < parts; j++)
			exchange(d, outer, 0, &(struct members){l, group, hosts, j},
				 (struct set){l * parts + j, 1, 1}, group * parts);
	rounds = draft_rounds(d);
	for (uint32_t h = 0; h < hosts && group > 1; h++)
		for (uint32_t j = 0; j < parts; j++)
			exchange(d, inner, rounds, &(struct members){h * group, 1, group, j},
				 (struct set){j, group * parts, hosts}, parts);
	draft_sort(d);
}

void
family_tree(struct draft *d, const uint32_t *order, uint32_t fan, uint32_t first, uint32_t n)
{
	for (uint32_t j = 0; j < n; j++)
		for (uint32_t i = 1; i < d->nranks; i++) {
			uint32_t up = (i - 1) / fan, depth = 0;

			for (uint32_t k = i; k; k = (k - 1) / fan)
				depth += fan > 1 ? 1 + (k - 1) % fan : 1;
			draft_pass(d, depth - 1 + j * fan, order[up], order[i], first + j, 1);
		}
	draft_sort(d);
}

void
family_binomial(struct draft *d, const uint32_t *order, uint32_t first, uint32_t n)
{
	uint32_t half = 1, round = 0;

	while (half < d->nranks)
		half *= 2;
	for (half /= 2; half; half /= 2, round++)
		for (uint32_t i = 0; i + half < d->nranks; i += 2 * half)
			draft_pass(d, round, order[i], order[i + half], first, n);
}

static struct draft_place
scratch(uint32_t rank, uint32_t at)
{
	return (struct draft_place){rank, ALGO_SCRATCH, at};
}

static struct draft_place
data(uint32_t rank)
{
	return (struct draft_place){rank, ALGO_OUT, 0};
}

void
family_oneshot(struct draft *d)
{
	d->nchunks = 1;
	d->scratch = d->nranks;
	for (uint32_t k = 1; k < d->nranks; k++)
		for (uint32_t r = 0; r < d->nranks; r++)
			draft_move(d, 0, false, data(r), scratch((r + k) % d->nranks, r), 1);
	for (uint32_t r = 0; r < d->nranks; r++)
		for (uint32_t k = 1; k < d->nranks; k++)
			draft_move(d, 1, true, scratch(r, (r + d->nranks - k) % d->nranks), data(r),
				   1);
}

void
family_doubling(struct draft *d)
{
	uint32_t round = 0, k = 0;

	d->nchunks = 1;
	for (uint32_t far = 1; far < d->nranks; far *= 2, round += 2, k++)
		for (uint32_t pass = 0; pass < 2; pass++)
			for (uint32_t r = 0; r < d->nranks; r++)
				draft_move(d, round + pass, pass, pass ? scratch(r, k) : data(r),
					   pass ? data(r) : scratch(r ^ far, k), 1);
	d->scratch = k;
}

void
family_alltoall(struct draft *d, uint32_t group)
{
	uint32_t n = d->nranks, hosts = n / group;

	d->nchunks = n;
	for (uint32_t k = 0; k < n && hosts == 1; k++)
		for (uint32_t r = 0; r < n; r++)
			draft_move(d, 0, false, (struct draft_place){r, ALGO_IN, (r + k) % n},
				   (struct draft_place){(r + k) % n, ALGO_OUT, r}, 1);
	if (hosts == 1)
		return;
	d->scratch = n;
	for (uint32_t k = 0; k < group; k++)
		for (uint32_t r = 0; r < n; r++)
			for (uint32_t h = 0; h < hosts; h++) {
				uint32_t l = (r + k) % group;

				draft_move(
				    d, 0, false, (struct draft_place){r, ALGO_IN, h * group + l},
				    scratch(r / group * group + l, h * group + r % group), 1);
			}
	for (uint32_t k = 0; k < hosts; k++)
		for (uint32_t r = 0; r < n; r++) {
			uint32_t h = (r / group + k) % hosts;

			draft_move(d, 1, false, scratch(r, h * group),
				   (struct draft_place){h * group + r % group, ALGO_OUT,
							r / group * group},
				   group);
		}
}
