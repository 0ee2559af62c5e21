/*
 * restore.c - from what another coordinator has stored to where it was. What is read is checked as
 * far as this process could come to harm by it.
 */
#include "coord/top.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum rc restore_fn(struct coord *c, const char *key, const uint8_t *value, size_t n,
			   struct err *err);

static enum rc
nonsense(const char *key, struct err *err)
{
	return err_set(err, RC_BADDATA, "the record %s makes no sense", key);
}

static enum rc
no_memory(const char *key, struct err *err)
{
	return err_set(err, RC_NOMEM, "the record %s: out of memory", key);
}

/* Somebody who has asked, and may ask again. */
static enum rc
absent(struct coord *c, const char *key, uint64_t client, uint64_t seq, uint32_t kind,
       const struct wait *on, uint64_t id, struct err *err)
{
	struct pending *w;

	if (!client || !seq)
		return RC_OK;
	w = pending_absent(c, client, seq, (GpuSim__Request__BodyCase)kind);
	if (!w)
		return no_memory(key, err);
	pending_wait(c, w, on, id, NULL);
	return RC_OK;
}

/* ---- counts */

static enum rc
restore_meta(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	GpuSim__KeptMeta *m = gpu_sim__kept_meta__unpack(NULL, n, value);

	if (!m)
		return nonsense(key, err);
	c->cfg.instance = m->instance;
	c->comms->last = m->lastcomm;
	c->last_number = c->persist->last_run = m->lastrun;
	c->runs->last_graph = c->persist->last_graph = m->lastgraph;
	gpu_sim__kept_meta__free_unpacked(m, NULL);
	return RC_OK;
}

/* ---- communicators */

static struct comm *
find(struct coord *c, uint64_t id)
{
	struct comm *comm = c->comms->first;

	while (comm && comm->id != id)
		comm = comm->next;
	return comm;
}

static bool
check_comm(struct coord *c, const GpuSim__KeptComm *k)
{
	if (k->commid == 0 || k->commid > c->comms->last || find(c, k->commid) || k->epoch == 0 ||
	    k->n_ranks == 0 || k->n_ranks > WIRE_MAX_RANKS || c->comms->n == COORD_MAX_COMMS ||
	    (uint32_t)k->onfailure > GPUSIM_ON_FAILURE_SPARE || k->optimeoutms == 0 ||
	    (uint32_t)k->state > GPU_SIM__KEPT_STATE__LEAVING || k->nextop > COORD_MAX_OP ||
	    k->n_asks > WIRE_MAX_RANKS || k->n_clients > WIRE_MAX_RANKS)
		return false;
	for (size_t r = 0; r < k->n_ranks; r++)
		if (!device_find(c, k->ranks[r]->deviceid) ||
		    (k->ranks[r]->mapped.len && k->ranks[r]->mapped.len != k->n_ranks))
			return false;
	return true;
}

static bool
take_members(struct coord *c, struct comm *comm, const GpuSim__KeptComm *k)
{
	for (uint32_t r = 0; r < comm->nranks; r++) {
		const GpuSim__KeptMember *from = k->ranks[r];
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
take_holders(struct comm *comm, const GpuSim__KeptComm *k)
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
take_comm(struct comm *comm, const GpuSim__KeptComm *k)
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
	comm->next_op = comm->keep.next_op = comm->skipped = k->nextop;
	comm->made =
	    k->state == GPU_SIM__KEPT_STATE__LIVE || k->state == GPU_SIM__KEPT_STATE__RECOVERING;
	comm->state = k->state == GPU_SIM__KEPT_STATE__LIVE	 ? COMM_LIVE
		      : k->state == GPU_SIM__KEPT_STATE__LEAVING ? COMM_DETACHING
		      : k->state == GPU_SIM__KEPT_STATE__MAKING	 ? COMM_ATTACHING
								 : COMM_DRAINING;
	comm->keep.resumes = true;
	comm->keep.mark = keep_comm_mark(comm);
}

static enum rc
add_comm(struct coord *c, const char *key, const GpuSim__KeptComm *k, struct err *err)
{
	struct comm *comm = alloc_zeroed(1, sizeof *comm);
	struct member *rank = alloc_zeroed(k->n_ranks, sizeof *rank);
	const struct wait *on;
	enum rc rc;

	if (!comm || !rank) {
		free(comm);
		free(rank);
		return no_memory(key, err);
	}
	comm->rank = rank;
	comm->nranks = (uint32_t)k->n_ranks;
	comm->runs_tail = &comm->runs;
	*c->comms->tail = comm;
	c->comms->tail = &comm->next;
	c->comms->n++;
	take_comm(comm, k);
	if (!take_members(c, comm, k) || !take_holders(comm, k))
		return no_memory(key, err);
	if (comm->lease && keep_client(c, comm->client_id, true))
		keep_client_is(c, comm->client_id, true);
	on = k->state == GPU_SIM__KEPT_STATE__LEAVING	       ? &wait_detach
	     : k->askkind == GPU_SIM__REQUEST__BODY_COMM_ABORT ? &wait_abort
							       : &wait_attach;
	rc = absent(c, key, k->askclient, k->askseq, k->askkind, on, comm->id, err);
	for (size_t i = 0; i < k->n_asks && rc == RC_OK; i++)
		rc = absent(c, key, k->asks[i]->client, k->asks[i]->seq, k->askkind, on, comm->id,
			    err);
	return rc;
}

static enum rc
restore_comm(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	GpuSim__KeptComm *k = gpu_sim__kept_comm__unpack(NULL, n, value);
	enum rc rc = k && check_comm(c, k) ? add_comm(c, key, k, err) : nonsense(key, err);

	if (k)
		gpu_sim__kept_comm__free_unpacked(k, NULL);
	return rc;
}

static enum rc
restore_ops(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	GpuSim__KeptOps *k = gpu_sim__kept_ops__unpack(NULL, n, value);
	struct comm *comm = find(c, strtoull(key + strlen("2/ops/"), NULL, 16));
	enum rc rc = k && comm && k->operations <= comm->next_op ? RC_OK : nonsense(key, err);

	if (rc == RC_OK) {
		comm->keep.ops = k->operations;
		comm->skipped = comm->next_op - k->operations;
	}
	if (k)
		gpu_sim__kept_ops__free_unpacked(k, NULL);
	return rc;
}

static enum rc
restore_pairs(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	GpuSim__KeptPairs *k = gpu_sim__kept_pairs__unpack(NULL, n, value);
	struct comm *comm = find(c, strtoull(key + strlen("2/pairs/"), NULL, 16));
	enum rc rc = k && comm ? RC_OK : nonsense(key, err);

	for (size_t i = 0; rc == RC_OK && i < k->n_pairs; i++) {
		const GpuSim__KeptPair *p = k->pairs[i];
		struct pair_count *count;

		if (p->src >= comm->nranks || p->dst >= comm->nranks) {
			rc = nonsense(key, err);
			break;
		}
		count = comm_pair(comm, p->src, p->dst);
		if (!count) {
			rc = no_memory(key, err);
			break;
		}
		count->n[P2P_SEND] = p->sends;
		count->n[P2P_RECV] = p->recvs;
	}
	if (rc == RC_OK)
		comm->keep.pairs = true;
	if (k)
		gpu_sim__kept_pairs__free_unpacked(k, NULL);
	return rc;
}

/* ---- graphs and runs */

/* A part of packed bytes; NULL: no sense, or no memory, says *err. */
static struct group_part *
take_part(struct coord *c, const char *key, const ProtobufCBinaryData *b, struct err *err)
{
	GpuSim__SubmitRequest *s = gpu_sim__submit_request__unpack(NULL, b->len, b->data);
	struct group_part *part = NULL;

	if (!s) {
		nonsense(key, err);
		return NULL;
	}
	part = part_new(c, s, err);
	gpu_sim__submit_request__free_unpacked(s, NULL);
	return part;
}

static enum rc
add_graph(struct coord *c, const char *key, struct comm *comm, const GpuSim__KeptGraph *k,
	  struct err *err)
{
	size_t size = sizeof(struct graph) + comm->nranks * sizeof *((struct graph *)0)->rank;
	struct graph *g;

	if (!held_take(c, size, err))
		return err->rc;
	g = alloc_zeroed(1, size);
	if (!g) {
		held_drop(c, size);
		return no_memory(key, err);
	}
	g->comm = comm;
	g->nranks = comm->nranks;
	g->held = size;
	g->id = k->graphid;
	g->nops = k->nops;
	g->state = GRAPH_READY;
	g->next = comm->graphs;
	comm->graphs = g;
	comm->ngraphs++;
	for (uint32_t r = 0; r < comm->nranks; r++)
		g->rank[r].has_ops = k->hasops[r];
	if (k->submit.len && !(g->part = take_part(c, key, &k->submit, err)))
		return err->rc;
	g->kept = keep_graph_mark(g);
	return RC_OK;
}

static enum rc
restore_graph(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	GpuSim__KeptGraph *k = gpu_sim__kept_graph__unpack(NULL, n, value);
	struct comm *comm = k ? find(c, k->commid) : NULL;
	enum rc rc;

	/* One that was stored for ranks of before was to be defined again for those of now. */
	if (comm && comm->made && comm->ngraphs < COORD_MAX_GRAPHS && k->graphid &&
	    k->graphid <= c->runs->last_graph && (k->n_hasops == comm->nranks || k->submit.len)) {
		protobuf_c_boolean *has = k->hasops;
		protobuf_c_boolean none[WIRE_MAX_RANKS] = {0};

		if (k->n_hasops != comm->nranks)
			k->hasops = none;
		rc = add_graph(c, key, comm, k, err);
		k->hasops = has;
	} else {
		rc = nonsense(key, err);
	}
	if (k)
		gpu_sim__kept_graph__free_unpacked(k, NULL);
	return rc;
}

static struct graph *
find_graph(struct comm *comm, uint64_t id)
{
	struct graph *g = comm->graphs;

	while (g && g->id != id)
		g = g->next;
	return g;
}

static enum rc
take_bodies(struct coord *c, const char *key, struct run *run, const GpuSim__KeptRun *k,
	    struct err *err)
{
	struct group_part **tail = &run->parts;

	for (size_t i = 0; i < k->n_ranks; i++) {
		const GpuSim__KeptRank *from = k->ranks[i];
		struct buf *body;

		if (from->rank >= run->comm->nranks || run->rank[from->rank].body.data)
			return nonsense(key, err);
		if (!held_take(c, from->request.len, err))
			return err->rc;
		run->held += from->request.len;
		body = &run->rank[from->rank].body;
		if (!buf_reserve(body, from->request.len + 1) ||
		    !buf_add(body, from->request.data, from->request.len))
			return no_memory(key, err);
	}
	for (size_t i = 0; i < k->n_parts; i++, tail = &(*tail)->next)
		if (!(*tail = take_part(c, key, &k->parts[i], err)))
			return err->rc;
	return RC_OK;
}

static void
take_run(struct run *run, const GpuSim__KeptRun *k)
{
	run->id = k->run;
	run->first_op = k->firstop;
	run->nops = k->nops;
	run->first_iteration = k->firstiteration;
	run->iterations = k->iterations;
	run->serial = k->serial;
	run->pure = k->pure;
	run->tries = k->tries;
	run->recoveries = k->recoveries;
	run->kept = true;
	run->graph = find_graph(run->comm, k->graphid);
	if (run->graph)
		run->graph->nruns++;
}

static enum rc
add_run(struct coord *c, const char *key, struct comm *comm, const GpuSim__KeptRun *k,
	struct err *err)
{
	size_t size = sizeof(struct run) + comm->nranks * sizeof(struct run_rank);
	struct run *run;
	enum rc rc;

	if (!held_take(c, size, err))
		return err->rc;
	run = alloc_zeroed(1, size);
	if (!run) {
		held_drop(c, size);
		return no_memory(key, err);
	}
	run->comm = comm;
	run->held = size;
	*comm->runs_tail = run;
	comm->runs_tail = &run->next;
	comm->nruns++;
	take_run(run, k);
	rc = take_bodies(c, key, run, k, err);
	if (rc == RC_OK)
		rc = absent(c, key, k->askclient, k->askseq, k->askkind, &wait_run, run->id, err);
	return rc;
}

static enum rc
restore_run(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	GpuSim__KeptRun *k = gpu_sim__kept_run__unpack(NULL, n, value);
	struct comm *comm = k ? find(c, k->commid) : NULL;
	enum rc rc;

	if (comm && comm->made && comm->nruns < COORD_MAX_RUNS && k->run &&
	    k->run <= c->last_number && k->firstop <= COORD_MAX_OP &&
	    k->nops <= COORD_MAX_OP - k->firstop)
		rc = add_run(c, key, comm, k, err);
	else
		rc = nonsense(key, err);
	if (k)
		gpu_sim__kept_run__free_unpacked(k, NULL);
	return rc;
}

/* ---- answers */

static enum rc
restore_reply(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	struct keep_client *k;
	uint64_t client, seq;

	if (sscanf(key, "5/reply/%" SCNx64 "/%" SCNx64, &client, &seq) != 2)
		return nonsense(key, err);
	k = keep_client(c, client, true);
	if (!k)
		return no_memory(key, err);
	k->gone = true;
	if (k->n == COORD_KEEP_REPLIES)
		return nonsense(key, err);
	if (!buf_add(&k->reply[k->n].body, value, n))
		return no_memory(key, err);
	k->reply[k->n++].seq = seq;
	return RC_OK;
}

enum rc
persist_restore(struct coord *c, const char *key, const void *value, size_t nbytes, struct err *err)
{
	static const struct {
		const char *prefix;
		restore_fn *fn;
	} kinds[] = {
	    {"0/meta", restore_meta}, {"1/device/", device_restore}, {"2/comm/", restore_comm},
	    {"2/ops/", restore_ops},  {"2/pairs/", restore_pairs},   {"3/graph/", restore_graph},
	    {"4/run/", restore_run},  {"5/reply/", restore_reply},   {"6/event/", events_restore},
	};
	struct coord_actions none = {0};
	const size_t nkinds = sizeof kinds / sizeof kinds[0];
	size_t i = 0;
	enum rc rc;

	c->out = &none;
	while (i < nkinds && strncmp(key, kinds[i].prefix, strlen(kinds[i].prefix)) != 0)
		i++;
	rc = i < nkinds ? kinds[i].fn(c, key, value, nbytes, err) : nonsense(key, err);
	c->out = NULL;
	coord_actions_fini(&none);
	c->persist->resumes = c->persist->restored = true;
	return rc;
}
