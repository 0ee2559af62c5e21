/* gpuctl allreduce ... barrier, send, recv - a verb for each collective: on existing buffers, or as a
 * filter. */
#include "algo.h"
#include "cli.h"
#include "coll/plan.h"
#include "counts.h"
#include "filter.h"
#include "operation.h"

static enum rc
on_comm(struct cli *cli, enum gpusim_coll coll, const struct args *a, struct err *err)
{
	struct gpusim_comm *comm = NULL;
	enum rc rc = cli_comm(cli, a->comm, &comm, err);

	if (rc == RC_OK)
		rc = operation_run(coll, a, comm, err);
	gpusim_comm_free(comm);
	return rc;
}

static enum rc
on_buffers(struct cli *cli, enum gpusim_coll coll, const struct args *a, struct err *err)
{
	if (!a->comm)
		return err_set(err, RC_INVAL,
			       "--comm ID is missing: --addr, --send and --recv name buffers of a "
			       "communicator");
	if (a->verify)
		return err_set(err, RC_INVAL, "--verify: only for vectors on standard input");
	if ((a->all || a->raw || a->nranks || args_given(a, on_failure) || a->wait_ms))
		return err_set(
		    err, RC_INVAL,
		    "--all, --raw, -n, --on-failure and --wait are for vectors on standard input, "
		    "not for --addr, --send and --recv");
	if (a->streaming)
		return err_set(err, RC_INVAL,
			       "--stream: needs a number here; without one it is for vectors on "
			       "standard input");
	return on_comm(cli, coll, a, err);
}

static enum rc
run(struct cli *cli, enum gpusim_coll coll, bool v, const struct args *a, struct err *err)
{
	if (coll == GPUSIM_BARRIER) {
		/* Run a barrier over all ranks of --comm, or queue it there, or run it over a
		 * communicator of its own. */
		if (!a->async)
			return filter_barrier(cli, a, err);
		if (!a->comm)
			return err_set(err, RC_INVAL, "--async: needs --comm");
		return on_comm(cli, GPUSIM_BARRIER, a, err);
	}
	if (coll_is_sendrecv(coll))
		return on_comm(cli, coll, a, err);
	if (v && (a->addr || a->send || a->recv) && !a->counts)
		return err_set(err, RC_INVAL, "--counts N,... is missing");
	if ((a->addr || a->send || a->recv))
		return on_buffers(cli, coll, a, err);
	if (v && (args_given(a, displs) || args_given(a, recv_displs)))
		return err_set(err, RC_INVAL, "--displs: needs --addr, or --send and --recv");
	if (v && !a->async)
		return filter_vector(cli, coll, a, err);
	if (a->streaming && !a->async)
		return filter_stream(cli, coll, a, err);
	if ((args_given(a, count) || a->async))
		return err_set(err, RC_INVAL, "--%s: needs --addr, or --send and --recv",
			       a->async ? "async" : "count");
	return filter_run(cli, coll, a, err);
}

enum rc
run_collective(struct cli *cli, const struct args *a, struct err *err)
{
	struct args own = *a;
	enum gpusim_coll coll;
	bool v;
	enum rc rc = counts_verb(cli->cmd->name, &coll, &v, err);

	if (rc == RC_OK)
		rc = algo_take(cli, &own, err);
	return rc == RC_OK ? run(cli, coll, v, &own, err) : rc;
}
