/* Grids whose blocks wait for each other. No launch makes one yet. */
#include "gpusim_cuda.h"

void
__gpusim_grid_barrier(void)
{
	__gpusim_assert_fail("a grid's barrier needs cudaLaunchCooperativeKernel",
			     "cooperative_groups.h", 0, "sync");
}

int
__gpusim_grid_is_cooperative(void)
{
	return 0;
}
