/*
 * job.h - the devices of an MPI job's rank: memory, kernels, sums over the ranks.
 */
#ifndef MNIST_MPI_JOB_H
#define MNIST_MPI_JOB_H

#include "mem/devmem.h"
#include "train/rank.h"

struct job {
	struct rank_world world;
	struct devmem *mem;
	double kernel_s, sum_s; /* time in kernels and in sums, since the last reset */
};

/*
 * job_open - allocate nbytes of memory, and make the world that uses it. MPI must be initialised.
 *
 * A kernel that fails is reported with its rank, and ends the job by MPI_Abort. Errors: those of
 * devmem_open and devmem_alloc.
 */
enum rc job_open(uint64_t nbytes, struct job *j, struct err *err);
void job_close(struct job *j);

/* Mean over the ranks of the times since the last call. All ranks call it. */
void job_times(struct job *j, double *kernel_s, double *sum_s);

#endif
