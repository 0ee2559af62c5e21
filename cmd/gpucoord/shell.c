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
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "mem/sweep.h"
#include "net/net.h"
#include "shell_impl.h"
#include "spawn.h"
#include "wire/wire.h"

#define ECHO_MS 2000

/* An event in the queue. */
struct item {
	struct item *next;
	struct shell *shell;
	enum coord_event_kind kind;
	struct rpc_call *call; /* request */
	uint64_t device_id;    /* unreachable, looked, spawned */
	enum coord_look found; /* looked */
	uint64_t client_id;    /* gone, seen, cancel */
	uint64_t seq;	       /* cancel; unreachable: when, ms */
	uint64_t token;	       /* result */
	uint32_t call_kind;    /* result: the call's body, as numbered in Request */
	struct err err;	       /* result, unreachable, spawned */
	uint32_t pid;	       /* spawned */
	GpuSim__Reply *reply;  /* result */
	struct buf ask;	       /* proven: the prover's input */
	struct coord_proof *proof;
};

struct shell {
	struct coord *coord;
	struct rpc_server *server;
	struct grpc_server *grpc; /* NULL: gRPC is not served */
	struct connections *connections;
	struct rpc_client *echo; /* to ourselves */
	struct shell_sight see;
	struct looks looks;
	struct daemon *dm;
	struct coord_actions actions;
	struct state *state; /* NULL: nothing is stored */
	struct faults faults;
	struct decisions decisions;
	struct exits exits;
	struct web *_Atomic web; /* NULL: models are not accepted */
	pthread_t prover;	 /* of the last COORD_PROVE */
	bool proved;		 /* prover was started */
	atomic_bool ends;	 /* makes the prover end early */
	char address[NET_ADDR_MAX];
	pthread_mutex_t lock;
	pthread_cond_t stopped; /* running has become false */
	struct item *head, **tail;
	bool open;	 /* a thread that enqueues drains the queue */
	bool running;	 /* a thread is in the state machine */
	bool main_waits; /* to be the running one */
};

/* Drain the queue, unless another thread does. */
static void work(struct shell *s);

/* Append an event to the queue. On any thread; unless it is the running one, work follows. */
static void
push(struct shell *s, struct item *i)
{
	i->next = NULL;
	pthread_mutex_lock(&s->lock);
	*s->tail = i;
	s->tail = &i->next;
	pthread_mutex_unlock(&s->lock);
}

/* ---- actions of the state machine */

/* Handle a device's answer; arg is the item that waited for it. */
static void
on_result(void *arg, enum rc rc, GpuSim__Reply *reply, const char *text)
{
	struct item *i = arg;
	struct shell *s = i->shell;

	if (i->token == 0) { /* nobody waits for it */
		wire_reply_free(reply);
		free(i);
		return;
	}
	i->reply = reply;
	if (rc != RC_OK)
		err_set(&i->err, rc, "%s", text);
	else
		wire_reply_rc(reply, &i->err);
	push(s, i);
	work(s);
}

static void
call_device(struct shell *s, const struct coord_action *a)
{
	struct item *i = calloc(1, sizeof *i);
	struct rpc_client *client;
	struct err err = {0};
	enum rc rc;

	if (!i) {
		log_line(LOG_ERROR, "out of memory: a call to %s is lost", a->address);
		return; /* the state machine's deadline ends it */
	}
	i->kind = COORD_RESULT;
	i->shell = s;
	i->token = a->token;
	i->device_id = a->device_id;
	i->call_kind = wire_packed_kind(a->body.data, a->body.len);
	rc = connections_client(s->connections, a->address, a->device_id, clock_now_ns(), &client,
				&err);
	if (rc == RC_OK)
		rc = rpc_call_packed(client, a->body.data, a->body.len,
				     deadline_in_ms(a->timeout_ms), on_result, i, &err);
	if (rc != RC_OK)
		on_result(i, rc, NULL, err.text);
}

/* Handle the end of an echo, received or lost; arg is its item. */
static void
on_echo(void *arg, enum rc rc, GpuSim__Reply *reply, const char *text)
{
	struct item *i = arg;

	(void)rc;
	(void)text;
	wire_reply_free(reply);
	push(i->shell, i);
	work(i->shell);
}

static void
ask_echo(struct shell *s, struct item *i)
{
	GpuSim__PingRequest m = GPU_SIM__PING_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(PING, ping, m);
	struct err err = {0};
	enum rc rc = RC_OK;

	i->kind = COORD_ECHO;
	if (!s->echo)
		rc = rpc_client_open(rpc_server_self(s->server), RPC_CONNECT_LATER, &s->echo, &err);
	if (rc == RC_OK)
		rc = rpc_call_start(s->echo, &req, deadline_in_ms(ECHO_MS), on_echo, i, &err);
	if (rc != RC_OK)
		push(s, i); /* then only silence counts */
}

static void
look(struct shell *s, const struct coord_action *a, struct item *i)
{
	i->kind = COORD_LOOKED;
	i->device_id = a->device_id;
	i->found = look_at(&s->looks, a->device_id, a->pid, clock_now_ns());
	push(s, i);
}

/* Look or echo; the answer becomes an event in the queue. */
static void
sense(struct shell *s, const struct coord_action *a)
{
	struct item *i = calloc(1, sizeof *i);

	if (!i)
		return; /* it asks again */
	i->shell = s;
	if (a->kind == COORD_LOOK)
		look(s, a, i);
	else
		ask_echo(s, i);
}

static void
start_device(struct shell *s, const struct coord_action *a)
{
	GpuSim__DeviceMetadata *m =
	    gpu_sim__device_metadata__unpack(NULL, a->body.len, (const uint8_t *)a->body.data);
	struct item *i = calloc(1, sizeof *i);
	struct err err = {0};
	pid_t pid = 0;

	if (!m)
		err_set(&err, RC_NOMEM, "out of memory");
	else
		spawn_device(m, s->address, s->dm->lifeline, atomic_load(&s->faults.allowed),
			     &s->decisions, &pid, &err);
	if (err.rc != RC_OK)
		log_line(LOG_ERROR, "device %016" PRIx64 " cannot be started again: %s",
			 a->device_id, err.text);
	if (m)
		gpu_sim__device_metadata__free_unpacked(m, NULL);
	if (!i)
		return; /* its missing heartbeats are noticed */
	i->kind = COORD_SPAWNED;
	i->device_id = a->device_id;
	i->pid = (uint32_t)pid;
	i->err = err;
	push(s, i); /* this thread will handle it */
}

/* ---- verification of algorithms */

/* Prove an algorithm. The main thread handles the event: the running one may wait for this thread. */
static void *
prove(void *arg)
{
	struct item *i = arg;
	struct daemon *dm = i->shell->dm;

	i->proof = coord_prove(&i->ask, &i->shell->ends);
	buf_fini(&i->ask);
	push(i->shell, i);
	daemon_wake(dm);
	return NULL;
}

/* Wait for the prover, if any, to end. Running, or after the shell's end. */
static void
join_prover(struct shell *s)
{
	if (s->proved)
		pthread_join(s->prover, NULL);
	s->proved = false;
}

/* Start a proof. There is only one at a time, so the previous prover is about to end. */
static void
start_prover(struct shell *s, struct coord_action *a)
{
	struct item *i = calloc(1, sizeof *i);

	if (!i) {
		log_line(LOG_ERROR, "out of memory: the verification of an algorithm is lost");
		return; /* its clients' deadlines end it */
	}
	i->kind = COORD_PROVEN;
	i->shell = s;
	i->token = a->token;
	i->ask = a->body;
	a->body = (struct buf){0};
	join_prover(s);
	s->proved = pthread_create(&s->prover, NULL, prove, i) == 0;
	if (s->proved)
		return;
	buf_fini(&i->ask); /* the item without a proof means: out of memory */
	push(s, i);
}

/* Running. Carry out the actions of the state machine's last step. */
static void
carry_out(struct shell *s)
{
	for (size_t k = 0; k < s->actions.n; k++) {
		struct coord_action *a = &s->actions.v[k];

		decisions_note(&s->decisions, a);
		recorder_action(s->see.recorder, a);
		switch (a->kind) {
		case COORD_ANSWER:
			if (a->token)
				rpc_reply_packed((struct rpc_call *)(uintptr_t)a->token,
						 a->body.data, a->body.len);
			else
				rpc_server_remember(s->server, a->client_id, a->seq, a->body.data,
						    a->body.len);
			break;
		case COORD_CALL:
			call_device(s, a);
			break;
		case COORD_SPAWN:
			start_device(s, a);
			break;
		case COORD_REPORT:
			reports_write(s->see.reports, a);
			break;
		case COORD_NOTE:
		case COORD_ALGO:
		case COORD_STORE: /* these are committed already, or will be */
			break;
		case COORD_LOG:
			log_say(LOG_INFO, LOG_RAS, "%s", a->body.data);
			break;
		case COORD_DISCARD:
			sweep_file(a->address, a->device_id, NULL);
			break;
		case COORD_PROVE:
			start_prover(s, a);
			break;
		case COORD_ASK_ECHO:
		case COORD_LOOK:
			sense(s, a);
			break;
		}
	}
	coord_actions_clear(&s->actions);
}

/* ---- events */

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
	push(s, i);
	work(s);
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
	push(s, i);
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
on_lost(void *arg, uint64_t id, const char *addr, uint64_t seen_ns)
{
	struct shell *s = arg;
	struct item *i = calloc(1, sizeof *i);

	if (!i)
		return; /* its missing heartbeats are noticed */
	i->kind = COORD_UNREACHABLE;
	i->device_id = id;
	i->seq = seen_ns / NS_PER_MS;
	err_set(&i->err, RC_UNREACHABLE, "%s", addr);
	push(s, i);
	work(s);
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
	carry_out(s);
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

static void
work(struct shell *s)
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
		carry_out(s);
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
	join_prover(s);
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
