/*
 * Design notes. A thread that enqueues an event drains the queue, unless another thread already does: so
 * the state machine runs on one thread at a time, the `running` one, without the lock, and a request goes
 * to the devices without a change of threads. The running thread may be a server's or one of nng's. Only a
 * commit may block there (state.c): a write, an fsync, or an exchange with etcd of at most 2 s.
 *
 * The main thread runs the timer: a running thread yields to it after the present event. The server reports
 * clients that have ended or come back under its lock, so those events wait for the main thread. Before the
 * first shell_step, for which the main thread is woken, and after shell_free has begun, events are only
 * enqueued.
 *
 * The proof of an algorithm takes seconds, so each has its own thread, the prover: it pushes an event with
 * the result for the main thread, and ends.
 *
 * A request's token is its call's address; it is answered exactly once, and then freed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "net/net.h"
#include "shell_impl.h"
#include "wire/wire.h"

void
shell_push(struct shell *s, struct item *i)
{
	i->next = NULL;
	pthread_mutex_lock(&s->lock);
	*s->tail = i;
	s->tail = &i->next;
	pthread_mutex_unlock(&s->lock);
}

static void
on_call(void *arg, struct rpc_call *call)
{
	const struct err nomem = {RC_NOMEM, "the coordinator is out of memory"};
	struct shell *s = arg;
	struct item *i;

	wire_request_log(rpc_request(call));
	if (rpc_request(call)->body_case == GPU_SIM__REQUEST__BODY_INJECT) {
		faults_call(&s->faults, call);
		return;
	}
	if (rpc_request(call)->body_case == GPU_SIM__REQUEST__BODY_MODEL_PUT) {
		web_put(atomic_load(&s->web), call);
		return;
	}
	if (rpc_request(call)->body_case == GPU_SIM__REQUEST__BODY_RECORDER_READ) {
		recorder_call(s->see.recorder, call);
		return;
	}
	if (rpc_request(call)->body_case == GPU_SIM__REQUEST__BODY_TRAINING_PUT) {
		web_training(atomic_load(&s->web), call);
		return;
	}
	if (rpc_request(call)->body_case == GPU_SIM__REQUEST__BODY_REGISTER_DEVICE)
		observer_hears(s->see.observer, rpc_request(call)->registerdevice->metadata);
	i = calloc(1, sizeof *i);
	if (!i) {
		rpc_reply_err(call, &nomem);
		return;
	}
	i->kind = COORD_REQUEST;
	i->call = call;
	shell_push(s, i);
	shell_work(s);
}

/* Called under the server's lock, so the main thread drains the queue. */
static void
note_client(struct shell *s, enum coord_event_kind kind, uint64_t client_id, uint64_t seq)
{
	struct item *i = calloc(1, sizeof *i);

	if (kind == COORD_GONE)
		web_gone(atomic_load(&s->web), client_id);
	if (!i)
		return;
	i->kind = kind;
	i->client_id = client_id;
	i->seq = seq;
	shell_push(s, i);
	daemon_wake(s->dm);
}

static void
on_gone(void *arg, uint64_t client_id)
{
	note_client(arg, COORD_GONE, client_id, 0);
}

static void
on_back(void *arg, uint64_t client_id)
{
	note_client(arg, COORD_SEEN, client_id, 0);
}

static void
on_cancel(void *arg, uint64_t client_id, uint64_t seq)
{
	note_client(arg, COORD_CANCEL, client_id, seq);
}

static void
on_lost(void *arg, uint64_t id, const char *addr)
{
	struct shell *s = arg;
	struct item *i = calloc(1, sizeof *i);

	if (!i)
		return; /* its missing heartbeats are noticed */
	i->kind = COORD_UNREACHABLE;
	i->device_id = id;
	i->seq = clock_now_ns() / NS_PER_MS;
	err_set(&i->err, RC_UNREACHABLE, "%s", addr);
	shell_push(s, i);
	shell_work(s);
}

static void
feed(struct shell *s, struct coord_event *ev)
{
	const struct err nomem = {RC_NOMEM, "the coordinator is out of memory"};

	ev->wall_ns = clock_wall_ns();
	ev->wall_ms = ev->wall_ns / NS_PER_MS;
	if (coord_step(s->coord, ev, clock_now_ns() / NS_PER_MS, &s->actions) != RC_OK) {
		coord_actions_clear(&s->actions);
		if (ev->kind == COORD_REQUEST)
			rpc_reply_err((struct rpc_call *)(uintptr_t)ev->token, &nomem);
		return;
	}
	state_commit(s->state, s->coord, &s->actions);
	shell_carry_out(s);
}

static void
feed_item(struct shell *s, const struct item *i)
{
	struct coord_event ev = {.kind = i->kind,
				 .token = i->token,
				 .client_id = i->client_id,
				 .seq = i->seq,
				 .device_id = i->device_id,
				 .found = i->found,
				 .proof = i->proof,
				 .pid = i->pid};

	if (i->kind == COORD_REQUEST) {
		faults_delay(&s->faults);
		ev.token = (uint64_t)(uintptr_t)i->call;
		ev.request = rpc_request(i->call);
		ev.client_id = ev.request->clientid;
		ev.deadline_ms = rpc_deadline_ns(i->call) / NS_PER_MS;
		recorder_request(s->see.recorder, i->call);
		if (rpc_reply_again(i->call))
			ev = (struct coord_event){.kind = COORD_SEEN, .client_id = ev.client_id};
	} else if (i->kind == COORD_RESULT) {
		ev.rc = i->err.rc;
		ev.reply = i->reply;
		ev.text = i->err.text;
		recorder_result(s->see.recorder, i->token, i->device_id, i->call_kind, &i->err);
	} else {
		ev.rc = i->err.rc;
		ev.text = i->err.text;
	}
	recorder_heard(s->see.recorder, &ev);
	feed(s, &ev);
}

/* Lock held. Take the whole queue, which the caller frees. */
static struct item *
take_all(struct shell *s)
{
	struct item *i = s->head;

	s->head = NULL;
	s->tail = &s->head;
	return i;
}

/* Lock held, running. Feed all events, including those that arrive meanwhile. */
static void
work_off(struct shell *s)
{
	struct item *i, *next;

	while (!s->main_waits && (i = take_all(s))) {
		pthread_mutex_unlock(&s->lock);
		for (; i; i = next) {
			next = i->next;
			feed_item(s, i);
			wire_reply_free(i->reply);
			free(i);
		}
		pthread_mutex_lock(&s->lock);
	}
	s->running = false;
	pthread_cond_signal(&s->stopped);
}

void
shell_work(struct shell *s)
{
	bool open;

	pthread_mutex_lock(&s->lock);
	open = s->open;
	if (open && !s->running) {
		s->running = true;
		work_off(s);
	}
	pthread_mutex_unlock(&s->lock);
	if (!open)
		daemon_wake(s->dm);
}

/* Lock held. Wait until the running thread, if any, yields. */
static void
take_over(struct shell *s)
{
	s->main_waits = true;
	while (s->running)
		pthread_cond_wait(&s->stopped, &s->lock);
	s->main_waits = false;
}

static void
feed_exits(struct shell *s)
{
	struct coord_event ev = {.kind = COORD_EXITED};

	while (exits_next(&s->exits, &ev.pid, &ev.status)) {
		recorder_heard(s->see.recorder, &ev);
		feed(s, &ev);
	}
}

void
shell_step(struct shell *s)
{
	struct coord_event tick = {.kind = COORD_TICK};

	faults_tick(&s->faults);
	recorder_beat(s->see.recorder);
	pthread_mutex_lock(&s->lock);
	take_over(s);
	s->open = s->running = true;
	pthread_mutex_unlock(&s->lock);
	state_tick(s->state, s->coord);
	feed_exits(s);
	feed(s, &tick);
	connections_tick(s->connections, clock_now_ns());
	pthread_mutex_lock(&s->lock);
	work_off(s);
	pthread_mutex_unlock(&s->lock);
}

void
shell_serve_models(struct shell *s, struct web *w)
{
	atomic_store(&s->web, w);
}

void
shell_hear_exits(struct shell *s, int fd)
{
	exits_init(&s->exits, fd);
}

void
shell_allow_inject(struct shell *s)
{
	atomic_store(&s->faults.allowed, true);
}

void
shell_record(struct shell *s, const struct decisions *d)
{
	s->decisions = *d;
}

struct coord *
shell_coord(struct shell *s)
{
	return s->coord;
}

enum rc
shell_serve_grpc(struct shell *s, const char *host, enum net_reach reach, struct err *err)
{
	const struct rpc_handler handler = {
	    .call = on_call, .gone = on_gone, .cancel = on_cancel, .arg = s};

	return grpc_server_start(host, reach, GRPC_COORDINATOR, &handler, &s->grpc, err);
}

const char *
shell_grpc_address(const struct shell *s)
{
	return s->grpc ? grpc_server_address(s->grpc) : NULL;
}

enum rc
shell_new(const char *addr, const char *state, struct coord_config *cfg, struct daemon *dm,
	  const struct shell_sight *see, struct shell **out, struct err *err)
{
	struct rpc_handler handler = {.call = on_call, .gone = on_gone, .back = on_back};
	struct shell *s = calloc(1, sizeof *s);
	enum rc rc = RC_OK;

	if (!s || !(s->connections = connections_new(on_lost, s))) {
		free(s);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->stopped, NULL);
	pthread_mutex_init(&s->faults.lock, NULL);
	s->tail = &s->head;
	s->dm = dm;
	s->see = *see;
	exits_init(&s->exits, -1);
	handler.arg = s;
	rc = rpc_server_start(addr, &handler, &s->server, err);
	if (rc == RC_OK) {
		snprintf(cfg->address, sizeof cfg->address, "%s", rpc_server_address(s->server));
		snprintf(s->address, sizeof s->address, "%s", cfg->address);
		cfg->persists = state_wanted(state, addr);
		rc = observer_serves(see->observer, rpc_server_self(s->server), err);
	}
	if (rc == RC_OK)
		rc = coord_new(cfg, &s->coord, err);
	if (rc == RC_OK)
		rc = state_open(state, addr, s->coord, &s->actions, &s->state, err);
	if (rc != RC_OK) {
		shell_free(s, false);
	} else {
		shell_carry_out(s);
		*out = s;
	}
	return rc;
}

/* Fail the calls in the queue, without the state machine. */
static void
drain(struct shell *s)
{
	const struct err end = {RC_ABORTED, "the coordinator is shutting down"};
	struct item *i, *next;

	pthread_mutex_lock(&s->lock);
	i = take_all(s);
	pthread_mutex_unlock(&s->lock);
	for (; i; i = next) {
		next = i->next;
		if (i->call)
			rpc_reply_err(i->call, &end);
		wire_reply_free(i->reply);
		coord_proof_free(i->proof);
		free(i);
	}
}

void
shell_free(struct shell *s, bool clean)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->open = false;
	take_over(s);
	pthread_mutex_unlock(&s->lock);
	atomic_store(&s->ends, true);
	shell_join_prover(s);
	/* Close it before the address is free: the next coordinator there uses the state, too. */
	state_close(s->state, clean);
	s->state = NULL;
	connections_free(s->connections);
	rpc_client_close(s->echo);
	drain(s);
	rpc_server_stop(s->server);
	grpc_server_stop(s->grpc);
	drain(s); /* events that arrived in between */
	coord_free(s->coord);
	coord_actions_fini(&s->actions);
	looks_fini(&s->looks);
	pthread_cond_destroy(&s->stopped);
	pthread_mutex_destroy(&s->faults.lock);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
