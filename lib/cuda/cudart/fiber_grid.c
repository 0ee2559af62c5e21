/* The barrier of a grid whose blocks all run at once, each on a system thread of its own. */
#include "cudart/fiber_impl.h"
#include "gpusim_cuda.h"
#include "mem/cmdq.h"

/* The last live block that arrives opens the barrier. */
static void
open_if_all(struct fiber_team *t)
{
	uint64_t here = atomic_load(&t->arrived);

	while (here && here == t->nblocks - atomic_load(&t->ended))
		if (atomic_compare_exchange_weak(&t->arrived, &here, 0)) {
			cmdq_publish(&t->passed, &t->sleeps, atomic_load(&t->passed) + 1);
			return;
		}
}

void
fiber_block_ended(struct fiber_team *t)
{
	atomic_fetch_add(&t->ended, 1);
	if (t->nblocks)
		open_if_all(t);
}

int
__gpusim_grid_is_cooperative(void)
{
	const struct fiber_gang *g = fiber_here;

	return g && g->team->nblocks;
}

/* One thread of each block waits for the other blocks, while the block's others wait for it. */
void
__gpusim_grid_barrier(void)
{
	struct fiber_gang *g = fiber_here;
	const struct fiber *f = g ? g->current : NULL;

	if (!f)
		return;
	if (!g->team->nblocks)
		fiber_fail("grid.sync() in a launch that is not cooperative: use "
			   "cudaLaunchCooperativeKernel");
	__gpusim_barrier(0, NULL);
	if (f == g->leader) {
		uint64_t passed = atomic_load(&g->team->passed);

		atomic_fetch_add(&g->team->arrived, 1);
		open_if_all(g->team);
		cmdq_await(&g->team->passed, &g->team->sleeps, passed + 1, &g->team->stop,
			   UINT64_MAX);
		if (atomic_load(&g->team->stop))
			fiber_fail("another block has failed");
	}
	__gpusim_barrier(0, NULL);
}
