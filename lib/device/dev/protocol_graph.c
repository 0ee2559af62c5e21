/* protocol_graph.c - the numbers of graphs, and their communicators. */
#include "dev/protocol_impl.h"

#include <inttypes.h>

struct pgraph *
proto_graph_find(struct protocol *p, uint64_t id)
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
	g = proto_graph_find(p, m->graphid);
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
	struct pgraph *g = proto_graph_find(p, m->graphid);

	if (!g || !g->defined)
		return proto_say(p, RC_NOTFOUND, "no graph %" PRIu64 " on this device", m->graphid);
	proto_graph_drop(p, g);
	return &proto_fine;
}
