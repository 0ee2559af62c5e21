/* The coordinator's view of everything. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "client/client_impl.h"

static enum rc
copy_comm(struct gpusim_comm_info *to, const GpuSim__CommSummary *from)
{
	to->id.id = from->commid;
	to->pending = from->pending;
	to->operations = from->operations;
	to->epoch = from->epoch;
	to->nranks = (uint32_t)from->n_deviceids;
	to->state = (int)from->status;
	to->on_failure = (int)from->onfailure;
	to->recoveries = from->recoveries;
	snprintf(to->reason, sizeof to->reason, "%s", from->reason);
	snprintf(to->grid, sizeof to->grid, "%s", from->grid);
	to->devices = alloc_zeroed(from->n_deviceids, sizeof *to->devices);
	if (!to->devices)
		return err_set(client_err(), RC_NOMEM, "out of memory");
	for (size_t r = 0; r < from->n_deviceids; r++)
		to->devices[r].id = from->deviceids[r];
	to->progress = alloc_zeroed(from->n_progress, sizeof *to->progress);
	if (!to->progress)
		return err_set(client_err(), RC_NOMEM, "out of memory");
	to->nprogress = from->n_progress;
	for (size_t i = 0; i < from->n_progress; i++)
		to->progress[i] =
		    (struct gpusim_progress){.rank = from->progress[i]->rank,
					     .device = {from->progress[i]->deviceid},
					     .operation = from->progress[i]->operation,
					     .step = from->progress[i]->step,
					     .steps = from->progress[i]->steps,
					     .idle_ms = from->progress[i]->idlems,
					     .waits_for = (int32_t)from->progress[i]->waitsfor - 1};
	return RC_OK;
}

static enum rc
copy_status(struct gpusim_status *to, const GpuSim__StatusResponse *from)
{
	enum rc rc;

	to->instance = from->instance;
	to->uptime_ms = from->uptimems;
	to->waiting = from->waiting;
	to->pid = from->pid;
	snprintf(to->version, sizeof to->version, "%s", from->version);
	snprintf(to->address, sizeof to->address, "%s", from->address);
	rc = client_copy_devices(&to->devices, from->devices, from->n_devices);
	if (rc != RC_OK)
		return rc;
	to->ndevices = from->n_devices;
	to->comms = alloc_zeroed(from->n_comms, sizeof *to->comms);
	if (!to->comms)
		return err_set(client_err(), RC_NOMEM, "out of memory");
	for (; to->ncomms < from->n_comms && rc == RC_OK; to->ncomms++)
		rc = copy_comm(&to->comms[to->ncomms], from->comms[to->ncomms]);
	return rc;
}

enum gpusim_rc
gpusim_status(struct gpusim *g, struct gpusim_status *out)
{
	GpuSim__StatusRequest m = GPU_SIM__STATUS_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(STATUS, status, m);
	struct gpusim_status s = {0};
	GpuSim__Reply *reply;
	enum rc rc;

	rc = client_call(g, &req, GPU_SIM__REPLY__BODY_STATUS, &reply);
	if (rc != RC_OK)
		return client_rc(rc);
	rc = copy_status(&s, reply->status);
	wire_reply_free(reply);
	if (rc == RC_OK)
		*out = s;
	else
		gpusim_status_fini(&s);
	return client_rc(rc);
}

void
gpusim_status_fini(struct gpusim_status *s)
{
	for (size_t i = 0; i < s->ncomms; i++) {
		free(s->comms[i].devices);
		free(s->comms[i].progress);
	}
	free(s->comms);
	free(s->devices);
	*s = (struct gpusim_status){0};
}
