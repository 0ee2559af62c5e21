/*
 * comm_record.c - communicators as records: what is stored of one, and one made from what was stored.
 *
 * At the end of each step a mark tells whether the record still fits. Numbers that only grow are reserved in
 * large strides, so that an operation changes no record of its communicator.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static GpuSim__CommRecordState
record_state(const struct comm *comm)
{
	if (comm->state == COMM_DETACHING)
		return GPU_SIM__COMM_RECORD_STATE__LEAVING;
	if (!comm->made)
		return GPU_SIM__COMM_RECORD_STATE__MAKING;
	return comm->state == COMM_LIVE ? GPU_SIM__COMM_RECORD_STATE__LIVE
					: GPU_SIM__COMM_RECORD_STATE__RECOVERING;
}

static uint64_t
mark_of(const struct comm *comm)
{
	uint64_t h = record_mix(1, record_state(comm));

	h = record_mix(record_mix(record_mix(h, comm->epoch), comm->nranks), comm->record.next_op);
	h = record_mix(record_mix(record_mix(h, comm->failed.rc), comm->rec.final),
		       comm->rec.cause.rc);
	return h ? h : 1;
}

/* For whom it is being changed; NULL: for nobody. */
static const struct pending *
asking(struct coord *c, const struct comm *comm)
{
	const struct pending *w =
	    pending_find(c, comm->state == COMM_DETACHING ? &wait_detach : &wait_attach, comm->id);

	return w ? w : pending_find(c, &wait_abort, comm->id);
}

struct members {
	GpuSim__MemberRecord *v, **p;
};

static bool
members_init(const struct comm *comm, struct members *out)
{
	*out = (struct members){alloc_zeroed(comm->nranks, sizeof *out->v),
				alloc_zeroed(comm->nranks, sizeof *out->p)};
	for (uint32_t r = 0; out->v && out->p && r < comm->nranks; r++) {
		const struct member *m = &comm->rank[r];
		GpuSim__MemberRecord *k = &out->v[r];

		gpu_sim__member_record__init(k);
		k->deviceid = device_id(m->from ? m->from : m->dev);
		k->incarnation = m->from ? 0 : m->incarnation;
		k->block = m->block;
		if (m->mapped && record_state(comm) == GPU_SIM__COMM_RECORD_STATE__LIVE)
			k->mapped = (ProtobufCBinaryData){comm->nranks, (uint8_t *)m->mapped};
		out->p[r] = k;
	}
	return out->v && out->p;
}

/* Of a communicator whose ranks came by themselves: who else asks, and whose it is. */
struct callers {
	GpuSim__AskRecord *v, **p;
	uint64_t *client;
	size_t n;
};

static bool
callers_init(struct coord *c, const struct comm *comm, const struct pending *first,
	     struct callers *out)
{
	*out = (struct callers){alloc_zeroed(comm->nholders, sizeof *out->v),
				alloc_zeroed(comm->nholders, sizeof *out->p),
				alloc_zeroed(comm->nholders, sizeof *out->client), 0};
	if (!out->v || !out->p || !out->client)
		return false;
	for (uint32_t i = 0; i < comm->nholders; i++)
		out->client[i] = comm->holders[i].client_id;
	if (!first || pending_asker(first)->kind != GPU_SIM__REQUEST__BODY_COMM_INIT_RANK)
		return true;
	for (const struct pending *w = pending_next(c, NULL); w && out->n < comm->nholders;
	     w = pending_next(c, w)) {
		if (w == first || pending_on(w) != pending_on(first) || pending_id(w) != comm->id ||
		    pending_asker(w)->kind != pending_asker(first)->kind)
			continue;
		gpu_sim__ask_record__init(&out->v[out->n]);
		out->v[out->n].client = pending_asker(w)->client_id;
		out->v[out->n].seq = pending_asker(w)->seq;
		out->p[out->n] = &out->v[out->n];
		out->n++;
	}
	return true;
}

static void
callers_fini(struct callers *a)
{
	free(a->v);
	free(a->p);
	free(a->client);
}

static void
put_comm(struct coord *c, struct comm *comm)
{
	GpuSim__CommRecord k = GPU_SIM__COMM_RECORD__INIT;
	const struct pending *w = asking(c, comm);
	struct callers callers = {0};
	struct members m;
	char key[RECORD_KEY_MAX];

	k.commid = comm->id;
	k.epoch = comm->epoch;
	k.optimeoutms = comm->op_timeout_ms;
	k.state = record_state(comm);
	k.onfailure = (GpuSim__OnFailure)comm->on_failure;
	k.p2p = comm->p2p;
	k.lease = comm->lease;
	k.final = comm->rec.final;
	k.clientid = comm->client_id;
	k.recoveries = comm->recoveries;
	k.recovered = comm->recovered.text;
	k.failedcode = comm->failed.rc;
	k.failed = comm->failed.text;
	k.causecode = comm->rec.cause.rc;
	k.cause = comm->rec.cause.text;
	k.nextop = comm->record.next_op;
	k.askclient = w ? pending_asker(w)->client_id : 0;
	k.askseq = w ? pending_asker(w)->seq : 0;
	k.askkind = w ? (uint32_t)pending_asker(w)->kind : 0;
	k.idhigh = comm->uid.high;
	k.idlow = comm->uid.low;
	k.program = comm->label.program;
	k.pid = comm->label.pid;
	if (members_init(comm, &m) && callers_init(c, comm, w, &callers)) {
		k.n_asks = callers.n;
		k.asks = callers.p;
		k.n_clients = comm->nholders;
		k.clients = callers.client;
		k.n_ranks = comm->nranks;
		k.ranks = m.p;
		record_key(key, "2/comm", comm->id);
		record_put(c, key, &k.base, true);
	}
	callers_fini(&callers);
	free(m.v);
	free(m.p);
}

static void
record_comm(struct coord *c, struct comm *comm)
{
	uint64_t mark;

	record_reserve(comm->next_op, &comm->record.next_op);
	mark = mark_of(comm);
	if (mark == comm->record.mark)
		return;
	comm->record.mark = mark;
	put_comm(c, comm);
}

/* How many operations it has had, which the reserved number does not tell. They change with what is stored
 * of a run, so this costs no commit of its own. */
static void
record_ops(struct coord *c, struct comm *comm)
{
	GpuSim__OpsRecord k = GPU_SIM__OPS_RECORD__INIT;
	char key[RECORD_KEY_MAX];

	k.operations = comm_operations(comm);
	if (k.operations == comm->record.ops)
		return;
	comm->record.ops = k.operations;
	record_key(key, "2/ops", comm->id);
	record_put(c, key, &k.base, false);
}

/* What was sent and not received yet, or the other way round, must meet in the end. */
static void
record_pairs(struct coord *c, struct comm *comm)
{
	GpuSim__PairsRecord k = GPU_SIM__PAIRS_RECORD__INIT;
	size_t n = comm->pairs.n < comm->pair_cap ? comm->pairs.n : comm->pair_cap;
	GpuSim__PairRecord *v, **p;
	char key[RECORD_KEY_MAX];

	if (!comm->record.pairs_new || (n == 0 && !comm->record.pairs))
		return;
	comm->record.pairs_new = false;
	comm->record.pairs = n > 0;
	v = alloc_zeroed(n, sizeof *v);
	p = alloc_zeroed(n, sizeof *p);
	for (size_t i = 0; v && p && i < n; i++) {
		gpu_sim__pair_record__init(&v[i]);
		v[i].src = (uint32_t)(comm->pairs.key[i] >> 32);
		v[i].dst = (uint32_t)comm->pairs.key[i];
		v[i].sends = comm->pair[i].n[P2P_SEND];
		v[i].recvs = comm->pair[i].n[P2P_RECV];
		p[i] = &v[i];
	}
	k.n_pairs = v && p ? n : 0;
	k.pairs = p;
	record_key(key, "2/pairs", comm->id);
	record_put(c, key, n ? &k.base : NULL, false);
	free(v);
	free(p);
}

void
comm_unrecord(struct coord *c, struct comm *comm)
{
	char key[RECORD_KEY_MAX];

	record_key(key, "2/comm", comm->id);
	if (comm->record.mark)
		record_put(c, key, NULL, true);
	record_key(key, "2/ops", comm->id);
	if (comm->record.ops)
		record_put(c, key, NULL, false);
	record_key(key, "2/pairs", comm->id);
	if (comm->record.pairs)
		record_put(c, key, NULL, false);
}

void
comm_record(struct coord *c, struct comm *comm)
{
	record_comm(c, comm);
	record_ops(c, comm);
	record_pairs(c, comm);
}

/* ---- restoring */

struct comm *
comm_by_id(struct coord *c, uint64_t id)
{
	struct comm *comm = c->comms->first;

	while (comm && comm->id != id)
		comm = comm->next;
	return comm;
}

static bool
check_comm(struct coord *c, const GpuSim__CommRecord *k)
{
	if (k->commid == 0 || k->commid > c->comms->last || comm_by_id(c, k->commid) ||
	    k->epoch == 0 || k->n_ranks == 0 || k->n_ranks > WIRE_MAX_RANKS ||
	    c->comms->n == COORD_MAX_COMMS || (uint32_t)k->onfailure > GPUSIM_ON_FAILURE_SPARE ||
	    k->optimeoutms == 0 || (uint32_t)k->state > GPU_SIM__COMM_RECORD_STATE__LEAVING ||
	    k->nextop > COORD_MAX_OP || k->n_asks > WIRE_MAX_RANKS || k->n_clients > WIRE_MAX_RANKS)
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
take_holders(struct comm *comm, const GpuSim__CommRecord *k)
{
	comm->uid = (struct unique_id){k->idhigh, k->idlow};
	if (k->n_clients == 0)
		return true;
	comm->holders = alloc_zeroed(k->n_clients, sizeof *comm->holders);
	if (!comm->holders)
		return false;
	comm->nholders = (uint32_t)k->n_clients;
	for (uint32_t i = 0; i < comm->nholders; i++)
		comm->holders[i] = (struct holder){k->clients[i], true};
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
	comm->p2p = k->p2p;
	comm->lease = k->lease;
	comm->rec.final = k->final;
	comm->client_id = k->clientid;
	label_set(&comm->label, k->program, k->pid);
	comm->recoveries = k->recoveries;
	snprintf(comm->recovered.text, sizeof comm->recovered.text, "%s", k->recovered);
	set_err(&comm->failed, k->failedcode, k->failed);
	set_err(&comm->rec.cause, k->causecode, k->cause);
	comm->next_op = comm->record.next_op = comm->skipped = k->nextop;
	comm->made = k->state == GPU_SIM__COMM_RECORD_STATE__LIVE ||
		     k->state == GPU_SIM__COMM_RECORD_STATE__RECOVERING;
	comm->state = k->state == GPU_SIM__COMM_RECORD_STATE__LIVE	? COMM_LIVE
		      : k->state == GPU_SIM__COMM_RECORD_STATE__LEAVING ? COMM_DETACHING
		      : k->state == GPU_SIM__COMM_RECORD_STATE__MAKING	? COMM_ATTACHING
									: COMM_DRAINING;
	comm->record.mark = mark_of(comm);
}

static enum rc
add_comm(struct coord *c, const char *key, const GpuSim__CommRecord *k, struct err *err)
{
	struct comm *comm = alloc_zeroed(1, sizeof *comm);
	struct member *rank = alloc_zeroed(k->n_ranks, sizeof *rank);
	const struct wait *on;
	enum rc rc;

	if (!comm || !rank) {
		free(comm);
		free(rank);
		return record_nomem(key, err);
	}
	comm->rank = rank;
	comm->nranks = (uint32_t)k->n_ranks;
	comm->runs_tail = &comm->runs;
	*c->comms->tail = comm;
	c->comms->tail = &comm->next;
	c->comms->n++;
	take_comm(comm, k);
	if (!take_members(c, comm, k) || !take_holders(comm, k))
		return record_nomem(key, err);
	on = k->state == GPU_SIM__COMM_RECORD_STATE__LEAVING   ? &wait_detach
	     : k->askkind == GPU_SIM__REQUEST__BODY_COMM_ABORT ? &wait_abort
							       : &wait_attach;
	rc = pending_restore(c, key, k->askclient, k->askseq, k->askkind, on, comm->id, err);
	for (size_t i = 0; i < k->n_asks && rc == RC_OK; i++)
		rc = pending_restore(c, key, k->asks[i]->client, k->asks[i]->seq, k->askkind, on,
				     comm->id, err);
	return rc;
}

enum rc
comm_restore(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	GpuSim__CommRecord *k = gpu_sim__comm_record__unpack(NULL, n, value);
	enum rc rc = k && check_comm(c, k) ? add_comm(c, key, k, err) : record_nonsense(key, err);

	if (k)
		gpu_sim__comm_record__free_unpacked(k, NULL);
	return rc;
}

enum rc
comm_ops_restore(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	GpuSim__OpsRecord *k = gpu_sim__ops_record__unpack(NULL, n, value);
	struct comm *comm = comm_by_id(c, strtoull(key + strlen("2/ops/"), NULL, 16));
	enum rc rc =
	    k && comm && k->operations <= comm->next_op ? RC_OK : record_nonsense(key, err);

	if (rc == RC_OK) {
		comm->record.ops = k->operations;
		comm->skipped = comm->next_op - k->operations;
	}
	if (k)
		gpu_sim__ops_record__free_unpacked(k, NULL);
	return rc;
}

enum rc
comm_pairs_restore(struct coord *c, const char *key, const uint8_t *value, size_t n,
		   struct err *err)
{
	GpuSim__PairsRecord *k = gpu_sim__pairs_record__unpack(NULL, n, value);
	struct comm *comm = comm_by_id(c, strtoull(key + strlen("2/pairs/"), NULL, 16));
	enum rc rc = k && comm ? RC_OK : record_nonsense(key, err);

	for (size_t i = 0; rc == RC_OK && i < k->n_pairs; i++) {
		const GpuSim__PairRecord *p = k->pairs[i];
		struct pair_count *count;

		if (p->src >= comm->nranks || p->dst >= comm->nranks) {
			rc = record_nonsense(key, err);
			break;
		}
		count = comm_pair(comm, p->src, p->dst);
		if (!count) {
			rc = record_nomem(key, err);
			break;
		}
		count->n[P2P_SEND] = p->sends;
		count->n[P2P_RECV] = p->recvs;
	}
	if (rc == RC_OK)
		comm->record.pairs = true;
	if (k)
		gpu_sim__pairs_record__free_unpacked(k, NULL);
	return rc;
}

/* ---- going on */

/* The making, or the change, had not ended: once more, under the next epoch. */
static void
make_again(struct coord *c, struct comm *comm)
{
	struct err err;

	if (!pending_find(c, &wait_attach, comm->id)) {
		comm_detach(c, comm);
		return;
	}
	comm->epoch++;
	comm->failed = (struct err){0};
	if (comm_attach(c, comm, &err) != RC_OK)
		comm->failed = err; /* and so it ends */
}

/* It was dealing with a failure: so it does again, from the beginning. */
static void
recover_again(struct coord *c, struct comm *comm)
{
	struct err cause = comm->rec.cause;
	bool final = comm->rec.final;

	comm->state = COMM_LIVE;
	comm->rec = (struct recovery){.final = final};
	if (cause.rc == RC_OK) {
		comm_renew(c, comm);
		return;
	}
	comm->failed = (struct err){0};
	comm_fail(c, comm, &cause);
}

bool
comm_was_failing(const struct comm *comm)
{
	return comm->made && comm->state != COMM_LIVE && comm->state != COMM_DETACHING &&
	       comm->rec.cause.rc != RC_OK;
}

bool
comm_resume(struct coord *c, struct comm *comm)
{
	/* Its client may have gone while nobody listened. */
	comm->gone = true;
	comm->gone_ms = c->now_ms + TIME_RETURN_MS - TIME_LEASE_MS;
	if (comm->state == COMM_DETACHING)
		comm_detach(c, comm);
	else if (!comm->made)
		make_again(c, comm);
	else if (comm->state != COMM_LIVE)
		recover_again(c, comm);
	else
		return comm->failed.rc == RC_OK;
	return false;
}
