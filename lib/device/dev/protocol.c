/* protocol.c - one event in, its actions out. */
#include "dev/protocol_impl.h"

#include <inttypes.h>
#include <stdlib.h>

static void
request(struct protocol *p, uint64_t caller, const GpuSim__Request *req)
{
	const struct err *err;

	switch (req->body_case) {
	case GPU_SIM__REQUEST__BODY_COMM_ATTACH:
		err = proto_attach(p, caller, req->commattach);
		break;
	case GPU_SIM__REQUEST__BODY_COMM_JOIN:
		err = proto_join(p, caller, req->commjoin);
		break;
	case GPU_SIM__REQUEST__BODY_COMM_DETACH:
		err = proto_detach(p, req->commdetach);
		break;
	case GPU_SIM__REQUEST__BODY_COMM_ABORT:
		err = proto_abort(p, req->commabort);
		break;
	case GPU_SIM__REQUEST__BODY_GRAPH_DEFINE:
		err = proto_define(p, caller, req->graphdefine);
		break;
	case GPU_SIM__REQUEST__BODY_GRAPH_DROP:
		err = proto_drop(p, req->graphdrop);
		break;
	case GPU_SIM__REQUEST__BODY_RUN:
		err = proto_run(p, caller, req->run);
		break;
	default:
		err = proto_say(p, RC_INTERNAL, "a request that is not for the protocol");
	}
	if (err)
		proto_answer(p, caller, err);
}

/* An action that could fail has been carried out. */
static void
result(struct protocol *p, uint64_t caller, const struct err *err)
{
	struct due **at = &p->due, *u;
	struct pcomm *c;

	while (*at && (*at)->caller != caller)
		at = &(*at)->next;
	u = *at;
	if (!u)
		return;
	*at = u->next;
	if (u->what == PROTOCOL_ATTACH && err->rc == RC_OK) {
		proto_attached(p, u);
		return;
	}
	if (u->what == PROTOCOL_ATTACH) {
		p->owed -= 3;
		free(u->fresh);
	} else if (u->what == PROTOCOL_DEFINE) {
		p->graph[u->graph].defined = err->rc == RC_OK;
		if (err->rc != RC_OK)
			proto_graph_drop(p, &p->graph[u->graph]);
	} else if (err->rc == RC_OK) {
		c = proto_comm_find(p, u->comm);
		if (c && c->epoch == u->epoch)
			c->joined = true;
	}
	proto_answer(p, caller, err);
	free(u);
}

size_t
protocol_step(struct protocol *p, const struct protocol_event *ev,
	      const struct protocol_action **actions)
{
	p->nout = 0;
	p->nsaid = 0;
	switch (ev->kind) {
	case PROTOCOL_REQUEST:
		request(p, ev->caller, ev->request);
		break;
	case PROTOCOL_RESULT:
		result(p, ev->caller, ev->err);
		break;
	case PROTOCOL_ENDED:
		proto_ended(p, ev->start, ev->result);
		break;
	}
	*actions = p->out;
	return p->nout;
}

struct protocol *
protocol_new(uint64_t device_id)
{
	struct protocol *p = calloc(1, sizeof *p);

	if (!p || !proto_owe(p, 0)) {
		free(p);
		return NULL;
	}
	p->device_id = device_id;
	for (uint32_t i = PROTOCOL_MAX_GRAPHS; i-- > 0;) {
		p->graph[i].chain = p->free_graph;
		p->free_graph = i + 1;
	}
	return p;
}

static void
dues_free(struct due *u)
{
	for (struct due *next; u; u = next) {
		next = u->next;
		free(u->fresh);
		free(u);
	}
}

void
protocol_free(struct protocol *p)
{
	if (!p)
		return;
	dues_free(p->due);
	for (unsigned b = 0; b < COMM_BUCKETS; b++)
		for (struct pcomm *c = p->comm[b], *next; c; c = next) {
			next = c->chain;
			proto_runs_orphan(p, c);
			dues_free(c->attached);
			free(c);
		}
	for (size_t i = 0; i < p->nslot; i++)
		if (p->slot[i])
			proto_run_free(p, p->slot[i]);
	free(p->slot);
	free(p->free_slot);
	free(p->out);
	free(p);
}

bool
protocol_dump(const struct protocol *p, struct buf *out)
{
	bool good = true;

	for (unsigned b = 0; b < COMM_BUCKETS; b++)
		for (const struct pcomm *c = p->comm[b]; c; c = c->chain)
			good &= buf_addf(
			    out,
			    "comm %" PRIu64
			    " epoch %u rank %u of %u%s%s%s, runs %u old %u held %u\n",
			    c->id, c->epoch, c->rank, c->nranks, c->joined ? " joined" : "",
			    c->aborted.rc != RC_OK ? " aborted: " : "", c->aborted.text,
			    c->under_way[0], c->under_way[1], c->held.n);
	for (unsigned i = 0; i < PROTOCOL_MAX_GRAPHS; i++)
		if (p->graph[i].used)
			good &= buf_addf(out, "graph %" PRIu64 " of comm %" PRIu64 "\n",
					 p->graph[i].id, p->graph[i].comm);
	for (size_t i = 0; i < p->nslot; i++)
		if (p->slot[i])
			good &= buf_addf(out, "run %" PRIu64 " epoch %u%s\n", p->slot[i]->number,
					 p->slot[i]->epoch,
					 p->slot[i]->state == RUN_HELD ? " held" : "");
	return good;
}
