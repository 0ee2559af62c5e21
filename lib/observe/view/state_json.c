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

/* A number, or null for TOP_NOBODY. */
static void
member_index(struct json *j, const char *name, size_t v)
{
	json_put(j, v == TOP_NOBODY ? "%s:null" : "%s:%zu", name, v);
}

/* 0 where it is not finite, for the page's bars. */
static double
real(double v)
{
	return isfinite(v) ? v : 0;
}

/* A communicator's id, 0 for none: a string, because ids have more bits than JavaScript's numbers. */
static void
member_comm(struct json *j, uint64_t id)
{
	char text[24];

	snprintf(text, sizeof text, "%" PRIu64, id);
	json_put(j, "comm:%s", id ? text : NULL);
}

/* ---- devices */

static void
put_device(struct json *j, const struct world *w, const struct top_device *d)
{
	const GpuSim__DeviceMetadata *m = w->device[d->index].meta;
	char place[GRID_TEXT];

	json_put(j, "{index:%zu id:%016" PRIx64 " gpu:%" PRIu32 " pid:%" PRIu32 " state:%s",
		 d->index, d->id, d->ordinal, d->pid, top_state_name(d->state));
	member_comm(j, d->comm);
	member_index(j, "rank", d->rank < 0 ? TOP_NOBODY : (size_t)d->rank);
	json_put(j, "place:%s",
		 d->rank < 0 ? "" : world_place(w, d->comm, (uint32_t)d->rank, place));
	json_put(j, "op:%s step:%" PRIu32 " steps:%" PRIu32, d->op, d->step, d->steps);
	json_put(j, d->share >= 0 ? "chunkDone:%.6g" : "chunkDone:null", real(d->share));
	json_put(j, "opSeconds:%.6g", real(d->op_s));
	member_index(j, "waitsFor", d->waits_for);
	json_put(j,
		 "waitSeconds:%.6g waitedBy:%" PRIu32
		 " blamed:%hhu inBytesPerSecond:%.6g outBytesPerSecond:%.6g opsPerSecond:%.6g "
		 "busy:%.6g memoryUsed:%" PRIu64 " memorySize:%" PRIu64 " note:%s",
		 real(d->waits_s), d->waited_by, d->blamed, real(d->in), real(d->out), real(d->ops),
		 real(d->busy), d->used, d->size, d->note);
	if (m->loss)
		json_put(j, "lostMsAgo:%" PRIu64, m->loss->agoms);
	json_put(j, "}");
}

/* ---- a communicator's operation: the one that runs, else the one that ended last */

struct recent {
	const struct flight_op *op;
	uint64_t at_ns;
	bool runs;
	const struct world_recorder *of; /* it is in this recorder */
};

static void
consider(struct recent *best, const struct flight_op *op, uint64_t at_ns, bool runs)
{
	if (best->op && (best->runs > runs || (best->runs == runs && best->at_ns >= at_ns)))
		return;
	*best = (struct recent){op, at_ns, runs, NULL};
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

		for (size_t k = 0; d && d->recorder && k < d->recorder->nrings; k++) {
			const struct flight_op *was = best.op;

			consider_ring(&best, &d->recorder->ring[k], &d->recorder->clock,
				      d->meta->state == 0, c->commid);
			best.of = best.op != was ? d->recorder : best.of;
		}
	}
	return best;
}

/* ---- the edges of its plan: senders and receivers */

/* rank: by place among the n ranks that take part. */
static void
put_edges_of(struct json *j, const struct plan *p, const uint32_t *rank, uint32_t place, uint32_t n)
{
	bool seen[STATE_JSON_EDGES] = {false};

	for (size_t i = 0; i < p->nstep; i++) {
		uint32_t peer = p->step[i].peer;

		if (p->step[i].kind != STEP_SEND || peer >= n || seen[peer])
			continue;
		seen[peer] = true;
		json_put(j, "[%u %u]", rank[place], rank[peer]);
	}
}

/* The ranks of n that take part, if they are few enough to be drawn. Returns their number; 0: not known. */
static uint32_t
find_ranks(const struct recent *r, uint32_t n, uint32_t rank[STATE_JSON_EDGES])
{
	const struct flight_group *g = r->of ? flight_group_of(&r->of->header, r->op) : NULL;
	uint32_t k = 0;

	if (r->op->group && !(g && g->ascending))
		return 0;
	for (uint32_t q = 0; q < n && k <= STATE_JSON_EDGES; q++)
		if (!g || (q < FLIGHT_GROUP_RANKS && g->rank[q / 8] & 1u << q % 8)) {
			if (k < STATE_JSON_EDGES)
				rank[k] = q;
			k++;
		}
	return k <= STATE_JSON_EDGES && (!g || k == g->n) ? k : 0;
}

/* The edges of the plan for the smallest vector of which every rank has a part. */
static void
put_edges(struct json *j, const struct recent *recent, uint32_t nranks)
{
	const struct flight_op *op = recent->op;
	const struct plan_algo *algo = world_algo(op);
	uint32_t rank[STATE_JSON_EDGES], n = find_ranks(recent, nranks, rank);

	json_put(j, "edges:[");
	for (uint32_t r = 0; algo && r < n; r++) {
		const struct plan_args a = {.coll = (enum gpusim_coll)op->coll,
					    .rank = r,
					    .nranks = n,
					    .root = op->root < n ? op->root : 0,
					    .nelem = op->coll == GPUSIM_BARRIER ? 0 : n};
		struct plan p = {0};

		if (n > 1 && plan_args_check(&a, NULL) == RC_OK) {
			algo->build(&a, &p);
			if (p.rc == RC_OK)
				put_edges_of(j, &p, rank, r, n);
		}
		plan_fini(&p);
	}
	json_put(j, "] algorithm:%s", algo ? algo->name : "");
}

static void
put_recent(struct json *j, const struct world *w, const GpuSim__CommSummary *c)
{
	struct recent r = recent_op(w, c);

	/* A send or a receive is between two ranks alone. */
	if (!r.op || r.op->coll >= GPUSIM_NCOLLS ||
	    coll_is_sendrecv((enum gpusim_coll)r.op->coll)) {
		json_put(j, "recent:null");
		return;
	}
	json_put(j,
		 "recent:{number:%" PRIu64 " collective:%s count:%" PRIu64
		 " type:%s runs:%hhu secondsAgo:%.6g result:%s",
		 frame_op_shown(r.op->seq), coll_name((enum gpusim_coll)r.op->coll), r.op->count,
		 r.op->dtype < GPUSIM_NDTYPES ? dtype_name((enum gpusim_dtype)r.op->dtype) : "?",
		 r.runs, r.at_ns < w->now_ns ? (double)(w->now_ns - r.at_ns) / 1e9 : 0.0,
		 r.runs ? "" : rc_name((enum rc)r.op->result));
	put_edges(j, &r, (uint32_t)c->n_deviceids);
	json_put(j, "}");
}

static void
put_comm(struct json *j, const struct world *w, const struct top *t, size_t i)
{
	const GpuSim__CommSummary *c = w->status->comms[i];
	const struct top_comm *tc = &t->comm[i];
	char id[24];

	snprintf(id, sizeof id, "%" PRIu64, tc->id);
	json_put(j,
		 "{id:%s state:%s onFailure:%s epoch:%" PRIu32 " recoveries:%" PRIu32
		 " operations:%" PRIu64 " pending:%" PRIu64 " opsPerSecond:%.6g",
		 id, tc->state, tc->policy, tc->epoch, tc->recoveries, tc->operations, tc->pending,
		 real(tc->ops));
	member_index(j, "culprit", tc->culprit);
	json_put(j, "grid:%s reason:%s devices:[", c->grid, tc->reason);
	for (size_t k = 0; k < c->n_deviceids; k++) {
		size_t at = 0;

		while (at < t->ndevices && t->device[at].id != c->deviceids[k])
			at++;
		json_put(j, at < t->ndevices ? "%zu" : "null", at);
	}
	json_put(j, "]");
	put_recent(j, w, c);
	json_put(j, "}");
}

/* ---- the history, and all */

static void
put_event(struct json *j, const GpuSim__HistoryEvent *e)
{
	char name[WORLD_EVENT_NAME];

	json_put(j, "{number:%" PRIu64 " atMs:%" PRIu64 " kind:%s", e->number, e->atms,
		 world_event_name((int)e->kind, "?", name));
	if (e->deviceid)
		json_put(j, "device:%016" PRIx64 " gpu:%" PRIu32, e->deviceid, e->ordinal);
	if (e->commid)
		member_comm(j, e->commid);
	if (e->rank)
		json_put(j, "rank:%" PRIu32, e->rank - 1);
	json_put(j, "text:%s}", e->text);
}

static void
put_all(struct json *j, const struct world *w, const struct top *t, const struct rates *r)
{
	const GpuSim__StatusResponse *s = w->status;
	size_t n = w->events ? w->events->n_events : 0;

	json_put(j,
		 "{format:%d version:%s nowMs:%" PRIu64 " uptimeMs:%" PRIu64 " pid:%" PRIu32
		 " instance:%016" PRIx64 " address:%s waitingRequests:%" PRIu32
		 " commsMade:%" PRIu64 " culprit:%s",
		 STATE_JSON_FORMAT, s->version, w->now_ns / 1000000, s->uptimems, s->pid,
		 s->instance, s->address, s->waiting, s->commsmade, t->culprit);
	json_put(j,
		 "rates:{seconds:%.3f opsPerSecond:%.6g bytesPerSecond:%.6g meanMicroseconds:%.6g "
		 "p50Microseconds:%.6g p99Microseconds:%.6g waiting:%.6g} devices:[",
		 r->seconds, real(r->ops), real(r->bytes), real(r->mean_us), real(r->p50_us),
		 real(r->p99_us), real(r->waiting));
	for (size_t i = 0; i < t->ndevices; i++)
		put_device(j, w, &t->device[i]);
	json_put(j, "] comms:[");
	for (size_t i = 0; i < t->ncomms; i++)
		put_comm(j, w, t, i);
	json_put(j, "] events:[");
	for (size_t i = n > STATE_JSON_EVENTS ? n - STATE_JSON_EVENTS : 0; i < n; i++)
		put_event(j, w->events->events[i]);
	json_put(j, "]}");
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
		put_all(&(struct json){f, false}, now, t, r);
	top_free(t);
	if (!f || (ferror(f) | fclose(f)) || !buf_add(out, text, n))
		rc = err_set(err, RC_NOMEM, "out of memory");
	free(text);
	return rc;
}
