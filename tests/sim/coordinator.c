/* coordinator.c - the shell around coord_step: in place of cmd/gpucoord. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASKED_BY_WORLD UINT64_MAX
#define LATE_MS	       400 /* the longest time of an answer past its deadline: ticks are 100 ms apart */

/* ---- the store: records by key */

static size_t
record_at(const struct world *w, const char *key)
{
	size_t i = 0;

	while (i < w->nrecords && strcmp(w->record[i].key, key) < 0)
		i++;
	return i;
}

static void
record_drop(struct world *w, size_t i)
{
	free(w->record[i].key);
	buf_fini(&w->record[i].value);
	w->nrecords--;
	memmove(&w->record[i], &w->record[i + 1], (w->nrecords - i) * sizeof *w->record);
}

static void
store(struct world *w, const struct coord_action *a)
{
	size_t i = record_at(w, a->address);
	struct record *v;

	if (i < w->nrecords && strcmp(w->record[i].key, a->address) == 0)
		record_drop(w, i);
	if (!a->body.data)
		return;
	v = alloc_resize(w->record, w->nrecords + 1, sizeof *v);
	if (!v)
		abort();
	w->record = v;
	memmove(&v[i + 1], &v[i], (w->nrecords - i) * sizeof *v);
	w->nrecords++;
	v[i] = (struct record){.key = strdup(a->address)};
	if (!v[i].key || !buf_add(&v[i].value, a->body.data, a->body.len))
		abort();
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

/* The device starts, or fails to start, or exits before it registers, or no report comes. */
static void
spawn(struct world *w, uint32_t d)
{
	uint32_t n = node_of_device(d), how = w->calm ? 9 : roll(w, 10);
	struct event *e;

	if (w->dev[d].discarded)
		wrong(w, "device %" PRIu32 " is started again on memory that was removed", d);
	node_kill(w, n, "to be started again");
	if (how == 0)
		return;
	e = post(w, w->now, EV_SPAWNED, 0);
	e->b = d;
	e->c = how == 1 ? 0 : pid_of_device(d, w->node[n].life + 1);
	if (how > 2) {
		post(w, w->now + between(w, 50 * MS, 500 * MS), EV_START, NONE)->a = n;
	} else if (how == 2) {
		w->node[n].life++;
		e = post(w, w->now + 50 * MS, EV_EXITED, 0);
		e->b = pid_of_device(d, w->node[n].life);
		e->c = roll(w, 2) ? 9 : 1 << 8;
	}
}

/* No device adopts this memory afterwards. */
static void
discard(struct world *w, uint32_t d)
{
	if (w->node[node_of_device(d)].alive)
		return;
	trace(w, "coordinator: the memory of device %" PRIu32 " goes", d);
	w->dev[d].discarded = true;
}

static void
carry_out(struct world *w, struct coord_action *a)
{
	if (a->kind == COORD_SPAWN || a->kind == COORD_DISCARD) {
		digest_add(&w->digest, a->kind);
		digest_add(&w->digest, a->device_id);
	}
	switch (a->kind) {
	case COORD_ANSWER:
		if (a->token == ASKED_BY_WORLD)
			buf_add(w->telling, a->body.data, a->body.len);
		else if (a->token == 0)
			rpc_remember(w, a->client_id, a->seq, a->body.data, a->body.len);
		else if (a->token > w->nserved)
			wrong(w, "an answer to nobody");
		else
			rpc_answer_packed(w, (uint32_t)a->token - 1, a->body.data, a->body.len);
		break;
	case COORD_CALL:
		call_device(w, a);
		break;
	case COORD_SPAWN:
		trace(w, "coordinator: start device %" PRIu64 " again", a->device_id - 1);
		spawn(w, (uint32_t)a->device_id - 1);
		break;
	case COORD_DISCARD:
		discard(w, (uint32_t)a->device_id - 1);
		break;
	case COORD_STORE:
		store(w, a);
		break;
	case COORD_LOG:
		trace(w, "coordinator: %s", a->body.data);
		if (w->starving && strncmp(a->body.data, "device ", 7) == 0 &&
		    strstr(a->body.data, " lost: "))
			wrong(w, "nobody is gone, but %s", a->body.data);
		break;
	case COORD_NOTE:
	case COORD_ALGO:   /* nothing is recorded */
	case COORD_PROVE:  /* no file comes */
	case COORD_REPORT: /* none is claimed */
		break;
	case COORD_ASK_ECHO:
		post(w, w->now, EV_ECHO, 0);
		break;
	case COORD_LOOK:
		post(w, w->now, EV_LOOKED, 0)->b = a->device_id;
		break;
	}
}

static void
restore(struct world *w, struct coord *c)
{
	struct coord_actions out = {0};
	struct err err = {0};

	for (size_t i = 0; i < w->nrecords; i++)
		if (coord_restore(c, w->record[i].key, w->record[i].value.data,
				  w->record[i].value.len, &out, &err) != RC_OK)
			wrong(w, "what the coordinator stored is refused: %s", err.text);
	for (size_t i = 0; i < out.n; i++)
		carry_out(w, &out.v[i]);
	coord_actions_fini(&out);
}

void
coordinator_event(struct world *w, struct coord_event *ev)
{
	struct coord_actions out = w->actions;

	ev->wall_ms = w->now / MS + 1;
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
coordinator_seen(struct world *w, uint64_t client_id)
{
	struct coord_event ev = {.kind = COORD_SEEN, .client_id = client_id};

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

/* ---- the process */

/* Send the world's own request to the coordinator, and take the answer. */
static void
ask(struct world *w, GpuSim__Request *req, struct buf *out)
{
	struct coord_event ev = {.kind = COORD_REQUEST,
				 .token = ASKED_BY_WORLD,
				 .client_id = 1,
				 .request = req,
				 .deadline_ms = w->now / MS + 1000};

	out->len = 0;
	w->telling = out;
	coordinator_event(w, &ev);
	w->telling = NULL;
}

/* Its status: the communicators it has. */
static void
ask_state(struct world *w, struct buf *out)
{
	GpuSim__StatusRequest q = GPU_SIM__STATUS_REQUEST__INIT;
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;

	req.body_case = GPU_SIM__REQUEST__BODY_STATUS;
	req.status = &q;
	ask(w, &req, out);
}

/* Events are numbered from 1 without gaps; a device is lost once, and then comes back or is
 * restarted once. */
static void
check_events(struct world *w, const GpuSim__EventsResponse *r)
{
	bool lost[MAX_DEVICES + 1] = {false};

	if (r->last < w->told_events)
		wrong(w, "the history has lost events: %" PRIu64 " of %" PRIu64, r->last,
		      w->told_events);
	for (size_t i = 0; i < r->n_events && r->last <= 1024; i++) {
		const GpuSim__HistoryEvent *e = r->events[i];
		bool *is = &lost[e->deviceid <= w->ndevices ? e->deviceid : 0];

		if (e->number != i + 1 || !*e->text)
			wrong(w, "event %" PRIu64 " is at the place of %zu: %s", e->number, i + 1,
			      e->text);
		if ((e->kind == GPU_SIM__EVENT_KIND__LOST && *is) ||
		    (e->kind == GPU_SIM__EVENT_KIND__BACK && !*is))
			wrong(w, "event %" PRIu64 " is told twice: %s", e->number, e->text);
		if (e->kind == GPU_SIM__EVENT_KIND__LOST)
			*is = true;
		else if (e->kind == GPU_SIM__EVENT_KIND__BACK ||
			 e->kind == GPU_SIM__EVENT_KIND__RESTARTED)
			*is = false;
	}
	w->told_events = r->last;
}

void
coordinator_check_history(struct world *w)
{
	GpuSim__EventsRequest q = GPU_SIM__EVENTS_REQUEST__INIT;
	GpuSim__Request req = GPU_SIM__REQUEST__INIT;
	GpuSim__Reply *reply = NULL;
	struct buf out = {0};

	if (w->wrong[0] || !w->coord)
		return;
	req.body_case = GPU_SIM__REQUEST__BODY_EVENTS;
	req.events = &q;
	ask(w, &req, &out);
	if (wire_reply_unpack(out.data, out.len, &reply, NULL) != RC_OK || !reply->events)
		wrong(w, "the coordinator says nothing of its history");
	else
		check_events(w, reply->events);
	if (!w->wrong[0])
		digest_message(&w->digest, &reply->events->base);
	wire_reply_free(reply);
	buf_fini(&out);
}

static const GpuSim__CommSummary *
find_comm(const GpuSim__StatusResponse *r, uint64_t id)
{
	for (size_t i = 0; i < r->n_comms; i++)
		if (r->comms[i]->commid == id)
			return r->comms[i];
	return NULL;
}

/* A communicator is the same after a restart. A changing one may have got further, or begin again. */
static void
check_same(struct world *w, const GpuSim__CommSummary *was, const GpuSim__CommSummary *is)
{
	/* A failed one that still has runs waits for the last of its ranks. */
	bool settled = was->status != GPU_SIM__STATUS__IN_PROGRESS &&
		       (was->status != GPU_SIM__STATUS__FAILED || was->pending == 0);

	if (!is && was->status != GPU_SIM__STATUS__SUCCESS && was->pending == 0)
		return; /* it was about to be removed */
	if (!is || is->onfailure != was->onfailure || is->epoch < was->epoch)
		wrong(w, "comm %" PRIu64 " has not survived the coordinator", was->commid);
	else if (settled && (is->epoch != was->epoch || is->n_deviceids != was->n_deviceids ||
			     memcmp(is->deviceids, was->deviceids,
				    was->n_deviceids * sizeof *was->deviceids) != 0))
		wrong(w,
		      "comm %" PRIu64 " has other ranks, or another epoch, after a restart: %zu, "
		      "epoch %u, first %" PRIu64 "; before it %zu, epoch %u, first %" PRIu64,
		      was->commid, is->n_deviceids, is->epoch, is->deviceids[0], was->n_deviceids,
		      was->epoch, was->deviceids[0]);
	else if (settled && (was->status == GPU_SIM__STATUS__FAILED) !=
				(is->status == GPU_SIM__STATUS__FAILED))
		wrong(w, "comm %" PRIu64 " %s after a restart", was->commid,
		      was->status == GPU_SIM__STATUS__FAILED ? "has not failed any more"
							     : "has failed");
	else if (is->operations < was->operations ||
		 (settled && (is->pending != was->pending || is->recoveries != was->recoveries ||
			      is->operations != was->operations)))
		wrong(w,
		      "comm %" PRIu64 " has %" PRIu64 " runs and %" PRIu64
		      " operations after a restart, before it %" PRIu64 " and %" PRIu64,
		      was->commid, is->pending, is->operations, was->pending, was->operations);
}

/* The state after a restart equals the state before. */
static void
check_state(struct world *w)
{
	struct buf now = {0};
	GpuSim__Reply *was = NULL, *is = NULL;

	if (!w->told.len || w->wrong[0])
		return;
	ask_state(w, &now);
	if (wire_reply_unpack(w->told.data, w->told.len, &was, NULL) != RC_OK ||
	    wire_reply_unpack(now.data, now.len, &is, NULL) != RC_OK || !was->status || !is->status)
		wrong(w, "the coordinator says nothing of itself");
	for (size_t i = 0; !w->wrong[0] && i < was->status->n_comms; i++)
		check_same(w, was->status->comms[i],
			   find_comm(is->status, was->status->comms[i]->commid));
	for (size_t i = 0; !w->wrong[0] && i < is->status->n_comms; i++)
		if (!find_comm(was->status, is->status->comms[i]->commid))
			wrong(w, "comm %" PRIu64 " has come by a restart",
			      is->status->comms[i]->commid);
	wire_reply_free(was);
	wire_reply_free(is);
	buf_fini(&now);
}

void
coordinator_start(struct world *w)
{
	struct coord_config cfg = {.instance = roll64(w) | 1,
				   .pid = 1,
				   .address = "sim:coord",
				   .heartbeat_ms = HEARTBEAT_MS,
				   .missed = MISSED,
				   .of = MISSED + 1,
				   .op_timeout_ms = OP_TIMEOUT_MS,
				   .abort_grace_ms = GRACE_MS,
				   .respawn_ms = RESPAWN_MS,
				   .host = "host",
				   .on_failure = w->policy,
				   .persists = true};
	struct err err = {0};

	if (coord_new(&cfg, &w->coord, &err) != RC_OK)
		wrong(w, "coord_new: %s", err.text);
	else
		restore(w, w->coord);
	for (uint32_t d = 0; d < w->ndevices; d++) {
		w->coord_client[d] = roll64(w) | 1;
		w->coord_seq[d] = 0;
	}
	post(w, w->now + 100 * MS, EV_TICK, 0);
	check_state(w);
	coordinator_check_history(w);
}

void
coordinator_kill(struct world *w)
{
	ask_state(w, &w->told); /* this step handles due events; the next one reports them: */
	coordinator_check_history(w);
	ask_state(w, &w->told);
	coord_free(w->coord);
	w->coord = NULL;
}
