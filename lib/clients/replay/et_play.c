/*
 * Plays execution traces.
 *
 * Design notes. One thread. A node whose dependencies are done is ready. A rank's collectives of a group
 * begin in the order of their numbers, and so do its sends to a rank and its receives from one, each kind
 * in its own command queue, so that a queue never delays independent work. Sends are buffered: nodes that
 * depend on a send wait for its start, as in ASTRA-sim, where all ranks of a ring may send before they
 * receive. Compute nodes only let time pass, one at a time on the device and one on the processor. The
 * thread polls the pending work, and sleeps a little if nothing has moved.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/must.h"
#include "coll/plan.h"
#include "replay/et.h"
#include "replay/meet.h"

#define POLL_NS	 50000
#define GRACE_MS 300	 /* for a rank of a collective that ends before the others */
#define OPS_A_US 1000000 /* num_ops without a duration: 10^12 a second */
#define MAX_NS	 (UINT64_C(3600) * 1000000000)

struct lane { /* a queue of a rank */
	uint32_t rank, key;
	enum et_type type;
	uint32_t next; /* the next number that may begin */
	struct cmdq *q;
};

struct running {
	uint32_t rank, node;
	struct cmdq *q; /* NULL: only time passes */
	uint64_t position, until_ns;
};

struct machine {		/* a rank */
	uint32_t *left;		/* dependencies, by node */
	uint32_t *first, *user; /* nodes that wait for node i: user[first[i] .. first[i + 1]) */
	uint32_t *ready;
	size_t nready;
	size_t ndone;
	bool busy[2]; /* the device, the processor: a compute node is running */
	struct gpusim_addr send, recv;
};

struct member {
	struct gpusim_comm **comm;
	struct cmdq_bind **bind;
	uint32_t nranks;
};

struct player {
	const struct et_job *job;
	const struct et_config *cfg;
	struct et_result *out;
	struct machine *m;
	struct member *group;	       /* the last: all ranks */
	uint32_t *coll_row, *pair_row; /* first row of a group; of a pair of ranks */
	struct lane *lane;
	size_t nlanes;
	struct running *running;
	size_t nrunning, room;
	size_t left; /* nodes */
};

static uint32_t
group_of(const struct player *p, const struct et_node *n)
{
	return n->group == ET_NONE ? (uint32_t)p->job->ngroups : n->group;
}

static bool
communicates(const struct et_node *n)
{
	return n->type == ET_COLL || n->type == ET_SEND || n->type == ET_RECV;
}

/* ---- beginning */

static enum rc
begin_rank(struct player *p, uint32_t rank, uint64_t room, struct err *err)
{
	const struct et_trace *t = &p->job->rank[rank];
	struct machine *m = &p->m[rank];
	enum rc rc;

	m->left = must_alloc(t->nnodes + 1, sizeof *m->left);
	m->ready = must_alloc(t->nnodes + 1, sizeof *m->ready);
	m->first = must_alloc(t->nnodes + 2, sizeof *m->first);
	m->user = must_alloc(t->ndeps + 1, sizeof *m->user);
	for (size_t i = 0; i < t->ndeps; i++)
		m->first[t->dep[i] + 2]++;
	for (size_t i = 2; i < t->nnodes + 2; i++)
		m->first[i] += m->first[i - 1];
	for (size_t i = 0; i < t->nnodes; i++) {
		m->left[i] = t->node[i].ndeps;
		for (uint32_t k = 0; k < m->left[i]; k++)
			m->user[m->first[t->dep[t->node[i].dep + k] + 1]++] = (uint32_t)i;
		if (m->left[i] == 0)
			m->ready[m->nready++] = (uint32_t)i;
	}
	p->left += t->nnodes;
	rc = api(gpusim_malloc(p->cfg->g, p->cfg->device[rank], room, GPUSIM_LEASE, &m->send), err);
	return rc == RC_OK ? api(gpusim_malloc(p->cfg->g, p->cfg->device[rank], room, GPUSIM_LEASE,
					       &m->recv),
				 err)
			   : rc;
}

/* Create the communicator of a group, or of all ranks. One rank needs none. */
static enum rc
begin_group(struct player *p, uint32_t group, struct err *err)
{
	struct member *k = &p->group[group];
	struct gpusim_device list[ET_MAX_RANKS];
	bool all = group == p->job->ngroups;

	k->nranks = all ? p->job->nranks : p->job->group[group].nranks;
	if (k->nranks < 2)
		return RC_OK;
	k->comm = must_alloc(k->nranks, sizeof(struct gpusim_comm *));
	k->bind = must_alloc(k->nranks, sizeof(struct cmdq_bind *));
	for (uint32_t r = 0; r < k->nranks; r++)
		list[r] = p->cfg->device[all ? r : p->job->group[group].rank[r]];
	return meet(p->cfg->g, list, k->nranks, UINT32_MAX, k->comm, k->bind, err);
}

/* Make a row for each collective, and for each send with its receive. */
static void
begin_rows(struct player *p)
{
	const struct et_job *job = p->job;
	size_t ngroups = job->ngroups + 1, npairs = (size_t)job->nranks * job->nranks;
	uint32_t *n = must_alloc(ngroups + npairs + 1, sizeof *n), sum = 0;

	p->coll_row = n;
	p->pair_row = n + ngroups;
	for (uint32_t r = 0; r < job->nranks; r++)
		for (size_t i = 0; i < job->rank[r].nnodes; i++) {
			const struct et_node *k = &job->rank[r].node[i];
			uint32_t *at = &n[group_of(p, k)];

			if (k->type == ET_SEND)
				at = &p->pair_row[r * job->nranks + k->dst];
			else if (k->type != ET_COLL)
				continue;
			if (k->number + 1 > *at)
				*at = k->number + 1;
		}
	for (size_t i = 0; i < ngroups + npairs; i++) {
		uint32_t count = n[i];

		n[i] = sum;
		sum += count;
	}
	p->out->nrows = sum;
	p->out->row = must_alloc(sum + 1u, sizeof *p->out->row);
	p->out->compute_ns = must_alloc(job->nranks, sizeof *p->out->compute_ns);
}

static struct et_row *
row_of(struct player *p, uint32_t rank, const struct et_node *n)
{
	uint32_t at = n->type == ET_COLL   ? p->coll_row[group_of(p, n)]
		      : n->type == ET_SEND ? p->pair_row[rank * p->job->nranks + n->dst]
					   : p->pair_row[n->src * p->job->nranks + rank];

	return &p->out->row[at + n->number];
}

/* ---- nodes that begin */

static enum rc
find_lane(struct player *p, uint32_t rank, const struct et_node *n, struct lane **out,
	  struct err *err)
{
	uint32_t key = n->type == ET_COLL ? group_of(p, n) : n->type == ET_SEND ? n->dst : n->src;

	for (size_t i = 0; i < p->nlanes; i++)
		if (p->lane[i].rank == rank && p->lane[i].key == key &&
		    p->lane[i].type == n->type) {
			*out = &p->lane[i];
			return RC_OK;
		}
	p->lane = must_resize(p->lane, p->nlanes + 1, sizeof *p->lane);
	*out = &p->lane[p->nlanes];
	**out = (struct lane){.rank = rank, .key = key, .type = (enum et_type)n->type};
	if (api(cmdq_open(p->cfg->g, p->cfg->device[rank], CMDQ_OWN_STREAM, &(*out)->q), err) !=
	    RC_OK)
		return err->rc;
	p->nlanes++;
	return RC_OK;
}

/* Release the nodes that wait for this one. */
static void
release(struct machine *m, uint32_t at)
{
	for (uint32_t k = m->first[at]; k < m->first[at + 1]; k++)
		if (--m->left[m->user[k]] == 0)
			m->ready[m->nready++] = m->user[k];
}

static enum gpusim_dtype
dtype_of(const struct et_node *n)
{
	return n->nbytes % 4 ? GPUSIM_U8 : GPUSIM_F32;
}

/* Elements of the whole vector. */
static uint64_t
nelem_of(const struct et_node *n, uint32_t nranks)
{
	uint64_t count = n->nbytes / (dtype_of(n) == GPUSIM_F32 ? 4 : 1);

	switch (n->coll) {
	case GPUSIM_ALLGATHER:
	case GPUSIM_GATHER:
		return count * nranks;
	case GPUSIM_ALLTOALL:
	case GPUSIM_SCATTER:
	case GPUSIM_REDUCESCATTER: /* parts are equal */
		return (count + nranks - 1) / nranks * nranks;
	case GPUSIM_BARRIER:
		return 0;
	default:
		return count;
	}
}

static void
add_running(struct player *p, const struct running *r)
{
	must_room(&p->running, p->nrunning, &p->room, sizeof *p->running);
	p->running[p->nrunning++] = *r;
}

static void
mark_begin(struct player *p, uint32_t rank, const struct et_node *n, uint32_t want)
{
	struct et_row *row = row_of(p, rank, n);
	uint64_t now = clock_now_ns();

	if (row->began++ == 0) {
		row->node = n;
		row->rank = rank;
		row->first_ns = now;
		row->want = want;
	}
	row->last_ns = now;
}

static uint32_t
rank_in(const struct player *p, uint32_t group, uint32_t rank)
{
	const struct et_group *g;

	if (group == p->job->ngroups)
		return rank;
	g = &p->job->group[group];
	for (uint32_t r = 0; r < g->nranks; r++)
		if (g->rank[r] == rank)
			return r;
	return 0;
}

/* *began [out] false: it is not the node's turn. */
static enum rc
communicate(struct player *p, uint32_t rank, uint32_t at, bool *began, struct err *err)
{
	const struct et_node *n = &p->job->rank[rank].node[at];
	uint32_t group = n->type == ET_COLL ? group_of(p, n) : (uint32_t)p->job->ngroups;
	const struct member *k = &p->group[group];
	struct running r = {.rank = rank, .node = at};
	struct cmdq_command c = {.kind = n->type == ET_COLL ? CMDQ_COLL : CMDQ_SENDRECV,
				 .coll = n->type == ET_COLL   ? n->coll
					 : n->type == ET_SEND ? GPUSIM_SEND
							      : GPUSIM_RECV,
				 .dtype = (uint8_t)dtype_of(n),
				 .redop = GPUSIM_SUM};
	struct lane *lane = NULL;
	enum rc rc;

	*began = true;
	if (k->nranks < 2) { /* alone: nothing to do */
		mark_begin(p, rank, n, 1);
		add_running(p, &r);
		return RC_OK;
	}
	rc = find_lane(p, rank, n, &lane, err);
	if (rc != RC_OK)
		return rc;
	*began = lane->next == n->number;
	if (!*began)
		return RC_OK;
	lane->next++;
	c.u.coll.send = n->type == ET_RECV ? 0 : p->m[rank].send.addr;
	c.u.coll.recv = n->type == ET_SEND ? 0 : p->m[rank].recv.addr;
	c.u.coll.root = n->type == ET_COLL ? n->root : n->type == ET_SEND ? n->dst : n->src;
	c.u.coll.count = n->type == ET_COLL ? nelem_of(n, k->nranks)
					    : n->nbytes / (dtype_of(n) == GPUSIM_F32 ? 4 : 1);
	mark_begin(p, rank, n, n->type == ET_COLL ? k->nranks : 2);
	rc = api(cmdq_append_colls(lane->q, &k->bind[rank_in(p, group, rank)], &c, 1, &r.position),
		 err);
	r.q = lane->q;
	if (rc == RC_OK)
		add_running(p, &r);
	return rc;
}

static uint64_t
time_of(const struct player *p, const struct et_node *n)
{
	double us = n->duration_us ? (double)n->duration_us : (double)n->num_ops / OPS_A_US;
	double ns = us * 1e3 * p->cfg->compute_scale;

	return ns < (double)MAX_NS ? (uint64_t)ns : MAX_NS;
}

/* Begin a compute node; one at a time. */
static void
compute(struct player *p, uint32_t rank, uint32_t at, bool *began)
{
	const struct et_node *n = &p->job->rank[rank].node[at];
	uint64_t ns = time_of(p, n);
	struct running r = {.rank = rank, .node = at, .until_ns = clock_now_ns() + ns};
	bool *busy = &p->m[rank].busy[n->on_cpu];

	*began = ns == 0 || !*busy;
	if (!*began)
		return;
	if (ns == 0)
		r.until_ns = 0;
	else
		*busy = true;
	p->out->compute_ns[rank] += ns;
	add_running(p, &r);
}

/* Begin all nodes that can begin. */
static enum rc
begin_ready(struct player *p, uint32_t rank, bool *moved, struct err *err)
{
	struct machine *m = &p->m[rank];
	size_t kept = 0;
	enum rc rc = RC_OK;

	for (size_t i = 0; i < m->nready; i++) { /* the list grows meanwhile */
		uint32_t at = m->ready[i];
		const struct et_node *n = &p->job->rank[rank].node[at];
		bool began = false;

		if (rc == RC_OK && communicates(n))
			rc = communicate(p, rank, at, &began, err);
		else if (rc == RC_OK)
			compute(p, rank, at, &began);
		if (!began)
			m->ready[kept++] = at;
		else if (rc == RC_OK && n->type == ET_SEND)
			release(m, at);
		*moved |= began;
	}
	m->nready = kept;
	return rc;
}

/* ---- nodes that end */

static void
done(struct player *p, const struct running *r)
{
	struct machine *m = &p->m[r->rank];
	const struct et_node *n = &p->job->rank[r->rank].node[r->node];

	if (communicates(n)) {
		struct et_row *row = row_of(p, r->rank, n);

		row->ended++;
		row->end_ns = clock_now_ns();
	} else if (r->until_ns) {
		m->busy[n->on_cpu] = false;
	}
	if (n->type != ET_SEND)
		release(m, r->node);
	p->left--;
}

static enum rc
end_running(struct player *p, bool *moved, struct err *err)
{
	size_t kept = 0, n = p->nrunning;
	uint64_t now = clock_now_ns();

	for (size_t i = 0; i < n; i++) {
		struct running r = p->running[i];
		bool over = r.q ? cmdq_done(r.q, r.position) : r.until_ns <= now;

		if (over && r.q && cmdq_error(r.q, NULL) != GPUSIM_OK) {
			char text[96];

			api(cmdq_error(r.q, NULL), err);
			et_say(r.rank, &p->job->rank[r.rank].node[r.node], text, sizeof text);
			return err_prefix(err, "%s", text);
		}
		if (over)
			done(p, &r);
		else
			p->running[kept++] = r;
		*moved |= over;
	}
	p->nrunning = kept;
	return RC_OK;
}

/* ---- waiting */

/* Report a node without progress: a pending or ready one, or one that waits for others. */
static enum rc
stuck(const struct player *p, struct err *err)
{
	char text[96] = "a node";
	bool found = false;

	for (size_t i = 0; i < p->nrunning && !found; i++)
		if ((found = p->running[i].q != NULL))
			et_say(p->running[i].rank,
			       &p->job->rank[p->running[i].rank].node[p->running[i].node], text,
			       sizeof text);
	for (uint32_t r = 0; r < p->job->nranks && !found; r++)
		if ((found = p->m[r].nready > 0))
			et_say(r, &p->job->rank[r].node[p->m[r].ready[0]], text, sizeof text);
	return err_set(
	    err, RC_FAILED,
	    "no progress: %s waits for a rank that also waits; the ranks' orders do not match",
	    text);
}

/* Sleep until a compute node ends, but not for long while devices work. */
static void
nap(const struct player *p)
{
	uint64_t now = clock_now_ns(), until = now + 20 * NS_PER_MS;

	for (size_t i = 0; i < p->nrunning; i++) {
		uint64_t t = p->running[i].q ? now + POLL_NS : p->running[i].until_ns;

		if (t < until)
			until = t;
	}
	if (until > now)
		clock_sleep(until - now);
}

static bool
time_passes(const struct player *p)
{
	for (size_t i = 0; i < p->nrunning; i++)
		if (!p->running[i].q)
			return true;
	return false;
}

/* Return true if all pending work waits for ranks that have not begun it. */
static bool
nobody_can(struct player *p)
{
	for (size_t i = 0; i < p->nrunning; i++) {
		const struct et_row *row =
		    row_of(p, p->running[i].rank,
			   &p->job->rank[p->running[i].rank].node[p->running[i].node]);

		if (row->began == row->want)
			return false;
	}
	return true;
}

static enum rc
run(struct player *p, struct err *err)
{
	uint64_t since = clock_now_ns();
	enum rc rc = RC_OK;

	while (p->left && rc == RC_OK) {
		bool moved = false;

		for (uint32_t r = 0; r < p->job->nranks && rc == RC_OK; r++)
			rc = begin_ready(p, r, &moved, err);
		if (rc == RC_OK)
			rc = end_running(p, &moved, err);
		if (moved || time_passes(p))
			since = clock_now_ns();
		else if (rc == RC_OK &&
			 clock_now_ns() - since >
			     (nobody_can(p) ? GRACE_MS : p->cfg->stuck_ms) * NS_PER_MS)
			return stuck(p, err);
		if (!moved && rc == RC_OK)
			nap(p);
	}
	return rc;
}

/* ---- all nodes */

uint64_t
et_room(const struct et_job *job)
{
	uint64_t most = 4096;

	for (uint32_t r = 0; r < job->nranks; r++)
		for (size_t i = 0; i < job->rank[r].nnodes; i++) {
			const struct et_node *n = &job->rank[r].node[i];
			uint32_t k = n->type != ET_COLL	   ? 1
				     : n->group == ET_NONE ? job->nranks
							   : job->group[n->group].nranks;
			uint64_t nbytes = n->type == ET_COLL ? nelem_of(n, k) * 4 : n->nbytes;

			if (communicates(n) && nbytes > most)
				most = nbytes;
		}
	return most;
}

static void
end(struct player *p)
{
	for (uint32_t r = 0; p->m && r < p->job->nranks; r++) {
		free(p->m[r].left);
		free(p->m[r].ready);
		free(p->m[r].first);
		free(p->m[r].user);
	}
	for (size_t g = 0; p->group && g <= p->job->ngroups; g++) {
		struct member *k = &p->group[g];

		if (k->comm && k->bind)
			meet_end(k->comm, k->bind, k->nranks);
		free(k->comm);
		free(k->bind);
	}
	for (size_t i = 0; i < p->nlanes; i++)
		cmdq_close(p->lane[i].q);
	free(p->m);
	free(p->group);
	free(p->coll_row);
	free(p->lane);
	free(p->running);
}

static int
by_time(const void *a, const void *b)
{
	const struct et_row *x = a, *y = b;

	return x->first_ns < y->first_ns ? -1 : x->first_ns > y->first_ns;
}

enum rc
et_play(const struct et_job *job, const struct et_config *cfg, struct et_result *out,
	struct err *err)
{
	struct player p = {.job = job, .cfg = cfg, .out = out};
	uint64_t room = et_room(job), began;
	enum rc rc = RC_OK;

	*out = (struct et_result){0};
	p.m = must_alloc(job->nranks, sizeof *p.m);
	p.group = must_alloc(job->ngroups + 1, sizeof *p.group);
	begin_rows(&p);
	for (uint32_t r = 0; r < job->nranks && rc == RC_OK; r++)
		rc = begin_rank(&p, r, room, err);
	for (uint32_t g = 0; g <= job->ngroups && rc == RC_OK; g++)
		rc = begin_group(&p, g, err);
	began = clock_now_ns();
	if (rc == RC_OK)
		rc = run(&p, err);
	out->total_ns = clock_now_ns() - began;
	if (rc == RC_OK)
		qsort(out->row, out->nrows, sizeof *out->row, by_time);
	end(&p);
	return rc;
}
