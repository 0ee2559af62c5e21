#include "view/state_json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "coll/plan.h"
#include "mem/dtype.h"
#include "view/top.h"
#include "wire/frame.h"
#include "wire/wire.h"

/* ---- members */

static void
member_u64(FILE *f, const char *name, uint64_t v)
{
	fprintf(f, ",\"%s\":%" PRIu64, name, v);
}

/* A number, or null for TOP_NOBODY. */
static void
member_index(FILE *f, const char *name, size_t v)
{
	if (v == TOP_NOBODY)
		fprintf(f, ",\"%s\":null", name);
	else
		fprintf(f, ",\"%s\":%zu", name, v);
}

static void
member_real(FILE *f, const char *name, double v)
{
	fprintf(f, ",\"%s\":%.6g", name, isfinite(v) ? v : 0);
}

/* Ids are strings: they have more bits than JavaScript's numbers. */
static void
member_hex(FILE *f, const char *name, uint64_t v)
{
	fprintf(f, ",\"%s\":\"%016" PRIx64 "\"", name, v);
}

/* A communicator's id, 0 for none. */
static void
member_comm(FILE *f, uint64_t id)
{
	if (id)
		fprintf(f, ",\"comm\":\"%" PRIu64 "\"", id);
	else
		fprintf(f, ",\"comm\":null");
}

/* ---- devices */

static void
put_device(FILE *f, const struct world *w, const struct top_device *d)
{
	const GpuSim__DeviceMetadata *m = w->device[d->index].meta;

	fprintf(f, "{\"index\":%zu", d->index);
	member_hex(f, "id", d->id);
	member_u64(f, "gpu", d->ordinal);
	member_u64(f, "pid", d->pid);
	json_member("state", top_state_name(d->state), f);
	member_comm(f, d->comm);
	member_index(f, "rank", d->rank < 0 ? TOP_NOBODY : (size_t)d->rank);
	json_member("op", d->op, f);
	member_u64(f, "step", d->step);
	member_u64(f, "steps", d->steps);
	if (d->share >= 0)
		member_real(f, "chunkDone", d->share);
	else
		fprintf(f, ",\"chunkDone\":null");
	member_real(f, "opSeconds", d->op_s);
	member_index(f, "waitsFor", d->waits_for);
	member_real(f, "waitSeconds", d->waits_s);
	member_u64(f, "waitedBy", d->waited_by);
	fprintf(f, ",\"blamed\":%s", d->blamed ? "true" : "false");
	member_real(f, "inBytesPerSecond", d->in);
	member_real(f, "outBytesPerSecond", d->out);
	member_real(f, "opsPerSecond", d->ops);
	member_real(f, "busy", d->busy);
	member_u64(f, "memoryUsed", d->used);
	member_u64(f, "memorySize", d->size);
	json_member("note", d->note, f);
	if (m->loss)
		member_u64(f, "lostMsAgo", m->loss->agoms);
	fputc('}', f);
}

/* ---- a communicator's operation: the one that runs, else the one that ended last */

struct recent {
	const struct flight_op *op;
	uint64_t at_ns;
	bool runs;
};

static void
consider(struct recent *best, const struct flight_op *op, uint64_t at_ns, bool runs)
{
	if (best->op && (best->runs > runs || (best->runs == runs && best->at_ns >= at_ns)))
		return;
	*best = (struct recent){op, at_ns, runs};
}

static void
consider_ring(struct recent *best, const struct world_ring *r, const struct flight_clock *clock,
	      bool lives, uint64_t comm)
{
	const struct flight_live *live = &r->ring.live;

	if (lives && flight_at_work(live) && live->op.comm == comm)
		consider(best, &live->op, flight_time_ns(clock, live->op.begin), true);
	for (size_t i = 0; i < r->nrecords; i++)
		if (r->record[i].kind == FLIGHT_OP && r->record[i].op.comm == comm)
			consider(best, &r->record[i].op, flight_time_ns(clock, r->record[i].op.end),
				 false);
}

static struct recent
recent_op(const struct world *w, const GpuSim__CommSummary *c)
{
	struct recent best = {0};

	for (size_t i = 0; i < c->n_deviceids; i++) {
		const struct world_device *d = world_device(w, c->deviceids[i]);

		for (size_t k = 0; d && d->recorder && k < d->recorder->nrings; k++)
			consider_ring(&best, &d->recorder->ring[k], &d->recorder->clock,
				      d->meta->state == 0, c->commid);
	}
	return best;
}

/* ---- the edges of its plan: senders and receivers */

static void
put_edges_of(FILE *f, const struct plan *p, uint32_t rank, uint32_t n, bool *any)
{
	bool seen[STATE_JSON_EDGES] = {false};

	for (size_t i = 0; i < p->nstep; i++) {
		uint32_t peer = p->step[i].peer;

		if (p->step[i].kind != STEP_SEND || peer >= n || seen[peer])
			continue;
		seen[peer] = true;
		fprintf(f, "%s[%u,%u]", *any ? "," : "", rank, peer);
		*any = true;
	}
}

/* The edges of the plan for the smallest vector of which every rank has a part. */
static void
put_edges(FILE *f, const struct flight_op *op, uint32_t n)
{
	const struct plan_algo *algo = world_algo(op);
	bool any = false;

	fprintf(f, ",\"edges\":[");
	for (uint32_t r = 0; algo && n <= STATE_JSON_EDGES && r < n; r++) {
		const struct plan_args a = {.coll = (enum gpusim_coll)op->coll,
					    .rank = r,
					    .nranks = n,
					    .root = op->root < n ? op->root : 0,
					    .nelem = op->coll == GPUSIM_BARRIER ? 0 : n};
		struct plan p = {0};

		if (n > 1 && plan_args_check(&a, NULL) == RC_OK) {
			algo->build(&a, &p);
			if (p.rc == RC_OK)
				put_edges_of(f, &p, r, n, &any);
		}
		plan_fini(&p);
	}
	fprintf(f, "]");
	json_member("algorithm", algo ? algo->name : "", f);
}

static bool
is_between_all(unsigned coll)
{
	return coll < GPUSIM_NCOLLS && !coll_is_sendrecv((enum gpusim_coll)coll);
}

static void
put_recent(FILE *f, const struct world *w, const GpuSim__CommSummary *c)
{
	struct recent r = recent_op(w, c);

	if (!r.op || !is_between_all(r.op->coll)) {
		fprintf(f, ",\"recent\":null");
		return;
	}
	fprintf(f, ",\"recent\":{\"number\":%" PRIu64, frame_op_shown(r.op->seq));
	json_member("collective", coll_name((enum gpusim_coll)r.op->coll), f);
	member_u64(f, "count", r.op->count);
	json_member("type",
		    r.op->dtype < GPUSIM_NDTYPES ? dtype_name((enum gpusim_dtype)r.op->dtype) : "?",
		    f);
	fprintf(f, ",\"runs\":%s", r.runs ? "true" : "false");
	member_real(f, "secondsAgo", r.at_ns < w->now_ns ? (double)(w->now_ns - r.at_ns) / 1e9 : 0);
	json_member("result", r.runs ? "" : rc_name((enum rc)r.op->result), f);
	put_edges(f, r.op, (uint32_t)c->n_deviceids);
	fputc('}', f);
}

static void
put_comm(FILE *f, const struct world *w, const struct top *t, size_t i)
{
	const GpuSim__CommSummary *c = w->status->comms[i];
	const struct top_comm *tc = &t->comm[i];

	fprintf(f, "{\"id\":\"%" PRIu64 "\"", tc->id);
	json_member("state", tc->state, f);
	json_member("onFailure", tc->policy, f);
	member_u64(f, "epoch", tc->epoch);
	member_u64(f, "recoveries", tc->recoveries);
	member_u64(f, "operations", tc->operations);
	member_u64(f, "pending", tc->pending);
	member_real(f, "opsPerSecond", tc->ops);
	member_index(f, "culprit", tc->culprit);
	json_member("reason", tc->reason, f);
	fprintf(f, ",\"devices\":[");
	for (size_t k = 0; k < c->n_deviceids; k++) {
		size_t at = 0;

		while (at < t->ndevices && t->device[at].id != c->deviceids[k])
			at++;
		fprintf(f, at < t->ndevices ? "%s%zu" : "%snull", k ? "," : "", at);
	}
	fprintf(f, "]");
	put_recent(f, w, c);
	fputc('}', f);
}

/* ---- the history, and all */

static void
put_event(FILE *f, const GpuSim__HistoryEvent *e)
{
	char name[WORLD_EVENT_NAME];

	fprintf(f, "{\"number\":%" PRIu64, e->number);
	member_u64(f, "atMs", e->atms);
	json_member("kind", world_event_name((int)e->kind, "?", name), f);
	if (e->deviceid) {
		member_hex(f, "device", e->deviceid);
		member_u64(f, "gpu", e->ordinal);
	}
	if (e->commid)
		member_comm(f, e->commid);
	if (e->rank)
		member_u64(f, "rank", e->rank - 1);
	json_member("text", e->text, f);
	fputc('}', f);
}

static void
put_events(FILE *f, const GpuSim__EventsResponse *r)
{
	size_t n = r ? r->n_events : 0;

	fprintf(f, ",\"events\":[");
	for (size_t i = n > STATE_JSON_EVENTS ? n - STATE_JSON_EVENTS : 0, k = 0; i < n; i++, k++) {
		if (k)
			fputc(',', f);
		put_event(f, r->events[i]);
	}
	fputc(']', f);
}

static void
put_rates(FILE *f, const struct rates *r)
{
	fprintf(f, ",\"rates\":{\"seconds\":%.3f", r->seconds);
	member_real(f, "opsPerSecond", r->ops);
	member_real(f, "bytesPerSecond", r->bytes);
	member_real(f, "meanMicroseconds", r->mean_us);
	member_real(f, "p50Microseconds", r->p50_us);
	member_real(f, "p99Microseconds", r->p99_us);
	member_real(f, "waiting", r->waiting);
	fputc('}', f);
}

static void
put_all(FILE *f, const struct world *w, const struct top *t, const struct rates *r)
{
	const GpuSim__StatusResponse *s = w->status;

	fprintf(f, "{\"format\":%d", STATE_JSON_FORMAT);
	json_member("version", s->version, f);
	member_u64(f, "nowMs", w->now_ns / 1000000);
	member_u64(f, "uptimeMs", s->uptimems);
	member_u64(f, "pid", s->pid);
	member_hex(f, "instance", s->instance);
	json_member("address", s->address, f);
	member_u64(f, "waitingRequests", s->waiting);
	member_u64(f, "commsMade", s->commsmade);
	json_member("culprit", t->culprit, f);
	put_rates(f, r);
	fprintf(f, ",\"devices\":[");
	for (size_t i = 0; i < t->ndevices; i++) {
		if (i)
			fputc(',', f);
		put_device(f, w, &t->device[i]);
	}
	fprintf(f, "],\"comms\":[");
	for (size_t i = 0; i < t->ncomms; i++) {
		if (i)
			fputc(',', f);
		put_comm(f, w, t, i);
	}
	fputc(']', f);
	put_events(f, w->events);
	fputc('}', f);
}

enum rc
state_json(const struct world *now, const struct world *before, struct buf *out,
	   struct rates *rates, struct err *err)
{
	struct rates own, *r = rates ? rates : &own;
	struct top *t;
	char *text = NULL;
	size_t n = 0;
	FILE *f;
	enum rc rc = top_new(now, before, &t, err);

	if (rc != RC_OK)
		return rc;
	rates_between(now, before, r);
	f = open_memstream(&text, &n);
	if (f)
		put_all(f, now, t, r);
	top_free(t);
	if (!f || (ferror(f) | fclose(f)) || !buf_add(out, text, n))
		rc = err_set(err, RC_NOMEM, "out of memory");
	free(text);
	return rc;
}
