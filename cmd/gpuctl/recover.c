#include "recover.h"

#include <inttypes.h>
#include <stdbool.h>

#include "base/log.h"

static uint32_t
rank_of(struct gpusim_comm *comm, struct gpusim_device device)
{
	uint32_t r = 0;

	while (r < gpusim_comm_count(comm) && gpusim_comm_device(comm, r).id != device.id)
		r++;
	return r;
}

enum rc
recover_refresh(struct cli *cli, struct gpusim_comm **comm, uint32_t *was, struct err *err)
{
	uint32_t n, nwas = gpusim_comm_count(*comm);
	struct gpusim_comm *now;
	enum rc rc = cli_comm(cli, gpusim_comm_id(*comm).id, &now, err);

	if (rc != RC_OK)
		return rc;
	n = gpusim_comm_count(now);
	for (uint32_t r = 0; r < n && rc == RC_OK; r++) {
		struct gpusim_device device = gpusim_comm_device(now, r);
		uint32_t old = n == nwas ? r : rank_of(*comm, device);

		if (r >= nwas || old >= nwas)
			rc = err_set(err, RC_INTERNAL,
				     "comm %" PRIu64 " rank %" PRIu32 " (device %016" PRIx64
				     ") was not a rank of it before",
				     gpusim_comm_id(now).id, r, device.id);
		else
			was[r] = old;
	}
	if (rc != RC_OK) {
		gpusim_comm_free(now);
		return rc;
	}
	gpusim_comm_free(*comm);
	*comm = now;
	return rc;
}

/* A device does not answer. Run a barrier to find out if the communicator can continue without it; true: a
 * note was printed. */
static bool
meet(struct cli *cli, struct gpusim_comm_id id)
{
	const struct gpusim_collective barrier = {GPUSIM_COLLECTIVE_INIT, .coll = GPUSIM_BARRIER};
	struct gpusim_comm *now;
	bool told = false;

	if (gpusim_comm_open(cli->g, id, &now) != GPUSIM_OK)
		return false;
	if (gpusim_collective(now, &barrier, GPUSIM_SYNC) == GPUSIM_OK) {
		told = *gpusim_note();
		cli_note();
	}
	gpusim_comm_free(now);
	return told;
}

enum rc
recover(struct cli *cli, struct gpusim_comm **comm, uint32_t *was, enum rc rc, struct err *err)
{
	uint32_t epoch = gpusim_comm_epoch(*comm);
	struct err late = {0};
	bool told = false;

	if (rc == RC_UNREACHABLE || rc == RC_TIMEOUT)
		told = meet(cli, gpusim_comm_id(*comm));
	if (recover_refresh(cli, comm, was, &late) != RC_OK ||
	    (rc != RC_RECOVERED && gpusim_comm_epoch(*comm) == epoch))
		return rc;
	if (!told)
		log_line(LOG_ERROR, "note: %s", err->text);
	*err = (struct err){0};
	return RC_OK;
}
