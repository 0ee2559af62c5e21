/*
 * group.c - groups: a client gathers submits between GroupStart and GroupEnd, which become one run.
 */
#include "coord/run/run_impl.h"

#include <inttypes.h>
#include <stdlib.h>

struct group *
group_find(struct comm *comm, uint64_t client_id)
{
	struct group *g = comm_work(comm)->groups;

	while (g && g->client_id != client_id)
		g = g->next;
	return g;
}

void
group_free(struct coord *c, struct comm *comm, struct group *g)
{
	struct group **p = &comm_work(comm)->groups;

	while (*p != g)
		p = &(*p)->next;
	*p = g->next;
	comm_work(comm)->ngroups--;
	parts_free(c, g->parts);
	batch_fini(&g->batch);
	held_drop(c, g->held);
	free(g);
}

static enum rc
ranks_changed(const struct comm *comm, struct err *err)
{
	return err_set(err, RC_RECOVERED,
		       "comm %" PRIu64 ": the group's operations are for ranks that have changed",
		       comm_id(comm));
}

enum rc
group_append(struct coord *c, struct comm *comm, struct group *g, const GpuSim__SubmitRequest *s,
	     struct err *err)
{
	struct group_part *part;
	size_t held;
	enum rc rc;

	if (g->changed)
		return ranks_changed(comm, err);
	part = part_new(c, s, err);
	if (!part)
		return err->rc;
	/* The batch's data about a part takes about as much memory as the part. */
	held = part->held;
	rc = held_take(c, held, err) ? RC_OK : err->rc;
	if (rc == RC_OK) {
		part->held += held;
		rc = batch_add(&g->batch, s, err);
	}
	if (rc != RC_OK) {
		parts_free(c, part);
		return rc;
	}
	*g->parts_tail = part;
	g->parts_tail = &part->next;
	return RC_OK;
}

void
groups_remap(struct coord *c, struct comm *comm, const uint32_t *to, uint32_t from)
{
	for (struct group *g = comm_work(comm)->groups; g; g = g->next) {
		struct err err = {0};

		if (g->changed)
			continue;
		/* Its operations were checked for the former ranks. */
		batch_fini(&g->batch);
		if (g->parts && !to)
			err_set(&err, RC_RECOVERED, "it lacks operations of the new ranks");
		else if (remap_parts(g->parts, to, from, comm_nranks(comm), &err) == RC_OK &&
			 batch_init(c, &g->batch, comm, &err) == RC_OK)
			batch_add_parts(&g->batch, g->parts, &err);
		g->changed = err.rc != RC_OK;
		if (g->changed)
			act_log(c, "comm %" PRIu64 ": a client's group: %s", comm_id(comm),
				err.text);
	}
}

void
groups_client_is(struct coord *c, uint64_t client_id, bool gone)
{
	for (struct comm *comm = comm_next(c, NULL); comm; comm = comm_next(c, comm)) {
		struct group *g = group_find(comm, client_id);

		if (g) {
			g->gone = gone;
			g->gone_ms = c->now_ms;
		}
	}
}

void
groups_tick(struct coord *c)
{
	for (struct comm *comm = comm_next(c, NULL); comm; comm = comm_next(c, comm)) {
		struct group *next;

		for (struct group *g = comm_work(comm)->groups; g; g = next) {
			next = g->next;
			if (g->gone && c->now_ms >= g->gone_ms + TIME_LEASE_MS)
				group_free(c, comm, g);
		}
	}
}

enum rc
on_group_start(struct coord *c, struct pending *w, const GpuSim__Request *req, struct err *err)
{
	GpuSim__GroupStartResponse r = GPU_SIM__GROUP_START_RESPONSE__INIT;
	struct group *g;
	struct comm *comm;
	size_t held;
	enum rc rc = comm_usable(c, req->groupstart->commid, &comm, err);

	if (rc != RC_OK)
		return rc;
	if (group_find(comm, pending_asker(w)->client_id))
		return err_set(err, RC_INVAL,
			       "comm %" PRIu64 ": the client's group is open already",
			       comm_id(comm));
	if (comm_work(comm)->ngroups >= COORD_MAX_GROUPS)
		return err_set(err, RC_BUSY,
			       "comm %" PRIu64 ": %u groups are open, which is the limit",
			       comm_id(comm), COORD_MAX_GROUPS);
	held = sizeof *g + comm_nranks(comm) * sizeof *g->batch.rank;
	g = held_alloc(c, held, err);
	if (!g)
		return err->rc;
	if (batch_init(c, &g->batch, comm, err) != RC_OK) {
		free(g);
		held_drop(c, held);
		return err->rc;
	}
	g->client_id = pending_asker(w)->client_id;
	g->opened_ms = c->now_ms;
	g->held = held;
	g->parts_tail = &g->parts;
	g->next = comm_work(comm)->groups;
	comm_work(comm)->groups = g;
	comm_work(comm)->ngroups++;
	r.success = true;
	answer_body(c, w, GPU_SIM__REPLY__BODY_GROUP_START, &r);
	return RC_OK;
}

enum rc
on_group_end(struct coord *c, struct pending *w, const GpuSim__Request *req, struct err *err)
{
	GpuSim__GroupEndResponse r = GPU_SIM__GROUP_END_RESPONSE__INIT;
	struct comm *comm;
	struct group *g;
	uint64_t operation;
	enum rc rc = comm_usable(c, req->groupend->commid, &comm, err);

	if (rc != RC_OK)
		return rc;
	g = group_find(comm, pending_asker(w)->client_id);
	if (!g)
		return err_set(err, RC_INVAL, "comm %" PRIu64 ": the client has no open group",
			       comm_id(comm));
	if (g->changed)
		rc = ranks_changed(comm, err);
	else if (g->batch.nops)
		rc = run_submit(c, &g->batch, NULL, g->parts, w, req->groupend->wait, &operation,
				err);
	/* After RC_BUSY and RC_NOMEM the client may try again; after other failures it cannot. */
	if (rc == RC_OK || rc == RC_INVAL || rc == RC_RECOVERED)
		group_free(c, comm, g);
	if (rc != RC_OK)
		return rc;
	if (pending_on(w))
		return RC_OK;
	r.success = true;
	answer_body(c, w, GPU_SIM__REPLY__BODY_GROUP_END, &r);
	return RC_OK;
}
