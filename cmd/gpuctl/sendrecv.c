/* gpuctl send, recv - one half of a transfer between two ranks. */
#include "cli.h"
#include "coll/plan.h"
#include "operation.h"

enum rc
run_send_recv(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_comm comm = {0};
	enum gpusim_coll coll;
	enum rc rc = coll_parse(cli->cmd->name, &coll, err);

	if (rc == RC_OK)
		rc = cli_open(cli, err);
	if (rc == RC_OK)
		rc = api(gpusim_comm_open(cli->g, a->comm, &comm), err);
	if (rc == RC_OK)
		rc = operation_run(cli, coll, a, &comm, err);
	gpusim_comm_fini(&comm);
	return rc;
}
