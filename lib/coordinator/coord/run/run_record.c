/*
 * run_record.c - the records of runs, graphs, and a communicator's counters of operations.
 *
 * A run is stored as its devices get it, so the request is the same after a restart.
 */
#include "coord/run/run_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A message sent before a restart and not received, or the reverse, must match its peer. */
static void
record_pairs(struct coord *c, struct comm *comm)
{
	GpuSim__PairsRecord k = GPU_SIM__PAIRS_RECORD__INIT;
	struct work *work = comm_work(comm);
	size_t n = work->pairs.n < work->pair_cap ? work->pairs.n : work->pair_cap;
	GpuSim__PairRecord **p;
	char key[RECORD_KEY_MAX];

	if (!work->recorded.pairs_new || (n == 0 && !work->recorded.pairs))
		return;
	work->recorded.pairs_new = false;
	work->recorded.pairs = n > 0;
	p = messages_new(n, &gpu_sim__pair_record__descriptor);
	for (size_t i = 0; p && i < n; i++) {
		p[i]->src = (uint32_t)(work->pairs.key[i] >> 32);
		p[i]->dst = (uint32_t)work->pairs.key[i];
		p[i]->sends = work->pair[i].n[DIR_SEND];
		p[i]->recvs = work->pair[i].n[DIR_RECV];
	}
	k.n_pairs = p ? n : 0;
	k.pairs = p;
	record_key(key, "2/pairs", comm_id(comm));
	record_put(c, key, n ? &k.base : NULL, false);
	free(p);
}

void
work_unrecord(struct coord *c, const struct comm *comm)
{
	const struct work *work = comm_work(comm);
	char key[RECORD_KEY_MAX];

	record_key(key, "2/ops", comm_id(comm));
	if (work->recorded.ops)
		record_put(c, key, NULL, false);
	record_key(key, "2/pairs", comm_id(comm));
	if (work->recorded.pairs)
		record_put(c, key, NULL, false);
}

uint64_t
runs_reserve(const struct comm *comm)
{
	struct work *work = comm_work(comm);

	record_reserve(work->next_seq, &work->recorded.next_seq);
	return work->recorded.next_seq;
}

void
runs_reserve_numbers(struct coord *c, uint64_t *last_number, uint64_t *last_graph)
{
	record_reserve(c->last_number, &c->runs->reserved_number);
	record_reserve(c->runs->last_graph, &c->runs->reserved_graph);
	*last_number = c->runs->reserved_number;
	*last_graph = c->runs->reserved_graph;
}

/* ---- graphs */

static void
graph_key(char key[RECORD_KEY_MAX], const struct graph *g)
{
	snprintf(key, RECORD_KEY_MAX, "3/graph/%016" PRIx64 "/%016" PRIx64, comm_id(g->comm),
		 g->id);
}

static uint64_t
graph_mark(const struct graph *g)
{
	uint64_t h =
	    record_mix(record_mix(record_mix(1, comm_epoch(g->comm)), g->nops), g->part != NULL);

	return h ? h : 1;
}

void
graph_record(struct coord *c, const struct graph *g)
{
	GpuSim__GraphRecord k = GPU_SIM__GRAPH_RECORD__INIT;
	protobuf_c_boolean has[WIRE_MAX_RANKS];
	char key[RECORD_KEY_MAX];

	if (g->state != GRAPH_READY)
		return;
	for (uint32_t r = 0; r < comm_nranks(g->comm); r++)
		has[r] = g->rank[r].has_ops;
	k.commid = comm_id(g->comm);
	k.graphid = g->id;
	k.nops = g->nops;
	k.n_hasops = comm_nranks(g->comm);
	k.hasops = has;
	if (g->part)
		k.submit =
		    (ProtobufCBinaryData){g->part->packed.len, (uint8_t *)g->part->packed.data};
	graph_key(key, g);
	record_put(c, key, &k.base, true);
}

void
graph_unrecord(struct coord *c, struct graph *g)
{
	char key[RECORD_KEY_MAX];

	graph_key(key, g);
	if (g->recorded)
		record_put(c, key, NULL, false);
}

void
run_record(struct coord *c, struct run *run)
{
	GpuSim__RunRecord k = GPU_SIM__RUN_RECORD__INIT;
	const struct pending *w;
	GpuSim__RankRecord **ranks;
	ProtobufCBinaryData *part;
	char key[RECORD_KEY_MAX];

	if (!c->cfg.persists)
		return;
	w = pending_find(c, &wait_run, run->id);
	k.commid = comm_id(run->comm);
	k.run = run->id;
	k.firstop = run->first_seq;
	k.nops = run->nops;
	k.graphid = run->graph ? run->graph->id : 0;
	k.firstiteration = run->first_iteration;
	k.iterations = run->iterations;
	k.serial = run->serial;
	k.pure = run->pure;
	k.tries = run->tries;
	k.recoveries = run->recoveries;
	k.askclient = w ? pending_asker(w)->client_id : 0;
	k.askseq = w ? pending_asker(w)->seq : 0;
	k.askkind = w ? (uint32_t)pending_asker(w)->kind : 0;
	for (const struct group_part *p = run->parts; p; p = p->next)
		k.n_parts++;
	ranks = messages_new(comm_nranks(run->comm), &gpu_sim__rank_record__descriptor);
	k.parts = part = alloc_zeroed(k.n_parts, sizeof *part);
	if (ranks && part) {
		k.ranks = ranks;
		for (uint32_t r = 0; r < comm_nranks(run->comm); r++) {
			const struct buf *b = &run->rank[r].body;

			if (!b->data)
				continue;
			ranks[k.n_ranks]->rank = r;
			ranks[k.n_ranks++]->request =
			    (ProtobufCBinaryData){b->len, (uint8_t *)b->data};
		}
		for (const struct group_part *p = run->parts; p; p = p->next)
			*part++ = (ProtobufCBinaryData){p->packed.len, (uint8_t *)p->packed.data};
		record_key(key, "4/run", run->id);
		run->recorded = true;
		record_put(c, key, &k.base, false);
	}
	free(ranks);
	free(k.parts);
}

void
run_unrecord(struct coord *c, struct run *run)
{
	char key[RECORD_KEY_MAX];

	if (!run->recorded)
		return;
	run->recorded = false;
	record_key(key, "4/run", run->id);
	record_put(c, key, NULL, false);
}

void
runs_record(struct coord *c, struct comm *comm)
{
	GpuSim__OpsRecord k = GPU_SIM__OPS_RECORD__INIT;
	char key[RECORD_KEY_MAX];

	/* The number of its collectives, which next_seq does not give after a restart. It is stored with a
	 * run's record, so it costs no commit of its own. */
	k.operations = runs_operations(comm);
	if (k.operations != comm_work(comm)->recorded.ops) {
		comm_work(comm)->recorded.ops = k.operations;
		record_key(key, "2/ops", comm_id(comm));
		record_put(c, key, &k.base, false);
	}
	record_pairs(c, comm);
	for (struct graph *g = comm_work(comm)->graphs; g && comm_is_live(comm); g = g->next) {
		uint64_t mark = graph_mark(g);

		if (g->state != GRAPH_READY || g->recorded == mark)
			continue;
		g->recorded = mark;
		graph_record(c, g);
	}
}

/* ---- restored */

enum rc
ops_restore(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	GpuSim__OpsRecord *k = gpu_sim__ops_record__unpack(NULL, n, value);
	struct comm *comm = comm_any(c, strtoull(key + strlen("2/ops/"), NULL, 16));
	enum rc rc = k && comm && k->operations <= comm_work(comm)->next_seq
			 ? RC_OK
			 : record_nonsense(key, err);

	if (rc == RC_OK) {
		comm_work(comm)->recorded.ops = k->operations;
		comm_work(comm)->skipped = comm_work(comm)->next_seq - k->operations;
	}
	if (k)
		gpu_sim__ops_record__free_unpacked(k, NULL);
	return rc;
}

enum rc
pairs_restore(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	GpuSim__PairsRecord *k = gpu_sim__pairs_record__unpack(NULL, n, value);
	struct comm *comm = comm_any(c, strtoull(key + strlen("2/pairs/"), NULL, 16));
	enum rc rc = k && comm ? RC_OK : record_nonsense(key, err);

	for (size_t i = 0; rc == RC_OK && i < k->n_pairs; i++) {
		const GpuSim__PairRecord *p = k->pairs[i];
		struct pair_count *count;

		if (p->src >= comm_nranks(comm) || p->dst >= comm_nranks(comm)) {
			rc = record_nonsense(key, err);
			break;
		}
		count = work_pair(comm_work(comm), p->src, p->dst);
		if (!count) {
			rc = record_nomem(key, err);
			break;
		}
		count->n[DIR_SEND] = p->sends;
		count->n[DIR_RECV] = p->recvs;
	}
	if (rc == RC_OK)
		comm_work(comm)->recorded.pairs = true;
	if (k)
		gpu_sim__pairs_record__free_unpacked(k, NULL);
	return rc;
}

/* A part from packed bytes; NULL: malformed, or out of memory (*err). */
static struct group_part *
take_part(struct coord *c, const char *key, const ProtobufCBinaryData *b, struct err *err)
{
	GpuSim__SubmitRequest *s = gpu_sim__submit_request__unpack(NULL, b->len, b->data);

	if (!s) {
		record_nonsense(key, err);
		return NULL;
	}
	gpu_sim__submit_request__free_unpacked(s, NULL);
	return part_copy(c, b->data, b->len, err);
}

enum rc
graph_restore(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	GpuSim__GraphRecord *k = gpu_sim__graph_record__unpack(NULL, n, value);
	struct comm *comm = k ? comm_find(c, k->commid) : NULL;
	struct graph *g = NULL;
	enum rc rc = RC_OK;

	if (comm && comm_work(comm)->ngraphs < COORD_MAX_GRAPHS && k->graphid &&
	    k->graphid <= c->runs->last_graph &&
	    (k->n_hasops == comm_nranks(comm) || k->submit.len))
		rc = (g = graph_alloc(c, comm, k->nops, err)) ? RC_OK : err->rc;
	else
		rc = record_nonsense(key, err);
	if (g) {
		g->id = k->graphid;
		g->state = GRAPH_READY;
		/* A graph stored for former ranks was to be defined again for the current ones. */
		for (uint32_t r = 0; k->n_hasops == comm_nranks(comm) && r < comm_nranks(comm); r++)
			g->rank[r].has_ops = k->hasops[r];
		if (k->submit.len && !(g->part = take_part(c, key, &k->submit, err)))
			rc = err->rc;
		g->recorded = graph_mark(g);
	}
	if (k)
		gpu_sim__graph_record__free_unpacked(k, NULL);
	return rc;
}

static enum rc
take_bodies(struct coord *c, const char *key, struct run *run, const GpuSim__RunRecord *k,
	    struct err *err)
{
	struct group_part **tail = &run->parts;

	for (size_t i = 0; i < k->n_ranks; i++) {
		const GpuSim__RankRecord *from = k->ranks[i];
		struct buf *body;

		if (from->rank >= comm_nranks(run->comm) || run->rank[from->rank].body.data)
			return record_nonsense(key, err);
		if (!held_take(c, from->request.len, err))
			return err->rc;
		run->held += from->request.len;
		body = &run->rank[from->rank].body;
		if (!buf_reserve(body, from->request.len + 1) ||
		    !buf_add(body, from->request.data, from->request.len))
			return record_nomem(key, err);
	}
	for (size_t i = 0; i < k->n_parts; i++, tail = &(*tail)->next)
		if (!(*tail = take_part(c, key, &k->parts[i], err)))
			return err->rc;
	return RC_OK;
}

enum rc
run_restore(struct coord *c, const char *key, const uint8_t *value, size_t n, struct err *err)
{
	GpuSim__RunRecord *k = gpu_sim__run_record__unpack(NULL, n, value);
	struct comm *comm = k ? comm_find(c, k->commid) : NULL;
	struct run *run = NULL;
	enum rc rc;

	if (comm && comm_work(comm)->nruns < COORD_MAX_RUNS && k->run && k->run <= c->last_number &&
	    k->firstop <= COORD_MAX_OP && k->nops <= COORD_MAX_OP - k->firstop)
		rc = (run = run_alloc(c, comm, err)) ? RC_OK : err->rc;
	else
		rc = record_nonsense(key, err);
	if (run) {
		work_append(comm, run);
		run->id = k->run;
		run->first_seq = k->firstop;
		run->nops = k->nops;
		run->first_iteration = k->firstiteration;
		run->iterations = k->iterations;
		run->serial = k->serial;
		run->pure = k->pure;
		run->tries = k->tries;
		run->recoveries = k->recoveries;
		run->recorded = true;
		run->graph = graph_find(comm, k->graphid);
		if (run->graph)
			run->graph->nruns++;
		rc = take_bodies(c, key, run, k, err);
	}
	if (rc == RC_OK)
		rc = pending_restore(c, key, k->askclient, k->askseq, k->askkind, &wait_run,
				     run->id, err);
	if (k)
		gpu_sim__run_record__free_unpacked(k, NULL);
	return rc;
}

void
runs_restore_numbers(struct coord *c, uint64_t last_number, uint64_t last_graph)
{
	c->last_number = c->runs->reserved_number = last_number;
	c->runs->last_graph = c->runs->reserved_graph = last_graph;
}

void
runs_restore_seq(struct comm *comm, uint64_t next_seq)
{
	struct work *work = comm_work(comm);

	work->next_seq = work->recorded.next_seq = work->skipped = next_seq;
}

/* If the communicator had failed, runs that may have begun have used one try. */
void
runs_resume_failed(struct comm *comm)
{
	bool first = true;

	if (comm_cause(comm)->rc == RC_OK)
		return;
	for (struct run *run = comm_work(comm)->runs; run; run = run->next) {
		run->started = !run->serial || first;
		first &= !run->serial;
	}
}
