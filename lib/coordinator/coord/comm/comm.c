/*
 * comm.c - find and query communicators.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>
#include <stdio.h>

struct comm *
comm_next(const struct coord *c, const struct comm *comm)
{
	return comm ? comm->next : c->comms->first;
}

uint32_t
comms_count(const struct coord *c)
{
	return c->comms->n;
}

struct comm *
comm_any(const struct coord *c, uint64_t id)
{
	struct comm *comm = c->comms->first;

	while (comm && comm->id != id)
		comm = comm->next;
	return comm;
}

struct comm *
comm_find(const struct coord *c, uint64_t id)
{
	struct comm *comm = comm_any(c, id);

	return comm && comm->made && comm->state != COMM_DETACHING ? comm : NULL;
}

enum rc
comm_usable(struct coord *c, uint64_t id, struct comm **out, struct err *err)
{
	struct comm *comm = comm_find(c, id);

	if (!comm)
		return err_set(err, RC_NOTFOUND, "no communicator %" PRIu64, id);
	if (comm->state == COMM_FAILED)
		return err_set(err, RC_FAILED,
			       "comm %" PRIu64 " failed earlier: %s; shrink or destroy it", id,
			       comm->failed.text);
	if (comm->queued)
		return err_set(err, RC_INVAL,
			       "comm %" PRIu64 ": its ranks enqueue operations themselves", id);
	*out = comm;
	return RC_OK;
}

/* ---- queries */

GETTER(uint64_t, comm_id, comm, id)
GETTER(uint64_t, comm_client, comm, client_id)
GETTER(uint32_t, comm_epoch, comm, epoch)
GETTER(uint32_t, comm_nranks, comm, nranks)

struct device *
comm_device(const struct comm *comm, uint32_t rank)
{
	return comm->rank[rank].dev;
}

bool
comm_holds(const struct comm *comm, uint32_t rank)
{
	return device_incarnation(comm->rank[rank].dev) == comm->rank[rank].incarnation;
}

bool
comm_is_lost(const struct comm *comm, uint32_t rank)
{
	return comm->rank[rank].gone || device_is_lost(comm->rank[rank].dev) ||
	       !comm_holds(comm, rank);
}

bool
comm_is_settled(const struct coord *c, const struct comm *comm, uint32_t r)
{
	if (comm_is_lost(comm, r))
		return true;
	return !c->comms->hooks->owes(comm, r) && (comm->rank[r].heard || !comm_recovers(comm));
}

GETTER(bool, comm_is_queued, comm, queued)
GETTER(bool, comm_by_memory, comm, by_memory)

bool
comm_reaches(const struct comm *comm, uint32_t r, uint32_t q)
{
	const struct member *m = &comm->rank[r], *n = &comm->rank[q];

	return r != q && m->mapped && n->mapped && m->mapped[q] && n->mapped[r];
}

struct link_shape
comm_links(const struct comm *comm)
{
	struct link_shape s = {0};

	for (uint32_t r = 0; !comm->by_memory && r < comm->nranks; r++) {
		struct link_shape one = device_link(comm->rank[r].dev);

		if (one.latency_us > s.latency_us)
			s.latency_us = one.latency_us;
		if (one.bits_per_s > 0 && (s.bits_per_s <= 0 || one.bits_per_s < s.bits_per_s))
			s.bits_per_s = one.bits_per_s;
	}
	return s;
}

bool
comm_recovers(const struct comm *comm)
{
	return comm->on_failure != GPUSIM_ON_FAILURE_ABORT && !comm->rec.final;
}

bool
comm_is_live(const struct comm *comm)
{
	return comm->state == COMM_LIVE;
}

const struct err *
comm_failed(const struct comm *comm)
{
	return &comm->failed;
}

bool
comm_busy(const struct comm *comm)
{
	return comm->made && !(comm->state & (COMM_LIVE | COMM_FAILED | COMM_DETACHING));
}

GETTER(uint32_t, comm_recoveries, comm, recoveries)
GETTER(uint32_t, comm_first_nranks, comm, first_nranks)

uint32_t
comm_first_rank(const struct comm *comm, uint32_t rank)
{
	return comm->rank[rank].first;
}

bool
comm_has_shrunk(const struct comm *comm)
{
	return comm->on_failure == GPUSIM_ON_FAILURE_SHRINK &&
	       (comm->recoveries > 0 || comm_busy(comm));
}

GETTER(const char *, comm_recovered, comm, recovered.text)

const struct err *
comm_cause(const struct comm *comm)
{
	return &comm->rec.cause;
}

GETTER(bool, comm_is_blank, comm, rec.blank)
GETTER(struct work *, comm_work, comm, work)

void
comm_set_work(struct comm *comm, struct work *work)
{
	comm->work = work;
}

void
comm_count_runs(struct comm *comm, uint32_t n)
{
	comm->nruns = n;
}

enum rc
comm_nomem(const struct comm *comm, struct err *err)
{
	return err_set(err, RC_NOMEM, "comm %" PRIu64 ": out of memory", comm->id);
}

void
label_set(struct label *l, const char *program, uint32_t pid)
{
	snprintf(l->program, sizeof l->program, "%.*s", (int)sizeof l->program - 1, program);
	l->pid = pid;
}

enum rc
comm_rank_lost(const struct comm *comm, uint32_t rank, struct err *err)
{
	const struct device *d = comm->rank[rank].dev;
	struct err why;

	device_lost(d, &why);
	return err_set(err, why.rc, "comm %" PRIu64 " rank %u (device %016" PRIx64 ") %s", comm->id,
		       rank, device_id(d), why.text);
}

/* ---- its devices */

bool
device_msgs_of_comm(struct coord *c, const struct comm *comm, struct device_msgs *out)
{
	struct device *dev[WIRE_MAX_RANKS];

	for (uint32_t r = 0; r < comm->nranks; r++)
		dev[r] = comm->rank[r].dev;
	return device_msgs_init(c, dev, comm->nranks, out);
}

/* ---- requests that wait for a communicator */

/* The first rank that has not answered. */
static bool
name_missing(struct coord *c, struct pending *p, struct err *err)
{
	const struct comm *comm = comm_any(c, pending_id(p));

	for (uint32_t r = 0; comm && r < comm->nranks; r++)
		if (call_is_live(&comm->rank[r].call)) {
			err_set(err, RC_TIMEOUT,
				"comm %" PRIu64 ": rank %u (device %016" PRIx64
				") has not answered its %s",
				comm->id, r, device_id(comm->rank[r].dev),
				comm->state & (COMM_MAKING | COMM_ATTACHING)  ? "attach"
				: comm->state & (COMM_MEETING | COMM_JOINING) ? "join"
									      : "detach");
			break;
		}
	return false;
}

const struct wait wait_attach = {.late = name_missing};
const struct wait wait_detach = {.late = name_missing};
const struct wait wait_abort;

bool
comm_is_wanted(struct coord *c, const struct comm *comm)
{
	return pending_find(c, &wait_attach, comm->id);
}
