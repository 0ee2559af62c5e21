/*
 * comm_record.c - the record of a communicator.
 *
 * A short mark shows at the end of each step whether the record is up to date, so no change of a
 * communicator has to remember to store it.
 */
#include "coord/comm/comm_impl.h"

#include <stdio.h>
#include <stdlib.h>

static GpuSim__CommRecordState
state_of(const struct comm *comm)
{
	if (comm->state == COMM_DETACHING)
		return GPU_SIM__COMM_RECORD_STATE__LEAVING;
	if (!comm->made)
		return GPU_SIM__COMM_RECORD_STATE__MAKING;
	return comm->state & (COMM_LIVE | COMM_FAILED) ? GPU_SIM__COMM_RECORD_STATE__LIVE
						       : GPU_SIM__COMM_RECORD_STATE__RECOVERING;
}

static uint64_t
mark_of(const struct comm *comm, uint64_t next_seq)
{
	uint64_t h = record_mix(1, state_of(comm));

	h = record_mix(record_mix(record_mix(h, comm->epoch), comm->nranks), next_seq);
	for (uint32_t i = 0; i < comm->nowners && comm->queued; i++)
		h = record_mix(h, comm->owners[i].left);
	h = record_mix(record_mix(record_mix(h, comm->failed.rc), comm->rec.final),
		       comm->rec.cause.rc);
	return h ? h : 1;
}

static GpuSim__MemberRecord **
members_new(const struct comm *comm)
{
	GpuSim__MemberRecord **p = messages_new(comm->nranks, &gpu_sim__member_record__descriptor);

	for (uint32_t r = 0; p && r < comm->nranks; r++) {
		const struct member *m = &comm->rank[r];

		p[r]->deviceid = device_id(m->from ? m->from : m->dev);
		p[r]->incarnation = m->from ? 0 : m->incarnation;
		p[r]->block = m->block;
		p[r]->first = m->first;
		if (m->mapped && state_of(comm) == GPU_SIM__COMM_RECORD_STATE__LIVE)
			p[r]->mapped = (ProtobufCBinaryData){comm->nranks, (uint8_t *)m->mapped};
	}
	return p;
}

/* The other requests that wait for a communicator whose ranks met by an id; their number. */
static size_t
take_asks(struct coord *c, const struct comm *comm, const struct pending *first,
	  GpuSim__AskRecord **out)
{
	size_t n = 0;

	if (!first || !comm->owners || pending_on(first) != &wait_attach)
		return 0;
	for (const struct pending *p = pending_next(c, NULL); p && n < comm->nowners;
	     p = pending_next(c, p)) {
		if (p == first || pending_on(p) != pending_on(first) || pending_id(p) != comm->id ||
		    pending_asker(p)->kind != pending_asker(first)->kind)
			continue;
		out[n]->client = pending_asker(p)->client_id;
		out[n++]->seq = pending_asker(p)->seq;
	}
	return n;
}

static void
put(struct coord *c, struct comm *comm, uint64_t next_seq)
{
	GpuSim__CommRecord k = GPU_SIM__COMM_RECORD__INIT;
	const struct wait *on = comm->state == COMM_DETACHING ? &wait_detach : &wait_attach;
	const struct pending *w = pending_find(c, on, comm->id); /* it changes the communicator */
	GpuSim__AskRecord **asks = messages_new(comm->nowners, &gpu_sim__ask_record__descriptor);
	GpuSim__MemberRecord **members = members_new(comm);
	uint64_t *clients = alloc_zeroed(comm->nowners, sizeof *clients);
	uint8_t *left = alloc_zeroed(comm->nowners, sizeof *left);
	char key[RECORD_KEY_MAX];

	if (!w)
		w = pending_find(c, &wait_abort, comm->id);
	k.commid = comm->id;
	k.epoch = comm->epoch;
	k.optimeoutms = comm->op_timeout_ms;
	k.state = state_of(comm);
	k.onfailure = (GpuSim__OnFailure)comm->on_failure;
	k.p2p = comm->by_memory;
	k.lease = comm->lease;
	k.final = comm->rec.final;
	k.clientid = comm->client_id;
	k.recoveries = comm->recoveries;
	k.recovered = comm->recovered.text;
	k.failedcode = comm->failed.rc;
	k.failed = comm->failed.text;
	k.causecode = comm->rec.cause.rc;
	k.cause = comm->rec.cause.text;
	k.nextop = next_seq;
	k.askclient = w ? pending_asker(w)->client_id : 0;
	k.askseq = w ? pending_asker(w)->seq : 0;
	k.askkind = w ? (uint32_t)pending_asker(w)->kind : 0;
	k.idhigh = comm->uid.high;
	k.idlow = comm->uid.low;
	k.program = comm->label.program;
	k.pid = comm->label.pid;
	k.queued = comm->queued;
	k.firstranks = comm->first_nranks;
	k.tp = comm->grid.tp;
	k.pp = comm->grid.pp;
	if (asks && members && clients && left) {
		k.n_asks = take_asks(c, comm, w, asks);
		k.asks = asks;
		for (uint32_t i = 0; i < comm->nowners; i++) {
			clients[i] = comm->owners[i].client_id;
			left[i] = comm->owners[i].left;
		}
		k.left = (ProtobufCBinaryData){comm->queued ? comm->nowners : 0, left};
		k.n_clients = comm->nowners;
		k.clients = clients;
		k.n_ranks = comm->nranks;
		k.ranks = members;
		record_key(key, "2/comm", comm->id);
		record_put(c, key, &k.base, true);
	}
	free(asks);
	free(members);
	free(clients);
	free(left);
}

void
comm_record(struct coord *c, struct comm *comm, uint64_t next_seq)
{
	uint64_t mark = mark_of(comm, next_seq);

	if (mark == comm->recorded)
		return;
	comm->recorded = mark;
	put(c, comm, next_seq);
}

void
comm_unrecord(struct coord *c, const struct comm *comm)
{
	char key[RECORD_KEY_MAX];

	record_key(key, "2/comm", comm->id);
	if (comm->recorded)
		record_put(c, key, NULL, true);
}

/* ---- restored */

static bool
check_comm(struct coord *c, const GpuSim__CommRecord *k)
{
	if (k->commid == 0 || k->commid > c->comms->last || comm_any(c, k->commid) ||
	    k->epoch == 0 || k->n_ranks == 0 || k->n_ranks > WIRE_MAX_RANKS ||
	    c->comms->n == COORD_MAX_COMMS || (uint32_t)k->onfailure > GPUSIM_ON_FAILURE_SPARE ||
	    k->optimeoutms == 0 || (uint32_t)k->state > GPU_SIM__COMM_RECORD_STATE__LEAVING ||
	    k->nextop > COORD_MAX_OP || k->n_asks > WIRE_MAX_RANKS ||
	    k->n_clients > WIRE_MAX_RANKS || (k->left.len && k->left.len != k->n_clients) ||
	    !k->tp != !k->pp || (uint64_t)k->tp * k->pp > GRID_MAX || k->tp > GRID_MAX ||
	    (k->queued && (k->n_clients != k->n_ranks || k->onfailure)))
		return false;
	for (size_t r = 0; r < k->n_ranks; r++)
		if (!device_find(c, k->ranks[r]->deviceid) ||
		    (k->ranks[r]->mapped.len && k->ranks[r]->mapped.len != k->n_ranks))
			return false;
	return true;
}

static bool
take_members(struct coord *c, struct comm *comm, const GpuSim__CommRecord *k)
{
	for (uint32_t r = 0; r < comm->nranks; r++) {
		const GpuSim__MemberRecord *from = k->ranks[r];
		struct member *m = &comm->rank[r];

		m->dev = device_find(c, from->deviceid);
		m->incarnation = from->incarnation;
		m->block = from->block;
		m->first = from->first;
		m->attached = true;
		device_reserve(m->dev);
		if (from->mapped.len == 0)
			continue;
		m->mapped = alloc_zeroed(comm->nranks, sizeof *m->mapped);
		if (!m->mapped)
			return false;
		for (uint32_t q = 0; q < comm->nranks; q++)
			m->mapped[q] = from->mapped.data[q];
	}
	return true;
}

static bool
take_owners(struct comm *comm, const GpuSim__CommRecord *k)
{
	comm->uid = (struct unique_id){k->idhigh, k->idlow};
	if (k->n_clients == 0)
		return true;
	comm->owners = alloc_zeroed(k->n_clients, sizeof *comm->owners);
	if (!comm->owners)
		return false;
	comm->nowners = (uint32_t)k->n_clients;
	for (uint32_t i = 0; i < comm->nowners; i++)
		comm->owners[i] = (struct owner){.client_id = k->clients[i],
						 .gone = true,
						 .left = k->left.len && k->left.data[i]};
	return true;
}

static void
set_err(struct err *err, uint32_t code, const char *text)
{
	if (code)
		err_set(err, (enum rc)code, "%s", text);
}

static void
take_comm(struct comm *comm, const GpuSim__CommRecord *k)
{
	comm->id = k->commid;
	comm->epoch = k->epoch;
	comm->op_timeout_ms = k->optimeoutms;
	comm->on_failure = (enum gpusim_on_failure)k->onfailure;
	comm->by_memory = k->p2p;
	comm->lease = k->lease;
	comm->queued = k->queued;
	comm->first_nranks = k->firstranks;
	comm->grid.tp = k->tp;
	comm->grid.pp = k->pp;
	comm_regrid(comm);
	comm->rec.final = k->final;
	comm->client_id = k->clientid;
	label_set(&comm->label, k->program, k->pid);
	comm->recoveries = k->recoveries;
	snprintf(comm->recovered.text, sizeof comm->recovered.text, "%s", k->recovered);
	set_err(&comm->failed, k->failedcode, k->failed);
	set_err(&comm->rec.cause, k->causecode, k->cause);
	comm->made = k->state == GPU_SIM__COMM_RECORD_STATE__LIVE ||
		     k->state == GPU_SIM__COMM_RECORD_STATE__RECOVERING;
	comm->state = k->state == GPU_SIM__COMM_RECORD_STATE__LEAVING  ? COMM_DETACHING
		      : k->state == GPU_SIM__COMM_RECORD_STATE__MAKING ? COMM_MAKING
		      : k->state != GPU_SIM__COMM_RECORD_STATE__LIVE   ? COMM_DRAINING
		      : comm->failed.rc == RC_OK		       ? COMM_LIVE
								       : COMM_FAILED;
}

static enum rc
restore_asks(struct coord *c, const char *key, const GpuSim__CommRecord *k, struct err *err)
{
	const struct wait *on = k->state == GPU_SIM__COMM_RECORD_STATE__LEAVING	  ? &wait_detach
				: k->askkind == GPU_SIM__REQUEST__BODY_COMM_ABORT ? &wait_abort
										  : &wait_attach;
	enum rc rc =
	    pending_restore(c, key, k->askclient, k->askseq, k->askkind, on, k->commid, err);

	for (size_t i = 0; i < k->n_asks && rc == RC_OK; i++)
		rc = pending_restore(c, key, k->asks[i]->client, k->asks[i]->seq, k->askkind, on,
				     k->commid, err);
	return rc;
}

static enum rc
add(struct coord *c, const char *key, const GpuSim__CommRecord *k, struct comm **out,
    struct err *err)
{
	struct comm *comm = alloc_zeroed(1, sizeof *comm);
	struct member *rank = alloc_zeroed(k->n_ranks, sizeof *rank);

	if (!comm || !rank || !c->comms->hooks->made(comm)) {
		free(comm);
		free(rank);
		return record_nomem(key, err);
	}
	comm->rank = rank;
	comm->nranks = (uint32_t)k->n_ranks;
	*c->comms->tail = comm;
	c->comms->tail = &comm->next;
	c->comms->n++;
	take_comm(comm, k);
	*out = comm;
	if (!take_members(c, comm, k) || !take_owners(comm, k))
		return record_nomem(key, err);
	comm->recorded = mark_of(comm, k->nextop);
	return restore_asks(c, key, k, err);
}

enum rc
comm_restore(struct coord *c, const char *key, const uint8_t *value, size_t n, struct comm **out,
	     uint64_t *next_seq, struct err *err)
{
	GpuSim__CommRecord *k = gpu_sim__comm_record__unpack(NULL, n, value);
	enum rc rc = k && check_comm(c, k) ? add(c, key, k, out, err) : record_nonsense(key, err);

	if (rc == RC_OK)
		*next_seq = k->nextop;
	if (k)
		gpu_sim__comm_record__free_unpacked(k, NULL);
	return rc;
}

uint64_t
comms_last(const struct coord *c)
{
	return c->comms->last;
}

void
comms_set_last(struct coord *c, uint64_t id)
{
	c->comms->last = id;
}
