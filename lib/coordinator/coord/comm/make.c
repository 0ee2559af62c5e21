/*
 * make.c - makes a communicator: choose devices, reserve them, attach them in parallel. Each reports whose
 * memory it has mapped; pairs that have mapped each other are asked to use the mappings (join). If one rank
 * refuses, all are detached before the client gets its answer, so it can try again at once.
 */
#include "coord/comm/comm_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum rc
check_size(uint32_t wanted, size_t named, uint32_t *nranks, struct err *err)
{
	uint64_t n = named ? named : wanted;

	if (named && wanted && wanted != named)
		return err_set(err, RC_INVAL, "%u devices requested, but %zu named", wanted, named);
	if (n == 0)
		return err_set(err, RC_INVAL,
			       "0 devices requested: a communicator needs at least one");
	if (n > WIRE_MAX_RANKS)
		return err_set(err, RC_INVAL,
			       "%" PRIu64 " devices requested: a communicator has at most %u", n,
			       WIRE_MAX_RANKS);
	*nranks = (uint32_t)n;
	return RC_OK;
}

/* Room in an attach beside addresses and algorithms, mostly for numbers of communicators. */
#define ATTACH_ROOM (16u << 10)
#define ATTACH_ALGO 512 /* bytes of an algorithm from a file beside its schedule */

/* Lines of a tuner file that fit an attach. */
#define ATTACH_RULES 4096

/* Take the rank's offer of memory. When out of memory, peers use sockets. */
static void
take_offer(struct comm *comm, uint32_t r, const GpuSim__CommAttachResponse *offer)
{
	struct member *m = &comm->rank[r];

	if (!offer->block || offer->n_mapped != comm->nranks)
		return;
	m->mapped = alloc_zeroed(comm->nranks, sizeof *m->mapped);
	if (!m->mapped)
		return;
	m->block = offer->block;
	for (uint32_t q = 0; q < comm->nranks; q++)
		m->mapped[q] = offer->mapped[q];
}

/* A rank has failed to do its part: keep the first reason. */
static void
init_failed(struct coord *c, struct comm *comm, uint32_t rank, const struct outcome *o,
	    const char *part)
{
	struct member *m = &comm->rank[rank];
	struct err err;

	call_culprit(0, rank, o, &err);
	if (comm->made) {
		comm_call_failed(comm, rank, o);
		m->gone = true;
		if (!m->why[0])
			snprintf(m->why, sizeof m->why, "%.*s", (int)sizeof m->why - 1,
				 o->err.text);
	}
	if (comm->failed.rc == RC_OK)
		comm->failed = err;
	act_log(c, "comm %" PRIu64 ": %s: %s", comm->id, part, err.text);
}

static void
comm_attached(struct coord *c, void *owner, uint32_t rank, const struct outcome *o)
{
	struct comm *comm = owner;

	comm->waiting--;
	if (o->err.rc == RC_OK) {
		if (o->reply->body_case == GPU_SIM__REPLY__BODY_COMM_ATTACH)
			take_offer(comm, rank, o->reply->commattach);
		return;
	}
	if (o->refused)
		comm->rank[rank].attached = false;
	init_failed(c, comm, rank, o, "attach");
}

/* The ids of the device's communicators, this one too; a device that was unreachable may hold others. Return
 * their number. */
static size_t
comms_of(const struct coord *c, const struct comm *comm, const struct device *d, uint64_t *ids)
{
	size_t n = 0;

	ids[n++] = comm->id;
	for (const struct comm *other = device_is_reserved(d) ? c->comms->first : NULL; other;
	     other = other->next) {
		if (other == comm || other->state == COMM_DETACHING)
			continue;
		for (uint32_t r = 0; r < other->nranks; r++)
			if (other->rank[r].dev == d) {
				ids[n++] = other->id;
				break;
			}
	}
	return n;
}

/* The rules by which devices of a queued communicator choose algorithms, as fields of an attach. */
static bool
pack_choice(const struct coord *c, const struct comm *comm, struct buf *out)
{
	GpuSim__CommAttachRequest q = GPU_SIM__COMM_ATTACH_REQUEST__INIT;
	struct link_shape links = comm_links(comm);
	struct buf algos = {0}, rules = {0};
	bool good;

	if (!comm->queued)
		return true;
	good = tuner_show_lists(c->cfg.tuner, &algos) &&
	       tuner_show_rules(c->cfg.tuner, comm->nranks, &links, &rules);
	q.queued = true;
	q.algos = (ProtobufCBinaryData){algos.len, (uint8_t *)algos.data};
	q.rules = (ProtobufCBinaryData){rules.len, (uint8_t *)rules.data};
	good = good && buf_pack(out, &q.base);
	buf_fini(&algos);
	buf_fini(&rules);
	return good;
}

enum rc
comm_can_queue(const struct coord *c, GpuSim__OnFailure on_failure, struct err *err)
{
	if (on_failure != GPU_SIM__ON_FAILURE__ABORT)
		return err_set(err, RC_INVAL,
			       "ranks that enqueue operations themselves need the policy abort on "
			       "failure");
	if (c->cfg.tuner->nrules > ATTACH_RULES)
		return err_set(err, RC_INVAL,
			       "the tuner file has %zu lines; devices take at most %u",
			       c->cfg.tuner->nrules, ATTACH_RULES);
	return RC_OK;
}

/* The algorithms from files for this number of ranks that fit an attach; the same for all ranks. */
static size_t
rank_algos(const struct coord *c, const struct comm *comm, size_t room,
	   const struct tune_file *out[static COORD_MAX_ALGOS])
{
	const struct tune_files *files = algos_files(c);
	size_t n = 0;

	for (size_t i = 0; comm->queued && i < files->n; i++) {
		size_t bytes = algo_schedule_max(&files->v[i]) + ATTACH_ALGO;

		if (files->v[i].nranks != comm->nranks || bytes > room)
			continue;
		room -= bytes;
		out[n++] = &files->v[i];
	}
	return n;
}

/* *same: fields that are equal for all ranks, packed once. */
static enum rc
attach_start(struct coord *c, struct comm *comm, const struct buf *same, struct err *err)
{
	GpuSim__CommAttachRequest q = GPU_SIM__COMM_ATTACH_REQUEST__INIT;
	const struct tune_file *file[COORD_MAX_ALGOS];
	GpuSim__RankAlgo algo[COORD_MAX_ALGOS], *algos[COORD_MAX_ALGOS];
	uint64_t ids[COORD_MAX_COMMS + 1];

	if (same->len > WIRE_CONTROL_MAX - ATTACH_ROOM)
		return err_set(err, RC_INVAL,
			       "the addresses of %u devices take %zu bytes; the limit is %u",
			       comm->nranks, same->len, WIRE_CONTROL_MAX - ATTACH_ROOM);
	q.commid = comm->id;
	q.epoch = comm->epoch;
	q.optimeoutms = comm->op_timeout_ms;
	q.instance = c->cfg.instance;
	q.recovers = comm->on_failure != GPUSIM_ON_FAILURE_ABORT;
	q.comms = ids;
	q.order = ++c->last_number; /* any number that grows, across restarts too */
	q.n_algorithms = rank_algos(c, comm, WIRE_CONTROL_MAX - ATTACH_ROOM - same->len, file);
	q.algorithms = algos;
	for (uint32_t r = 0; r < comm->nranks; r++) {
		struct member *m = &comm->rank[r];
		struct buf body = {0};

		for (size_t i = 0; i < q.n_algorithms; i++) {
			const struct buf *s = algo_schedule(file[i], r);

			gpu_sim__rank_algo__init(&algo[i]);
			algo[i].name = (char *)file[i]->name;
			algo[i].coll = (GpuSim__Collective)file[i]->coll;
			algo[i].minbytes = file[i]->min_bytes;
			algo[i].maxbytes = file[i]->max_bytes;
			algo[i].schedule = (ProtobufCBinaryData){s->len, (uint8_t *)s->data};
			algos[i] = &algo[i];
		}
		q.rank = r;
		q.n_comms = comms_of(c, comm, m->dev, ids);
		pack_request(GPU_SIM__REQUEST__BODY_COMM_ATTACH, &q.base, same, &body);
		m->attached = true;
		member_call(c, comm, r, comm_attached, call_timeout_ms(c), &body);
	}
	return RC_OK;
}

enum rc
comm_attach(struct coord *c, struct comm *comm, struct err *err)
{
	struct device_msgs msgs;
	struct buf same = {0};
	bool good = true;
	enum rc rc = RC_OK;

	if (!device_msgs_of_comm(c, comm, &msgs))
		return comm_nomem(comm, err);
	/* The ranks' addresses and memory, as the fields of an attach. */
	device_msgs_shorten(&msgs);
	for (size_t k = 0; k < msgs.n && good; k++)
		good = buf_pack_field(&same, 4, &msgs.p[k]->base);
	if (!good || !pack_choice(c, comm, &same))
		rc = comm_nomem(comm, err);
	if (rc == RC_OK)
		rc = attach_start(c, comm, &same, err);
	buf_fini(&same);
	device_msgs_fini(&msgs);
	return rc;
}

/* A communicator of the devices, not attached and not in c->comms->first yet. */
static struct comm *
comm_new(struct coord *c, const GpuSim__CommInitRequest *q, struct device **dev, uint32_t nranks)
{
	struct comm *comm = alloc_zeroed(1, sizeof *comm);
	struct member *rank = alloc_zeroed(nranks, sizeof *rank);

	if (!comm || !rank || !c->comms->hooks->made(comm)) {
		free(comm);
		free(rank);
		return NULL;
	}
	comm->epoch = 1;
	comm->nranks = comm->first_nranks = nranks;
	comm->rank = rank;
	comm->lease = q->lease;
	comm->on_failure = q->policy_case == GPU_SIM__COMM_INIT_REQUEST__POLICY_ON_FAILURE
			       ? (enum gpusim_on_failure)q->onfailure
			       : (enum gpusim_on_failure)c->cfg.on_failure;
	comm->op_timeout_ms = q->optimeoutms ? q->optimeoutms : c->cfg.op_timeout_ms;
	check_grid(q->grid, nranks, &comm->grid, NULL); /* it was checked before */
	comm_regrid(comm);
	comm->state = COMM_MAKING;
	label_set(&comm->label, q->program, q->pid);
	for (uint32_t r = 0; r < nranks; r++) {
		rank[r].dev = dev[r];
		rank[r].first = r;
		rank[r].incarnation = device_incarnation(dev[r]);
		rank[r].memories = device_memories(dev[r]);
	}
	return comm;
}

enum rc
check_policy(uint32_t on_failure, struct err *err)
{
	if (on_failure > GPUSIM_ON_FAILURE_SPARE)
		return err_set(err, RC_INVAL,
			       "policy on failure: unknown number %u, must be less than %u",
			       on_failure, GPUSIM_ON_FAILURE_SPARE + 1);
	return RC_OK;
}

enum rc
check_grid(const char *text, uint32_t nranks, struct grid *out, struct err *err)
{
	struct grid g = {0};

	if (*text && grid_parse_for(text, nranks, &g, err) != RC_OK)
		return err ? err_prefix(err, "grid") : RC_INVAL;
	*out = g;
	return RC_OK;
}

/* The number of the client's communicators. */
static enum rc
check_limit(const struct coord *c, struct err *err)
{
	uint32_t n = 0;

	if (c->comms->n < COORD_CLIENT_COMMS || c->client_id == 0)
		return RC_OK;
	for (const struct comm *comm = c->comms->first; comm; comm = comm->next)
		n += comm->client_id == c->client_id;
	if (n < COORD_CLIENT_COMMS)
		return RC_OK;
	return err_set(err, RC_BUSY, "this client has %u communicators, which is its limit",
		       COORD_CLIENT_COMMS);
}

enum rc
comm_make(struct coord *c, const GpuSim__CommInitRequest *q, bool queued, struct device **dev,
	  uint32_t nranks, uint64_t client_id, struct comm **out, struct err *err)
{
	struct comm *comm;
	enum rc rc;

	if (c->comms->n == COORD_MAX_COMMS)
		return err_set(err, RC_BUSY, "%u communicators exist, which is the limit",
			       COORD_MAX_COMMS);
	rc = check_limit(c, err);
	if (rc != RC_OK)
		return rc;
	comm = comm_new(c, q, dev, nranks);
	if (!comm)
		return err_set(err, RC_NOMEM, "communicator of %u devices: out of memory", nranks);
	comm->id = c->comms->last + 1;
	comm->client_id = client_id;
	comm->queued = queued;
	comm->lease |= queued; /* no other client could drive its ranks */
	rc = comm_attach(c, comm, err);
	if (rc != RC_OK) {
		c->comms->hooks->freed(c, comm);
		free(comm->rank);
		free(comm);
		return rc;
	}
	c->comms->last++;
	for (uint32_t r = 0; r < nranks; r++)
		device_reserve(dev[r]);
	*c->comms->tail = comm;
	c->comms->tail = &comm->next;
	c->comms->n++;
	*out = comm;
	return RC_OK;
}

enum rc
on_comm_init(struct coord *c, struct pending *w, const GpuSim__Request *req, struct err *err)
{
	const GpuSim__CommInitRequest *q = req->comminit;
	struct device *dev[WIRE_MAX_RANKS];
	struct comm *comm;
	uint32_t nranks = 0;
	bool queued = false;
	struct grid grid;
	enum rc rc = check_size(q->numdevices, q->n_deviceids, &nranks, err);

	if (rc == RC_OK)
		rc = check_policy((uint32_t)q->onfailure, err);
	if (rc == RC_OK)
		rc = check_grid(q->grid, nranks, &grid, err);
	if (rc == RC_OK && q->n_deviceids)
		rc = choose_named(c, q->deviceids, nranks, dev, err);
	else if (rc == RC_OK)
		rc = queue_devices(c, w, req, on_comm_init, nranks, q->waitms, dev, &queued, err);
	if (rc != RC_OK || queued)
		return rc;
	rc = comm_make(c, q, false, dev, nranks, pending_asker(w)->client_id, &comm, err);
	if (rc == RC_OK)
		pending_wait(c, w, &wait_attach, comm->id, NULL);
	return rc;
}

static void
comm_joined(struct coord *c, void *owner, uint32_t rank, const struct outcome *o)
{
	struct comm *comm = owner;

	comm->waiting--;
	if (o->err.rc != RC_OK)
		init_failed(c, comm, rank, o, "join");
}

static bool
all_by_memory(const struct comm *comm)
{
	for (uint32_t r = 0; r < comm->nranks; r++)
		for (uint32_t k = r + 1; k < comm->nranks; k++)
			if (!comm_reaches(comm, r, k))
				return false;
	return comm->nranks > 1;
}

/* Tell one rank which ranks it reaches by memory; false: none. */
static bool
join_rank(struct coord *c, struct comm *comm, uint32_t r, uint64_t *block)
{
	GpuSim__CommJoinRequest q = GPU_SIM__COMM_JOIN_REQUEST__INIT;
	struct buf body = {0};
	uint32_t n = 0;

	for (uint32_t k = 0; k < comm->nranks; k++) {
		block[k] = comm_reaches(comm, r, k) ? comm->rank[k].block : 0;
		n += block[k] != 0;
	}
	if (n == 0)
		return false;
	q.commid = comm->id;
	q.epoch = comm->epoch;
	q.n_block = comm->nranks;
	q.block = block;
	q.bymemory = comm->by_memory;
	pack_request(GPU_SIM__REQUEST__BODY_COMM_JOIN, &q.base, NULL, &body);
	member_call(c, comm, r, comm_joined, call_timeout_ms(c), &body);
	return true;
}

/* All ranks are attached: join those that have mapped each other. */
void
comm_join(struct coord *c, struct comm *comm, const struct err *why)
{
	uint64_t *block = alloc_zeroed(comm->nranks, sizeof *block);
	bool any = false;

	(void)why;
	comm->by_memory = block && all_by_memory(comm);
	for (uint32_t r = 0; block && r < comm->nranks; r++)
		any |= join_rank(c, comm, r, block);
	free(block);
	if (comm->nranks > 1)
		act_log(c, "comm %" PRIu64 ": %u ranks, %s", comm->id, comm->nranks,
			comm->by_memory ? "all by memory"
			: any		? "some by memory, some by sockets"
					: "all by sockets");
}

void
comm_made(struct coord *c, struct comm *comm, const struct err *why)
{
	struct pending *p;

	(void)why;
	comm->made = true;
	while ((p = pending_find(c, &wait_attach, comm->id)))
		answer_init(c, comm, p);
}

/* It was not made completely: start again under the next epoch. */
void
comm_make_again(struct coord *c, struct comm *comm, const struct err *why)
{
	struct err err;

	(void)why;
	if (!comm_is_wanted(c, comm)) {
		comm_happens(c, comm, COMM_BROKEN, NULL);
		return;
	}
	comm->epoch++;
	comm->failed = (struct err){0};
	if (comm_attach(c, comm, &err) != RC_OK)
		comm->failed = err; /* and so it ends */
}
