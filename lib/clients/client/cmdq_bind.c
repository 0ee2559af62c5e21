/*
 * Ranks of communicators whose operations go through command queues: binding, numbering.
 *
 * Design notes. Each rank counts its own operations: collectives of the communicator, sends and receives
 * of each ordered pair. So numbers are given and commands appended under the binding's lock; the locks of
 * several communicators are taken in the order of their ids.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "client/cmdq_impl.h"
#include "flight/ticks.h"

struct cmdq_bind {
	struct gpusim *g;
	struct gpusim_device device;
	uint64_t comm;
	uint32_t nranks;
	struct cmdq_area area;
	struct cmdq_comm *record;
	pthread_mutex_t lock; /* of what follows */
	uint64_t collectives;
	uint64_t *sends, *recvs; /* by peer */
};

static void
bind_free(struct cmdq_bind *b)
{
	if (b->area.at)
		cmdq_unmap(&b->area);
	pthread_mutex_destroy(&b->lock);
	free(b->sends);
	free(b->recvs);
	free(b);
}

static void
tell_unbound(struct cmdq_bind *b)
{
	GpuSim__CommUnbindRequest m = GPU_SIM__COMM_UNBIND_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(COMM_UNBIND, communbind, m);

	m.commid = b->comm;
	client_call_device(b->g, b->device, &req, GPU_SIM__REPLY__BODY_DONE, NULL);
}

static enum rc
bind(struct cmdq_bind *b, uint32_t epoch)
{
	GpuSim__CommBindRequest m = GPU_SIM__COMM_BIND_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(COMM_BIND, commbind, m);
	char program[GPUSIM_PROGRAM];
	GpuSim__Reply *reply;
	enum rc rc;

	m.commid = b->comm;
	m.epoch = epoch;
	m.pid = (uint32_t)getpid();
	m.program = client_program(b->g, program);
	rc = client_call_device(b->g, b->device, &req, GPU_SIM__REPLY__BODY_COMM_BIND, &reply);
	if (rc != RC_OK)
		return rc;
	rc = cmdq_map(b->g, b->device, reply->commbind->offset, sizeof *b->record, &b->area);
	wire_reply_free(reply);
	if (rc != RC_OK) {
		struct err why = *client_err();

		tell_unbound(b);
		*client_err() = why;
	}
	return rc;
}

enum gpusim_rc
cmdq_bind(struct gpusim_comm *comm, struct cmdq_bind **out)
{
	struct cmdq_bind *b;
	enum rc rc;

	if (comm->rank < 0 || !comm->queued)
		return client_fail(RC_INVAL, "comm %" PRIu64 ": the handle is for all ranks",
				   comm->id);
	b = calloc(1, sizeof *b);
	if (!b)
		return client_fail(RC_NOMEM, "out of memory");
	*b = (struct cmdq_bind){.g = comm->g,
				.device = comm->device[comm->rank].device,
				.comm = comm->id,
				.nranks = comm->nranks};
	pthread_mutex_init(&b->lock, NULL);
	b->sends = alloc_zeroed(b->nranks, sizeof *b->sends);
	b->recvs = alloc_zeroed(b->nranks, sizeof *b->recvs);
	rc = b->sends && b->recvs ? bind(b, comm->epoch)
				  : err_set(client_err(), RC_NOMEM, "out of memory");
	if (rc != RC_OK) {
		bind_free(b);
		return client_rc(rc);
	}
	b->record = b->area.at;
	*out = b;
	return GPUSIM_OK;
}

void
cmdq_unbind(struct cmdq_bind *b)
{
	if (!b)
		return;
	tell_unbound(b);
	bind_free(b);
}

bool
cmdq_bind_failed(const struct cmdq_bind *b)
{
	return atomic_load_explicit(&b->record->state, memory_order_acquire) == CMDQ_COMM_FAILED;
}

enum gpusim_rc
cmdq_bind_error(const struct cmdq_bind *b)
{
	const struct cmdq_comm *r = b->record;
	/* This rank's own device wrote it, so what was out of reach is another rank. */
	enum rc rc = r->rc && r->rc != RC_UNREACHABLE ? (enum rc)r->rc : RC_FAILED;

	if (cmdq_bind_failed(b))
		return client_fail(rc, "%.*s", (int)sizeof r->text - 1, r->text);
	if (!memfile_lives(b->area.file))
		return client_fail(RC_UNREACHABLE, "device %016" PRIx64 " has ended", b->device.id);
	return GPUSIM_OK;
}

bool
cmdq_bind_idle(struct cmdq_bind *b)
{
	uint64_t appended;

	pthread_mutex_lock(&b->lock);
	appended = b->collectives;
	for (uint32_t r = 0; r < b->nranks; r++)
		appended += b->sends[r] + b->recvs[r];
	pthread_mutex_unlock(&b->lock);
	return atomic_load_explicit(&b->record->done, memory_order_acquire) >= appended;
}

int
cmdq_bind_waits(const struct cmdq_bind *b, uint64_t *ms)
{
	int32_t rank = atomic_load(&b->record->waits_for);
	uint64_t since = atomic_load(&b->record->waits_since_ns), now = clock_now_ns();

	*ms = now > since ? (now - since) / NS_PER_MS : 0;
	return rank >= 0 && (uint32_t)rank < b->nranks ? rank : -1;
}

/* ---- groups */

void
cmdq_bind_grouped(struct cmdq_bind *b)
{
	if (atomic_load_explicit(&b->record->grouped, memory_order_relaxed) == 0)
		atomic_store(&b->record->grouped_at, ticks_now());
	atomic_fetch_add(&b->record->grouped, 1);
}

void
cmdq_bind_ungrouped(struct cmdq_bind *b)
{
	atomic_store_explicit(&b->record->grouped, 0, memory_order_relaxed);
}

/* ---- numbering */

static void
number(struct cmdq_bind *b, struct cmdq_command *c)
{
	c->u.coll.comm = b->comm;
	c->u.coll.queued = (uint32_t)(ticks_now() >> 6);
	if (c->kind == CMDQ_COLL)
		c->u.coll.number = b->collectives++;
	else if (c->coll == GPUSIM_SEND)
		c->u.coll.number = b->sends[c->u.coll.root]++;
	else
		c->u.coll.number = b->recvs[c->u.coll.root]++;
}

/* A group's order, the same on all ranks: communicators by id; for each, collectives in call order, then
 * sends and receives in call order. */
static bool
belongs_after(struct cmdq_bind *a, const struct cmdq_command *ca, struct cmdq_bind *b,
	      const struct cmdq_command *cb)
{
	if (a->comm != b->comm)
		return a->comm > b->comm;
	return ca->kind == CMDQ_SENDRECV && cb->kind == CMDQ_COLL;
}

/* Stable insertion sort: groups are short, and mostly in order. */
static void
sort(struct cmdq_bind **b, struct cmdq_command *c, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		struct cmdq_command one = c[i];
		struct cmdq_bind *of = b[i];
		size_t k = i;

		for (; k > 0 && belongs_after(b[k - 1], &c[k - 1], of, &one); k--) {
			c[k] = c[k - 1];
			b[k] = b[k - 1];
		}
		c[k] = one;
		b[k] = of;
	}
}

enum gpusim_rc
cmdq_append_colls(struct cmdq *q, struct cmdq_bind *const *binds, struct cmdq_command *c, size_t n,
		  uint64_t *position)
{
	struct cmdq_bind **b;
	struct cmdq_bind *one;
	enum gpusim_rc rc = GPUSIM_OK;

	if (n == 0 || n > CMDQ_SIZE / 2)
		return cmdq_append(q, c, n, position); /* refused: no number is given */
	b = n == 1 ? &one : alloc_zeroed(n, sizeof *b);
	if (!b)
		return client_fail(RC_NOMEM, "out of memory");
	memcpy(b, binds, n * sizeof *b);
	for (size_t i = 0; i < n && rc == GPUSIM_OK; i++)
		if (c[i].kind == CMDQ_SENDRECV && c[i].u.coll.root >= b[i]->nranks)
			rc = client_fail(RC_INVAL,
					 "comm %" PRIu64 ": peer %" PRIu32 " of %" PRIu32 " ranks",
					 b[i]->comm, c[i].u.coll.root, b[i]->nranks);
	if (rc == GPUSIM_OK) {
		sort(b, c, n);
		for (size_t i = 0; i < n; i++) {
			bool more = i + 1 < n && c[i].kind == CMDQ_SENDRECV &&
				    c[i + 1].kind == CMDQ_SENDRECV && b[i] == b[i + 1] &&
				    !(c[i + 1].flags & CMDQ_APART);

			c[i].flags = (uint8_t)((c[i].flags & ~(CMDQ_MORE | CMDQ_APART)) |
					       (more ? CMDQ_MORE : 0));
			if (i == 0 || b[i] != b[i - 1]) {
				pthread_mutex_lock(&b[i]->lock);
				cmdq_bind_ungrouped(b[i]);
			}
			number(b[i], &c[i]);
		}
		rc = cmdq_append(q, c, n, position);
		for (size_t i = 0; i < n; i++)
			if (i == 0 || b[i] != b[i - 1])
				pthread_mutex_unlock(&b[i]->lock);
	}
	if (b != &one)
		free(b);
	return rc;
}
