/* gpuctl send, recv - one half of a transfer between two ranks. */
#include "cli.h"
#include "coll/plan.h"
#include "operation.h"

enum rc
run_send_recv(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_comm comm = {0};
	struct operation o = {0};
	enum gpusim_coll coll;
	enum rc rc = coll_parse(cli->cmd->name, &coll, err);

	if (rc == RC_OK)
		rc = cli_open(cli, err);
	if (rc == RC_OK)
		rc = api(gpusim_comm_open(cli->g, a->comm, &comm), err);
	if (rc == RC_OK)
		rc = operation_make(coll, a, &comm, &o, err);
	if (rc == RC_OK)
		rc = api(gpusim_collective(cli->g, &comm, &o.c,
					   args_has(a, OPT(QUEUE)) ? GPUSIM_QUEUE : GPUSIM_WAIT),
			 err);
	if (rc == RC_OK)
		cli_note();
	operation_fini(&o);
	gpusim_comm_fini(&comm);
	return rc;
}
