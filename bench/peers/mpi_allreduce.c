/*
 * mpi_allreduce SIZE[:MOST] ... - measure MPI_Allreduce as in measure.h, out of place. Run it under
 * mpirun; the library's own options and environment configure it.
 */
#include <mpi.h>

#include "measure.h"

static void
allreduce(struct measure *m, float *in, float *out, size_t count)
{
	(void)m;
	MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void
barrier(struct measure *m)
{
	(void)m;
	MPI_Barrier(MPI_COMM_WORLD);
}

static double
max(struct measure *m, double mine)
{
	double most;

	(void)m;
	MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return most;
}

int
main(int argc, char **argv)
{
	struct measure m = {.allreduce = allreduce, .barrier = barrier, .max = max};
	int status;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &m.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &m.nranks);
	status = measure_args(&m, argc - 1, argv + 1);
	MPI_Finalize();
	return status;
}
