/*
 * The calls of one rank, through the command queue of their stream: gpusim_allreduce and its siblings of a
 * communicator whose ranks enqueue for themselves.
 *
 * Design notes. The first operation on a numbered stream opens this process's queue for it, which lives
 * as long as the connection; the first of a handle binds its rank. Both are calls of the device, under
 * their own lock, once. Bad arguments are reported here; differences between ranks are found by their
 * devices.
 */
#include "client/enqueue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "client/cmdq_impl.h"
#include "coll/shape.h"
#include "flight/flight.h"
#include "flight/ticks.h"
#include "mem/dtype.h"
#include "mem/redop.h"

#define STREAMS 64 /* numbered ones of a device */

struct queue_table {
	struct queue_table *next;
	uint64_t device;
	struct cmdq *_Atomic stream[STREAMS];
};

/* Operations of an open group. */
struct enqueue_group {
	struct grouped {
		struct cmdq_command c;
		uint32_t stream;
	} * v;
	size_t n, room;
};

/* ---- queues of numbered streams */

void
enqueue_fini(struct gpusim *g)
{
	struct queue_table *t;

	while ((t = g->queues)) {
		g->queues = t->next;
		for (size_t i = 0; i < STREAMS; i++)
			cmdq_close(t->stream[i]);
		free(t);
	}
}

struct cmdq *
enqueue_queue(struct gpusim *g, struct gpusim_device device, struct gpusim_stream stream)
{
	struct cmdq *q = NULL;

	if (stream.id >= STREAMS)
		return NULL;
	pthread_mutex_lock(&g->lock);
	for (struct queue_table *t = g->queues; t; t = t->next)
		if (t->device == device.id)
			q = t->stream[stream.id];
	pthread_mutex_unlock(&g->lock);
	return q;
}

/* This process's queue of a stream, opened if it is not. */
static enum gpusim_rc
open_queue(struct gpusim *g, struct gpusim_device device, uint32_t stream, struct cmdq **out)
{
	struct queue_table *t;
	struct cmdq *q;
	enum gpusim_rc rc = GPUSIM_OK;

	pthread_mutex_lock(&g->queue_lock);
	pthread_mutex_lock(&g->lock);
	for (t = g->queues; t && t->device != device.id;)
		t = t->next;
	if (!t && (t = calloc(1, sizeof *t))) {
		t->device = device.id;
		t->next = g->queues;
		g->queues = t;
	}
	pthread_mutex_unlock(&g->lock);
	if (!t)
		rc = client_fail(RC_NOMEM, "out of memory");
	else if (!t->stream[stream] && (rc = cmdq_open(g, device, stream, &q)) == GPUSIM_OK)
		t->stream[stream] = q;
	if (rc == GPUSIM_OK)
		*out = t->stream[stream];
	pthread_mutex_unlock(&g->queue_lock);
	return rc;
}

/* The queue of a rank's stream. */
static enum gpusim_rc
queue_of(struct gpusim_comm *comm, uint32_t stream, struct cmdq **out)
{
	struct cmdq *q = atomic_load_explicit(&comm->queue[stream], memory_order_acquire);
	enum gpusim_rc rc = GPUSIM_OK;

	if (!q)
		rc = open_queue(comm->g, comm->device[comm->rank].device, stream, &q);
	if (rc != GPUSIM_OK)
		return rc;
	atomic_store(&comm->queue[stream], q);
	*out = q;
	return GPUSIM_OK;
}

enum gpusim_rc
gpusim_stream_name(struct gpusim *g, struct gpusim_device device, struct gpusim_stream stream,
		   const char *name)
{
	struct cmdq_command c = {.kind = CMDQ_NOTE, .flags = FLIGHT_RANGE_STREAM};
	struct cmdq *q;
	enum gpusim_rc rc;

	if (stream.id >= STREAMS)
		return client_fail(RC_INVAL, "stream %" PRIu64 ": the last one is %d", stream.id,
				   STREAMS - 1);
	rc = open_queue(g, device, (uint32_t)stream.id, &q);
	c.u.note.begin = c.u.note.end = ticks_now();
	snprintf(c.u.note.name, sizeof c.u.note.name, "%s", name);
	return rc == GPUSIM_OK ? cmdq_append(q, &c, 1, NULL) : rc;
}

static enum gpusim_rc
bind_of(struct gpusim_comm *comm, struct cmdq_bind **out)
{
	struct cmdq_bind *b = atomic_load_explicit(&comm->bind, memory_order_acquire);
	enum gpusim_rc rc = GPUSIM_OK;

	if (!b) {
		pthread_mutex_lock(&comm->g->queue_lock);
		b = atomic_load(&comm->bind);
		if (!b)
			rc = cmdq_bind(comm, &b);
		if (rc == GPUSIM_OK)
			atomic_store(&comm->bind, b);
		pthread_mutex_unlock(&comm->g->queue_lock);
	}
	if (rc == GPUSIM_OK)
		*out = b;
	return rc;
}

/* ---- arguments of a call */

static enum gpusim_rc
refuse(const struct gpusim_comm *comm, const char *what)
{
	return client_fail(RC_INVAL, "comm %" PRIu64 ": %s", comm->id, what);
}

static bool
inside(const struct gpusim_device_info *d, uint64_t addr, uint64_t nelem, size_t elem)
{
	return addr == 0 || (addr >= d->min_addr.addr && addr <= d->max_addr.addr &&
			     nelem <= (d->max_addr.addr - addr) / elem);
}

static enum gpusim_rc
check(const struct gpusim_comm *comm, const struct gpusim_collective *c)
{
	const struct gpusim_device_info *d = &comm->device[comm->rank];
	struct shape s;

	if ((unsigned)c->dtype >= GPUSIM_NDTYPES)
		return refuse(comm, "unknown type");
	if ((unsigned)c->redop >= GPUSIM_NREDOPS || (c->redop == GPUSIM_PREMULSUM && !c->scalar))
		return refuse(comm, "this call does not support the reduction");
	if (c->algo || c->chunk_bytes)
		return refuse(comm, "its devices choose the algorithm: with a choice of your own, "
				    "make it with GPUSIM_QUEUES_OFF");
	if (!redop_takes(c->redop, c->dtype))
		return refuse(comm, "the reduction is for integers only");
	if (c->stream.id >= STREAMS)
		return refuse(comm, "the stream must be 0 to 63");
	if (c->root >= comm->nranks)
		return refuse(comm, "no such root or peer");
	s = shape_of(c->coll, c->nelem, comm->nranks, c->root, (uint32_t)comm->rank);
	if (!inside(d, c->send[0].addr, s.in, dtype_size(c->dtype)) ||
	    !inside(d, c->recv[0].addr, s.out, dtype_size(c->dtype)))
		return refuse(comm, "a buffer is outside of the device's memory");
	return GPUSIM_OK;
}

/* ---- calls. A v-variant is sends and receives of the parts, or a reduce for each part. */

/* Where rank r's part begins. */
static uint64_t
part_at(const uint64_t *counts, const uint64_t *displs, uint32_t r)
{
	uint64_t at = 0;

	if (displs)
		return displs[r];
	for (uint32_t i = 0; i < r; i++)
		at += counts[i];
	return at;
}

static enum gpusim_rc enqueue_even(struct gpusim_comm *comm, const struct gpusim_collective *c);

/* One operation of the set, from or to an address some elements on. */
static enum gpusim_rc
piece(struct gpusim_comm *comm, const struct gpusim_collective *c, enum gpusim_coll coll,
      struct gpusim_addr from, uint64_t at, uint64_t count, uint32_t root)
{
	struct gpusim_addr nowhere = {0}, here = gpusim_addr_add(from, at * dtype_size(c->dtype));
	struct gpusim_collective k = *c;

	if (count == 0 && coll != GPUSIM_REDUCE)
		return GPUSIM_OK;
	if (at > UINT64_MAX / 32 || from.addr > UINT64_MAX / 2)
		return refuse(comm, "a buffer is outside of the device's memory");
	k.coll = coll;
	k.nelem = count;
	k.root = root;
	k.send = coll == GPUSIM_RECV ? &nowhere : &here;
	k.recv = coll == GPUSIM_RECV ? &here : coll == GPUSIM_SEND ? &nowhere : c->recv;
	return enqueue_even(comm, &k);
}

static enum gpusim_rc
move_parts(struct gpusim_comm *comm, const struct gpusim_collective *c)
{
	uint32_t me = (uint32_t)comm->rank;
	const uint64_t *in = c->coll == GPUSIM_ALLTOALL ? c->recv_counts : c->counts;
	const uint64_t *in_at = c->coll == GPUSIM_ALLTOALL ? c->recv_displs : c->displs;
	bool gives = c->coll != GPUSIM_SCATTER || me == c->root;
	bool takes = c->coll != GPUSIM_GATHER || me == c->root;
	enum gpusim_rc rc = GPUSIM_OK;

	for (uint32_t r = 0; r < comm->nranks && rc == GPUSIM_OK; r++) {
		if (c->coll == GPUSIM_REDUCESCATTER) {
			rc = piece(comm, c, GPUSIM_REDUCE, c->send[0], part_at(c->counts, NULL, r),
				   c->counts[r], r);
			continue;
		}
		if (gives && (c->coll == GPUSIM_ALLTOALL || c->coll == GPUSIM_SCATTER))
			rc = piece(comm, c, GPUSIM_SEND, c->send[0],
				   part_at(c->counts, c->displs, r), c->counts[r], r);
		else if (c->coll == GPUSIM_ALLGATHER || (c->coll == GPUSIM_GATHER && r == c->root))
			rc = piece(comm, c, GPUSIM_SEND, c->send[0], 0, c->counts[me], r);
		if (rc != GPUSIM_OK || !takes)
			continue;
		if (c->coll != GPUSIM_SCATTER)
			rc = piece(comm, c, GPUSIM_RECV, c->recv[0], part_at(in, in_at, r), in[r],
				   r);
		else if (r == c->root)
			rc = piece(comm, c, GPUSIM_RECV, c->recv[0], 0, c->counts[me], r);
	}
	return rc;
}

static enum gpusim_rc
enqueue_parts(struct gpusim_comm *comm, const struct gpusim_collective *c)
{
	bool own = !comm->enqueued;
	enum gpusim_rc rc = own ? enqueue_start(comm) : GPUSIM_OK;

	if (rc == GPUSIM_OK)
		rc = move_parts(comm, c);
	if (!own)
		return rc;
	if (rc == GPUSIM_OK)
		return enqueue_end(comm);
	if (comm->enqueued->n)
		cmdq_bind_ungrouped(comm->bind);
	enqueue_group_free(comm->enqueued); /* nothing of it is enqueued */
	comm->enqueued = NULL;
	return rc;
}

enum gpusim_rc
enqueue(struct gpusim_comm *comm, const struct gpusim_collective *c)
{
	if (c->root >= comm->nranks)
		return refuse(comm, "no such root or peer");
	return c->counts ? enqueue_parts(comm, c) : enqueue_even(comm, c);
}

static enum gpusim_rc
enqueue_even(struct gpusim_comm *comm, const struct gpusim_collective *c)
{
	bool same = c->deterministic || comm->g->deterministic;
	bool pair = coll_is_sendrecv(c->coll);
	struct cmdq_command cmd = {.kind = pair ? CMDQ_SENDRECV : CMDQ_COLL,
				   .flags = same && !pair ? CMDQ_DETERMINISTIC : 0,
				   .coll = (uint8_t)c->coll,
				   .dtype = (uint8_t)c->dtype,
				   .redop = (uint8_t)c->redop,
				   .u.coll = {.send = c->send[0].addr,
					      .recv = c->recv[0].addr,
					      .count = c->nelem,
					      .root = c->root}};
	uint32_t stream = (uint32_t)c->stream.id;
	struct enqueue_group *v = comm->enqueued;
	struct cmdq_bind *b;
	struct cmdq *q;
	enum gpusim_rc rc = check(comm, c);

	if (rc == GPUSIM_OK && coll_reduces(c->coll) && c->redop == GPUSIM_PREMULSUM) {
		memcpy(&cmd.u.coll.scalar, c->scalar, dtype_size(c->dtype));
		cmd.flags |= CMDQ_SCALAR;
	}
	if (rc == GPUSIM_OK)
		rc = bind_of(comm, &b);
	if (rc == GPUSIM_OK && v) {
		if (!alloc_room(&v->v, v->n, &v->room, sizeof *v->v))
			return client_fail(RC_NOMEM, "out of memory");
		v->v[v->n++] = (struct grouped){cmd, stream};
		cmdq_bind_grouped(b);
		return GPUSIM_OK;
	}
	if (rc == GPUSIM_OK)
		rc = queue_of(comm, stream, &q);
	if (rc == GPUSIM_OK)
		rc = cmdq_bind_failed(b) ? cmdq_bind_error(b) : GPUSIM_OK;
	return rc == GPUSIM_OK ? cmdq_append_colls(q, &b, &cmd, 1, NULL) : rc;
}

enum gpusim_rc
enqueue_start(struct gpusim_comm *comm)
{
	if (comm->enqueued)
		return refuse(comm, "the group is already open");
	comm->enqueued = calloc(1, sizeof *comm->enqueued);
	return comm->enqueued ? GPUSIM_OK : client_fail(RC_NOMEM, "out of memory");
}

void
enqueue_group_free(struct enqueue_group *v)
{
	if (!v)
		return;
	free(v->v);
	free(v);
}

enum gpusim_rc
enqueue_end(struct gpusim_comm *comm)
{
	struct enqueue_group *v = comm->enqueued;
	struct cmdq_command *one;
	struct cmdq_bind **binds, *b;
	enum gpusim_rc rc = GPUSIM_OK;

	if (!v)
		return refuse(comm, "no group is open");
	comm->enqueued = NULL;
	one = alloc_zeroed(v->n, sizeof *one);
	binds = alloc_zeroed(v->n, sizeof *binds);
	if (!one || !binds)
		rc = client_fail(RC_NOMEM, "out of memory");
	if (rc == GPUSIM_OK && v->n)
		rc = bind_of(comm, &b);
	for (uint32_t s = 0; s < STREAMS && rc == GPUSIM_OK; s++) {
		struct cmdq *q;
		size_t n = 0;

		for (size_t i = 0; i < v->n; i++)
			if (v->v[i].stream == s) {
				one[n] = v->v[i].c;
				binds[n++] = b;
			}
		if (n)
			rc = queue_of(comm, s, &q);
		if (n && rc == GPUSIM_OK)
			rc = cmdq_append_colls(q, binds, one, n, NULL);
	}
	free(one);
	free(binds);
	enqueue_group_free(v);
	return rc;
}

/* ---- waiting */

enum gpusim_rc
enqueue_wait(struct cmdq *q, uint64_t position, uint32_t timeout_ms)
{
	enum gpusim_rc rc = cmdq_wait(q, position, timeout_ms);

	if (rc != GPUSIM_OK && rc != GPUSIM_TIMEOUT) { /* unreachable may be another rank */
		struct err why = *client_err();

		cmdq_forgive(q, 0);
		*client_err() = why;
	}
	return rc;
}

enum gpusim_rc
enqueue_sync(struct gpusim *g, struct cmdq *q)
{
	return enqueue_wait(q, cmdq_tail(q), g->timeout_ms);
}

bool
enqueue_works(const struct gpusim_comm *comm)
{
	for (size_t i = 0; i < STREAMS; i++) {
		struct cmdq *q = atomic_load(&comm->queue[i]);

		if (q && !cmdq_done(q, cmdq_tail(q)))
			return true;
	}
	return false;
}

enum gpusim_rc
enqueue_comm_sync(const struct gpusim_comm *comm)
{
	enum gpusim_rc rc = GPUSIM_OK;

	for (size_t i = 0; i < STREAMS && rc == GPUSIM_OK; i++) {
		struct cmdq *q = atomic_load(&comm->queue[i]);

		if (q)
			rc = enqueue_sync(comm->g, q);
	}
	return rc;
}
