/* coordinator.c - the shell around coord_step: what cmd/gpucoord is in the world outside. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LATE_MS 400 /* an answer may be so long past its deadline: ticks are 100 ms apart */

void
coordinator_start(struct world *w)
{
	struct coord_config cfg = {.instance = roll64(w) | 1,
				   .pid = 1,
				   .address = "sim:coord",
				   .heartbeat_ms = HEARTBEAT_MS,
				   .lost_ms = LOST_MS,
				   .op_timeout_ms = OP_TIMEOUT_MS,
				   .abort_grace_ms = GRACE_MS,
				   .respawn_ms = RESPAWN_MS,
				   .host = "host"};
	struct err err = {0};

	if (coord_new(&cfg, &w->coord, &err) != RC_OK)
		wrong(w, "coord_new: %s", err.text);
	for (uint32_t d = 0; d < w->ndevices; d++) {
		w->coord_client[d] = roll64(w) | 1;
		w->coord_seq[d] = 0;
	}
	post(w, w->now + 100 * MS, EV_TICK, 0);
}

void
coordinator_kill(struct world *w)
{
	coord_free(w->coord);
	w->coord = NULL;
}

static void
call_device(struct world *w, struct coord_action *a)
{
	uint32_t d = (uint32_t)strtoul(a->address + strlen("sim:"), NULL, 10);

	if (d >= w->ndevices || strncmp(a->address, "sim:", 4) != 0) {
		wrong(w, "a call to %s", a->address);
		return;
	}
	rpc_start(w, CALL_OF_COORD, 0, node_of_device(d), w->coord_client[d], ++w->coord_seq[d],
		  a->token, a->timeout_ms * MS, &a->body);
}

static void
carry_out(struct world *w, struct coord_action *a)
{
	switch (a->kind) {
	case COORD_ANSWER:
		if (a->token == 0 || a->token > w->nserved)
			wrong(w, "an answer to nobody");
		else
			rpc_answer_packed(w, (uint32_t)a->token - 1, a->body.data, a->body.len);
		break;
	case COORD_CALL:
		call_device(w, a);
		break;
	case COORD_SPAWN:
		trace(w, "coordinator: start device %" PRIu64 " again", a->device_id - 1);
		node_kill(w, (uint32_t)a->device_id, "to be started again");
		if (roll(w, 10))
			post(w, w->now + between(w, 50 * MS, 500 * MS), EV_START, NONE)->a =
			    (uint32_t)a->device_id;
		break;
	case COORD_LOG:
		trace(w, "coordinator: %s", a->body.data);
		break;
	}
}

void
coordinator_event(struct world *w, const struct coord_event *ev)
{
	struct coord_actions out = w->actions;

	if (coord_step(w->coord, ev, w->now / MS, &out) != RC_OK)
		wrong(w, "coord_step failed");
	for (size_t i = 0; i < out.n && !w->wrong[0]; i++)
		carry_out(w, &out.v[i]);
	coord_actions_clear(&out);
	w->actions = out;
}

void
coordinator_serve(struct world *w, uint32_t s)
{
	struct coord_event ev = {.kind = COORD_REQUEST,
				 .token = s + 1ull,
				 .client_id = w->served[s].client_id,
				 .request = w->served[s].req};

	ev.deadline_ms = w->served[s].until / MS;
	coordinator_event(w, &ev);
}

void
coordinator_result(struct world *w, uint64_t token, enum rc rc, const GpuSim__Reply *reply,
		   const char *text)
{
	struct coord_event ev = {
	    .kind = COORD_RESULT, .token = token, .rc = rc, .reply = reply, .text = text};

	coordinator_event(w, &ev);
}

void
coordinator_tick(struct world *w)
{
	struct coord_event ev = {.kind = COORD_TICK};

	coordinator_event(w, &ev);
	for (size_t i = w->nserved; i-- > 0 && i + 512 > w->nserved;) {
		const struct served *v = &w->served[i];

		if (v->node == 0 && v->req && v->life == w->node[0].life &&
		    w->now > v->until + LATE_MS * MS)
			wrong(w, "the coordinator has not answered %s, %.1fs past its deadline",
			      wire_request_name(v->req), (double)(w->now - v->until) / 1e6);
	}
	post(w, w->now + 100 * MS, EV_TICK, 0);
}
