/*
 * Command queues, the client's side: open, append, wait. Layout: mem/cmdq.h.
 *
 * Design notes. A queue's lock covers its tail: an appending thread holds it while it waits for room, so
 * that commands of a group stay together. Waiters notice the device's end by the lock on the memory file,
 * every 100 ms. The page stays mapped until the handle is freed, so readers need no lock.
 */
#include "client/cmdq.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/cmdq_impl.h"
#include "flight/ticks.h"

#define SLICE_NS (100 * NS_PER_MS)

/* ---- the page of a queue or record */

enum rc
cmdq_map(struct gpusim *g, struct gpusim_device device, uint64_t offset, uint64_t nbytes,
	 struct cmdq_area *out)
{
	struct memfile *f;
	void *p;
	enum rc rc = direct_memfile(g, device, &f, NULL);

	if (rc == RC_OK)
		rc = memfile_map(f, offset, nbytes, &p, client_err());
	if (rc == RC_OK)
		*out = (struct cmdq_area){p, offset, nbytes, f};
	return rc;
}

void
cmdq_unmap(struct cmdq_area *a)
{
	memfile_unmap(a->at, a->nbytes);
	a->at = NULL;
}

enum gpusim_rc
cmdq_window(struct gpusim *g, struct gpusim_device device, uint64_t offset, uint64_t nbytes,
	    void **out)
{
	struct memfile *f;
	enum rc rc = direct_memfile(g, device, &f, NULL);

	if (rc == RC_OK && (offset > memfile_nbytes(f) || nbytes > memfile_nbytes(f) - offset))
		rc = err_set(client_err(), RC_INVAL, "outside of the device's memory");
	if (rc == RC_OK && !(*out = memfile_window(f, offset, nbytes)))
		rc = err_set(client_err(), RC_NOMEM, "device memory: no room for %" PRIu64 " bytes",
			     nbytes);
	return (enum gpusim_rc)rc;
}

/* ---- opening and closing */

/* Tell the device to close a queue. */
static void
tell_closed(struct cmdq *q)
{
	GpuSim__QueueCloseRequest m = GPU_SIM__QUEUE_CLOSE_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(QUEUE_CLOSE, queueclose, m);

	m.queueid = q->id;
	client_call_device(q->g, q->device, &req, GPU_SIM__REPLY__BODY_DONE, NULL);
}

enum gpusim_rc
cmdq_open(struct gpusim *g, struct gpusim_device device, uint32_t stream, struct cmdq **out)
{
	GpuSim__QueueOpenRequest m = GPU_SIM__QUEUE_OPEN_REQUEST__INIT;
	GpuSim__Request req = WIRE_REQUEST(QUEUE_OPEN, queueopen, m);
	struct cmdq *q = calloc(1, sizeof *q);
	GpuSim__Reply *reply;
	enum rc rc;

	if (!q)
		return client_fail(RC_NOMEM, "out of memory");
	m.pid = (uint32_t)getpid();
	m.own = stream == CMDQ_OWN_STREAM;
	m.stream = m.own ? 0 : stream;
	rc = client_call_device(g, device, &req, GPU_SIM__REPLY__BODY_QUEUE_OPEN, &reply);
	if (rc == RC_OK) {
		q->id = reply->queueopen->queueid;
		rc = reply->queueopen->nbytes == sizeof(struct cmdq_page)
			 ? cmdq_map(g, device, reply->queueopen->offset, sizeof(struct cmdq_page),
				    &q->area)
			 : err_set(client_err(), RC_BADDATA,
				   "device %016" PRIx64 ": its queues have another layout: it has "
				   "another version",
				   device.id);
		wire_reply_free(reply);
	}
	q->g = g;
	q->device = device;
	if (rc != RC_OK) {
		struct err why = *client_err();

		if (q->id)
			tell_closed(q);
		*client_err() = why;
		free(q);
		return client_rc(rc);
	}
	pthread_mutex_init(&q->lock, NULL);
	q->page = q->area.at;
	q->tail = atomic_load(&q->page->tail);
	*out = q;
	return GPUSIM_OK;
}

uint64_t
cmdq_id(const struct cmdq *q)
{
	return q->id;
}

struct gpusim_device
cmdq_device(const struct cmdq *q)
{
	return q->device;
}

struct cmdq_page *
cmdq_page(const struct cmdq *q)
{
	return q->page;
}

uint64_t
cmdq_offset(const struct cmdq *q)
{
	return q->area.offset;
}

/* ---- waiting */

static enum rc
gone(const struct cmdq *q)
{
	return err_set(client_err(), RC_UNREACHABLE, "device %016" PRIx64 " has ended",
		       q->device.id);
}

/* Wait until carried out, the deadline, or the device's end. */
static enum rc
await(struct cmdq *q, uint64_t position, uint64_t until_ns)
{
	struct cmdq_page *p = q->page;

	while (!cmdq_await(&p->head, &p->client_sleeps, position, &p->closed, 0)) {
		uint64_t now = clock_now_ns();

		if (now >= until_ns)
			return err_set(client_err(), RC_TIMEOUT,
				       "device %016" PRIx64 ": the stream's work has not ended",
				       q->device.id);
		if (cmdq_await(&p->head, &p->client_sleeps, position, &p->closed,
			       until_ns - now < SLICE_NS ? until_ns : now + SLICE_NS))
			break;
		if (atomic_load(&p->closed) || !memfile_lives(q->area.file))
			return gone(q);
	}
	return RC_OK;
}

bool
cmdq_done(const struct cmdq *q, uint64_t position)
{
	return atomic_load_explicit(&q->page->head, memory_order_acquire) >= position;
}

uint64_t
cmdq_tail(const struct cmdq *q)
{
	return atomic_load_explicit(&q->page->tail, memory_order_acquire);
}

/* The current error, if it is of a command before a position. */
static enum rc
standing(const struct cmdq *q, uint64_t position, uint64_t *comm)
{
	const struct cmdq_error *e = &q->page->error;
	enum rc rc;

	if (atomic_load_explicit(&e->number, memory_order_acquire) == atomic_load(&e->forgiven) ||
	    e->at >= position)
		return RC_OK;
	if (comm)
		*comm = e->comm;
	/* As a result of cmdq_wait a timeout means that the work continues. */
	rc = e->rc == RC_OK || e->rc == RC_TIMEOUT ? RC_FAILED : (enum rc)e->rc;
	return err_set(client_err(), rc, "%.*s", (int)sizeof e->text - 1, e->text);
}

enum gpusim_rc
cmdq_wait(struct cmdq *q, uint64_t position, uint32_t timeout_ms)
{
	uint64_t until = timeout_ms ? deadline_in_ms(timeout_ms) : UINT64_MAX;
	enum rc rc = cmdq_done(q, position) ? RC_OK : await(q, position, until);

	return client_rc(rc == RC_OK ? standing(q, position, NULL) : rc);
}

enum gpusim_rc
cmdq_error(const struct cmdq *q, uint64_t *comm)
{
	enum rc rc = standing(q, UINT64_MAX, comm);

	if (rc == RC_OK && atomic_load(&q->page->closed)) {
		if (comm)
			*comm = 0;
		rc = gone(q);
	}
	return client_rc(rc);
}

/* Commands appended after the failure are skipped; only later ones run. */
void
cmdq_forgive(struct cmdq *q, uint64_t comm)
{
	struct cmdq_error *e = &q->page->error;
	uint64_t of = 0;

	pthread_mutex_lock(&q->lock);
	if (standing(q, UINT64_MAX, &of) != RC_OK && (comm == 0 || comm == of) &&
	    await(q, q->tail, UINT64_MAX) == RC_OK)
		atomic_store(&e->forgiven, atomic_load(&e->number));
	pthread_mutex_unlock(&q->lock);
}

void
cmdq_close(struct cmdq *q)
{
	if (!q)
		return;
	await(q, q->tail, UINT64_MAX);
	/* In the device's next process its number is another queue's. */
	if (memfile_lives(q->area.file))
		tell_closed(q);
	cmdq_unmap(&q->area);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

/* ---- appending */

/* Lock held. Room for n more. */
static enum rc
make_room(struct cmdq *q, size_t n)
{
	if (atomic_load_explicit(&q->page->closed, memory_order_relaxed))
		return gone(q);
	if (q->tail + n <= q->head_seen + CMDQ_SIZE)
		return RC_OK;
	q->head_seen = atomic_load_explicit(&q->page->head, memory_order_acquire);
	if (q->tail + n <= q->head_seen + CMDQ_SIZE)
		return RC_OK;
	/* For half of the ring, so that the device is not woken, nor this thread, for each command. */
	n = n < CMDQ_SIZE / 2 ? CMDQ_SIZE / 2 : n;
	return await(q, q->tail + n - CMDQ_SIZE, UINT64_MAX);
}

/* n [out]: the number of the last of them at its worker, if it is an extern work. */
static enum rc
append(struct cmdq *q, const struct cmdq_command *c, size_t count, uint64_t *n, uint64_t *position)
{
	enum rc rc;

	pthread_mutex_lock(&q->lock);
	rc = make_room(q, count);
	if (rc == RC_OK) {
		for (size_t i = 0; i < count; i++) {
			struct cmdq_command *to = &q->page->command[q->tail++ % CMDQ_SIZE];

			*to = c[i];
			if (c[i].kind == CMDQ_EXTERN)
				to->u.ext.n = ++q->externs[c[i].u.ext.who % CMDQ_EXTERNS];
		}
		if (n)
			*n = q->externs[c[count - 1].u.ext.who];
		if (position)
			*position = q->tail;
		cmdq_publish(&q->page->tail, &q->page->device_sleeps, q->tail);
	}
	pthread_mutex_unlock(&q->lock);
	return rc;
}

enum gpusim_rc
cmdq_append(struct cmdq *q, const struct cmdq_command *c, size_t n, uint64_t *position)
{
	if (n == 0 || n > CMDQ_SIZE / 2)
		return client_fail(RC_INVAL, "%zu operations at once: must be 1 to %d", n,
				   CMDQ_SIZE / 2);
	return client_rc(append(q, c, n, NULL, position));
}

enum gpusim_rc
cmdq_append_extern(struct cmdq *q, unsigned who, uint64_t *n, uint64_t *position)
{
	struct cmdq_command c = {.kind = CMDQ_EXTERN,
				 .u.ext = {.who = who, .queued = (uint32_t)(ticks_now() >> 6)}};

	return client_rc(append(q, &c, 1, n, position));
}
