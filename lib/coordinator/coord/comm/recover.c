/*
 * recover.c - actions of a communicator that has failed: it drains, decides which ranks are lost,
 * and continues or gives up.
 *
 * The epoch is aborted at every rank, and all that can answer do so at once. A rank that does not is lost
 * when the grace period is over. A failure on the way starts over, a bounded number of times.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/frame.h"

/* ---- draining */

static void
abort_ended(struct coord *c, void *owner, uint32_t rank, const struct outcome *o)
{
	struct comm *comm = owner;

	(void)c;
	comm->waiting--;
	comm_call_failed(comm, rank, o);
}

/* The failure as clients get it. */
static void
retell(struct coord *c, struct comm *comm)
{
	comm->rec.told = comm->rec.cause;
	comm_report_name(c, comm, &comm->rec.told);
}

/* Keep *why as the cause, unless an earlier failure is. */
void
comm_note(struct coord *c, struct comm *comm, const struct err *why)
{
	struct err *cause = &comm->rec.cause;

	if (comm->failed.rc == RC_OK &&
	    (cause->rc == RC_OK ||
	     (cause->rc == RC_ABORTED && why->rc != RC_ABORTED && !comm->rec.final)))
		*cause = *why;
	retell(c, comm);
}

void
comm_note_abort(struct coord *c, struct comm *comm, const struct err *why)
{
	comm->rec.cause = *why;
	retell(c, comm);
}

void
comm_drain(struct coord *c, struct comm *comm, const struct err *why)
{
	struct recovery *rec = &comm->rec;
	bool guilty[WIRE_MAX_RANKS];

	comm_note(c, comm, why);
	if (!comm_recovers(comm))
		comm_report_claim(c, comm);
	retell(c, comm);
	rec->began_ms = c->now_ms;
	rec->until_ms = c->now_ms + c->cfg.abort_grace_ms;
	/* Nothing moved for too long: find the culprits while the ranks' progress is current. */
	if (rec->cause.rc == RC_TIMEOUT &&
	    progress_culprits(c, comm, guilty, rec->stuck, sizeof rec->stuck))
		for (uint32_t r = 0; r < comm->nranks; r++)
			comm->rank[r].accused = guilty[r];
	act_log(c, "%s", rec->cause.text);
	members_abort(c, comm, &rec->told, abort_ended);
	if (!comm_recovers(comm))
		c->comms->hooks->failing(c, comm, &rec->told);
}

/* ---- the end of a failure */

static void
forget_failure(struct comm *comm)
{
	comm->rec = (struct recovery){0};
	for (uint32_t r = 0; r < comm->nranks; r++) {
		struct member *m = &comm->rank[r];

		m->heard = m->accused = false;
		if (comm->failed.rc == RC_OK)
			m->gone = false;
	}
}

/* Count a communicator by its policy and its failure. */
static void
count(uint64_t counts[COUNT_POLICIES][COUNT_CODES], const struct comm *comm, enum rc rc)
{
	if ((unsigned)comm->on_failure < COUNT_POLICIES && (unsigned)rc < COUNT_CODES)
		counts[comm->on_failure][rc]++;
}

/* It stays failed. */
void
comm_give_up(struct coord *c, struct comm *comm, const struct err *why)
{
	struct err told = *why, *line = &told;
	struct pending *p;

	comm_report_claim(c, comm);
	comm_report_name(c, comm, line);
	members_cancel(c, comm);
	for (uint32_t r = 0; r < comm->nranks; r++) {
		member_release(&comm->rank[r]);
		comm->rank[r].newcomer = false;
	}
	comm->failed = *line;
	count(c->counts.failed, comm, line->rc);
	if (strcmp(why->text, comm->rec.cause.text) != 0)
		act_log(c, "%s", line->text);
	event_add(c, &(struct event){.kind = GPU_SIM__EVENT_KIND__COMM_FAILED, .comm = comm->id},
		  "%s", line->text);
	comm_report_ready(c, comm, why->text);
	c->comms->hooks->failed(c, comm, line);
	rendezvous_parent_ends(c, comm, line, true);
	forget_failure(comm);
	pendings_fail(c, &wait_attach, comm->id, line);
	while ((p = pending_find(c, &wait_abort, comm->id)))
		answer_done(c, p);
	comm_idle(c, comm);
}

/* "rank 2 (device ..) lost: why, rank 3 ..", as far as it fits. */
static void
name_lost(struct comm *comm, const bool *lost)
{
	struct text t = {comm->rec.who, sizeof comm->rec.who};

	comm->rec.who[0] = '\0';
	for (uint32_t r = 0; r < comm->nranks; r++) {
		const struct member *m = &comm->rank[r];
		struct err why;

		if (!lost[r])
			continue;
		if (m->why[0])
			err_set(&why, RC_FAILED, "%s%s",
				strncmp(m->why, "lost", 4) == 0 ? "" : "lost: ", m->why);
		else if (!comm_holds(comm, r))
			err_set(&why, RC_FAILED, "restarted");
		else if (device_is_lost(m->dev))
			device_lost(m->dev, &why);
		else
			err_set(&why, RC_FAILED, "lost: it is stuck and does not answer");
		text_add(&t, "%srank %u (device %016" PRIx64 ") %s", comm->rec.who[0] ? ", " : "",
			 r, device_id(m->dev), why.text);
	}
}

/* The message that clients get. */
static void
describe(const struct comm *comm, struct err *line)
{
	const struct recovery *rec = &comm->rec;

	const char *who = rec->who[0] ? rec->who : rec->stuck;

	*line = rec->cause;
	if (rec->where[0] && who[0])
		err_set(line, rec->cause.rc, "comm %" PRIu64 ": %s: %s; last progress %.1fs ago",
			comm->id, rec->where, who, (double)rec->idle_ms / 1e3);
}

/* Fail it permanently: the message, followed by why it cannot continue. */
static void
comm_cannot(struct coord *c, struct comm *comm, const char *why)
{
	struct err line, err;

	describe(comm, &line);
	err_set(&err, RC_FAILED, "%s; %s", line.text, why);
	comm_happens(c, comm, COMM_HOPELESS, &err);
}

/* ---- replacing: respawn */

/* The rank's device has come back with its memory. */
static bool
has_returned(const struct coord *c, const struct comm *comm, const struct member *m)
{
	if (device_is_lost(m->dev))
		return false;
	if (device_incarnation(m->dev) != m->incarnation)
		return true;
	return !device_can_spawn(c, m->dev) && device_heard_ms(m->dev) > comm->rec.drained_ms;
}

void
replace_start(struct coord *c, struct comm *comm, const struct err *why)
{
	(void)why;
	for (uint32_t r = 0; r < comm->nranks && comm->on_failure == GPUSIM_ON_FAILURE_RESPAWN;
	     r++) {
		struct member *m = &comm->rank[r];

		if (m->gone)
			device_revive(c, m->dev, !has_returned(c, comm, m));
	}
	replace_step(c, comm);
}

/* True: no device is missing any more. */
static bool
respawned(struct coord *c, struct comm *comm)
{
	bool all = true;

	for (uint32_t r = 0; r < comm->nranks; r++) {
		struct member *m = &comm->rank[r];

		if (m->gone && has_returned(c, comm, m)) {
			m->incarnation = device_incarnation(m->dev);
			comm->rec.blank |= m->memories != device_memories(m->dev);
			m->memories = device_memories(m->dev);
			m->gone = false;
		}
		all &= !m->gone;
	}
	return all;
}

/* ---- replacing: spare */

static void
adopted(struct coord *c, void *owner, uint32_t rank, const struct outcome *o)
{
	struct comm *comm = owner;
	struct member *m = &comm->rank[rank];

	comm->waiting--;
	if (o->err.rc == RC_OK) {
		m->gone = false;
		device_replace(c, m->from, m->dev);
		return;
	}
	snprintf(comm->rec.tried, sizeof comm->rec.tried, "spare device %016" PRIx64 ": %.150s",
		 device_id(m->dev), o->err.text);
	act_log(c, "comm %" PRIu64 " rank %u: %s", comm->id, rank, comm->rec.tried);
	device_is_unfit(m->dev);
	device_release(m->dev);
	m->dev = m->from;
	m->from = NULL;
	comm->rec.rounds++;
}

/* Give the rank to the device, which fetches the lost device's memory if it can. */
static void
take_place(struct coord *c, struct comm *comm, uint32_t r, struct device *d)
{
	struct member *m = &comm->rank[r];
	struct buf body = {0};

	m->from = m->dev;
	m->dev = d;
	m->incarnation = device_incarnation(d);
	m->memories = device_memories(d);
	device_reserve(d);
	if (adopt_pack(m->from, d, &body)) {
		member_call(c, comm, r, adopted, COORD_ADOPT_MS, &body);
		return;
	}
	comm->rec.blank = true;
	m->gone = false;
	device_replace(c, m->from, d);
}

/* True: every rank has a device. */
static bool
spared(struct coord *c, struct comm *comm)
{
	bool all = true;

	for (uint32_t r = 0; r < comm->nranks; r++) {
		struct member *m = &comm->rank[r];
		struct device *d;

		if (m->gone && !m->from && (d = device_find_spare(c, m->dev, false)))
			take_place(c, comm, r, d);
		all &= !m->gone;
	}
	return all && comm->waiting == 0;
}

/* It is in use, and may become free in time. */
static bool
may_come(const struct comm *comm, const struct device *d)
{
	for (uint32_t r = 0; r < comm->nranks; r++)
		if (comm->rank[r].dev == d || comm->rank[r].from == d)
			return false;
	return !device_is_lost(d);
}

/* Why a rank can never get a device; false: it may get one. */
static bool
is_hopeless(const struct coord *c, const struct comm *comm, uint32_t r, char *why, size_t room)
{
	const struct device *lost = comm->rank[r].dev;
	struct text t = {why, room};

	if (!comm->rank[r].gone || comm->rank[r].from)
		return false;
	if (comm->on_failure == GPUSIM_ON_FAILURE_RESPAWN) {
		snprintf(why, room, "device %016" PRIx64 " %s", device_id(lost),
			 device_cannot_come(lost));
		return *device_cannot_come(lost);
	}
	for (size_t i = 0; i < devices_count(c); i++)
		if (device_serves(device_at(c, i), lost) && may_come(comm, device_at(c, i)))
			return false;
	text_add(&t, "no spare device is left%s%s", comm->rec.tried[0] ? "; " : "",
		 comm->rec.tried);
	devices_name_lost(c, true, &t);
	return true;
}

void
replace_step(struct coord *c, struct comm *comm)
{
	bool respawns = comm->on_failure == GPUSIM_ON_FAILURE_RESPAWN;
	char why[COORD_WHY_MAX * 4];

	/* Start lost devices of this host that are not being started already. */
	for (uint32_t r = 0; respawns && r < comm->nranks; r++)
		if (comm->rank[r].gone && !has_returned(c, comm, &comm->rank[r]))
			device_spawn(c, comm->rank[r].dev);
	if (respawns ? respawned(c, comm) : spared(c, comm)) {
		comm_happens(c, comm, COMM_COMPLETE, NULL);
		return;
	}
	for (uint32_t r = 0; r < comm->nranks; r++)
		if (is_hopeless(c, comm, r, why, sizeof why)) {
			comm_cannot(c, comm, why);
			return;
		}
	if (c->now_ms < comm->rec.until_ms)
		return;
	snprintf(why, sizeof why,
		 respawns ? "the device did not return within %.1fs"
			  : "no spare device joined within %.1fs",
		 (double)(c->now_ms - comm->rec.drained_ms) / 1e3);
	comm_cannot(c, comm, why);
}

/* ---- attaching again */

void
comm_attach_again(struct coord *c, struct comm *comm, const struct err *why)
{
	struct err err;

	(void)why;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		struct member *m = &comm->rank[r];

		member_release(m);
		free(m->mapped);
		m->mapped = NULL;
		m->block = 0;
		m->gone = m->heard = m->accused = false;
		m->why[0] = '\0';
	}
	comm->epoch++;
	if (comm_attach(c, comm, &err) != RC_OK)
		comm_happens(c, comm, COMM_HOPELESS, &err);
}

/* Attach again after its ranks have changed, or after it failed. */
void
comm_renew(struct coord *c, struct comm *comm, const struct err *why)
{
	comm->failed = (struct err){0};
	comm->rec = (struct recovery){.drained_ms = c->now_ms, .began_ms = c->now_ms};
	comm_attach_again(c, comm, why);
}

/* The coordinator was restarted while it dealt with a failure: start again. */
void
comm_recover_again(struct coord *c, struct comm *comm, const struct err *why)
{
	struct err cause = comm->rec.cause;

	(void)why;
	comm->rec = (struct recovery){.final = comm->rec.final};
	if (cause.rc == RC_OK) {
		comm_happens(c, comm, COMM_CHANGED, NULL);
		return;
	}
	comm->failed = (struct err){0};
	comm_happens(c, comm, COMM_FAILS, &cause);
}

void
comm_abort_busy(struct coord *c, struct comm *comm, const struct err *why)
{
	comm->rec.cause = *why;
	comm_give_up(c, comm, why);
}

/* ---- deciding */

/* All answered, and yet it failed: the rank that is known to be stuck; or after another failure, the one
 * that others waited for. */
static uint32_t
find_lost(const struct coord *c, struct comm *comm, bool *lost)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < comm->nranks; r++) {
		lost[r] = comm_is_lost(comm, r) || !comm_is_settled(c, comm, r);
		n += lost[r];
	}
	if (n || !comm_recovers(comm) || (!comm->rec.stuck[0] && comm->rec.rounds <= 1))
		return n;
	for (uint32_t r = 0; r < comm->nranks; r++)
		if (comm->rank[r].accused) {
			lost[r] = true;
			snprintf(comm->rank[r].why, sizeof comm->rank[r].why,
				 "its peers have waited for it in vain");
			n++;
		}
	return n;
}

static void
go_on_without(struct coord *c, struct comm *comm, const bool *lost, uint32_t nlost)
{
	comm->rec.until_ms = c->now_ms + c->cfg.respawn_ms;
	for (uint32_t r = 0; r < comm->nranks; r++)
		comm->rank[r].gone = lost[r];
	if (nlost && comm->on_failure != GPUSIM_ON_FAILURE_SHRINK) {
		comm_happens(c, comm, COMM_SHORT, NULL);
		return;
	}
	if (nlost)
		members_leave(c, comm, lost);
	comm_happens(c, comm, COMM_COMPLETE, NULL);
}

void
comm_decide(struct coord *c, struct comm *comm, const struct err *why)
{
	struct recovery *rec = &comm->rec;
	bool lost[WIRE_MAX_RANKS];
	uint32_t nlost = find_lost(c, comm, lost);
	struct err line;

	(void)why;
	name_lost(comm, lost);
	rec->drained_ms = c->now_ms;
	rec->rounds++;
	describe(comm, &line);
	if (!comm_recovers(comm)) {
		for (uint32_t r = 0; r < comm->nranks; r++)
			comm->rank[r].gone = lost[r];
		comm_happens(c, comm, COMM_HOPELESS, &line);
		return;
	}
	members_cancel(c, comm);
	c->comms->hooks->stop(c, comm);
	if (nlost == comm->nranks && comm->on_failure == GPUSIM_ON_FAILURE_SHRINK)
		comm_cannot(c, comm, "no rank is left");
	else if (rec->rounds > comm->nranks + COORD_MAX_TRIES)
		comm_cannot(c, comm, "it keeps failing");
	else if (c->comms->hooks->overdue(c, comm))
		comm_cannot(c, comm, "the time limit, recoveries included, is over");
	else
		go_on_without(c, comm, lost, nlost);
}

/* New devices could not be attached: remove them; the others stay as before. */
static bool
send_back(struct coord *c, struct comm *comm)
{
	bool leave[WIRE_MAX_RANKS], any = false, stays = false;
	struct err why = comm->failed;

	for (uint32_t r = 0; r < comm->nranks; r++) {
		const struct member *m = &comm->rank[r];

		leave[r] = m->newcomer;
		any |= m->newcomer && comm_is_lost(comm, r);
		stays |= !m->newcomer;
		if (comm_is_lost(comm, r) && !m->newcomer)
			return false;
	}
	if (!any || !stays)
		return false;
	pendings_fail(c, &wait_attach, comm->id, &why);
	c->comms->hooks->stop(c, comm);
	members_leave(c, comm, leave);
	comm_happens(c, comm, COMM_CHANGED, NULL);
	return true;
}

/* A rank has failed to attach, join or define. */
void
comm_decide_again(struct coord *c, struct comm *comm, const struct err *why)
{
	if (send_back(c, comm))
		return;
	if (comm->failed.rc != RC_OK) {
		comm->rec.cause = comm->failed;
		comm->failed = (struct err){0};
	}
	for (uint32_t r = 0; r < comm->nranks; r++)
		comm->rank[r].heard = true;
	comm_decide(c, comm, why);
}

/* ---- live again */

static void
tell(struct coord *c, struct comm *comm)
{
	const struct recovery *rec = &comm->rec;
	char found[48] = "";

	if (rec->where[0])
		snprintf(found, sizeof found, "detect %" PRIu64 " ms, ", rec->idle_ms);
	err_set(&comm->recovered, RC_OK,
		"%s; %s, %u rank%s at epoch %u%s: %sagree %" PRIu64 " ms, restore %" PRIu64 " ms",
		rec->who[0] ? rec->who : rec->cause.text, wire_policy_name(comm->on_failure),
		comm->nranks, comm->nranks == 1 ? "" : "s", comm->epoch,
		rec->blank ? ", a rank's memory was lost" : "", found,
		rec->drained_ms - rec->began_ms, c->now_ms - rec->drained_ms);
	act_log(c, "comm %" PRIu64 " has recovered: %s", comm->id, comm->recovered.text);
	event_add(c, &(struct event){.kind = GPU_SIM__EVENT_KIND__RECOVERED, .comm = comm->id},
		  "comm %" PRIu64 " has recovered: %.400s", comm->id, comm->recovered.text);
	count(c->counts.recovered, comm, rec->cause.rc);
	comm->recoveries++;
}

void
comm_go_live(struct coord *c, struct comm *comm, const struct err *why)
{
	struct pending *p;

	(void)why;
	for (uint32_t r = 0; r < comm->nranks; r++)
		comm->rank[r].newcomer = false;
	if (comm->rec.cause.rc != RC_OK)
		tell(c, comm);
	c->comms->hooks->live(c, comm);
	forget_failure(comm);
	while ((p = pending_find(c, &wait_attach, comm->id)))
		answer_init(c, comm, p);
	comm_idle(c, comm);
}

void
comm_define(struct coord *c, struct comm *comm, const struct err *why)
{
	(void)why;
	c->comms->hooks->define(c, comm);
}
