/*
 * Design notes. The state machine runs on the main thread alone. The server's thread and nng's
 * threads only append to a queue under the lock and wake the main thread; requests are answered,
 * and devices called, from the main thread. A request's token is its call's address; it is answered
 * exactly once, then gone.
 */
#include "shell.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "connections.h"
#include "net/rpc_server.h"

/* One thing that came, in order. */
struct item {
	struct item *next;
	struct shell *shell;
	enum coord_event_kind kind;
	struct rpc_call *call; /* request */
	uint64_t client_id;    /* gone */
	uint64_t token;	       /* result */
	struct err err;	       /* result */
	GpuSim__Reply *reply;  /* result */
};

struct shell {
	struct coord *coord;
	struct rpc_server *server;
	struct connections *connections;
	struct daemon *dm;
	struct coord_actions actions;
	pthread_mutex_t lock;
	struct item *head, **tail;
};

static void
push(struct shell *s, struct item *i)
{
	bool first;

	i->next = NULL;
	pthread_mutex_lock(&s->lock);
	first = !s->head;
	*s->tail = i;
	s->tail = &i->next;
	pthread_mutex_unlock(&s->lock);
	if (first)
		daemon_wake(s->dm);
}

static void
on_call(void *arg, struct rpc_call *call)
{
	const struct err nomem = {RC_NOMEM, "the coordinator is out of memory"};
	struct item *i = calloc(1, sizeof *i);

	if (!i) {
		rpc_reply_err(call, &nomem);
		return;
	}
	i->kind = COORD_REQUEST;
	i->call = call;
	push(arg, i);
}

static void
on_gone(void *arg, uint64_t client_id)
{
	struct item *i = calloc(1, sizeof *i);

	if (!i)
		return;
	i->kind = COORD_GONE;
	i->client_id = client_id;
	push(arg, i);
}

/* A device's answer; arg is the item that waited for it. */
static void
on_result(void *arg, enum rc rc, GpuSim__Reply *reply, const char *text)
{
	struct item *i = arg;

	if (i->token == 0) { /* nobody wants to know */
		wire_reply_free(reply);
		free(i);
		return;
	}
	i->reply = reply;
	if (rc != RC_OK)
		err_set(&i->err, rc, "%s", text);
	else
		wire_reply_rc(reply, &i->err);
	push(i->shell, i);
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
	rc = connections_client(s->connections, a->address, clock_now_ns(), &client, &err);
	if (rc == RC_OK)
		rc = rpc_call_packed(client, a->body.data, a->body.len,
				     deadline_in_ms(a->timeout_ms), on_result, i, &err);
	if (rc != RC_OK)
		on_result(i, rc, NULL, err.text);
}

static void
carry_out(struct shell *s)
{
	for (size_t k = 0; k < s->actions.n; k++) {
		const struct coord_action *a = &s->actions.v[k];

		switch (a->kind) {
		case COORD_ANSWER:
			rpc_reply_packed((struct rpc_call *)(uintptr_t)a->token, a->body.data,
					 a->body.len);
			break;
		case COORD_CALL:
			call_device(s, a);
			break;
		case COORD_LOG:
			log_line(LOG_INFO, "%s", a->body.data);
			break;
		}
	}
	coord_actions_clear(&s->actions);
}

static void
feed(struct shell *s, const struct coord_event *ev)
{
	const struct err nomem = {RC_NOMEM, "the coordinator is out of memory"};

	if (coord_step(s->coord, ev, clock_now_ns() / NS_PER_MS, &s->actions) != RC_OK) {
		coord_actions_clear(&s->actions);
		if (ev->kind == COORD_REQUEST)
			rpc_reply_err((struct rpc_call *)(uintptr_t)ev->token, &nomem);
		return;
	}
	carry_out(s);
}

static void
feed_item(struct shell *s, const struct item *i)
{
	struct coord_event ev = {.kind = i->kind, .token = i->token, .client_id = i->client_id};

	if (i->kind == COORD_REQUEST) {
		ev.token = (uint64_t)(uintptr_t)i->call;
		ev.request = rpc_request(i->call);
		ev.client_id = ev.request->clientid;
		ev.deadline_ms = rpc_deadline_ns(i->call) / NS_PER_MS;
	} else if (i->kind == COORD_RESULT) {
		ev.rc = i->err.rc;
		ev.reply = i->reply;
		ev.text = i->err.text;
	}
	feed(s, &ev);
}

/* What has come, in order; the caller's to free. */
static struct item *
take_all(struct shell *s)
{
	struct item *i;

	pthread_mutex_lock(&s->lock);
	i = s->head;
	s->head = NULL;
	s->tail = &s->head;
	pthread_mutex_unlock(&s->lock);
	return i;
}

void
shell_step(struct shell *s)
{
	struct coord_event tick = {.kind = COORD_TICK};
	struct item *next;

	for (struct item *i = take_all(s); i; i = next) {
		next = i->next;
		feed_item(s, i);
		wire_reply_free(i->reply);
		free(i);
	}
	feed(s, &tick);
	connections_tick(s->connections, clock_now_ns());
}

struct coord *
shell_coord(struct shell *s)
{
	return s->coord;
}

enum rc
shell_new(const char *addr, struct coord_config *cfg, struct daemon *dm, struct shell **out,
	  struct err *err)
{
	struct rpc_handler handler = {.call = on_call, .gone = on_gone};
	struct shell *s = calloc(1, sizeof *s);
	enum rc rc = RC_OK;

	if (!s || !(s->connections = connections_new())) {
		free(s);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	pthread_mutex_init(&s->lock, NULL);
	s->tail = &s->head;
	s->dm = dm;
	handler.arg = s;
	rc = rpc_server_start(addr, &handler, &s->server, err);
	if (rc == RC_OK) {
		snprintf(cfg->address, sizeof cfg->address, "%s", rpc_server_address(s->server));
		rc = coord_new(cfg, &s->coord, err);
	}
	if (rc != RC_OK)
		shell_free(s);
	else
		*out = s;
	return rc;
}

/* Answer what waits, without the state machine. */
static void
drain(struct shell *s)
{
	const struct err end = {RC_ABORTED, "the coordinator is shutting down"};
	struct item *next;

	for (struct item *i = take_all(s); i; i = next) {
		next = i->next;
		if (i->call)
			rpc_reply_err(i->call, &end);
		wire_reply_free(i->reply);
		free(i);
	}
}

void
shell_free(struct shell *s)
{
	if (!s)
		return;
	connections_free(s->connections);
	drain(s);
	rpc_server_stop(s->server);
	drain(s); /* what came in between, into the void */
	coord_free(s->coord);
	coord_actions_fini(&s->actions);
	pthread_mutex_destroy(&s->lock);
	free(s);
}
