#include "view/top.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "coll/plan.h"
#include "mem/dtype.h"
#include "view/rates.h"
#include "wire/frame.h"
#include "wire/wire.h"

/* ---- rates */

static double
rate(uint64_t now, uint64_t before, double seconds)
{
	return now > before && seconds > 0 ? (double)(now - before) / seconds : 0;
}

static void
set_rates(const struct world *now, const struct world *before, double seconds,
	  struct top_device *out)
{
	struct rates_work w;

	if (!rates_of_device(now, before, out->index, &w))
		return;
	out->in = (double)w.received / seconds;
	out->out = (double)w.sent / seconds;
	out->ops = (double)w.ops / seconds;
	out->busy = (double)w.busy_ns / 1e9 / seconds;
}

/* ---- the current operation */

/* The running operation that has waited the longest, else the oldest; NULL: none runs. */
static const struct flight_live *
live_of(const struct world_recorder *r)
{
	const struct flight_live *best = NULL;

	for (size_t i = 0; r && i < r->nrings; i++) {
		const struct flight_live *l = &r->ring[i].ring.live;
		bool waits, best_waits;

		if (!flight_at_work(l))
			continue;
		waits = atomic_load(&l->waits_for) != 0;
		best_waits = best && atomic_load(&best->waits_for) != 0;
		if (!best || (waits && !best_waits) ||
		    (waits && best_waits && atomic_load(&l->since) < atomic_load(&best->since)) ||
		    (!waits && !best_waits && l->op.begin < best->op.begin))
			best = l;
	}
	return best;
}

static void
name_op(const struct flight_op *op, char *out, size_t room)
{
	enum gpusim_coll coll = (enum gpusim_coll)op->coll;
	const struct plan_algo *algo = world_algo(op);
	char size[16];

	if (op->coll >= GPUSIM_NCOLLS || op->dtype >= GPUSIM_NDTYPES) {
		snprintf(out, room, "?");
		return;
	}
	top_size((double)op->count * (double)dtype_size((enum gpusim_dtype)op->dtype), size);
	snprintf(out, room, "%s #%" PRIu64 "%s%s%s%s", coll_name(coll), frame_op_shown(op->seq),
		 coll == GPUSIM_BARRIER ? "" : " ", coll == GPUSIM_BARRIER ? "" : size,
		 algo ? " " : "", algo ? algo->name : "");
}

static size_t
device_at(const struct world *w, uint64_t comm, uint32_t rank)
{
	const GpuSim__CommSummary *c = world_comm(w, comm);
	const struct world_device *d =
	    c && rank < c->n_deviceids ? world_device(w, c->deviceids[rank]) : NULL;

	return d ? (size_t)(d - w->device) : TOP_NOBODY;
}

static void
set_waiting(const struct world *w, uint32_t rank_and_1, uint64_t ns, struct top_device *out)
{
	if (rank_and_1 == 0)
		return;
	out->waits_s = (double)ns / 1e9;
	if (ns < TOP_LONG_NS)
		return;
	out->waits_rank = (int)rank_and_1 - 1;
	out->waits_for = device_at(w, out->comm, rank_and_1 - 1);
	out->state = TOP_WAITS;
}

static void
set_live(const struct world *w, const struct world_recorder *r, const struct flight_live *l,
	 struct top_device *out)
{
	out->state = TOP_RUNS;
	out->comm = l->op.comm;
	out->rank = l->op.rank;
	out->step = atomic_load(&l->step);
	out->steps = atomic_load(&l->steps);
	out->op_s = (double)world_ns_since(w, r, l->op.begin) / 1e9;
	name_op(&l->op, out->op, sizeof out->op);
	set_waiting(w, atomic_load(&l->waits_for), world_ns_since(w, r, atomic_load(&l->since)),
		    out);
}

/* Without a recorder: use the progress that the device's heartbeats reported. */
static void
set_told(const struct world *w, struct top_device *out)
{
	for (size_t i = 0; i < w->status->n_comms; i++)
		for (size_t k = 0; k < w->status->comms[i]->n_progress; k++) {
			const GpuSim__Progress *p = w->status->comms[i]->progress[k];

			if (p->deviceid != out->id)
				continue;
			out->state = TOP_RUNS;
			out->comm = p->commid;
			out->rank = (int)p->rank;
			out->step = p->step;
			out->steps = p->steps;
			out->op_s = (double)p->idlems / 1e3;
			snprintf(out->op, sizeof out->op, "#%" PRIu64, p->operation);
			set_waiting(w, p->waitsfor, p->idlems * 1000000, out);
			return;
		}
}

/* The device is between two operations. The live lines still have the last one. */
static void
set_worked(const struct world_recorder *r, struct top_device *out)
{
	const struct flight_op *last = NULL;

	for (size_t i = 0; i < r->nrings; i++) {
		const struct flight_live *l = &r->ring[i].ring.live;

		if (atomic_load(&l->turn) && (!last || l->op.begin > last->begin))
			last = &l->op;
	}
	out->state = TOP_RUNS;
	if (last && last->begin && (last->comm == out->comm || out->comm == 0))
		name_op(last, out->op, sizeof out->op);
}

/* ---- devices */

static int
rank_in(const struct world *w, uint64_t comm, uint64_t device)
{
	const GpuSim__CommSummary *c = world_comm(w, comm);

	for (size_t i = 0; c && i < c->n_deviceids; i++)
		if (c->deviceids[i] == device)
			return (int)i;
	return -1;
}

static void
note(struct top_device *d, const char *fmt, const char *a, const char *b, const char *c)
{
	snprintf(d->note, sizeof d->note, fmt, a, b, c);
}

static void
set_state(const struct world *w, const struct world_device *d, struct top_device *out)
{
	const GpuSim__DeviceMetadata *m = d->meta;
	const struct flight_live *live = live_of(d->recorder);

	out->state = m->spare ? TOP_SPARE : m->commid ? TOP_IDLE : TOP_FREE;
	if (live)
		set_live(w, d->recorder, live, out);
	else if (!d->recorder)
		set_told(w, out);
	else if (out->busy >= TOP_WORKED)
		set_worked(d->recorder, out);
	if (!d->recorder && *d->why_not)
		note(out, "%s", d->why_not, "", "");
	if (m->state == 1) {
		out->state = TOP_LOST;
		note(out, "%s%s%s", m->loss ? m->loss->why : "lost",
		     m->loss && *m->loss->remedy ? ", " : "", m->loss ? m->loss->remedy : "");
	} else if (d->process == 'T' || d->process == 't') {
		out->state = TOP_STOPPED;
		note(out, "its process is stopped", "", "", "");
	} else if (d->process == 'X' || d->process == 'Z') {
		out->state = TOP_GONE;
		note(out, "its process has ended", "", "", "");
	}
	if (out->state >= TOP_STOPPED) { /* its wait is not what stops it */
		out->waits_for = TOP_NOBODY;
		out->waits_rank = -1;
		out->waits_s = 0;
	}
}

static void
set_device(const struct world *now, const struct world *before, size_t i, double seconds,
	   struct top_device *out)
{
	const struct world_device *d = &now->device[i];
	const GpuSim__DeviceMetadata *m = d->meta;

	*out = (struct top_device){.index = i,
				   .id = m->deviceid ? m->deviceid->value : 0,
				   .ordinal = m->ordinal,
				   .pid = m->pid,
				   .comm = m->commid,
				   .rank = -1,
				   .waits_for = TOP_NOBODY,
				   .waits_rank = -1,
				   .share = -1,
				   .used = m->usedbytes};
	if (m->minmemaddr && m->maxmemaddr)
		out->size = m->maxmemaddr->value - m->minmemaddr->value;
	out->rank = rank_in(now, out->comm, out->id);
	if (m->state != 1)
		set_rates(now, before, seconds, out);
	set_state(now, d, out);
}

/* ---- chunks in flight over shaped links, counted at both ends as they progress */

/* Add the chunks in flight in world w, times per_s, to t's devices, which are those of `now`. */
static void
add_ways(const struct world *w, const struct world *now, double per_s, struct top *t)
{
	for (size_t i = 0; i < w->ndevices; i++) {
		const struct world_recorder *r =
		    w->device[i].meta->state == 1 ? NULL : w->device[i].recorder;

		for (size_t k = 0; r && k < r->nrings; k++) {
			const struct flight_live *l = &r->ring[k].ring.live;
			const struct world_device *to = NULL;
			double share = -1;
			uint64_t n = rates_on_way(w, r, l, &share);
			size_t at = share < 0
					? TOP_NOBODY
					: device_at(w, l->op.comm, atomic_load(&l->way_to) - 1);

			if (at != TOP_NOBODY)
				to = world_device(now, w->device[at].meta->deviceid->value);
			if (!to)
				continue;
			t->device[to - now->device].in += (double)n * per_s;
			if (w == now && t->device[i].state < TOP_STOPPED)
				t->device[i].share = t->device[to - now->device].share = share;
		}
	}
}

/* ---- culprits */

/* The end of a chain of waiting devices. In a cycle: the device with the least progress, if there is
 * just one. */
static size_t
end_of(const struct top *t, size_t from)
{
	size_t at = from, behind, least;
	uint32_t same = 0;

	for (size_t hops = 0; t->device[at].waits_for != TOP_NOBODY; hops++) {
		if (hops > t->ndevices)
			break;
		at = t->device[at].waits_for;
	}
	if (t->device[at].waits_for == TOP_NOBODY)
		return at;
	behind = least = at;
	do {
		at = t->device[at].waits_for;
		if (t->device[at].step < t->device[least].step)
			least = at;
	} while (at != behind);
	do {
		at = t->device[at].waits_for;
		same += t->device[at].step == t->device[least].step;
	} while (at != behind);
	return same == 1 ? least : TOP_NOBODY;
}

/* A rank of the communicator that cannot proceed; TOP_NOBODY. */
static size_t
stopped_of(const struct top *t, uint64_t comm)
{
	for (size_t i = 0; i < t->ndevices; i++)
		if (t->device[i].state >= TOP_STOPPED && t->device[i].comm == comm)
			return i;
	return TOP_NOBODY;
}

static void
set_blame(struct top *t)
{
	for (size_t i = 0; i < t->ndevices; i++) {
		size_t stopped,
		    end = t->device[i].waits_for == TOP_NOBODY ? TOP_NOBODY : end_of(t, i);

		/* A device that sends into a full window is not recorded as waiting. */
		if (t->device[i].waits_for != TOP_NOBODY &&
		    (end == TOP_NOBODY || t->device[end].state < TOP_STOPPED)) {
			stopped = stopped_of(t, t->device[i].comm);
			end = stopped == TOP_NOBODY ? end : stopped;
		}
		if (end == TOP_NOBODY || end == i)
			continue;
		t->device[end].waited_by++;
		t->device[end].blamed = true;
	}
}

/* The device that most ranks of a communicator wait for; comm 0: of all. */
static size_t
culprit_of(const struct top *t, uint64_t comm)
{
	size_t best = TOP_NOBODY;

	for (size_t i = 0; i < t->ndevices; i++)
		if (t->device[i].blamed && (comm == 0 || t->device[i].comm == comm) &&
		    (best == TOP_NOBODY || t->device[i].waited_by > t->device[best].waited_by))
			best = i;
	return best;
}

static double
longest_wait(const struct top *t)
{
	double most = 0;

	for (size_t i = 0; i < t->ndevices; i++)
		if (t->device[i].waits_for != TOP_NOBODY && t->device[i].waits_s > most)
			most = t->device[i].waits_s;
	return most;
}

static void
say_culprit(struct top *t)
{
	size_t at = culprit_of(t, 0);
	const struct top_device *d;
	char what[160] = "in no operation";

	if (at == TOP_NOBODY)
		return;
	d = &t->device[at];
	if (d->steps)
		snprintf(what, sizeof what, "%s in step %" PRIu32 "/%" PRIu32 " of %s",
			 d->state == TOP_WAITS ? "it is" : top_state_word(d->state), d->step,
			 d->steps, d->op);
	else if (d->state >= TOP_STOPPED)
		snprintf(what, sizeof what, "%s", top_state_word(d->state));
	snprintf(t->culprit, sizeof t->culprit,
		 "%" PRIu32 " wait%s %.1f s for rank %" PRIu64 ":%d (device %016" PRIx64
		 ", pid %" PRIu32 "): %s",
		 d->waited_by, d->waited_by == 1 ? "s" : "", longest_wait(t), d->comm, d->rank,
		 d->id, d->pid, what);
}

/* ---- communicators */

static void
set_comm(const struct world *before, const GpuSim__CommSummary *c, double seconds,
	 struct top_comm *out)
{
	static const char *const states[] = {"in-progress", "success", "failed"};
	const GpuSim__CommSummary *was = before ? world_comm(before, c->commid) : NULL;
	const char *policy = wire_policy_name((int)c->onfailure);

	*out = (struct top_comm){.id = c->commid,
				 .state = (unsigned)c->status < 3 ? states[c->status] : "?",
				 .policy = policy ? policy : "?",
				 .nranks = (uint32_t)c->n_deviceids,
				 .epoch = c->epoch,
				 .recoveries = c->recoveries,
				 .operations = c->operations,
				 .pending = c->pending,
				 .culprit = TOP_NOBODY};
	snprintf(out->reason, sizeof out->reason, "%s", c->reason);
	if (was)
		out->ops = rate(c->operations, was->operations, seconds);
}

enum rc
top_new(const struct world *now, const struct world *before, struct top **out, struct err *err)
{
	struct top *t = calloc(1, sizeof *t);

	if (t) {
		t->device = alloc_zeroed(now->ndevices + 1, sizeof *t->device);
		t->comm = alloc_zeroed(now->status->n_comms + 1, sizeof *t->comm);
	}
	if (!t || !t->device || !t->comm) {
		top_free(t);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	if (before && now->now_ns > before->now_ns)
		t->seconds = (double)(now->now_ns - before->now_ns) / 1e9;
	t->ndevices = now->ndevices;
	t->ncomms = now->status->n_comms;
	for (size_t i = 0; i < t->ndevices; i++) {
		set_device(now, before, i, t->seconds, &t->device[i]);
		t->count[t->device[i].state]++;
	}
	add_ways(now, now, t->seconds > 0 ? 1 / t->seconds : 0, t);
	if (t->seconds > 0)
		add_ways(before, now, -1 / t->seconds, t);
	for (size_t i = 0; i < t->ndevices; i++) {
		t->device[i].in = t->device[i].in > 0 ? t->device[i].in : 0;
		if (t->device[i].state >= TOP_STOPPED)
			t->device[i].share = -1;
	}
	set_blame(t);
	say_culprit(t);
	for (size_t i = 0; i < t->ncomms; i++) {
		set_comm(before, now->status->comms[i], t->seconds, &t->comm[i]);
		t->comm[i].culprit = culprit_of(t, t->comm[i].id);
	}
	*out = t;
	return RC_OK;
}

void
top_free(struct top *t)
{
	if (!t)
		return;
	free(t->device);
	free(t->comm);
	free(t);
}
