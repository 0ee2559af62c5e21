/*
 * coord.c - one event in, its actions out.
 */
#include "coord/coord.h"
#include "coord/top.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static uint64_t
ten_times(uint64_t ms)
{
	return ms > INT32_MAX / 10 ? INT32_MAX : ms * 10;
}

/* Fill in defaults. */
static struct coord_config
complete(const struct coord_config *cfg)
{
	struct coord_config c = *cfg;

	if (c.comm_timeout_ms == 0)
		c.comm_timeout_ms = c.op_timeout_ms > COORD_COMM_MS / 10
					? (uint32_t)ten_times(c.op_timeout_ms)
					: COORD_COMM_MS;
	if (c.respawn_ms == 0)
		c.respawn_ms = TIME_RESPAWN_MS;
	if (c.job_timeout_ms == 0)
		c.job_timeout_ms = c.comm_timeout_ms > COORD_JOB_MS / 10
				       ? (uint32_t)ten_times(c.comm_timeout_ms)
				       : COORD_JOB_MS;
	return c;
}

/* Check that each timeout is larger than the one below it. */
static enum rc
check_ladder(const struct coord_config *c, struct err *err)
{
	uint64_t lost_ms = (uint64_t)c->heartbeat_ms * c->missed;
	const struct {
		const char *name;
		uint64_t ms;
	} rung[] = {{"heartbeat", c->heartbeat_ms},
		    {"lost (heartbeat * missed)", lost_ms},
		    {"operation", c->op_timeout_ms},
		    {"communicator", c->comm_timeout_ms},
		    {"job", c->job_timeout_ms}};

	if (c->heartbeat_ms == 0)
		return err_set(err, RC_INVAL, "the heartbeat must not be 0 ms");
	if (c->missed == 0 || c->missed > c->of || c->of > COORD_MAX_BEATS)
		return err_set(err, RC_INVAL, "missed heartbeats %u/%u: must be 1/1 to %d/%d",
			       c->missed, c->of, COORD_MAX_BEATS, COORD_MAX_BEATS);
	for (size_t i = 0; i + 1 < sizeof rung / sizeof *rung; i++)
		if (rung[i].ms >= rung[i + 1].ms)
			return err_set(err, RC_INVAL,
				       "the timeouts must increase: %s %" PRIu64
				       " ms is not less than %s %" PRIu64 " ms",
				       rung[i].name, rung[i].ms, rung[i + 1].name, rung[i + 1].ms);
	return RC_OK;
}

static void
rooms_free(struct coord *c)
{
	comms_fini(c);
	runs_fini(c);
	devices_fini(c);
	algos_fini(c);
	history_fini(c);
	pendings_fini(c);
	free(c);
}

enum rc
coord_new(const struct coord_config *config, struct coord **out, struct err *err)
{
	struct coord_config full = complete(config), *cfg = &full;
	struct coord *c;

	if (check_ladder(cfg, err) != RC_OK)
		return err->rc;
	if (cfg->on_failure > GPUSIM_ON_FAILURE_SPARE)
		return err_set(err, RC_INVAL, "%u is not a policy on failure", cfg->on_failure);
	if (cfg->abort_grace_ms == 0)
		return err_set(err, RC_INVAL, "the abort grace period must not be 0 ms");
	c = alloc_zeroed(1, sizeof *c);
	if (!c)
		return err_set(err, RC_NOMEM, "out of memory");
	if (pendings_init(c) != RC_OK || history_init(c) != RC_OK || algos_init(c) != RC_OK ||
	    devices_init(c, &comm_device_hooks) != RC_OK ||
	    comms_init(c, &run_comm_hooks) != RC_OK || runs_init(c) != RC_OK ||
	    persist_init(c) != RC_OK) {
		rooms_free(c);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	c->cfg = *cfg;
	c->answering = persist_reply;
	c->lost_ms = cfg->heartbeat_ms * cfg->missed;
	tuner_init(&c->model);
	if (!c->cfg.tuner)
		c->cfg.tuner = &c->model;
	*out = c;
	return RC_OK;
}

void
coord_free(struct coord *c)
{
	struct coord_actions none = {0};

	if (!c)
		return;
	/* Answers to requests that end below are discarded. */
	c->out = &none;
	pendings_drop(c);
	persist_fini(c);
	tuner_fini(&c->model);
	rooms_free(c);
	coord_actions_fini(&none);
}

static enum rc
on_register(struct coord *c, struct pending *p, const GpuSim__Request *req, struct err *err)
{
	GpuSim__RegisterResponse r = GPU_SIM__REGISTER_RESPONSE__INIT;
	struct device *d;
	enum rc rc =
	    device_registers(c, pending_asker(p)->client_id, req->registerdevice, &d, &r, err);

	if (rc != RC_OK)
		return rc;
	progress_heard(c, d, req->registerdevice);
	operations_heard(c, d, req->registerdevice);
	answer_body(c, p, GPU_SIM__REPLY__BODY_REGISTER_DEVICE, &r);
	return RC_OK;
}

static const struct {
	GpuSim__Request__BodyCase kind;
	handler *handle;
} handlers[] = {
    {GPU_SIM__REQUEST__BODY_REGISTER_DEVICE, on_register},
    {GPU_SIM__REQUEST__BODY_LIST_DEVICES, on_list_devices},
    {GPU_SIM__REQUEST__BODY_PING, on_ping},
    {GPU_SIM__REQUEST__BODY_STATUS, on_status},
    {GPU_SIM__REQUEST__BODY_EVENTS, on_events},
    {GPU_SIM__REQUEST__BODY_COMM_INIT, on_comm_init},
    {GPU_SIM__REQUEST__BODY_COMM_INIT_RANK, on_comm_init_rank},
    {GPU_SIM__REQUEST__BODY_COMM_DESTROY, on_comm_destroy},
    {GPU_SIM__REQUEST__BODY_GET_COMM_STATUS, on_comm_status},
    {GPU_SIM__REQUEST__BODY_COMM_ABORT, on_comm_abort},
    {GPU_SIM__REQUEST__BODY_COMM_SHRINK, on_comm_shrink},
    {GPU_SIM__REQUEST__BODY_COMM_GROW, on_comm_grow},
    {GPU_SIM__REQUEST__BODY_COMM_SPLIT_RANK, on_comm_split_rank},
    {GPU_SIM__REQUEST__BODY_COMM_SHRINK_RANK, on_comm_shrink_rank},
    {GPU_SIM__REQUEST__BODY_COMM_GROW_RANK, on_comm_grow_rank},
    {GPU_SIM__REQUEST__BODY_SUBMIT, on_submit},
    {GPU_SIM__REQUEST__BODY_GROUP_START, on_group_start},
    {GPU_SIM__REQUEST__BODY_GROUP_END, on_group_end},
    {GPU_SIM__REQUEST__BODY_GRAPH_CREATE, on_graph_create},
    {GPU_SIM__REQUEST__BODY_GRAPH_LAUNCH, on_graph_launch},
    {GPU_SIM__REQUEST__BODY_GRAPH_DESTROY, on_graph_destroy},
    {GPU_SIM__REQUEST__BODY_ALGO_PUT, on_algo_put},
    {GPU_SIM__REQUEST__BODY_ALGO_REMOVE, on_algo_remove},
    {GPU_SIM__REQUEST__BODY_ALGO_LIST, on_algo_list},
    {GPU_SIM__REQUEST__BODY_ALL_REDUCE_RING, on_all_reduce_ring},
    {GPU_SIM__REQUEST__BODY_MEMCPY, on_memcpy},
};

static enum rc
dispatch(struct coord *c, struct pending *w, const GpuSim__Request *req, struct err *err)
{
	if (pendings_check(c, err) != RC_OK)
		return err->rc;
	if (persist_check(c, w, err) != RC_OK)
		return err->rc;
	for (size_t i = 0; i < sizeof handlers / sizeof *handlers; i++)
		if (handlers[i].kind == req->body_case)
			return handlers[i].handle(c, w, req, err);
	return err_set(err, RC_INVAL, "%s is a request for a device, not for the coordinator",
		       wire_request_name(req));
}

/* A client has disconnected, or connected again. */
static void
client_is(struct coord *c, uint64_t client_id, bool gone)
{
	persist_client_is(c, client_id, gone);
	algos_client_is(c, client_id, gone);
	comms_client_is(c, client_id, gone);
	groups_client_is(c, client_id, gone);
}

static enum rc
request(struct coord *c, const struct coord_event *ev)
{
	struct pending *w = pending_new(c, ev), *old;
	struct err err = {0};

	if (!w)
		return RC_NOMEM;
	c->counts.request[ev->request->body_case < COUNT_REQUESTS ? ev->request->body_case : 0]++;
	client_is(c, ev->client_id, false);
	old = pending_repeated(c, w);
	if (old) { /* from before a restart */
		pending_wait(c, w, pending_on(old), pending_id(old), NULL);
		pending_free(c, old);
		return RC_OK;
	}
	c->client_id = ev->client_id;
	if (dispatch(c, w, ev->request, &err) != RC_OK)
		answer_failure(c, w, &err);
	c->client_id = 0;
	return RC_OK;
}

static void
tick(struct coord *c)
{
	devices_tick(c);
	calls_tick(c);
	calls_settle(c);
	comms_step(c);
	care_tick(c);
	comm_leases_tick(c);
	groups_tick(c);
	algos_tick(c);
	persist_tick(c);
	polls_tick(c);
	rendezvous_tick(c);
	queue_tick(c);
	pendings_tick(c);
}

static void
coord_step_end(struct coord *c)
{
	/* Reaping may start calls that fail at once, which may unblock more reaping; so may queued
	 * requests that get devices. */
	do {
		calls_settle(c);
		comms_step(c);
		queue_step(c);
	} while (calls_unsettled(c));
	events_tell(c);
	persist_step(c);
	c->out = NULL;
}

enum rc
coord_add_device(struct coord *c, uint64_t id, const char *address, struct err *err)
{
	return device_configure(c, id, address, err);
}

enum rc
coord_add_algo(struct coord *c, const char *bytes, size_t n, const char *path,
	       struct coord_actions *out, struct err *err)
{
	enum rc rc;

	c->out = out;
	rc = algos_add_text(c, bytes, n, path, err);
	c->out = NULL;
	return rc;
}

enum rc
coord_check_tuner(const struct coord *c, struct err *err)
{
	return tuner_check_files(c->cfg.tuner, algos_files(c), err);
}

enum rc
coord_restore(struct coord *c, const char *key, const void *value, size_t nbytes,
	      struct coord_actions *out, struct err *err)
{
	return persist_restore(c, key, value, nbytes, out, err);
}

bool
coord_record_stays(const char *key, const void *value, size_t nbytes)
{
	return strncmp(key, ALGO_KEY, sizeof ALGO_KEY - 1) == 0 && algo_record_stays(value, nbytes);
}

void
coord_uncommitted(struct coord *c, const struct err *why, struct coord_actions *out)
{
	c->out = out;
	persist_uncommitted(c, why, out);
	coord_step_end(c);
}

void
coord_committed(struct coord *c)
{
	c->refuse = (struct err){0};
}

enum rc
coord_step(struct coord *c, const struct coord_event *ev, uint64_t now_ms,
	   struct coord_actions *out)
{
	bool fresh = !c->started;
	enum rc rc = RC_OK;

	c->out = out;
	c->report = 0;
	if (fresh) {
		c->started = true;
		c->start_ms = now_ms;
	}
	listen_step(c, now_ms);
	if (now_ms > c->now_ms)
		c->now_ms = now_ms;
	if (ev->wall_ms)
		c->wall_ms = ev->wall_ms;
	c->wall_ns = ev->wall_ns;
	if (fresh && !persist_resume(c))
		event_add(c, &(struct event){.kind = GPU_SIM__EVENT_KIND__STARTED},
			  "the coordinator started");
	switch (ev->kind) {
	case COORD_REQUEST:
		rc = request(c, ev);
		break;
	case COORD_RESULT:
		calls_result(c, ev);
		break;
	case COORD_GONE:
		client_is(c, ev->client_id, true);
		device_hung_up(c, ev->client_id);
		break;
	case COORD_SEEN:
		client_is(c, ev->client_id, false);
		break;
	case COORD_CANCEL:
		pending_cancel(c, ev->client_id, ev->seq);
		break;
	case COORD_TICK:
		tick(c);
		break;
	case COORD_UNREACHABLE:
		device_unreachable(c, ev->device_id, ev->text, ev->seq);
		break;
	case COORD_ECHO:
		devices_echo(c);
		break;
	case COORD_LOOKED:
		device_looked(c, ev->device_id, ev->found);
		break;
	case COORD_SPAWNED:
		device_spawned(c, ev);
		break;
	case COORD_EXITED:
		device_exited(c, ev->pid, ev->status);
		break;
	case COORD_PROVEN:
		algos_proven(c, ev->token, ev->proof);
		break;
	}
	coord_step_end(c);
	return rc;
}
