/* mnist-train-mpi - one rank of an MPI job; mnist-train --backend mpi executes it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/launcher.h"
#include "base/log.h"
#include "kern/blas.h"
#include "job.h"
#include "mnist-train/options.h"
#include "mnist-train/report.h"
#include "train/model.h"

/* Reject options that need a coordinator's devices, or that MPI decides. */
static enum rc
check_options(const struct train_config *o, uint32_t nranks, struct err *err)
{
	uint32_t wanted = o->nworkers ? o->workers[0] : o->devices, size = 1;

	if (nranks == 1 && launcher_size(&size, err) == RC_OK && size > 1)
		return err_set(err, RC_INVAL,
			       "--backend mpi: %u processes were started without mpirun, and each "
			       "is an MPI job of one rank",
			       size);
	if (o->backend != BACKEND_MPI || !o->data)
		return err_set(err, RC_INVAL,
			       "run mnist-train --backend mpi, which starts this program");
	if (wanted && wanted != nranks)
		return err_set(
		    err, RC_INVAL, "--%s %u: must match the MPI job, which has %u rank%s",
		    o->nworkers ? "workers" : "devices", wanted, nranks, nranks == 1 ? "" : "s");
	if (o->checkpoint)
		return err_set(err, RC_INVAL,
			       "--checkpoint: cannot be combined with --backend mpi");
	if (o->on_failure != GPUSIM_ON_FAILURE_ABORT)
		return err_set(err, RC_INVAL,
			       "--on-failure: cannot be combined with --backend mpi, where MPI "
			       "handles failures");
	return RC_OK;
}

/* Return true if all ranks succeeded. Else rank 0 reports its failure, or if it succeeded, each failed rank
 * does. */
static bool
agree(enum rc rc, uint32_t rank, const struct err *err)
{
	int mine = rc != RC_OK, first = mine, any = mine;

	MPI_Bcast(&first, 1, MPI_INT, 0, MPI_COMM_WORLD);
	MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	if (mine && (rank == 0 || !first))
		log_line(LOG_ERROR, "%s", err->text);
	return !any;
}

/* Train; only rank 0 has a report. */
static void
train(struct job *j, struct rank *r, uint32_t epochs, struct report *report)
{
	struct err err = {0};
	struct epoch e;
	double rest;

	while (epochs--) {
		rank_train(r, &e);
		job_times(j, &e.compute_s, &e.comm_s);
		rank_test(r, &e);
		job_times(j, &rest, &rest);
		if (report && report_epoch(report, &e, &err) != RC_OK) {
			/* End the job: the other ranks must not wait for this one. */
			log_line(LOG_ERROR, "%s", err.text);
			MPI_Abort(MPI_COMM_WORLD, rc_exit(err.rc));
		}
	}
}

static enum rc
lead(struct job *j, struct rank *r, const struct task *task, struct report *report, struct err *err)
{
	struct err close_err = {0};
	enum rc rc, closed;

	report_start(task, j->world.nranks, "rank");
	train(j, r, task->config->epochs, report);
	rc =
	    task->config->save ? model_save(task->config->save, task, rank_weights(r), err) : RC_OK;
	report_weights(task, rank_weights(r));
	closed = report_close(report, &close_err);
	return rc == RC_OK && closed != RC_OK ? err_set(err, closed, "%s", close_err.text) : rc;
}

/* The ranks agree on everything that may fail before the first step, so that none waits for another. */
static enum rc
run(const struct task *task, uint32_t rank, uint32_t nranks, struct err *err)
{
	struct job j = {0};
	struct rank *r = NULL;
	struct report report = {0};
	enum rc rc = job_open(rank_bytes(task, nranks), &j, err);

	if (rc == RC_OK)
		rc = rank_new(task, &j.world, &r, err);
	if (rc == RC_OK && rank == 0)
		rc = report_open(&report, task->config, 0, err);
	if (!agree(rc, rank, err)) {
		rc = rc == RC_OK ? RC_FAILED : rc;
	} else if (rank == 0) {
		rc = lead(&j, r, task, &report, err);
		if (rc != RC_OK)
			log_line(LOG_ERROR, "%s", err->text);
	} else {
		train(&j, r, task->config->epochs, NULL);
	}
	rank_free(r);
	job_close(&j);
	return rc;
}

int
main(int argc, char **argv)
{
	struct train_config o = {0};
	struct task task = {0};
	struct err err = {0};
	int rank, nranks;
	enum rc rc;

	blas_reload(argv);
	blas_set_threads(1);
	log_open("mnist-train", LOG_WARN);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &nranks);
	rc = options_parse(argc, argv, &o, &err);
	if (rc == RC_OK)
		rc = check_options(&o, (uint32_t)nranks, &err);
	if (rc == RC_OK)
		rc = task_open(&o, &task, &err);
	if (!agree(rc, (uint32_t)rank, &err))
		rc = rc == RC_OK ? RC_FAILED : rc;
	else
		rc = run(&task, (uint32_t)rank, (uint32_t)nranks, &err);
	task_fini(&task);
	config_fini(&o);
	MPI_Finalize();
	return rc_exit(rc);
}
