/* Inject. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "coll/fault.h"
#include "dev/device_impl.h"
#include "wire/wire.h"
#include "xport/fault.h"

#define LISTED (2 * GPUSIM_FAULTS_MAX) /* faults of steps and of frames */

static enum rc
add_all(struct device *d, const GpuSim__InjectRequest *m, struct err *err)
{
	enum rc rc = RC_OK;

	if (m->clear)
		injector_clear(d->inject);
	for (size_t i = 0; i < m->n_faults && rc == RC_OK; i++) {
		struct gpusim_fault f;

		fault_from_wire(m->faults[i], &f);
		rc = injector_add(d->inject, &f, err);
	}
	return rc;
}

/* The armed faults, as lines. */
static void
answer(struct device *d, struct rpc_call *call)
{
	GpuSim__InjectResponse r = GPU_SIM__INJECT_RESPONSE__INIT;
	GpuSim__Reply reply = WIRE_REPLY(INJECT, inject, r);
	struct gpusim_fault f[LISTED];
	char text[LISTED][GPUSIM_TEXT];
	char *line[LISTED];
	size_t n = inject_list(&d->inject->table, clock_now_ns(), f, GPUSIM_FAULTS_MAX, &r.fired);

	n += xport_fault_list(d->xport, f + n, GPUSIM_FAULTS_MAX);
	for (size_t i = 0; i < n; i++) {
		fault_show(&f[i], text[i], sizeof text[i]);
		line[i] = text[i];
	}
	r.n_armed = n;
	r.armed = line;
	r.damaged = xport_damaged(d->xport);
	rpc_reply(call, &reply);
}

void
serve_inject(struct device *d, struct rpc_call *call)
{
	const GpuSim__InjectRequest *m = rpc_request(call)->inject;
	struct err err = {0};
	enum rc rc;

	if (!d->inject)
		rc = err_set(&err, RC_INVAL,
			     "does not accept faults: it was started without --allow-inject");
	else
		rc = add_all(d, m, &err);
	if (rc == RC_OK) {
		answer(d, call);
		return;
	}
	err_prefix(&err, "device %016" PRIx64, d->id);
	rpc_reply_err(call, &err);
}
