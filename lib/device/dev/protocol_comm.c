/* protocol_comm.c - communicators: which epoch of which coordinator counts. */
#include "dev/protocol_impl.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct err taken_over = {RC_ABORTED, "another coordinator took over"};
static const struct err destroyed = {RC_ABORTED, "the communicator was destroyed"};

/* Remove it from the table, with its graphs. */
static void
comm_drop(struct protocol *p, struct pcomm *c, const struct err *why)
{
	struct pcomm **at = &p->comm[c->id % COMM_BUCKETS];
	struct protocol_action *a = proto_act(p, PROTOCOL_ABORT, 0);

	a->comm = c->id;
	a->epoch = c->epoch;
	a->reason = why->text;
	a->code = RC_ABORTED;
	proto_act(p, PROTOCOL_DETACH, 0)->comm = c->id;
	proto_graphs_drop_of(p, c->id);
	proto_refuse_held(p, c, why);
	proto_answer_attached(p, c, why);
	proto_runs_orphan(p, c);
	while (*at != c)
		at = &(*at)->chain;
	*at = c->chain;
	assert(p->ncomms > 0);
	p->ncomms--;
	p->owed -= 2;
	free(c);
}

/* End those of other coordinators, and those that ended while this device was unreachable. */
static void
leave_ended(struct protocol *p, const GpuSim__CommAttachRequest *m)
{
	bool newer = m->instance != p->instance || m->order > p->order;

	if (newer) {
		p->instance = m->instance;
		p->order = m->order;
	}
	for (unsigned b = 0; b < COMM_BUCKETS; b++)
		for (struct pcomm *c = p->comm[b], *next; c; c = next) {
			size_t i = 0;

			next = c->chain;
			while (i < m->n_comms && m->comms[i] != c->id)
				i++;
			if (c->instance != m->instance)
				comm_drop(p, c, &taken_over);
			else if (newer && m->n_comms && i == m->n_comms)
				comm_drop(p, c, &destroyed);
		}
}

static int
by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Check that no device has two ranks. */
static const struct err *
check_distinct(struct protocol *p, const GpuSim__CommAttachRequest *m)
{
	uint64_t *id = alloc_zeroed(m->n_ranks, sizeof *id);
	size_t n = 0, i = 1;

	if (!id)
		return proto_no_memory(p);
	for (size_t r = 0; r < m->n_ranks; r++)
		if (m->ranks[r]->deviceid)
			id[n++] = m->ranks[r]->deviceid->value;
	qsort(id, n, sizeof *id, by_value);
	while (i < n && id[i] != id[i - 1])
		i++;
	free(id);
	for (size_t r = 0; i < n && r < m->n_ranks; r++)
		for (size_t q = 0; q < r; q++)
			if (m->ranks[r]->deviceid && m->ranks[q]->deviceid &&
			    m->ranks[r]->deviceid->value == m->ranks[q]->deviceid->value)
				return proto_say(p, RC_INVAL,
						 "ranks %zu and %zu are the same device", q, r);
	return NULL;
}

static const struct err *
check_ranks(struct protocol *p, const GpuSim__CommAttachRequest *m)
{
	uint64_t me;

	if (m->commid == 0 || m->rank >= m->n_ranks || m->optimeoutms == 0)
		return proto_say(p, RC_INVAL,
				 "communicator %" PRIu64 " of %zu ranks has no rank %u", m->commid,
				 m->n_ranks, m->rank);
	me = m->ranks[m->rank]->deviceid ? m->ranks[m->rank]->deviceid->value : 0;
	if (me != p->device_id)
		return proto_say(p, RC_INVAL, "rank %u is device %016" PRIx64 ", not this one",
				 m->rank, me);
	return check_distinct(p, m);
}

/* The same attach again: it waits like the first. */
static const struct err *
attach_again(struct protocol *p, struct pcomm *c, uint64_t caller)
{
	struct due *u;

	if (!c->waits && !c->under_way[1])
		return &proto_fine;
	u = malloc(sizeof *u);
	if (!u || !proto_owe(p, 1)) {
		free(u);
		return proto_no_memory(p);
	}
	*u = (struct due){.next = c->attached, .caller = caller};
	c->attached = u;
	return NULL;
}

const struct err *
proto_attach(struct protocol *p, uint64_t caller, const GpuSim__CommAttachRequest *m)
{
	const struct err *why = check_ranks(p, m);
	struct pcomm fresh = {.id = m->commid,
			      .instance = m->instance,
			      .epoch = m->epoch,
			      .rank = m->rank,
			      .nranks = (uint32_t)m->n_ranks};
	struct pcomm *old;
	struct due *u;

	if (why)
		return why;
	leave_ended(p, m);
	fresh.digest = proto_digest(DIGEST_START, &m->optimeoutms, sizeof m->optimeoutms);
	for (size_t r = 0; r < m->n_ranks; r++) { /* the ranks' ids and data addresses */
		const GpuSim__DeviceMetadata *of = m->ranks[r];
		uint64_t id = of->deviceid ? of->deviceid->value : 0;

		fresh.digest = proto_digest(fresh.digest, &id, sizeof id);
		fresh.digest =
		    proto_digest(fresh.digest, of->dataaddress, strlen(of->dataaddress) + 1);
	}
	old = proto_comm_find(p, m->commid);
	if (old && m->epoch < old->epoch)
		return proto_is_over(p, m->epoch, m->commid, old->epoch);
	if (old && m->epoch == old->epoch && old->aborted.rc != RC_OK)
		return &old->aborted;
	if (old && m->epoch == old->epoch)
		return old->rank == fresh.rank && old->nranks == fresh.nranks &&
			       old->digest == fresh.digest
			   ? attach_again(p, old, caller)
			   : proto_say(p, RC_INVAL,
				       "communicator %" PRIu64
				       " is already at epoch %u with other ranks",
				       m->commid, old->epoch);
	if (!old && p->ncomms >= PROTOCOL_MAX_COMMS)
		return proto_say(p, RC_BUSY, "a device can be in at most %d communicators",
				 PROTOCOL_MAX_COMMS);
	if (!proto_owe(p, 3)) /* its abort, detach and answer */
		return proto_no_memory(p);
	u = proto_due_new(p, caller, PROTOCOL_ATTACH);
	if (u)
		u->fresh = malloc(sizeof *u->fresh);
	if (!u || !u->fresh) {
		p->owed -= 3;
		if (u) {
			p->due = u->next;
			free(u);
			p->nout--;
		}
		return proto_no_memory(p);
	}
	*u->fresh = fresh;
	return NULL;
}

/* A newer epoch replaces its predecessor, whose runs may still be in progress. */
static void
comm_renew(struct protocol *p, struct pcomm *old, struct pcomm *fresh)
{
	const struct err *over = proto_is_over(p, old->epoch, old->id, fresh->epoch);

	proto_graphs_drop_of(p, old->id);
	proto_refuse_held(p, old, over);
	proto_answer_attached(p, old, over);
	proto_runs_age(p, old);
	old->epoch = fresh->epoch;
	old->rank = fresh->rank;
	old->nranks = fresh->nranks;
	old->digest = fresh->digest;
	old->joined = false;
	old->aborted = proto_fine;
	p->owed -= 2;
	free(fresh);
}

void
proto_attached(struct protocol *p, struct due *u)
{
	struct pcomm *c = proto_comm_find(p, u->fresh->id);

	if (c) {
		comm_renew(p, c, u->fresh);
	} else {
		c = u->fresh;
		proto_runs_init(c);
		c->waits = p->norphans > 0;
		c->chain = p->comm[c->id % COMM_BUCKETS];
		p->comm[c->id % COMM_BUCKETS] = c;
		p->ncomms++;
	}
	u->fresh = NULL;
	u->next = c->attached;
	c->attached = u;
	proto_attached_settle(p, c);
}

const struct err *
proto_join(struct protocol *p, uint64_t caller, const GpuSim__CommJoinRequest *m)
{
	const struct err *why = NULL;
	struct pcomm *c = proto_comm_at(p, m->commid, m->epoch, &why);
	struct due *u;

	if (!c)
		return why;
	if (c->aborted.rc != RC_OK)
		return &c->aborted;
	u = proto_due_new(p, caller, PROTOCOL_JOIN);
	if (!u)
		return proto_no_memory(p);
	u->comm = m->commid;
	u->epoch = m->epoch;
	return NULL;
}

const struct err *
proto_abort(struct protocol *p, const GpuSim__CommAbortRequest *m)
{
	const struct err *why = NULL;
	struct pcomm *c = proto_comm_at(p, m->commid, m->epoch, &why);
	struct protocol_action *a;

	if (!c)
		return why;
	if (c->aborted.rc == RC_OK) {
		c->aborted.rc = RC_ABORTED;
		snprintf(c->aborted.text, sizeof c->aborted.text, "%s",
			 *m->reason ? m->reason : "aborted, no reason given");
	}
	a = proto_act(p, PROTOCOL_ABORT, 0);
	a->comm = c->id;
	a->epoch = c->epoch;
	a->reason = c->aborted.text;
	a->code = m->code && m->code <= RC_RECOVERED ? (enum rc)m->code : RC_ABORTED;
	proto_refuse_held(p, c, &c->aborted);
	proto_answer_attached(p, c, &c->aborted);
	return &proto_fine;
}

const struct err *
proto_detach(struct protocol *p, const GpuSim__CommDetachRequest *m)
{
	struct pcomm *c = proto_comm_find(p, m->commid);

	if (!c)
		return proto_say(p, RC_NOTFOUND, "no communicator %" PRIu64 " on this device",
				 m->commid);
	if (m->epoch && m->epoch < c->epoch)
		return proto_is_over(p, m->epoch, m->commid, c->epoch);
	comm_drop(p, c, &destroyed);
	return &proto_fine;
}
