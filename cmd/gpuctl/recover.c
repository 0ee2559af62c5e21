#include "recover.h"

#include <inttypes.h>
#include <stdbool.h>

#include "base/log.h"

static uint32_t
rank_of(const struct gpusim_comm *comm, uint64_t device)
{
	uint32_t r = 0;

	while (r < comm->nranks && comm->device[r].id != device)
		r++;
	return r;
}

enum rc
recover_refresh(struct cli *cli, struct gpusim_comm *comm, uint32_t *was, struct err *err)
{
	struct gpusim_comm now;
	enum rc rc = api(gpusim_comm_open(cli->g, comm->id, &now), err);

	if (rc != RC_OK)
		return rc;
	for (uint32_t r = 0; r < now.nranks && rc == RC_OK; r++) {
		uint32_t old = now.nranks == comm->nranks ? r : rank_of(comm, now.device[r].id);

		if (r >= comm->nranks || old >= comm->nranks)
			rc = err_set(err, RC_INTERNAL,
				     "comm %" PRIu64 " rank %" PRIu32 " (device %016" PRIx64
				     "): was no rank of it before",
				     comm->id, r, now.device[r].id);
		else
			was[r] = old;
	}
	if (rc != RC_OK) {
		gpusim_comm_fini(&now);
		return rc;
	}
	gpusim_comm_fini(comm);
	*comm = now;
	return rc;
}

/* Somebody does not answer. A barrier finds out whether the communicator can do without; true: that
 * has been told of. */
static bool
meet(struct cli *cli, uint64_t id)
{
	const struct gpusim_collective barrier = {.coll = GPUSIM_BARRIER};
	struct gpusim_comm now;
	bool told = false;

	if (gpusim_comm_open(cli->g, id, &now) != GPUSIM_OK)
		return false;
	if (gpusim_collective(cli->g, &now, &barrier, GPUSIM_SYNC) == GPUSIM_OK) {
		told = *gpusim_note();
		cli_note();
	}
	gpusim_comm_fini(&now);
	return told;
}

enum rc
recover(struct cli *cli, struct gpusim_comm *comm, uint32_t *was, enum rc rc, struct err *err)
{
	uint32_t epoch = comm->epoch;
	struct err late = {0};
	bool told = false;

	if (rc == RC_UNREACHABLE || rc == RC_TIMEOUT)
		told = meet(cli, comm->id);
	if (recover_refresh(cli, comm, was, &late) != RC_OK ||
	    (rc != RC_RECOVERED && comm->epoch == epoch))
		return rc;
	if (!told)
		log_line(LOG_ERROR, "note: %s", err->text);
	*err = (struct err){0};
	return RC_OK;
}
