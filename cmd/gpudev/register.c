/*
 * Design notes. One call is in progress at a time; its answer arrives on a thread of nng, which stores it
 * under the lock and wakes the main thread to read it.
 *
 * A client that knows our id can send requests under it. Ours then have older numbers: the coordinator
 * refuses them, or replies with another request's answer, which the mark reveals. Then the device registers
 * under a new id, with a new client.
 */
#include "register.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "flight/offset.h"
#include "net/net.h"
#include "net/rpc_client.h"

#define CALL_MS	 2000
#define RETRY_MS 50
#define RENEWALS 3 /* of the client, before the first registration */

struct registration {
	const char *addr;
	enum register_need need;
	struct device *device;
	struct daemon *dm;
	struct rpc_client *client;
	uint64_t started_ns, next_ns, called_ns;
	bool done, away;
	bool told;		     /* that no coordinator was found */
	unsigned renewals;	     /* in a row */
	unsigned late;		     /* calls in a row that were not answered in time */
	uint64_t mark;		     /* of the call in progress */
	int seldom_ms;		     /* a quarter of a heartbeat */
	struct flight_answers clock; /* the coordinator's */
	char host[HOST_ID_MAX];
	pthread_mutex_t lock;
	bool calling, answered;
	uint64_t sent_ns, theirs_ns, back_ns; /* of the call, wall clock; theirs 0: unknown */
	bool same_host;			      /* as the coordinator */
	enum rc rc;
	struct err err;
	uint32_t heartbeat_ms;
};

enum rc
registration_new(const char *coordinator, enum register_need need, struct device *d,
		 struct daemon *dm, struct registration **out, struct err *err)
{
	struct registration *r = calloc(1, sizeof *r);
	enum rc rc = r ? RC_OK : err_set(err, RC_NOMEM, "out of memory");

	if (rc == RC_OK)
		rc = rpc_client_open(coordinator, RPC_CONNECT_LATER, &r->client, err);
	if (rc != RC_OK) {
		free(r);
		return rc;
	}
	pthread_mutex_init(&r->lock, NULL);
	r->addr = coordinator;
	r->need = need;
	r->device = d;
	r->dm = dm;
	r->started_ns = clock_now_ns();
	host_id(r->host);
	*out = r;
	return RC_OK;
}

void
registration_free(struct registration *r)
{
	if (!r)
		return;
	rpc_client_close(r->client);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

bool
registration_done(const struct registration *r)
{
	return r->done || (r->told && r->need == REGISTER_IF_THERE);
}

/* Log once that the coordinator has not appeared in time; a connected one may be slow. */
static void
tell_absent(struct registration *r, uint64_t now)
{
	if (r->done || r->told || now - r->started_ns < REGISTER_TELL_MS * NS_PER_MS ||
	    rpc_client_connected(r->client))
		return;
	log_say(LOG_WARN, LOG_BOOTSTRAP, "no coordinator at %s yet: %s", r->addr,
		r->need == REGISTER_IF_THERE ? "serving alone until one appears"
					     : "trying for some more seconds");
	r->told = true;
}

/* Lock held. Store an answer. */
static void
take(struct registration *r, const GpuSim__RegisterResponse *m, uint64_t back_ns)
{
	r->heartbeat_ms = m->heartbeatms;
	r->theirs_ns = m->wallns;
	r->back_ns = back_ns;
	r->same_host = *m->host && strcmp(m->host, r->host) == 0;
}

static void
on_answer(void *arg, enum rc rc, GpuSim__Reply *reply, const char *text)
{
	struct registration *r = arg;
	uint64_t back_ns = clock_wall_ns();

	pthread_mutex_lock(&r->lock);
	r->err = (struct err){0};
	if (rc != RC_OK)
		err_set(&r->err, rc, "coordinator %s", text);
	else
		rc = wire_reply_rc(reply, &r->err);
	if (rc == RC_OK && (reply->body_case != GPU_SIM__REPLY__BODY_REGISTER_DEVICE ||
			    reply->registerdevice->mark != r->mark))
		rc = err_set(&r->err, RC_BADDATA, "coordinator %s: answered a different request",
			     r->addr);
	if (rc == RC_OK)
		take(r, reply->registerdevice, back_ns);
	r->rc = rc;
	r->answered = true;
	pthread_mutex_unlock(&r->lock);
	wire_reply_free(reply);
	daemon_wake(r->dm);
}

static enum rc
call(struct registration *r, struct err *err)
{
	GpuSim__RegisterRequest m = GPU_SIM__REGISTER_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(REGISTER_DEVICE, registerdevice, m);
	GpuSim__DeviceMetadata meta;
	struct device_progress progress;
	struct device_queued queued;
	struct device_room room;
	enum rc rc;

	device_metadata(r->device, &meta, &room);
	m.metadata = &meta;
	m.n_progress = device_progress(r->device, &progress);
	m.progress = progress.p;
	m.n_queued = device_queued(r->device, &queued);
	m.queued = queued.p;
	m.mark = r->mark = net_random();
	r->calling = true;
	r->called_ns = clock_now_ns();
	r->sent_ns = clock_wall_ns();
	rc = rpc_call_start(r->client, &req, deadline_in_ms(CALL_MS), on_answer, r, err);
	device_queued_fini(&queued, m.n_queued);
	if (rc != RC_OK)
		r->calling = false;
	return rc;
}

/* Return true for a failure that may pass: the coordinator is away, is about to end, or has no room now. It
 * is also busy while our former process with the same id is not yet lost. */
static bool
passes(enum rc rc)
{
	return rc == RC_UNREACHABLE || rc == RC_TIMEOUT || rc == RC_BUSY || rc == RC_ABORTED ||
	       rc == RC_NOMEM;
}

static uint64_t
next_heartbeat(const struct registration *r)
{
	return r->called_ns + (r->heartbeat_ms ? r->heartbeat_ms : 1000) * NS_PER_MS;
}

/* Record the device's clocks and the coordinator's, if known; on one host they are the same. */
static void
beat(struct registration *r)
{
	struct flight_answer best = {0};

	if (!r->same_host) {
		if (r->theirs_ns)
			flight_answer_add(&r->clock, r->sent_ns, r->theirs_ns, r->back_ns);
		best = flight_answer_best(&r->clock, r->back_ns);
	}
	device_beat(r->device, best.offset_ns, best.error_ns);
}

/* After a refusal or another request's answer: continue under a new client id, and retry at heartbeats if
 * that does not help. False: that is not the reason, or no new client can be opened. */
static bool
renew(struct registration *r)
{
	struct rpc_client *client;

	if (passes(r->rc) || (!r->done && r->renewals == RENEWALS) ||
	    rpc_client_open(r->addr, RPC_CONNECT_LATER, &client, NULL) != RC_OK)
		return false;
	rpc_client_close(r->client);
	r->client = client;
	if (r->done && r->renewals == 0)
		log_say(LOG_WARN, LOG_BOOTSTRAP, "registering under a new client id: %s",
			r->err.text);
	if (r->renewals < RENEWALS)
		r->renewals++;
	else
		r->next_ns = next_heartbeat(r);
	return true;
}

/* The time to wait for a coordinator that is absent, or present but not answering. */
static uint64_t
give_up_ms(const struct registration *r)
{
	return r->rc == RC_TIMEOUT ? REGISTER_SLOW_MS : REGISTER_WITHIN_MS;
}

/* Handle an answer; RC_OK: continue. */
static enum rc
judge(struct registration *r, uint64_t now, struct err *err)
{
	if (r->rc == RC_OK) {
		beat(r);
		if (r->away || r->told)
			log_say(LOG_WARN, LOG_BOOTSTRAP, "the coordinator is %s",
				r->away ? "back" : "available now");
		r->told = false;
		r->away = false;
		r->done = true;
		r->late = r->renewals = 0;
		r->seldom_ms = (int)(r->heartbeat_ms / 4);
		r->next_ns = next_heartbeat(r);
		return RC_OK;
	}
	r->next_ns = now + RETRY_MS * NS_PER_MS;
	/* A coordinator that had no time for one call is slow, not away. */
	r->late = r->rc == RC_TIMEOUT ? r->late + 1 : 0;
	if (renew(r) || (r->done && r->late == 1))
		return RC_OK;
	if (!passes(r->rc) || (!r->done && r->need == REGISTER_WITH_IT &&
			       now - r->started_ns > give_up_ms(r) * NS_PER_MS)) {
		*err = r->err;
		return r->rc;
	}
	/* A coordinator that ends says so: usually everything ends with it. */
	if (r->done && !r->away)
		log_say(r->rc == RC_ABORTED ? LOG_INFO : LOG_WARN, LOG_RAS, "%s", r->err.text);
	r->away = r->done;
	return RC_OK;
}

int
registration_wait_ms(const struct registration *r, int most_ms)
{
	int most = r->seldom_ms > most_ms ? r->seldom_ms : most_ms;
	int ms = r->calling ? most : deadline_left_ms(r->next_ns);

	return ms < most ? ms : most;
}

enum rc
registration_step(struct registration *r, struct err *err)
{
	uint64_t now = clock_now_ns();
	bool answered;
	enum rc rc = RC_OK;

	pthread_mutex_lock(&r->lock);
	answered = r->answered;
	r->answered = false;
	pthread_mutex_unlock(&r->lock);
	if (answered) {
		r->calling = false;
		rc = judge(r, now, err);
	}
	tell_absent(r, now);
	if (rc == RC_OK && !r->calling && now >= r->next_ns)
		rc = call(r, err);
	return rc;
}
