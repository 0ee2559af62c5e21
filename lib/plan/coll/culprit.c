#include "coll/culprit.h"

#include <stdlib.h>

#include "base/buf.h"

/* The rank that rank r waits for; nranks: none. */
static uint32_t
waits_for(const struct culprit_rank *rank, uint32_t nranks, uint32_t r)
{
	const struct culprit_rank *b = &rank[r];

	if (b->lost || b->ended || b->waits_for == 0 || b->waits_for > nranks ||
	    b->waits_for == r + 1)
		return nranks;
	return b->waits_for - 1;
}

/* Follow the chain from r. mark: by rank, the chain that visited it. */
static void
follow(const struct culprit_rank *rank, uint32_t nranks, uint32_t r, uint32_t *mark,
       enum culprit *why)
{
	uint32_t at = r, next;

	while (mark[at] == 0 && (next = waits_for(rank, nranks, at)) != nranks) {
		mark[at] = r + 1;
		at = next;
	}
	if (mark[at] == r + 1) { /* a ring of waiting ranks: who made the least progress? */
		uint32_t last = at;

		for (uint32_t q = waits_for(rank, nranks, at); q != at;
		     q = waits_for(rank, nranks, q))
			if (rank[q].seq != rank[last].seq ? rank[q].seq < rank[last].seq
							  : rank[q].step < rank[last].step)
				last = q;
		why[last] = why[waits_for(rank, nranks, last)] = CULPRIT_APART;
	} else if (mark[at] == 0 && at != r && !rank[at].lost && !rank[at].ended)
		why[at] = CULPRIT_STUCK;
}

enum rc
culprits_find(const struct culprit_rank *rank, uint32_t nranks, enum culprit *why, uint32_t *n,
	      struct err *err)
{
	uint32_t *mark = alloc_zeroed(nranks, sizeof *mark);

	if (!mark)
		return err_set(err, RC_NOMEM, "out of memory");
	for (uint32_t r = 0; r < nranks; r++)
		why[r] = rank[r].lost ? CULPRIT_LOST : CULPRIT_NOT;
	for (uint32_t r = 0; r < nranks; r++)
		follow(rank, nranks, r, mark, why);
	free(mark);
	*n = 0;
	for (uint32_t r = 0; r < nranks; r++)
		*n += why[r] != CULPRIT_NOT;
	return RC_OK;
}
