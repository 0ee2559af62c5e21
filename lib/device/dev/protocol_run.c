/*
 * protocol_run.c - graphs by number, and runs: each is executed once, however often it is requested.
 *
 * There are two kinds of runs. Serial runs come in the order of their numbers: one that is lower than an ended
 * one and not remembered is late. Sends and receives without a match in their own submit start at once
 * and overtake the others; one of them is late when it is lower than a forgotten one.
 */
#include "dev/protocol_impl.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* ---- graphs */

static struct pgraph *
graph_find(struct protocol *p, uint64_t id)
{
	uint32_t i = p->graph_bucket[id % GRAPH_BUCKETS];

	while (i && p->graph[i - 1].id != id)
		i = p->graph[i - 1].chain;
	return i ? &p->graph[i - 1] : NULL;
}

void
proto_graph_drop(struct protocol *p, struct pgraph *g)
{
	uint32_t slot = (uint32_t)(g - p->graph) + 1;
	uint32_t *at = &p->graph_bucket[g->id % GRAPH_BUCKETS];

	while (*at != slot)
		at = &p->graph[*at - 1].chain;
	*at = g->chain;
	if (g->defined)
		proto_act(p, PROTOCOL_DROP, 0)->graph = slot - 1;
	g->used = false;
	g->chain = p->free_graph;
	p->free_graph = slot;
	assert(p->ngraphs > 0);
	p->ngraphs--;
	p->owed--;
}

void
proto_graphs_drop_of(struct protocol *p, uint64_t comm)
{
	for (unsigned i = 0; p->ngraphs && i < PROTOCOL_MAX_GRAPHS; i++)
		if (p->graph[i].used && p->graph[i].defined && p->graph[i].comm == comm)
			proto_graph_drop(p, &p->graph[i]);
}

/* Computes a packed message's digest while packing. */
struct digester {
	ProtobufCBuffer base;
	uint64_t h;
};

static void
digest_append(ProtobufCBuffer *b, size_t n, const uint8_t *data)
{
	struct digester *d = (struct digester *)b;

	d->h = proto_digest(d->h, data, n);
}

const struct err *
proto_define(struct protocol *p, uint64_t caller, const GpuSim__GraphDefineRequest *m)
{
	struct digester d = {{digest_append}, DIGEST_START};
	struct pgraph *g;
	struct due *u;
	uint64_t h;

	if (m->graphid == 0)
		return proto_say(p, RC_INVAL, "a graph needs a number");
	if (m->commid && !proto_comm_find(p, m->commid))
		return proto_say(p, RC_NOTFOUND, "no communicator %" PRIu64 " on this device",
				 m->commid);
	g = graph_find(p, m->graphid);
	protobuf_c_message_pack_to_buffer(&m->base, &d.base);
	h = d.h;
	if (g && g->defined && g->comm == m->commid && g->digest == h)
		return &proto_fine; /* repeated */
	if (g)
		return proto_say(p, RC_INVAL, "graph %" PRIu64 " is already defined", m->graphid);
	if (p->ngraphs == PROTOCOL_MAX_GRAPHS)
		return proto_say(p, RC_BUSY, "a device keeps at most %d graphs",
				 PROTOCOL_MAX_GRAPHS);
	if (!proto_owe(p, 1))
		return proto_no_memory(p);
	u = proto_due_new(p, caller, PROTOCOL_DEFINE);
	if (!u) {
		p->owed--;
		return proto_no_memory(p);
	}
	u->graph = p->free_graph - 1;
	g = &p->graph[u->graph];
	p->free_graph = g->chain;
	*g = (struct pgraph){.chain = p->graph_bucket[m->graphid % GRAPH_BUCKETS],
			     .used = true,
			     .id = m->graphid,
			     .comm = m->commid,
			     .digest = h};
	p->graph_bucket[m->graphid % GRAPH_BUCKETS] = u->graph + 1;
	p->ngraphs++;
	p->out[p->nout - 1].graph = u->graph; /* of the action that is due */
	return NULL;
}

const struct err *
proto_drop(struct protocol *p, const GpuSim__GraphDropRequest *m)
{
	struct pgraph *g = graph_find(p, m->graphid);

	if (!g || !g->defined)
		return proto_say(p, RC_NOTFOUND, "no graph %" PRIu64 " on this device", m->graphid);
	proto_graph_drop(p, g);
	return &proto_fine;
}

/* ---- runs */

static void
list_init(struct run_list *l)
{
	*l = (struct run_list){.tail = &l->head};
}

static void
list_add(struct run_list *l, struct prun *r)
{
	r->next = NULL;
	*l->tail = r;
	l->tail = &r->next;
	l->n++;
}

static struct prun *
list_take(struct run_list *l)
{
	struct prun *r = l->head;

	if (!r)
		return NULL;
	l->head = r->next;
	if (!l->head)
		l->tail = &l->head;
	l->n--;
	return r;
}

/* Remove it from its communicator's table. */
static void
run_unlink(struct prun *r)
{
	struct prun **at;

	if (!r->comm || !r->number)
		return;
	at = &r->comm->bucket[r->number % RUN_BUCKETS];
	while (*at != r)
		at = &(*at)->chain;
	*at = r->chain;
}

static void
callers_free(struct protocol *p, struct prun *r)
{
	struct caller *k;

	while ((k = r->more)) {
		r->more = k->next;
		p->owed--;
		free(k);
	}
}

void
proto_run_free(struct protocol *p, struct prun *r)
{
	callers_free(p, r);
	if (r->state != RUN_ENDED)
		p->owed -= 2;
	if (r->start) {
		p->slot[r->start - 1] = NULL;
		p->free_slot[p->nfree++] = r->start - 1;
	}
	free(r->failure);
	free(r);
}

static uint64_t
slot_new(struct protocol *p)
{
	if (p->nfree == 0) {
		size_t n = p->nslot ? 2 * p->nslot : 64;
		struct prun **slot = alloc_resize(p->slot, n, sizeof *slot);
		size_t *unused;

		if (!slot)
			return 0;
		p->slot = slot;
		unused = alloc_resize(p->free_slot, n, sizeof *unused);
		if (!unused)
			return 0;
		p->free_slot = unused;
		for (size_t i = n; i-- > p->nslot;) {
			p->slot[i] = NULL;
			p->free_slot[p->nfree++] = i;
		}
		p->nslot = n;
	}
	return p->free_slot[--p->nfree] + 1;
}

/* Refuse a run that was not started, to all its callers. */
static void
run_refuse(struct protocol *p, struct prun *r, const struct err *why)
{
	proto_answer(p, r->first.id, why);
	for (const struct caller *k = r->more; k; k = k->next)
		proto_answer(p, k->id, why);
	run_unlink(r);
	proto_run_free(p, r);
}

void
proto_refuse_held(struct protocol *p, struct pcomm *c, const struct err *why)
{
	struct prun *r;

	while ((r = list_take(&c->held)))
		run_refuse(p, r, why);
}

static void
run_go(struct protocol *p, struct prun *r, uint32_t slot)
{
	struct protocol_action *a = proto_act(p, PROTOCOL_START, r->first.id);

	r->state = RUN_STARTED;
	if (r->comm)
		r->comm->under_way[0]++;
	a->start = r->start;
	a->graph = slot;
	a->snapshot = r->snapshot;
	a->restore = r->restore;
	a->comm = r->comm ? r->comm->id : 0;
	a->epoch = r->epoch;
}

static const struct err no_graph = {RC_NOTFOUND, "the run's graph was dropped"};

/* Forget the remembered runs of one kind but the last `most`. */
static void
forget(struct protocol *p, struct run_list *l, unsigned most)
{
	while (l->n > most) {
		struct prun *r = list_take(l);

		if (r->number > l->late)
			l->late = r->number;
		run_unlink(r);
		proto_run_free(p, r);
	}
}

/* Remember the result of a run of the current epoch. Without memory for a failure's message the run is
 * late if requested again. */
static void
remember(struct protocol *p, struct prun *r, const struct run_result *result)
{
	struct run_list *l = &r->comm->ended[r->kind];

	if (r->kind == IN_TURN && r->number > l->late)
		l->late = r->number;
	r->compute_ns = result->compute_ns;
	r->comm_ns = result->comm_ns;
	if (result->err.rc != RC_OK) {
		r->failure = malloc(sizeof *r->failure);
		if (!r->failure) {
			run_unlink(r);
			proto_run_free(p, r);
			return;
		}
		*r->failure = *result;
		r->failure->waited_ns = NULL; /* reported only once */
	}
	p->slot[r->start - 1] = NULL;
	p->free_slot[p->nfree++] = r->start - 1;
	r->start = 0;
	r->state = RUN_ENDED;
	p->owed -= 2; /* only requests are answered from now on */
	list_add(l, r);
	forget(p, l, PROTOCOL_REMEMBERED);
}

/* ---- attaches that wait for runs */

void
proto_answer_attached(struct protocol *p, struct pcomm *c, const struct err *err)
{
	struct due *u;

	while ((u = c->attached)) {
		c->attached = u->next;
		proto_answer(p, u->caller, err);
		p->owed--;
		free(u);
	}
}

void
proto_attached_settle(struct protocol *p, struct pcomm *c)
{
	if (!c->waits && !c->under_way[1])
		proto_answer_attached(p, c, &proto_fine);
}

/* The last orphan has ended: answer the attaches that wait for it. */
static void
orphans_gone(struct protocol *p)
{
	for (unsigned b = 0; b < COMM_BUCKETS; b++)
		for (struct pcomm *c = p->comm[b]; c; c = c->chain) {
			c->waits = false;
			proto_attached_settle(p, c);
		}
}

/* ---- a run has ended */

void
proto_ended(struct protocol *p, uint64_t start, const struct run_result *result)
{
	struct prun *r = start && start <= p->nslot ? p->slot[start - 1] : NULL;
	struct pcomm *c;
	bool old, orphan;

	if (!r || r->state != RUN_STARTED)
		return;
	proto_act(p, PROTOCOL_ANSWER, r->first.id)->result = result;
	for (const struct caller *k = r->more; k; k = k->next)
		proto_act(p, PROTOCOL_ANSWER, k->id)->result = result;
	callers_free(p, r);
	c = r->comm;
	old = c && r->epoch != c->epoch;
	orphan = r->orphan;
	if (c)
		c->under_way[old]--;
	if (c && !old && r->number) {
		remember(p, r, result);
		return;
	}
	run_unlink(r);
	proto_run_free(p, r);
	if (old && c->under_way[1] == 0) {
		proto_attached_settle(p, c);
		/* The last run of an older epoch has ended: start those that waited for it. */
		while ((r = list_take(&c->held))) {
			struct pgraph *g = r->graph ? graph_find(p, r->graph) : NULL;

			if (r->graph && !g)
				run_refuse(p, r, &no_graph);
			else
				run_go(p, r, g ? (uint32_t)(g - p->graph) : PROTOCOL_NO_GRAPH);
		}
	}
	if (orphan && --p->norphans == 0)
		orphans_gone(p);
}

void
proto_runs_init(struct pcomm *c)
{
	for (int k = 0; k < RUN_KINDS; k++)
		list_init(&c->ended[k]);
	list_init(&c->held);
}

void
proto_runs_age(struct protocol *p, struct pcomm *c)
{
	for (int k = 0; k < RUN_KINDS; k++) {
		forget(p, &c->ended[k], 0);
		c->ended[k].late = 0;
	}
	c->under_way[1] += c->under_way[0];
	c->under_way[0] = 0;
}

void
proto_runs_orphan(struct protocol *p, struct pcomm *c)
{
	proto_runs_age(p, c);
	for (size_t i = 0; i < p->nslot; i++)
		if (p->slot[i] && p->slot[i]->comm == c) {
			run_unlink(p->slot[i]);
			p->slot[i]->comm = NULL;
			p->slot[i]->orphan = true;
			p->norphans++;
		}
}

/* ---- a run is requested */

/* Only sends and receives without a match in their own submit, or a serial run. */
static enum run_kind
kind_of(const GpuSim__RunRequest *m)
{
	if (m->graphid || m->stride)
		return IN_TURN;
	for (size_t i = 0; i < m->n_ops; i++)
		if (m->ops[i]->kind_case == GPU_SIM__OP__KIND_COLL && m->ops[i]->coll->p2p)
			return AT_ONCE;
	return IN_TURN;
}

/* It is known already: answer now or at its end. */
static const struct err *
run_again(struct protocol *p, struct prun *r, uint64_t caller)
{
	struct caller *k;

	if (r->state == RUN_ENDED) {
		p->answer = (struct run_result){.compute_ns = r->compute_ns, .comm_ns = r->comm_ns};
		proto_act(p, PROTOCOL_ANSWER, caller)->result =
		    r->failure ? r->failure : &p->answer;
		return NULL;
	}
	k = malloc(sizeof *k);
	if (!k || !proto_owe(p, 1)) {
		free(k);
		return proto_no_memory(p);
	}
	*k = (struct caller){r->more, caller};
	r->more = k;
	return NULL;
}

static struct prun *
run_new(struct protocol *p, struct pcomm *c, uint64_t caller, const GpuSim__RunRequest *m)
{
	struct prun *r, **at;

	if (!proto_owe(p, 2))
		return NULL;
	r = malloc(sizeof *r);
	if (!r || !(*r = (struct prun){.start = slot_new(p)}).start) {
		p->owed -= 2;
		free(r);
		return NULL;
	}
	p->slot[r->start - 1] = r;
	r->comm = c;
	r->number = m->run;
	r->epoch = m->epoch;
	r->kind = kind_of(m);
	r->first.id = caller;
	r->graph = m->graphid;
	r->snapshot = m->keep;
	r->restore = m->restore;
	if (c && r->number) {
		at = &c->bucket[r->number % RUN_BUCKETS];
		r->chain = *at;
		*at = r;
	}
	return r;
}

/* It is unknown: check that it may run. *out: its communicator, NULL for comm 0. */
static const struct err *
run_check(struct protocol *p, const struct pcomm *c, const GpuSim__RunRequest *m)
{
	struct pgraph *g;

	if (c && c->aborted.rc != RC_OK)
		return &c->aborted;
	if (c && m->run && m->run <= c->ended[kind_of(m)].late)
		return proto_say(p, RC_ABORTED,
				 "run %" PRIu64 " of communicator %" PRIu64
				 " is too old: run %" PRIu64 " has ended",
				 m->run, c->id, c->ended[kind_of(m)].late);
	if (m->graphid == 0)
		return NULL;
	g = graph_find(p, m->graphid);
	if (!g || !g->defined)
		return proto_say(p, RC_NOTFOUND, "no graph %" PRIu64 " on this device", m->graphid);
	if (g->comm != m->commid)
		return proto_say(p, RC_INVAL,
				 "graph %" PRIu64 " is of communicator %" PRIu64 ", not %" PRIu64,
				 m->graphid, g->comm, m->commid);
	return NULL;
}

const struct err *
proto_run(struct protocol *p, uint64_t caller, const GpuSim__RunRequest *m)
{
	const struct err *why = NULL;
	struct pcomm *c = NULL;
	struct pgraph *g;
	struct prun *r;

	if (m->commid && !(c = proto_comm_at(p, m->commid, m->epoch, &why)))
		/* The caller assumes a rank here: the device has lost its part. */
		return why->rc == RC_NOTFOUND ? proto_say(p, RC_FAILED, "%s", why->text) : why;
	r = c && m->run ? c->bucket[m->run % RUN_BUCKETS] : NULL;
	while (r && (r->number != m->run || r->epoch != m->epoch))
		r = r->chain;
	if (r)
		return run_again(p, r, caller);
	why = run_check(p, c, m);
	if (why)
		return why;
	r = run_new(p, c, caller, m);
	if (!r)
		return proto_no_memory(p);
	if (c && c->under_way[1]) {
		list_add(&c->held, r);
		return NULL;
	}
	g = m->graphid ? graph_find(p, m->graphid) : NULL;
	run_go(p, r, g ? (uint32_t)(g - p->graph) : PROTOCOL_NO_GRAPH);
	return NULL;
}
