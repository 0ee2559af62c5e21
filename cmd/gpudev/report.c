/* The connection is made with the first report, because few devices ever have one. */
#include "report.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "dev/cmdq.h"
#include "net/rpc_client.h"

#define REPORT_MS 60000 /* a coordinator that is restarted within this time gets the report */

struct reporter {
	const char *addr;
	struct device *device;
	struct rpc_client *client;
};

struct reporter *
reporter_new(const char *coordinator, struct device *d)
{
	struct reporter *r = calloc(1, sizeof *r);

	if (r) {
		r->addr = coordinator;
		r->device = d;
	}
	return r;
}

void
reporter_free(struct reporter *r)
{
	if (!r)
		return;
	rpc_client_close(r->client);
	free(r);
}

static void
on_answer(void *arg, enum rc rc, GpuSim__Reply *reply, const char *text)
{
	struct err err = {0};

	(void)arg;
	if (rc == RC_OK)
		rc = wire_reply_rc(reply, &err);
	else
		err_set(&err, rc, "%s", text);
	/* A communicator that the coordinator does not know need not be ended. */
	if (rc != RC_OK && rc != RC_NOTFOUND && rc != RC_INVAL)
		log_say(LOG_INFO, LOG_RAS,
			"the coordinator did not accept the report of a lost rank: %s", err.text);
	wire_reply_free(reply);
}

static enum rc
tell(struct reporter *r, struct cmdq_report *report, struct err *err)
{
	GpuSim__CommAbortRequest m = GPU_SIM__COMM_ABORT_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(COMM_ABORT, commabort, m);
	enum rc rc = RC_OK;

	if (!r->client) {
		rc = rpc_client_open(r->addr, RPC_CONNECT_LATER, &r->client, err);
		if (rc != RC_OK)
			return rc;
		rpc_client_set_away(r->client, REPORT_MS);
	}
	m.commid = report->comm;
	m.epoch = report->epoch;
	m.reason = report->reason;
	m.code = report->rc;
	return rpc_call_start(r->client, &req, deadline_in_ms(REPORT_MS), on_answer, NULL, err);
}

void
reporter_step(struct reporter *r)
{
	struct cmdq_report report;
	struct err err;

	while (device_report(r->device, &report)) {
		log_say(LOG_INFO, LOG_RAS, "communicator %" PRIu64 ": %s", report.comm,
			report.reason);
		if (r->addr && tell(r, &report, &err) != RC_OK)
			log_say(LOG_WARN, LOG_RAS,
				"cannot report a lost rank to the coordinator: %s", err.text);
	}
}
