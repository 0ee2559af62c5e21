/*
 * report.c - reports of permanent failures: claimed, shared, written.
 *
 * The number is claimed when the failure is noticed, because the ranks get the failure and the number
 * together. The report is written when all ranks have answered or are given up, since their recorders are
 * complete then. Communicators that fail in the same step, such as all those of a lost device, share a
 * report.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
comm_report_claim(struct coord *c, struct comm *comm)
{
	if (!c->cfg.report_claim || comm->reporting || comm->rec.asked)
		return;
	if (c->report == 0)
		c->report = c->cfg.report_claim(c->cfg.report_arg);
	comm->report = c->report;
	comm->reporting = comm->report != 0;
}

void
comm_report_name(const struct coord *c, const struct comm *comm, struct err *line)
{
	char tail[sizeof c->cfg.reports + 48];
	size_t len = strlen(line->text), n;

	if (!comm->reporting)
		return;
	n = (size_t)snprintf(tail, sizeof tail, "; report: %s/report.%" PRIu64, c->cfg.reports,
			     comm->report);
	if (n >= sizeof line->text)
		return;
	if (len + n >= sizeof line->text)
		len = sizeof line->text - 1 - n;
	memcpy(line->text + len, tail, n + 1);
}

static bool
shares(const struct comm *comm, uint64_t number)
{
	return comm->reporting && comm->report == number;
}

/* The devices of all communicators that share the report, each once. 0: out of memory. */
static size_t
list_devices(const struct coord *c, uint64_t number, uint64_t **out)
{
	uint64_t *ids = NULL;
	size_t n = 0;

	for (const struct comm *comm = c->comms->first; comm; comm = comm->next) {
		uint64_t *more;

		if (!shares(comm, number))
			continue;
		more = alloc_resize(ids, n + comm->nranks, sizeof *ids);
		if (!more) {
			free(ids);
			return 0;
		}
		ids = more;
		for (uint32_t r = 0; r < comm->nranks; r++) {
			uint64_t id = device_id(comm->rank[r].dev);
			size_t k = 0;

			while (k < n && ids[k] != id)
				k++;
			if (k == n)
				ids[n++] = id;
		}
	}
	*out = ids;
	return n;
}

static void
act_report(struct coord *c, struct comm *comm, const char *reason)
{
	struct coord_action a = {.kind = COORD_REPORT, .token = comm->report, .comm_id = comm->id};
	GpuSim__Report m = GPU_SIM__REPORT__INIT;
	uint64_t *ids = NULL;
	size_t n = list_devices(c, comm->report, &ids);
	GpuSim__RecorderArea **areas = messages_new(n, &gpu_sim__recorder_area__descriptor);

	m.number = comm->report;
	m.commid = comm->id;
	m.reason = (char *)reason;
	for (size_t i = 0; areas && i < n; i++)
		areas[i]->deviceid = ids[i];
	m.recorders = areas;
	m.n_recorders = areas ? n : 0;
	if (buf_pack(&a.body, &m.base))
		act(c, &a);
	free(areas);
	free(ids);
}

void
comm_report_ready(struct coord *c, struct comm *comm, const char *reason)
{
	uint64_t number = comm->report;

	if (!comm->reporting)
		return;
	for (struct comm *o = c->comms->first; o; o = o->next)
		if (o != comm && shares(o, number) && o->state == COMM_DRAINING)
			return;
	act_report(c, comm, reason);
	for (struct comm *o = c->comms->first; o; o = o->next)
		o->reporting &= !shares(o, number);
}
