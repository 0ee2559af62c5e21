/* gpuctl comm-init, comm-destroy, comm-status, wait - communicators by their ids. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/parse.h"
#include "cli.h"
#include "table.h"

static enum rc
comm_id(const char *word, uint64_t *id, struct err *err)
{
	enum rc rc = parse_u64(word, 1, UINT64_MAX, id, err);

	return rc == RC_OK ? rc : err_prefix(err, "communicator");
}

/* Over -n free devices, or over those named, rank by rank. */
enum rc
run_comm_init(struct cli *cli, const struct args *a, struct err *err)
{
	uint32_t n = args_has(a, OPT(RANKS)) ? a->nranks : (uint32_t)a->nrest;
	const struct gpusim_comm_config config = {0};
	struct gpusim_comm comm = {0};
	uint64_t *ids;
	enum rc rc;

	if (a->nrest && args_has(a, OPT(RANKS)))
		return err_set(err, RC_INVAL, "-n N or named devices, not both");
	if (n == 0)
		return err_set(err, RC_INVAL, "which devices? -n N, or name them");
	ids = alloc_zeroed((size_t)a->nrest, sizeof *ids);
	rc = ids ? cli_open(cli, err) : err_set(err, RC_NOMEM, "out of memory");
	for (int i = 0; i < a->nrest && rc == RC_OK; i++)
		rc = cli_device(cli, a, a->rest[i], &ids[i], err);
	if (rc == RC_OK)
		rc = api(gpusim_comm_init(cli->g, n, a->nrest ? ids : NULL, &config, &comm), err);
	if (rc == RC_OK)
		printf("%" PRIu64 "\n", comm.id);
	gpusim_comm_fini(&comm);
	free(ids);
	return rc;
}

enum rc
run_comm_destroy(struct cli *cli, const struct args *a, struct err *err)
{
	uint64_t id;
	enum rc rc = comm_id(a->rest[0], &id, err);

	if (rc == RC_OK)
		rc = cli_open(cli, err);
	return rc == RC_OK ? api(gpusim_comm_destroy(cli->g, id), err) : rc;
}

static enum rc
status_json(struct cli *cli, uint64_t id, struct err *err)
{
	struct gpusim_status s;
	size_t i = 0;
	enum rc rc = api(gpusim_status(cli->g, &s), err);

	if (rc != RC_OK)
		return rc;
	while (i < s.ncomms && s.comms[i].id != id)
		i++;
	if (i < s.ncomms) {
		json_comm(&s.comms[i], stdout);
		putchar('\n');
	} else {
		rc = err_set(err, RC_NOTFOUND, "no communicator %" PRIu64, id);
	}
	gpusim_status_fini(&s);
	return rc;
}

enum rc
run_comm_status(struct cli *cli, const struct args *a, struct err *err)
{
	enum gpusim_state state;
	uint64_t id;
	enum rc rc = comm_id(a->rest[0], &id, err);

	if (rc == RC_OK)
		rc = cli_open(cli, err);
	if (rc == RC_OK && args_has(a, OPT(JSON)))
		return status_json(cli, id, err);
	if (rc == RC_OK)
		rc = api(gpusim_comm_status(cli->g, id, GPUSIM_QUEUE, &state), err);
	if (rc != RC_OK)
		return rc;
	if (state == GPUSIM_STATE_FAILED)
		printf("failed: %s\n", gpusim_error());
	else
		puts(state_name((int)state));
	return RC_OK;
}

/* Until nothing is in progress; a failure of what was queued is ours. */
enum rc
run_wait(struct cli *cli, const struct args *a, struct err *err)
{
	enum gpusim_state state;
	uint64_t id;
	enum rc rc = comm_id(a->rest[0], &id, err);

	if (rc == RC_OK)
		rc = cli_open(cli, err);
	if (rc == RC_OK)
		rc = api(gpusim_comm_status(cli->g, id, GPUSIM_WAIT, &state), err);
	if (rc == RC_OK && state == GPUSIM_STATE_FAILED)
		rc = err_set(err, RC_FAILED, "%s", gpusim_error());
	return rc;
}
