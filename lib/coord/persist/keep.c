/*
 * keep.c - what is stored, so that a coordinator that is started again goes on where this one was.
 *
 * A record a thing, under a key that sorts after those of what it refers to. Of communicators and
 * graphs a short mark tells at the end of each step whether the record is what it should be. Numbers
 * that only grow are stored in large strides, so that an operation of a communicator costs the record
 * of its run alone. Runs are kept as their devices were asked: asked again they are the same runs.
 */
#include "coord/top.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- keys and marks */

static void
key_of(char key[RECORD_KEY_MAX], const char *what, uint64_t id)
{
	snprintf(key, RECORD_KEY_MAX, "%s/%016" PRIx64, what, id);
}

static void
key_of_graph(char key[RECORD_KEY_MAX], const struct graph *g)
{
	snprintf(key, RECORD_KEY_MAX, "3/graph/%016" PRIx64 "/%016" PRIx64, g->comm->id, g->id);
}

static uint64_t
mix(uint64_t h, uint64_t v)
{
	return (h ^ v) * 0x100000001b3ull;
}

/* ---- what counts */

/* Take more numbers when those taken are used up. */
static void
reserve(uint64_t used, uint64_t *reserved)
{
	if (used > *reserved)
		*reserved = used + COORD_RESERVE;
}

static void
keep_meta(struct coord *c)
{
	GpuSim__KeptMeta m = GPU_SIM__KEPT_META__INIT;
	uint64_t mark;

	reserve(c->last_number, &c->persist->last_run);
	reserve(c->runs->last_graph, &c->persist->last_graph);
	mark = mix(mix(mix(1, c->comms->last), c->persist->last_run), c->persist->last_graph);
	if (c->persist->meta == mark)
		return;
	c->persist->meta = mark;
	m.instance = c->cfg.instance;
	m.lastcomm = c->comms->last;
	m.lastrun = c->persist->last_run;
	m.lastgraph = c->persist->last_graph;
	record_put(c, "0/meta", &m.base, true);
}

/* ---- communicators */

GpuSim__KeptState
keep_comm_state(const struct comm *comm)
{
	if (comm->state == COMM_DETACHING)
		return GPU_SIM__KEPT_STATE__LEAVING;
	if (!comm->made)
		return GPU_SIM__KEPT_STATE__MAKING;
	return comm->state == COMM_LIVE ? GPU_SIM__KEPT_STATE__LIVE
					: GPU_SIM__KEPT_STATE__RECOVERING;
}

uint64_t
keep_comm_mark(const struct comm *comm)
{
	uint64_t h = mix(1, keep_comm_state(comm));

	h = mix(mix(mix(h, comm->epoch), comm->nranks), comm->keep.next_op);
	h = mix(mix(mix(h, comm->failed.rc), comm->rec.final), comm->rec.cause.rc);
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
	GpuSim__KeptMember *v, **p;
};

static bool
members_init(const struct comm *comm, struct members *out)
{
	*out = (struct members){alloc_zeroed(comm->nranks, sizeof *out->v),
				alloc_zeroed(comm->nranks, sizeof *out->p)};
	for (uint32_t r = 0; out->v && out->p && r < comm->nranks; r++) {
		const struct member *m = &comm->rank[r];
		GpuSim__KeptMember *k = &out->v[r];

		gpu_sim__kept_member__init(k);
		k->deviceid = device_id(m->from ? m->from : m->dev);
		k->incarnation = m->from ? 0 : m->incarnation;
		k->block = m->block;
		if (m->mapped && keep_comm_state(comm) == GPU_SIM__KEPT_STATE__LIVE)
			k->mapped = (ProtobufCBinaryData){comm->nranks, (uint8_t *)m->mapped};
		out->p[r] = k;
	}
	return out->v && out->p;
}

/* Of a communicator whose ranks came by themselves: who else asks, and whose it is. */
struct callers {
	GpuSim__KeptAsk *v, **p;
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
		gpu_sim__kept_ask__init(&out->v[out->n]);
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
	GpuSim__KeptComm k = GPU_SIM__KEPT_COMM__INIT;
	const struct pending *w = asking(c, comm);
	struct callers callers = {0};
	struct members m;
	char key[RECORD_KEY_MAX];

	k.commid = comm->id;
	k.epoch = comm->epoch;
	k.optimeoutms = comm->op_timeout_ms;
	k.state = keep_comm_state(comm);
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
	k.nextop = comm->keep.next_op;
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
		key_of(key, "2/comm", comm->id);
		record_put(c, key, &k.base, true);
	}
	callers_fini(&callers);
	free(m.v);
	free(m.p);
}

static void
keep_comm(struct coord *c, struct comm *comm)
{
	uint64_t mark;

	reserve(comm->next_op, &comm->keep.next_op);
	mark = keep_comm_mark(comm);
	if (mark == comm->keep.mark)
		return;
	comm->keep.mark = mark;
	put_comm(c, comm);
}

/* How many operations it has had, which the reserved number does not tell. They change with what is stored
 * of a run, so this costs no commit of its own. */
static void
keep_ops(struct coord *c, struct comm *comm)
{
	GpuSim__KeptOps k = GPU_SIM__KEPT_OPS__INIT;
	char key[RECORD_KEY_MAX];

	k.operations = comm_operations(comm);
	if (k.operations == comm->keep.ops)
		return;
	comm->keep.ops = k.operations;
	key_of(key, "2/ops", comm->id);
	record_put(c, key, &k.base, false);
}

/* What was sent and not received yet, or the other way round, must meet in the end. */
static void
keep_pairs(struct coord *c, struct comm *comm)
{
	GpuSim__KeptPairs k = GPU_SIM__KEPT_PAIRS__INIT;
	size_t n = comm->pairs.n < comm->pair_cap ? comm->pairs.n : comm->pair_cap;
	GpuSim__KeptPair *v, **p;
	char key[RECORD_KEY_MAX];

	if (!comm->keep.pairs_new || (n == 0 && !comm->keep.pairs))
		return;
	comm->keep.pairs_new = false;
	comm->keep.pairs = n > 0;
	v = alloc_zeroed(n, sizeof *v);
	p = alloc_zeroed(n, sizeof *p);
	for (size_t i = 0; v && p && i < n; i++) {
		gpu_sim__kept_pair__init(&v[i]);
		v[i].src = (uint32_t)(comm->pairs.key[i] >> 32);
		v[i].dst = (uint32_t)comm->pairs.key[i];
		v[i].sends = comm->pair[i].n[P2P_SEND];
		v[i].recvs = comm->pair[i].n[P2P_RECV];
		p[i] = &v[i];
	}
	k.n_pairs = v && p ? n : 0;
	k.pairs = p;
	key_of(key, "2/pairs", comm->id);
	record_put(c, key, n ? &k.base : NULL, false);
	free(v);
	free(p);
}

void
keep_comm_gone(struct coord *c, struct comm *comm)
{
	char key[RECORD_KEY_MAX];

	key_of(key, "2/comm", comm->id);
	if (comm->keep.mark)
		record_put(c, key, NULL, true);
	key_of(key, "2/ops", comm->id);
	if (comm->keep.ops)
		record_put(c, key, NULL, false);
	key_of(key, "2/pairs", comm->id);
	if (comm->keep.pairs)
		record_put(c, key, NULL, false);
}

/* ---- graphs */

uint64_t
keep_graph_mark(const struct graph *g)
{
	uint64_t h = mix(mix(mix(1, g->comm->epoch), g->nops), g->part != NULL);

	return h ? h : 1;
}

void
keep_graph(struct coord *c, const struct graph *g)
{
	GpuSim__KeptGraph k = GPU_SIM__KEPT_GRAPH__INIT;
	protobuf_c_boolean has[WIRE_MAX_RANKS];
	char key[RECORD_KEY_MAX];

	if (g->state != GRAPH_READY)
		return;
	for (uint32_t r = 0; r < g->comm->nranks; r++)
		has[r] = g->rank[r].has_ops;
	k.commid = g->comm->id;
	k.graphid = g->id;
	k.nops = g->nops;
	k.n_hasops = g->comm->nranks;
	k.hasops = has;
	if (g->part)
		k.submit =
		    (ProtobufCBinaryData){g->part->packed.len, (uint8_t *)g->part->packed.data};
	key_of_graph(key, g);
	record_put(c, key, &k.base, true);
}

static void
keep_graphs(struct coord *c, struct comm *comm)
{
	for (struct graph *g = comm->graphs; g && comm->state == COMM_LIVE; g = g->next) {
		uint64_t mark = keep_graph_mark(g);

		if (g->state != GRAPH_READY || g->kept == mark)
			continue;
		g->kept = mark;
		keep_graph(c, g);
	}
}

void
keep_graph_gone(struct coord *c, struct graph *g)
{
	char key[RECORD_KEY_MAX];

	key_of_graph(key, g);
	if (g->kept)
		record_put(c, key, NULL, false);
}

/* ---- runs */

struct run_parts {
	GpuSim__KeptRank *rank, **rankp;
	ProtobufCBinaryData *part;
	size_t nranks, nparts;
};

static void
run_parts_fini(struct run_parts *p)
{
	free(p->rank);
	free(p->rankp);
	free(p->part);
}

static bool
run_parts_init(const struct run *run, struct run_parts *out)
{
	uint32_t nranks = run->comm->nranks;
	size_t nparts = 0;

	for (const struct group_part *p = run->parts; p; p = p->next)
		nparts++;
	*out = (struct run_parts){.rank = alloc_zeroed(nranks, sizeof *out->rank),
				  .rankp = alloc_zeroed(nranks, sizeof *out->rankp),
				  .part = alloc_zeroed(nparts, sizeof *out->part)};
	if (!out->rank || !out->rankp || !out->part)
		return false;
	for (uint32_t r = 0; r < nranks; r++) {
		const struct buf *b = &run->rank[r].body;
		GpuSim__KeptRank *k = &out->rank[out->nranks];

		if (!b->data)
			continue;
		gpu_sim__kept_rank__init(k);
		k->rank = r;
		k->request = (ProtobufCBinaryData){b->len, (uint8_t *)b->data};
		out->rankp[out->nranks++] = k;
	}
	for (const struct group_part *p = run->parts; p; p = p->next)
		out->part[out->nparts++] =
		    (ProtobufCBinaryData){p->packed.len, (uint8_t *)p->packed.data};
	return true;
}

void
keep_run(struct coord *c, struct run *run)
{
	GpuSim__KeptRun k = GPU_SIM__KEPT_RUN__INIT;
	const struct pending *w;
	struct run_parts p = {0};
	char key[RECORD_KEY_MAX];

	if (!c->cfg.keeps)
		return;
	w = pending_find(c, &wait_run, run->id);
	k.commid = run->comm->id;
	k.run = run->id;
	k.firstop = run->first_op;
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
	if (run_parts_init(run, &p)) {
		k.n_ranks = p.nranks;
		k.ranks = p.rankp;
		k.n_parts = p.nparts;
		k.parts = p.part;
		key_of(key, "4/run", run->id);
		run->kept = true;
		record_put(c, key, &k.base, false);
	}
	run_parts_fini(&p);
}

void
keep_run_gone(struct coord *c, struct run *run)
{
	char key[RECORD_KEY_MAX];

	if (!run->kept)
		return;
	run->kept = false;
	key_of(key, "4/run", run->id);
	record_put(c, key, NULL, false);
}

/* ---- a step */

/* Records first, in their order; the rest in its order. */
static void
sort_actions(struct coord_actions *a)
{
	size_t nstore = 0;

	for (size_t i = 0; i < a->n; i++) {
		struct coord_action store;

		if (a->v[i].kind != COORD_STORE)
			continue;
		store = a->v[i];
		memmove(&a->v[nstore + 1], &a->v[nstore], (i - nstore) * sizeof *a->v);
		a->v[nstore++] = store;
	}
}

void
keep_step(struct coord *c)
{
	if (!c->cfg.keeps)
		return;
	keep_meta(c);
	devices_record(c);
	for (struct comm *comm = c->comms->first; comm; comm = comm->next) {
		keep_comm(c, comm);
		keep_ops(c, comm);
		keep_pairs(c, comm);
		keep_graphs(c, comm);
	}
	sort_actions(c->out);
}
