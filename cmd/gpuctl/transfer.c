/* gpuctl begin-send, begin-receive, stream-status, sync - use streams, and the lab's transfers. */
#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "base/parse.h"
#include "cli.h"
#include "gpusim_lab.h"
#include "table.h"

static enum rc
buffer(const struct args *a, struct gpusim_addr *addr, struct err *err)
{
	enum rc rc = parse_u64(a->addr, 0, UINT64_MAX, &addr->addr, err);

	return rc == RC_OK ? rc : err_prefix(err, "--addr");
}

/* Print the stream's id, which the receiving side needs. */
enum rc
run_begin_send(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_device device;
	struct gpusim_stream stream;
	struct gpusim_addr addr;
	enum rc rc = buffer(a, &addr, err);

	if (rc == RC_OK)
		rc = cli_target(cli, a, &device, err);
	if (rc == RC_OK)
		rc = api(gpusim_begin_send(cli->g, device, (struct gpusim_comm_id){a->comm}, addr,
					   a->nbytes, a->peer, &stream),
			 err);
	if (rc == RC_OK)
		printf(a->json ? "{\"stream\":%" PRIu64 "}\n" : "%" PRIu64 "\n", stream.id);
	return rc;
}

enum rc
run_begin_receive(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_device device;
	struct gpusim_addr addr;
	enum rc rc = buffer(a, &addr, err);

	if (rc == RC_OK)
		rc = cli_target(cli, a, &device, err);
	if (rc == RC_OK)
		rc = api(gpusim_begin_receive(cli->g, device, (struct gpusim_comm_id){a->comm},
					      (struct gpusim_stream){a->stream}, addr, a->nbytes,
					      a->peer),
			 err);
	return rc;
}

enum rc
run_stream_status(struct cli *cli, const struct args *a, struct err *err)
{
	enum gpusim_state state;
	struct gpusim_device device;
	enum rc rc = cli_target(cli, a, &device, err);

	if (rc == RC_OK)
		rc = api(
		    gpusim_stream_status(cli->g, device, (struct gpusim_stream){a->stream}, &state),
		    err);
	if (rc != RC_OK)
		return rc;
	if (a->json) {
		json_put(&(struct json){stdout, false}, "{stream:%" PRIu64 " state:%s reason:%s}\n",
			 a->stream, state_name((int)state),
			 state == GPUSIM_STATE_FAILED ? gpusim_error() : "");
	} else if (state == GPUSIM_STATE_FAILED)
		printf("failed: %s\n", gpusim_error());
	else
		puts(state_name((int)state));
	return RC_OK;
}

enum rc
run_sync(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_device device;
	enum rc rc = cli_target(cli, a, &device, err);

	return rc == RC_OK
		   ? api(gpusim_stream_sync(cli->g, device, (struct gpusim_stream){a->stream}), err)
		   : rc;
}
