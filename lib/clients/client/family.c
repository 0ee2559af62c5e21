/* Communicators of communicators, by a call of each rank for itself. */
#include <inttypes.h>
#include <unistd.h>

#include "base/host.h"
#include "client/client_impl.h"

/* Such calls are for a handle of one rank. */
static enum rc
check_handle(const struct gpusim_comm *comm, const char *call)
{
	if (comm->rank >= 0)
		return RC_OK;
	return err_set(client_err(), RC_INVAL,
		       "comm %" PRIu64 ": %s is for the handle of one rank, not of all", comm->id,
		       call);
}

/* Call; *out: a handle of the rank of comm, or NULL. */
static enum gpusim_rc
call_rank(const struct gpusim_comm *comm, const GpuSim__Request *req, struct gpusim_comm **out)
{
	struct gpusim_device me = gpusim_comm_device(comm, (uint32_t)comm->rank);
	struct gpusim_comm *made;
	enum gpusim_rc rc = client_call_init(comm->g, req, 0, &made);

	for (uint32_t r = 0; rc == GPUSIM_OK && made && r < made->nranks; r++)
		if (made->device[r].device.id == me.id)
			made->rank = (int)r;
	if (rc != GPUSIM_OK)
		return rc;
	if (!made || made->rank >= 0) {
		*out = made;
		return GPUSIM_OK;
	}
	return client_fail(RC_BADDATA,
			   "comm %" PRIu64 ": device %016" PRIx64
			   " is not in it, although its rank called",
			   made->id, me.id);
}

enum gpusim_rc
gpusim_comm_split(struct gpusim_comm *comm, int color, int key,
		  const struct gpusim_comm_config *config, struct gpusim_comm **out)
{
	GpuSim__CommSplitRankRequest m = GPU_SIM__COMM_SPLIT_RANK_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(COMM_SPLIT_RANK, commsplitrank, m);
	char program[GPUSIM_PROGRAM];
	struct gpusim_comm_config cfg;
	enum gpusim_rc rc;

	if (check_handle(comm, "gpusim_comm_split") != RC_OK ||
	    client_config(config, &cfg) != RC_OK)
		return client_rc(client_err()->rc);
	m.commid = comm->id;
	m.rank = (uint32_t)comm->rank;
	m.call = atomic_load(&comm->splits);
	m.color = color < 0 ? -1 : color;
	m.key = key;
	m.optimeoutms = cfg.op_timeout_ms;
	m.program = client_program(comm->g, program);
	m.pid = (uint32_t)getpid();
	rc = call_rank(comm, &req, out);
	if (rc == GPUSIM_OK)
		atomic_fetch_add(&comm->splits, 1);
	return rc;
}

enum gpusim_rc
gpusim_comm_shrink_rank(struct gpusim_comm *comm, const uint32_t *exclude, size_t n, int abort,
			const struct gpusim_comm_config *config, struct gpusim_comm **out)
{
	GpuSim__CommShrinkRankRequest m = GPU_SIM__COMM_SHRINK_RANK_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(COMM_SHRINK_RANK, commshrinkrank, m);
	char program[GPUSIM_PROGRAM];
	struct gpusim_comm_config cfg;

	if (check_handle(comm, "gpusim_comm_shrink_rank") != RC_OK ||
	    client_config(config, &cfg) != RC_OK)
		return client_rc(client_err()->rc);
	m.commid = comm->id;
	m.rank = (uint32_t)comm->rank;
	m.n_exclude = n;
	m.exclude = (uint32_t *)exclude;
	m.abort = abort;
	m.optimeoutms = cfg.op_timeout_ms;
	m.program = client_program(comm->g, program);
	m.pid = (uint32_t)getpid();
	return call_rank(comm, &req, out);
}

enum gpusim_rc
gpusim_comm_grow_rank(struct gpusim_comm *comm, uint32_t nranks, const struct gpusim_unique_id *id,
		      const struct gpusim_comm_config *config, struct gpusim_comm **out)
{
	GpuSim__CommGrowRankRequest m = GPU_SIM__COMM_GROW_RANK_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(COMM_GROW_RANK, commgrowrank, m);
	char program[GPUSIM_PROGRAM];
	struct gpusim_comm_config cfg;

	if (check_handle(comm, "gpusim_comm_grow_rank") != RC_OK ||
	    client_config(config, &cfg) != RC_OK ||
	    (id && client_parse_id(id, &m.idhigh, &m.idlow) != RC_OK))
		return client_rc(client_err()->rc);
	m.commid = comm->id;
	m.rank = (uint32_t)comm->rank;
	m.numranks = nranks;
	m.optimeoutms = cfg.op_timeout_ms;
	m.program = client_program(comm->g, program);
	m.pid = (uint32_t)getpid();
	return call_rank(comm, &req, out);
}

enum gpusim_rc
gpusim_comm_grow_new(struct gpusim *g, uint32_t nranks, struct gpusim_unique_id id, uint32_t rank,
		     struct gpusim_device device, const struct gpusim_comm_config *config,
		     struct gpusim_comm **out)
{
	GpuSim__CommGrowRankRequest m = GPU_SIM__COMM_GROW_RANK_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(COMM_GROW_RANK, commgrowrank, m);
	char program[GPUSIM_PROGRAM], host[HOST_ID_MAX];
	struct gpusim_comm_config cfg;
	enum gpusim_rc rc;

	if (client_config(config, &cfg) != RC_OK ||
	    client_parse_id(&id, &m.idhigh, &m.idlow) != RC_OK)
		return client_rc(client_err()->rc);
	host_id(host);
	m.rank = rank;
	m.numranks = nranks;
	m.deviceid = device.id;
	m.program = client_program(g, program);
	m.pid = (uint32_t)getpid();
	m.host = host;
	m.user = (uint32_t)geteuid() + 1;
	rc = client_call_init(g, &req, 0, out);
	if (rc == GPUSIM_OK)
		(*out)->rank = (int)rank;
	return rc;
}
