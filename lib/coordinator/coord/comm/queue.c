/*
 * queue.c - devices for a communicator, by name or any free ones, and the queue of requests for free devices: first
 * come, first served. If too few are free, the message names their users.
 *
 * When its turn comes, a queued request is handled as if it had just arrived. Nobody overtakes the first, so
 * small requests do not starve a large one. Two kinds keep their position and let others go first: a request
 * whose client is disconnected, until it connects again or the request leaves; and one for more devices than
 * are alive, until lost devices return.
 *
 * A client that did not ask to wait waits only for lost devices that are about to return.
 *
 * The queue is not stored: after a restart clients repeat their requests.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>
#include <stdlib.h>

struct queued {
	struct queued *next;
	struct pending *p;
	handler *handle;
	struct buf request; /* packed */
	struct label label;
	uint32_t want;
	bool brief; /* it did not ask to wait */
	uint64_t until_ms;
	bool gone; /* its client disconnected at gone_ms */
	uint64_t gone_ms;
};

/* Counts of devices that are no spares: all, alive, free of these, and lost ones that are about to return. */
struct supply {
	uint32_t all, alive, free, returning;
};

static struct supply
supply_count(const struct coord *c)
{
	struct supply s = {0};

	for (size_t i = 0; i < devices_count(c); i++) {
		const struct device *d = device_at(c, i);

		s.all += !device_is_spare(d);
		s.alive += !device_is_spare(d) && !device_is_lost(d);
		s.free += !device_is_spare(d) && device_is_free(d);
		s.returning += !device_is_spare(d) && device_returns(c, d);
	}
	return s;
}

/* It could have devices now if enough of them were free. */
static bool
is_ready(const struct queued *q, const struct supply *s)
{
	return !q->gone && q->want <= s->alive;
}

/* It has to wait for lost devices that are about to return. */
static bool
awaits_return(const struct supply *s, uint32_t want)
{
	return want > s->alive && want <= s->alive + s->returning;
}

static struct queued *
first_ready(const struct coord *c)
{
	struct queued *q = c->comms->queue;
	struct supply s;

	if (q)
		s = supply_count(c);
	while (q && !is_ready(q, &s))
		q = q->next;
	return q;
}

bool
queue_is_ready(const struct coord *c)
{
	return first_ready(c);
}

uint32_t
queue_length(const struct coord *c)
{
	uint32_t n = 0;

	for (const struct queued *q = c->comms->queue; q; q = q->next)
		n++;
	return n;
}

size_t
queue_show(const struct coord *c, GpuSim__WaitingRequest **v, size_t room)
{
	size_t n = 0;

	for (const struct queued *q = c->comms->queue; q && n < room; q = q->next, n++) {
		const struct asker *a = pending_asker(q->p);

		v[n]->name = (char *)a->name;
		v[n]->clientid = a->client_id;
		v[n]->forms = c->now_ms - a->asked_ms;
		v[n]->want = q->want;
		v[n]->program = (char *)q->label.program;
		v[n]->pid = q->label.pid;
	}
	return n;
}

/* ---- too few devices */

/* "gpuctl allreduce (pid 4711)" */
static void
add_label(struct text *t, const struct label *l)
{
	if (l->program[0])
		text_add(t, "%s (pid %u)", l->program, l->pid);
	else
		text_add(t, "a client");
}

static uint32_t
devices_of(const struct comm *comm)
{
	uint32_t n = 0;

	for (uint32_t r = 0; r < comm->nranks; r++)
		n += !device_is_spare(comm->rank[r].dev);
	return n;
}

/* "comm 3 of gpuctl allreduce (pid 4711) has 2", or when it will free them. */
static void
add_comm(struct text *t, const struct coord *c, const struct comm *comm, uint32_t n)
{
	uint64_t end = comm->gone_ms + TIME_LEASE_MS;

	bool told = comm->label.program[0] != '\0';

	text_add(t, "comm %" PRIu64, comm->id);
	if (told) {
		text_add(t, "%s ", comm->lease ? " of" : ", made by");
		add_label(t, &comm->label);
	}
	if (comm->state == COMM_DETACHING)
		text_add(t, ", which is about to end");
	else if (comm->lease && comm->gone)
		text_add(t, ", which disconnected: free in %.1f s",
			 end > c->now_ms ? (double)(end - c->now_ms) / 1e3 : 0.1);
	else
		text_add(t, "%s has %u", told && !comm->lease ? "," : "", n);
}

/* Add who has devices, and who waits for some. */
static void
add_users(struct text *t, const struct coord *c)
{
	const struct queued *first = first_ready(c);
	const char *before = ": ";

	for (const struct comm *comm = c->comms->first; comm; comm = comm->next) {
		uint32_t n = devices_of(comm);

		if (n == 0)
			continue;
		if (t->room < 160) {
			text_add(t, ", ...");
			break;
		}
		text_add(t, "%s", before);
		add_comm(t, c, comm, n);
		before = ", ";
	}
	if (first) {
		text_add(t, "%s", before);
		add_label(t, &first->label);
		text_add(t, " waits for %u", first->want);
	}
}

enum rc
supply_short(const struct coord *c, uint32_t want, uint32_t nfree, struct err *err)
{
	struct supply s = supply_count(c);
	struct text t = {err->text, sizeof err->text};

	text_add(&t, "%sneeds %u device%s; ", want <= s.alive ? "busy: " : "", want,
		 want == 1 ? "" : "s");
	if (want > s.all) {
		err->rc = RC_NOTFOUND;
		text_add(&t, "%u exist%s", s.all, s.all == 1 ? "s" : "");
	} else if (want > s.alive) {
		err->rc = RC_FAILED;
		text_add(&t, "%u of %u %s available", s.alive, s.all, s.alive == 1 ? "is" : "are");
		devices_name_lost(c, false, &t);
	} else {
		err->rc = RC_BUSY;
		text_add(&t, "%u of %u %s free", nfree, s.alive, nfree == 1 ? "is" : "are");
		add_users(&t, c);
		devices_name_lost(c, false, &t);
	}
	return err->rc;
}

/* ---- choosing */

enum rc
choose_named(struct coord *c, const uint64_t *ids, size_t n, struct device **dev, struct err *err)
{
	for (size_t r = 0; r < n; r++) {
		for (size_t k = 0; k < r; k++)
			if (ids[k] == ids[r])
				return err_set(err, RC_INVAL,
					       "device %016" PRIx64
					       " is named twice, as rank %zu and rank %zu",
					       ids[r], k, r);
		if (device_named(c, ids[r], &dev[r], err) != RC_OK)
			return err->rc;
	}
	return RC_OK;
}

static enum rc
choose_free(const struct coord *c, uint32_t n, struct device **dev, struct err *err)
{
	uint32_t nfree = 0;

	for (size_t i = 0; i < devices_count(c); i++)
		if (device_is_free(device_at(c, i)) && !device_is_spare(device_at(c, i))) {
			if (nfree < n)
				dev[nfree] = device_at(c, i);
			nfree++;
		}
	return nfree < n ? supply_short(c, n, nfree, err) : RC_OK;
}

/* ---- enter and leave */

static void
left(struct coord *c, struct pending *p)
{
	struct queued *q = pending_own(p), **at = &c->comms->queue;

	while (*at != q)
		at = &(*at)->next;
	*at = q->next;
	buf_fini(&q->request);
	free(q);
}

/* Waits under the id of the communicator that is to grow, or 0. */
const struct wait wait_devices = {.idle = true, .left = left};

static bool
is_grow(const GpuSim__Request *req)
{
	return req->body_case == GPU_SIM__REQUEST__BODY_COMM_GROW;
}

static enum rc
enter(struct coord *c, struct pending *p, const GpuSim__Request *req, handler *handle, uint32_t n,
      bool brief, uint64_t wait_ms, struct err *err)
{
	struct queued *q = alloc_zeroed(1, sizeof *q), **at = &c->comms->queue;

	if (!q || !buf_pack(&q->request, &req->base)) {
		free(q);
		return err_set(err, RC_NOMEM, "the coordinator is out of memory");
	}
	q->p = p;
	q->handle = handle;
	if (is_grow(req))
		label_set(&q->label, req->commgrow->program, req->commgrow->pid);
	else
		label_set(&q->label, req->comminit->program, req->comminit->pid);
	q->want = n;
	q->brief = brief;
	q->until_ms = c->now_ms + wait_ms;
	if (q->until_ms > pending_due_ms(p))
		q->until_ms = pending_due_ms(p);
	while (*at)
		at = &(*at)->next;
	*at = q;
	pending_wait(c, p, &wait_devices, is_grow(req) ? req->commgrow->commid : 0, q);
	act_log(c, "%s waits for %u device%s", q->label.program[0] ? q->label.program : "a client",
		n, n == 1 ? "" : "s");
	return RC_OK;
}

enum rc
queue_devices(struct coord *c, struct pending *p, const GpuSim__Request *req, handler *handle,
	      uint32_t n, uint64_t wait_ms, struct device **dev, bool *queued, struct err *err)
{
	struct supply s = supply_count(c);
	bool brief = wait_ms == 0;
	enum rc rc;

	if (c->comms->serving != p && queue_is_ready(c))
		rc = supply_short(c, n, s.free, err);
	else
		rc = choose_free(c, n, dev, err);
	if (rc == RC_OK || rc == RC_NOTFOUND || (brief && !awaits_return(&s, n)))
		return rc;
	rc = enter(c, p, req, handle, n, brief, brief ? c->cfg.respawn_ms : wait_ms, err);
	*queued = rc == RC_OK;
	return rc;
}

/* The devices are free: handle the request, which may answer it. */
static void
serve(struct coord *c, struct queued *q)
{
	struct pending *p = q->p;
	handler *handle = q->handle;
	GpuSim__Request *req =
	    gpu_sim__request__unpack(NULL, q->request.len, (const uint8_t *)q->request.data);
	struct err err = {0};
	enum rc rc;

	pending_wait(c, p, NULL, 0, NULL);
	c->comms->serving = p;
	c->client_id = pending_asker(p)->client_id;
	if (!req)
		rc = err_set(&err, RC_NOMEM, "the coordinator is out of memory");
	else
		rc = handle(c, p, req, &err);
	c->comms->serving = NULL;
	c->client_id = 0;
	if (rc != RC_OK)
		answer_failure(c, p, &err);
	wire_request_free(req);
}

/* End requests for more devices than exist now, or whose lost devices will not return. */
static void
refuse_hopeless(struct coord *c, const struct supply *s)
{
	struct queued *next;
	struct err err;

	for (struct queued *q = c->comms->queue; q; q = next) {
		next = q->next;
		if (q->want <= s->all &&
		    (!q->brief || q->want <= s->free || awaits_return(s, q->want)))
			continue;
		supply_short(c, q->want, s->free, &err);
		answer_failure(c, q->p, &err);
	}
}

void
queue_step(struct coord *c)
{
	struct queued *q;
	struct supply s;

	while (c->comms->queue && c->refuse.rc == RC_OK) {
		s = supply_count(c);
		refuse_hopeless(c, &s);
		q = first_ready(c);
		if (!q || q->want > s.free)
			return;
		serve(c, q);
	}
}

static void
expire(struct coord *c, struct queued *q)
{
	struct pending *p = q->p;
	uint32_t want = q->want;
	struct err why, err;

	pending_wait(c, p, NULL, 0, NULL); /* so that the message does not name it */
	supply_short(c, want, supply_count(c).free, &why);
	err_set(&err, RC_TIMEOUT, "waited %.1f s: %s",
		(double)(c->now_ms - pending_asker(p)->asked_ms) / 1e3, why.text);
	answer_failure(c, p, &err);
}

void
queue_tick(struct coord *c)
{
	const struct err away = {RC_ABORTED, "the client disconnected"};
	struct queued *next;

	for (struct queued *q = c->comms->queue; q; q = next) {
		next = q->next;
		if (q->gone && c->now_ms >= q->gone_ms + TIME_LEASE_MS)
			answer_failure(c, q->p, &away);
		else if (c->now_ms >= q->until_ms)
			expire(c, q);
	}
}

void
queue_client_is(struct coord *c, uint64_t client_id, bool gone)
{
	for (struct queued *q = c->comms->queue; q; q = q->next)
		if (pending_asker(q->p)->client_id == client_id && q->gone != gone) {
			q->gone = gone;
			q->gone_ms = c->now_ms;
		}
}
