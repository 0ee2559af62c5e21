#include "job.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "kern/kernel.h"

/* End the job: no rank can continue. */
static void
give_up(const struct job *j, const struct err *err)
{
	log_line(LOG_ERROR, "rank %u: %s", j->world.rank, err->text);
	MPI_Abort(MPI_COMM_WORLD, rc_exit(err->rc));
}

static enum rc
run_kernel(const struct job *j, const char *name, const struct gpusim_arg *args, size_t nargs,
	   struct err *err)
{
	const struct kernel *k = kernel_find(name);
	struct kernel_arg given[KERNEL_MAX_PARAMS];
	union kernel_value v[KERNEL_MAX_PARAMS];
	uint64_t step[KERNEL_MAX_PARAMS];
	enum rc rc;

	if (!k || nargs > KERNEL_MAX_PARAMS)
		return err_set(err, RC_INTERNAL, "%s: no such kernel", name);
	for (size_t i = 0; i < nargs; i++) {
		given[i] =
		    (struct kernel_arg){.name = args[i].name, .is_real = args[i].is_real != 0};
		if (args[i].is_real)
			given[i].value.f = args[i].f;
		else
			given[i].value.u = args[i].u;
	}
	rc = kernel_bind(k, given, nargs, v, step, err);
	return rc == RC_OK ? kernel_run(k, j->mem, v, err) : rc;
}

static void
launch(void *arg, uint32_t rank, const char *kernel, const struct gpusim_arg *args, size_t nargs)
{
	struct job *j = arg;
	uint64_t began = clock_now_ns();
	struct err err = {0};

	(void)rank;
	if (run_kernel(j, kernel, args, nargs, &err) != RC_OK)
		give_up(j, &err);
	j->kernel_s += (double)(clock_now_ns() - began) / 1e9;
}

/* Sum in place, in pieces whose length fits MPI's int. */
static void
sum_up(struct job *j, MPI_Datatype type, void *v, uint64_t n, size_t size)
{
	uint64_t began = clock_now_ns();

	for (uint64_t done = 0, count; done < n; done += count) {
		count = n - done < INT_MAX ? n - done : INT_MAX;
		MPI_Allreduce(MPI_IN_PLACE, (char *)v + done * size, (int)count, type, MPI_SUM,
			      MPI_COMM_WORLD);
	}
	j->sum_s += (double)(clock_now_ns() - began) / 1e9;
}

static void
allreduce(void *arg, enum gpusim_dtype type, uint64_t nelem, const uint64_t *addr)
{
	struct job *j = arg;
	size_t size = type == GPUSIM_F32 ? sizeof(float) : sizeof(double);
	MPI_Datatype as = type == GPUSIM_F32   ? MPI_FLOAT
			  : type == GPUSIM_F64 ? MPI_DOUBLE
			  : type == GPUSIM_I64 ? MPI_INT64_T
					       : MPI_DATATYPE_NULL;
	struct err err = {0};
	void *v;

	if (as == MPI_DATATYPE_NULL)
		err_set(&err, RC_INTERNAL, "sum: the type must be f32, f64 or i64");
	else
		devmem_range(j->mem, "sum", *addr, nelem * size, &v, &err);
	if (err.rc != RC_OK)
		give_up(j, &err);
	else
		sum_up(j, as, v, nelem, size);
}

static void
sum(void *arg, double *v, size_t n)
{
	sum_up(arg, MPI_DOUBLE, v, n, sizeof *v);
}

/* Remove the file's name at once, so that the job leaves nothing behind. */
static enum rc
open_memory(struct job *j, uint64_t nbytes, struct err *err)
{
	char path[64];
	enum rc rc;

	snprintf(path, sizeof path, "%s/gpusim-mpi-%u-%ld",
		 access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp", (unsigned)getuid(),
		 (long)getpid());
	unlink(path);
	rc = devmem_open(path, (uint64_t)getpid(), nbytes, &j->mem, err);
	unlink(path);
	return rc;
}

enum rc
job_open(uint64_t nbytes, struct job *j, struct err *err)
{
	int rank, nranks;
	enum rc rc;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &nranks);
	*j = (struct job){0};
	rc = open_memory(j, nbytes, err);
	if (rc == RC_OK)
		rc = devmem_alloc(j->mem, nbytes, &j->world.base, err);
	if (rc != RC_OK) {
		job_close(j);
		return rc;
	}
	j->world.rank = (uint32_t)rank;
	j->world.nranks = (uint32_t)nranks;
	j->world.memory = devmem_at(j->mem, j->world.base, nbytes);
	j->world.sink = (struct emit_sink){.arg = j, .launch = launch, .allreduce = allreduce};
	j->world.sum = sum;
	return RC_OK;
}

void
job_close(struct job *j)
{
	devmem_close(j->mem, DEVMEM_PERSIST_FILE);
	j->mem = NULL;
}

void
job_times(struct job *j, double *kernel_s, double *sum_s)
{
	double times[2] = {j->kernel_s, j->sum_s};

	sum(j, times, 2);
	*kernel_s = times[0] / j->world.nranks;
	*sum_s = times[1] / j->world.nranks;
	j->kernel_s = j->sum_s = 0;
}
