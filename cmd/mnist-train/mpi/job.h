/*
 * job.h - what a rank of an MPI job computes with: device memory, kernels, sums over the ranks.
 */
#ifndef MNIST_MPI_JOB_H
#define MNIST_MPI_JOB_H

#include "mem/devmem.h"
#include "train/rank.h"

struct job {
	struct rank_world world;
	struct devmem *mem;
	double kernel_s, sum_s; /* since they were last set to 0: in kernels, in sums */
};

/*
 * job_open - memory of so many bytes, and the world that works with it. MPI is initialised.
 *
 * A kernel that fails says so, with its rank, and takes the job down by MPI_Abort. Errors: those of
 * devmem_open and devmem_alloc.
 */
enum rc job_open(uint64_t nbytes, struct job *j, struct err *err);
void job_close(struct job *j);

/* Mean over the ranks of the times since the last call. All ranks call it. */
void job_times(struct job *j, double *kernel_s, double *sum_s);

#endif
