/* Communicators and groups. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/host.h"
#include "client/enqueue.h"
#include "net/net.h"

/* Make a handle from the coordinator's answer. */
static enum rc
make(struct gpusim *g, uint64_t id, uint32_t epoch, bool queued,
     GpuSim__DeviceMetadata *const *devices, size_t n, struct gpusim_comm **out)
{
	struct gpusim_comm *c = calloc(1, sizeof *c);
	enum rc rc = c ? client_copy_devices(&c->device, devices, n)
		       : err_set(client_err(), RC_NOMEM, "out of memory");

	if (rc != RC_OK) {
		free(c);
		return rc;
	}
	c->g = g;
	c->id = id;
	c->epoch = epoch;
	c->nranks = (uint32_t)n;
	c->rank = -1;
	c->queued = queued;
	client_note_devices(g, c->device, n);
	*out = c;
	return RC_OK;
}

/* Devices as the numbers of a message, which does not change them. */
static uint64_t *
ids(const struct gpusim_device *devices)
{
	_Static_assert(sizeof *devices == sizeof(uint64_t), "a device is its id");

	return (uint64_t *)devices;
}

enum gpusim_rc
client_call_init(struct gpusim *g, const GpuSim__Request *req, uint32_t wait_ms,
		 struct gpusim_comm **out)
{
	GpuSim__Reply *reply;
	enum rc rc = client_call_waiting(g, req, GPU_SIM__REPLY__BODY_COMM_INIT, wait_ms, &reply);

	if (rc != RC_OK)
		return client_rc(rc);
	if (out)
		*out = NULL;
	if (out && reply->comminit->commid)
		rc = make(g, reply->comminit->commid, reply->comminit->epoch,
			  reply->comminit->queued, reply->comminit->devices,
			  reply->comminit->n_devices, out);
	wire_reply_free(reply);
	return client_rc(rc);
}

enum rc
client_config(const struct gpusim_comm_config *config, struct gpusim_comm_config *out)
{
	*out = (struct gpusim_comm_config){GPUSIM_COMM_CONFIG_INIT};
	return config ? client_take("gpusim_comm_config", config, out, sizeof *out) : RC_OK;
}

enum gpusim_rc
gpusim_comm_init_all(struct gpusim *g, uint32_t n, const struct gpusim_device *devices,
		     const struct gpusim_comm_config *config, struct gpusim_comm **out)
{
	struct gpusim_comm_config cfg;
	GpuSim__CommInitRequest m = GPU_SIM__COMM_INIT_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(COMM_INIT, comminit, m);
	char program[GPUSIM_PROGRAM];

	if (client_config(config, &cfg) != RC_OK)
		return client_rc(client_err()->rc);
	m.deviceids = ids(devices);
	m.n_deviceids = devices ? n : 0;
	m.numdevices = n;
	m.lease = cfg.life == GPUSIM_LEASE;
	if (config)
		m.policy_case = GPU_SIM__COMM_INIT_REQUEST__POLICY_ON_FAILURE;
	m.onfailure = (GpuSim__OnFailure)cfg.on_failure;
	m.optimeoutms = cfg.op_timeout_ms;
	m.waitms = cfg.wait_ms;
	m.grid = (char *)(cfg.grid ? cfg.grid : "");
	m.program = client_program(g, program);
	m.pid = (uint32_t)getpid();
	return client_call_init(g, &req, devices ? 0 : cfg.wait_ms, out);
}

enum gpusim_rc
gpusim_get_unique_id(struct gpusim_unique_id *out)
{
	snprintf(out->text, sizeof out->text, "%016" PRIx64 "%016" PRIx64, net_random(),
		 net_random());
	return GPUSIM_OK;
}

/* One half of an id: 16 digits. */
static uint64_t
half(const char *digits)
{
	char text[17];

	memcpy(text, digits, 16);
	text[16] = '\0';
	return strtoull(text, NULL, 16);
}

enum rc
client_parse_id(const struct gpusim_unique_id *uid, uint64_t *high, uint64_t *low)
{
	const size_t digits = sizeof uid->text - 1;
	const char *id = uid->text;
	size_t n = 0;

	while (n < digits && isxdigit((unsigned char)id[n]))
		n++;
	if (n != digits || id[n])
		return err_set(client_err(), RC_INVAL,
			       "'%.32s' is not a unique id of %zu hexadecimal digits", id, digits);
	*high = half(id);
	*low = half(id + 16);
	return RC_OK;
}

/* The rank can enqueue operations itself. */
static bool
queues(const struct gpusim_comm_config *cfg)
{
	if (cfg->queues != GPUSIM_QUEUES_AUTO)
		return cfg->queues == GPUSIM_QUEUES_ON;
	/* Other clients may open a communicator without a lease by its id. */
	return cfg->life == GPUSIM_LEASE && cfg->on_failure == GPUSIM_ON_FAILURE_ABORT;
}

enum gpusim_rc
gpusim_comm_init_rank(struct gpusim *g, uint32_t nranks, struct gpusim_unique_id id, uint32_t rank,
		      struct gpusim_device device, const struct gpusim_comm_config *config,
		      struct gpusim_comm **out)
{
	struct gpusim_comm_config cfg;
	GpuSim__CommInitRankRequest m = GPU_SIM__COMM_INIT_RANK_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(COMM_INIT_RANK, comminitrank, m);
	char program[GPUSIM_PROGRAM], host[HOST_ID_MAX];
	enum gpusim_rc rc = client_rc(client_parse_id(&id, &m.idhigh, &m.idlow));

	if (rc == GPUSIM_OK)
		rc = client_rc(client_config(config, &cfg));
	if (rc != GPUSIM_OK)
		return rc;
	m.rank = rank;
	m.numranks = nranks;
	m.deviceid = device.id;
	m.lease = cfg.life == GPUSIM_LEASE;
	m.onfailure = (GpuSim__OnFailure)cfg.on_failure;
	m.optimeoutms = cfg.op_timeout_ms;
	m.grid = (char *)(cfg.grid ? cfg.grid : "");
	m.program = client_program(g, program);
	m.pid = (uint32_t)getpid();
	if (queues(&cfg)) {
		host_id(host);
		m.host = host;
		m.user = (uint32_t)geteuid() + 1;
		m.mustqueue = cfg.queues == GPUSIM_QUEUES_ON;
	}
	rc = client_call_init(g, &req, 0, out);
	if (rc == GPUSIM_OK)
		(*out)->rank = (int)rank;
	return rc;
}

enum gpusim_rc
gpusim_comm_abort(struct gpusim_comm *comm, const char *reason)
{
	GpuSim__CommAbortRequest m = GPU_SIM__COMM_ABORT_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(COMM_ABORT, commabort, m);

	m.commid = comm->id;
	m.reason = (char *)(reason ? reason : "aborted by a client");
	return client_rc(client_call(comm->g, &req, GPU_SIM__REPLY__BODY_DONE, NULL));
}

enum gpusim_rc
gpusim_comm_shrink(struct gpusim_comm *comm, const uint32_t *ranks, size_t nranks,
		   struct gpusim_comm **out)
{
	GpuSim__CommShrinkRequest m = GPU_SIM__COMM_SHRINK_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(COMM_SHRINK, commshrink, m);

	m.commid = comm->id;
	m.n_ranks = nranks;
	m.ranks = (uint32_t *)ranks;
	return client_call_init(comm->g, &req, 0, out);
}

enum gpusim_rc
gpusim_comm_grow(struct gpusim_comm *comm, uint32_t n, const struct gpusim_device *devices,
		 uint32_t wait_ms, struct gpusim_comm **out)
{
	GpuSim__CommGrowRequest m = GPU_SIM__COMM_GROW_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(COMM_GROW, commgrow, m);
	char program[GPUSIM_PROGRAM];

	m.commid = comm->id;
	m.numdevices = n;
	m.deviceids = ids(devices);
	m.n_deviceids = devices ? n : 0;
	m.waitms = devices ? 0 : wait_ms;
	m.program = client_program(comm->g, program);
	m.pid = (uint32_t)getpid();
	return client_call_init(comm->g, &req, m.waitms, out);
}

/* ---- status */

static enum rc
call_status(struct gpusim *g, const GpuSim__GetCommStatusRequest *m, GpuSim__Reply **out)
{
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;

	req.body_case = GPU_SIM__REQUEST__BODY_GET_COMM_STATUS;
	req.getcommstatus = (GpuSim__GetCommStatusRequest *)m;
	return client_call(g, &req, GPU_SIM__REPLY__BODY_GET_COMM_STATUS, out);
}

enum gpusim_rc
gpusim_comm_open(struct gpusim *g, struct gpusim_comm_id id, struct gpusim_comm **out)
{
	GpuSim__GetCommStatusRequest m = GPU_SIM__GET_COMM_STATUS_REQUEST__INIT;
	GpuSim__Reply *reply;
	enum rc rc;

	m.commid = id.id;
	rc = call_status(g, &m, &reply);
	if (rc != RC_OK)
		return client_rc(rc);
	rc = make(g, id.id, reply->getcommstatus->epoch, reply->getcommstatus->queued,
		  reply->getcommstatus->devices, reply->getcommstatus->n_devices, out);
	wire_reply_free(reply);
	return client_rc(rc);
}

enum gpusim_rc
gpusim_comm_status(const struct gpusim_comm *comm, enum gpusim_wait wait, enum gpusim_state *state)
{
	GpuSim__GetCommStatusRequest m = GPU_SIM__GET_COMM_STATUS_REQUEST__INIT;
	GpuSim__Reply *reply;
	enum rc rc = RC_OK;

	if (wait == GPUSIM_SYNC)
		rc = (enum rc)enqueue_comm_sync(comm);
	else if (enqueue_works(comm)) {
		*state = GPUSIM_IN_PROGRESS;
		return GPUSIM_OK;
	}
	if (rc != RC_OK)
		return client_rc(rc);
	m.commid = comm->id;
	m.wait = wait == GPUSIM_SYNC;
	rc = call_status(comm->g, &m, &reply);
	if (rc != RC_OK)
		return client_rc(rc);
	rc = client_state(reply->getcommstatus->status, reply->getcommstatus->code,
			  reply->getcommstatus->reason, wait, state);
	if (rc == RC_OK)
		client_note(reply->getcommstatus->recovered);
	wire_reply_free(reply);
	return client_rc(rc);
}

enum gpusim_rc
gpusim_comm_get_async_error(const struct gpusim_comm *comm, enum gpusim_rc *out)
{
	enum gpusim_state state;
	enum gpusim_rc rc = gpusim_comm_status(comm, GPUSIM_ASYNC, &state);

	if (rc == GPUSIM_OK)
		*out = state == GPUSIM_STATE_FAILED ? client_rc(client_err()->rc) : GPUSIM_OK;
	return rc;
}

enum gpusim_rc
gpusim_comm_sync(const struct gpusim_comm *comm)
{
	enum gpusim_state state;
	enum gpusim_rc rc = gpusim_comm_status(comm, GPUSIM_SYNC, &state);

	return rc == GPUSIM_OK && state == GPUSIM_STATE_FAILED ? client_rc(client_err()->rc) : rc;
}

enum gpusim_rc
gpusim_comm_paths(const struct gpusim_comm *comm, uint8_t *path)
{
	GpuSim__GetCommStatusRequest m = GPU_SIM__GET_COMM_STATUS_REQUEST__INIT;
	size_t n = (size_t)comm->nranks * comm->nranks;
	GpuSim__Reply *reply;
	enum rc rc;

	m.commid = comm->id;
	m.paths = true;
	rc = call_status(comm->g, &m, &reply);
	if (rc != RC_OK)
		return client_rc(rc);
	if (reply->getcommstatus->paths.len == n)
		memcpy(path, reply->getcommstatus->paths.data, n);
	else
		rc = err_set(client_err(), RC_BADDATA,
			     "comm %" PRIu64 ": received %zu paths of %" PRIu32 " ranks", comm->id,
			     reply->getcommstatus->paths.len, comm->nranks);
	wire_reply_free(reply);
	return client_rc(rc);
}

enum gpusim_rc
gpusim_comm_lateness(const struct gpusim_comm *comm, struct gpusim_lateness **out, uint32_t *nranks)
{
	GpuSim__GetCommStatusRequest m = GPU_SIM__GET_COMM_STATUS_REQUEST__INIT;
	struct gpusim_lateness *v = NULL;
	GpuSim__Reply *reply;
	size_t n;
	enum rc rc;

	m.commid = comm->id;
	m.lateness = true;
	rc = call_status(comm->g, &m, &reply);
	if (rc != RC_OK)
		return client_rc(rc);
	n = reply->getcommstatus->n_lateness;
	v = alloc_zeroed(n, sizeof *v);
	for (size_t r = 0; v && r < n; r++) {
		const GpuSim__Lateness *from = reply->getcommstatus->lateness[r];

		v[r] = (struct gpusim_lateness){.device = {from->deviceid},
						.operations = from->operations,
						.sum_ns = from->sumns,
						.max_ns = from->maxns};
	}
	wire_reply_free(reply);
	if (!v)
		return client_fail(RC_NOMEM, "out of memory");
	*out = v;
	*nranks = (uint32_t)n;
	return client_rc(RC_OK);
}

/* ---- the handle */

struct gpusim_comm_id
gpusim_comm_id(const struct gpusim_comm *comm)
{
	return (struct gpusim_comm_id){comm->id};
}

uint32_t
gpusim_comm_count(const struct gpusim_comm *comm)
{
	return comm ? comm->nranks : 0;
}

int
gpusim_comm_user_rank(const struct gpusim_comm *comm)
{
	return comm->rank;
}

uint32_t
gpusim_comm_epoch(const struct gpusim_comm *comm)
{
	return comm->epoch;
}

int
gpusim_comm_is_queued(const struct gpusim_comm *comm)
{
	return comm->queued;
}

const struct gpusim_device_info *
gpusim_comm_device_info(const struct gpusim_comm *comm, uint32_t rank)
{
	return rank < comm->nranks ? &comm->device[rank] : NULL;
}

struct gpusim_device
gpusim_comm_device(const struct gpusim_comm *comm, uint32_t rank)
{
	return rank < comm->nranks ? comm->device[rank].device : (struct gpusim_device){0};
}

void
gpusim_comm_free(struct gpusim_comm *comm)
{
	if (!comm)
		return;
	gpusim_ops_free(comm->group);
	enqueue_group_free(comm->enqueued);
	cmdq_unbind(atomic_load(&comm->bind));
	free(comm->device);
	free(comm);
}

enum gpusim_rc
gpusim_comm_destroy(struct gpusim_comm *comm)
{
	GpuSim__CommDestroyRequest m = GPU_SIM__COMM_DESTROY_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(COMM_DESTROY, commdestroy, m);
	enum rc rc;

	if (!comm)
		return GPUSIM_OK;
	m.commid = comm->id;
	if (comm->queued && comm->rank >= 0) {
		enqueue_comm_sync(comm);
		cmdq_unbind(atomic_exchange(&comm->bind, NULL));
		m.leave = true;
		m.rank = (uint32_t)comm->rank;
	}
	rc = client_call(comm->g, &req, GPU_SIM__REPLY__BODY_COMM_DESTROY, NULL);
	gpusim_comm_free(comm);
	return client_rc(rc);
}

/* ---- groups */

static enum gpusim_rc
end_own(struct gpusim_comm *comm, enum gpusim_wait wait)
{
	struct gpusim_ops *group = comm->group;
	enum gpusim_rc rc;

	if (!group || wait != GPUSIM_ASYNC)
		return client_fail(RC_INVAL, "comm %" PRIu64 ": %s", comm->id,
				   group ? "a rank's group must end with GPUSIM_ASYNC"
					 : "no group is open");
	comm->group = NULL;
	rc = client_submit_rank(comm, group);
	gpusim_ops_free(group);
	return rc;
}

enum gpusim_rc
gpusim_group_start(struct gpusim_comm *comm)
{
	GpuSim__GroupStartRequest m = GPU_SIM__GROUP_START_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(GROUP_START, groupstart, m);

	if (comm->queued && comm->rank >= 0)
		return enqueue_start(comm);
	if (comm->rank >= 0 && comm->group)
		return client_fail(RC_INVAL, "comm %" PRIu64 ": the group is already open",
				   comm->id);
	if (comm->rank >= 0) /* a group of the handle's own rank is gathered here */
		return (comm->group = gpusim_ops_new(comm->nranks))
			   ? GPUSIM_OK
			   : client_fail(RC_NOMEM, "out of memory");
	m.commid = comm->id;
	return client_rc(client_call(comm->g, &req, GPU_SIM__REPLY__BODY_GROUP_START, NULL));
}

enum gpusim_rc
gpusim_group_end(struct gpusim_comm *comm, enum gpusim_wait wait)
{
	GpuSim__GroupEndRequest m = GPU_SIM__GROUP_END_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(GROUP_END, groupend, m);
	GpuSim__Reply *reply;
	enum rc rc;

	if (comm->queued && comm->rank >= 0)
		return wait == GPUSIM_ASYNC ? enqueue_end(comm)
					    : end_own(comm, wait); /* which refuses */
	if (comm->rank >= 0)
		return end_own(comm, wait);
	m.commid = comm->id;
	m.wait = wait == GPUSIM_SYNC;
	rc = client_call(comm->g, &req, GPU_SIM__REPLY__BODY_GROUP_END, &reply);
	if (!m.wait)
		client_submitted(comm->g, comm->id);
	if (rc == RC_OK) {
		client_note(reply->groupend->note);
		wire_reply_free(reply);
	}
	return client_rc(rc);
}
