/*
 * carry.c - the operation of a rank's list that carries the schedule of an algorithm from a file: the
 * first that runs it. The others name that one (Coll.scheduleOf), so a list of a thousand calls carries a
 * schedule once.
 */
#include "coord/run/run_impl.h"

#include <stdlib.h>

/* The carriers of one algorithm. */
struct carried {
	uint64_t id;  /* algo_id */
	uint32_t *at; /* by rank: 1 + the index of the carrier; 0: none yet */
};

static struct carried *
carried_of(struct batch *b, uint64_t id)
{
	struct carried *v;

	for (size_t i = 0; i < b->ncarried; i++)
		if (b->carried[i].id == id)
			return &b->carried[i];
	v = alloc_resize(b->carried, b->ncarried + 1, sizeof *v);
	if (!v)
		return NULL;
	b->carried = v;
	v += b->ncarried;
	*v = (struct carried){.id = id, .at = alloc_zeroed(comm_nranks(b->comm), sizeof *v->at)};
	if (!v->at)
		return NULL;
	b->ncarried++;
	return v;
}

bool
carry_here(struct batch *b, uint32_t rank, const struct tune_file *f, size_t index, uint32_t *of)
{
	struct carried *v = carried_of(b, algo_id(f));

	if (!v)
		return true;
	if (!v->at[rank])
		v->at[rank] = (uint32_t)index + 1;
	*of = v->at[rank];
	return *of == index + 1;
}

void
carry_forget(struct batch *b, bool all)
{
	for (size_t i = 0; i < b->ncarried; i++)
		for (uint32_t r = 0; r < comm_nranks(b->comm); r++)
			if (all || b->carried[i].at[r] > b->rank[r].nops)
				b->carried[i].at[r] = 0;
}

void
carry_fini(struct batch *b)
{
	for (size_t i = 0; i < b->ncarried; i++)
		free(b->carried[i].at);
	free(b->carried);
}
