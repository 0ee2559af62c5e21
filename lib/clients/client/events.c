/* The coordinator's history. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "client/client_impl.h"

const char *
gpusim_history_name(int kind)
{
	static const char *const name[] = {
	    [GPUSIM_HISTORY_STARTED] = "started",     [GPUSIM_HISTORY_JOINED] = "joined",
	    [GPUSIM_HISTORY_LOST] = "lost",	      [GPUSIM_HISTORY_BACK] = "back",
	    [GPUSIM_HISTORY_RESTARTED] = "restarted", [GPUSIM_HISTORY_REPLACED] = "replaced",
	    [GPUSIM_HISTORY_GIVEN_UP] = "given-up",   [GPUSIM_HISTORY_COMM_FAILED] = "comm-failed",
	    [GPUSIM_HISTORY_RECOVERED] = "recovered", [GPUSIM_HISTORY_ENDED] = "ended"};

	return kind >= 0 && kind < (int)(sizeof name / sizeof *name) ? name[kind] : "unknown";
}

enum gpusim_rc
gpusim_history(struct gpusim *g, uint64_t after, uint32_t wait_ms,
	       struct gpusim_history_event **out, size_t *n, uint64_t *last)
{
	GpuSim__EventsRequest m = GPU_SIM__EVENTS_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(EVENTS, events, m);
	struct gpusim_history_event *v;
	GpuSim__Reply *reply;
	enum rc rc;

	m.after = after;
	m.waitms = wait_ms;
	rc = client_call_waiting(g, &req, GPU_SIM__REPLY__BODY_EVENTS, wait_ms, &reply);
	if (rc != RC_OK)
		return client_rc(rc);
	v = alloc_zeroed(reply->events->n_events, sizeof *v);
	if (v) {
		*n = reply->events->n_events;
		*last = reply->events->last;
		for (size_t i = 0; i < *n; i++) {
			const GpuSim__HistoryEvent *e = reply->events->events[i];

			v[i] = (struct gpusim_history_event){.number = e->number,
							     .at_ms = e->atms,
							     .kind = (int)e->kind,
							     .device = {e->deviceid},
							     .ordinal = e->ordinal,
							     .comm = {e->commid},
							     .rank = (int32_t)e->rank - 1};
			snprintf(v[i].text, sizeof v[i].text, "%s", e->text);
		}
		*out = v;
	} else {
		rc = err_set(client_err(), RC_NOMEM, "out of memory");
	}
	wire_reply_free(reply);
	return client_rc(rc);
}
