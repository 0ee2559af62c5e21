/* actions.c - carry out the state machine's actions. Design notes: shell.c. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "mem/sweep.h"
#include "shell_impl.h"
#include "spawn.h"

#define ECHO_MS 2000

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
	shell_push(s, i);
	shell_work(s);
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
	shell_push(i->shell, i);
	shell_work(i->shell);
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
		shell_push(s, i); /* then only silence counts */
}

static void
look(struct shell *s, const struct coord_action *a, struct item *i)
{
	i->kind = COORD_LOOKED;
	i->device_id = a->device_id;
	i->found = look_at(&s->looks, a->device_id, a->pid, clock_now_ns());
	shell_push(s, i);
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
	shell_push(s, i); /* this thread will handle it */
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
	shell_push(i->shell, i);
	daemon_wake(dm);
	return NULL;
}

void
shell_join_prover(struct shell *s)
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
	shell_join_prover(s);
	s->proved = pthread_create(&s->prover, NULL, prove, i) == 0;
	if (s->proved)
		return;
	buf_fini(&i->ask); /* the item without a proof means: out of memory */
	shell_push(s, i);
}

void
shell_carry_out(struct shell *s)
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
