/* gpuctl send, recv - one half of a transfer between two ranks. */
#include "cli.h"
#include "coll/plan.h"
#include "operation.h"

enum rc
run_send_recv(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_comm *comm = NULL;
	enum gpusim_coll coll;
	enum rc rc = coll_parse(cli->cmd->name, &coll, err);

	if (rc == RC_OK)
		rc = cli_comm(cli, a->comm, &comm, err);
	if (rc == RC_OK)
		rc = operation_run(coll, a, comm, err);
	gpusim_comm_free(comm);
	return rc;
}
