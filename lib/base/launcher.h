/*
 * launcher.h - the rank of this process, from the environment of mpirun or srun.
 */
#ifndef BASE_LAUNCHER_H
#define BASE_LAUNCHER_H

#include <stdint.h>

#include "base/rc.h"

/*
 * launcher_rank - this process's rank: OMPI_COMM_WORLD_RANK (Open MPI, gpuctl run --each), PMI_RANK
 * (MPICH and its kin), RANK (torchrun) or SLURM_PROCID (srun), the first that is set and not empty.
 *
 *	rank	[out] untouched when none is set
 *
 * In this order, because the processes of an mpirun in a batch script of Slurm all have the
 * script's SLURM_PROCID, too.
 * Errors: RC_INVAL it is not a whole number below 2^32; the sentence names the variable.
 */
enum rc launcher_rank(uint32_t *rank, struct err *err);

/* How many there are: OMPI_COMM_WORLD_SIZE, PMI_SIZE, WORLD_SIZE or SLURM_NTASKS, in the same way. */
enum rc launcher_size(uint32_t *n, struct err *err);

#endif
