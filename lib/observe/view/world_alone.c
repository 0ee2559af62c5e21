/* A world without the coordinator's answers: the devices' communicators are found in their recorders. */
#include <stdlib.h>

#include "view/world.h"
#include "wire/wire.h"

/* A device's rank in a communicator: the mark of its attach; NULL: it is not in it. */
static const struct flight_mark *
seat_of(const struct world_recorder *rec, uint64_t comm)
{
	const struct flight_mark *last = NULL;

	for (size_t i = 0; rec && i < rec->nrings; i++)
		for (size_t k = 0; k < rec->ring[i].nrecords; k++) {
			const struct flight_mark *m = &rec->ring[i].record[k].mark;

			if (m->kind == FLIGHT_MARK && m->comm == comm &&
			    (m->what == FLIGHT_MARK_ATTACH || m->what == FLIGHT_MARK_DETACH))
				last = m;
		}
	return last && last->what == FLIGHT_MARK_ATTACH && last->rank &&
		       last->rank <= WIRE_MAX_RANKS
		   ? last
		   : NULL;
}

/* Allocate with malloc, because protobuf-c frees it. */
static enum rc
add_comm(struct world *w, uint64_t id, struct err *err)
{
	GpuSim__StatusResponse *s = w->status;
	GpuSim__CommSummary **comms = realloc(s->comms, (s->n_comms + 1) * sizeof *comms), *c;
	struct world_holder *h = realloc(w->holder, (s->n_comms + 1) * sizeof *h);

	s->comms = comms ? comms : s->comms;
	w->holder = h ? h : w->holder;
	c = comms && h ? malloc(sizeof *c) : NULL;
	if (!c)
		return err_set(err, RC_NOMEM, "out of memory");
	gpu_sim__comm_summary__init(c);
	h[s->n_comms] = (struct world_holder){0};
	comms[s->n_comms++] = c;
	c->commid = id;
	c->status = GPU_SIM__STATUS__SUCCESS;
	c->queued = true;
	c->deviceids = calloc(WIRE_MAX_RANKS, sizeof *c->deviceids);
	for (size_t i = 0; c->deviceids && i < w->ndevices; i++) {
		const struct flight_mark *seat = seat_of(w->device[i].recorder, id);

		if (!seat)
			continue;
		c->deviceids[seat->rank - 1] = s->devices[i]->deviceid->value;
		c->n_deviceids = seat->rank > c->n_deviceids ? seat->rank : c->n_deviceids;
		c->epoch = seat->epoch > c->epoch ? seat->epoch : c->epoch;
		s->devices[i]->commid = id;
	}
	return c->deviceids ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

enum rc
world_alone(struct world *w, struct err *err)
{
	enum rc rc = RC_OK;

	for (size_t d = 0; d < w->ndevices; d++) {
		const struct world_recorder *rec = w->device[d].recorder;

		for (size_t i = 0; rec && i < rec->nrings; i++)
			for (size_t k = 0; rc == RC_OK && k < rec->ring[i].nrecords; k++) {
				const struct flight_mark *m = &rec->ring[i].record[k].mark;

				if (m->kind == FLIGHT_MARK && m->what == FLIGHT_MARK_ATTACH &&
				    !world_comm(w, m->comm) && seat_of(rec, m->comm))
					rc = add_comm(w, m->comm, err);
			}
	}
	return rc;
}
