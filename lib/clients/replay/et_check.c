/* Checks that the traces of all ranks match. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "coll/plan.h"
#include "replay/et.h"

/* ---- one rank: ids, dependencies, cycles */

struct by_id {
	uint64_t id;
	uint32_t at;
};

static int
compare_ids(const void *a, const void *b)
{
	const struct by_id *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static enum rc
resolve(struct et_job *job, uint32_t rank, struct err *err)
{
	struct et_trace *t = &job->rank[rank];
	struct by_id *v = must_alloc(t->nnodes + 1, sizeof *v);
	char text[96];
	enum rc rc = RC_OK;

	t->dep = must_alloc(t->ndeps + 1, sizeof *t->dep);
	for (size_t i = 0; i < t->nnodes; i++)
		v[i] = (struct by_id){t->node[i].id, (uint32_t)i};
	qsort(v, t->nnodes, sizeof *v, compare_ids);
	for (size_t i = 1; i < t->nnodes && rc == RC_OK; i++)
		if (v[i].id == v[i - 1].id)
			rc = err_set(err, RC_BADDATA, "rank %u: two nodes have the id %" PRIu64,
				     rank, v[i].id);
	for (size_t i = 0; i < t->nnodes && rc == RC_OK; i++)
		for (uint32_t k = 0; k < t->node[i].ndeps && rc == RC_OK; k++) {
			struct by_id key = {.id = t->dep_id[t->node[i].dep + k]};
			const struct by_id *found =
			    bsearch(&key, v, t->nnodes, sizeof *v, compare_ids);

			if (found) {
				t->dep[t->node[i].dep + k] = found->at;
				continue;
			}
			et_say(rank, &t->node[i], text, sizeof text);
			rc = err_set(err, RC_BADDATA,
				     "%s depends on node %" PRIu64 ", which does not exist", text,
				     key.id);
		}
	free(v);
	return rc;
}

/* Remove nodes without dependencies until none is left: the rest are cycles and nodes that wait for them. */
static enum rc
refuse_circles(struct et_job *job, uint32_t rank, struct err *err)
{
	const struct et_trace *t = &job->rank[rank];
	size_t n = t->nnodes, done = 0, ready = 0;
	uint32_t *left = must_alloc(n + 1, sizeof *left), *list = must_alloc(n + 1, sizeof *list);
	uint32_t *first = must_alloc(n + 2, sizeof *first);
	uint32_t *user = must_alloc(t->ndeps + 1, sizeof *user);
	char text[96];
	enum rc rc = RC_OK;

	for (size_t i = 0; i < t->ndeps; i++)
		first[t->dep[i] + 2]++;
	for (size_t i = 2; i < n + 2; i++)
		first[i] += first[i - 1];
	for (size_t i = 0; i < n; i++) {
		left[i] = t->node[i].ndeps;
		for (uint32_t k = 0; k < left[i]; k++)
			user[first[t->dep[t->node[i].dep + k] + 1]++] = (uint32_t)i;
		if (left[i] == 0)
			list[ready++] = (uint32_t)i;
	}
	while (done < ready) {
		uint32_t i = list[done++];

		for (uint32_t k = first[i]; k < first[i + 1]; k++)
			if (--left[user[k]] == 0)
				list[ready++] = user[k];
	}
	for (size_t i = 0; i < n && ready < n && rc == RC_OK; i++)
		if (left[i]) {
			et_say(rank, &t->node[i], text, sizeof text);
			rc = err_set(err, RC_BADDATA,
				     "%s waits for itself: dependencies form a cycle", text);
		}
	free(left);
	free(list);
	free(first);
	free(user);
	return rc;
}

/* ---- all ranks: groups */

static void
find_members(struct et_job *job)
{
	for (uint32_t r = 0; r < job->nranks; r++)
		for (size_t i = 0; i < job->rank[r].nnodes; i++) {
			const struct et_node *n = &job->rank[r].node[i];
			struct et_group *g;

			if (n->type != ET_COLL || n->group == ET_NONE)
				continue;
			g = &job->group[n->group];
			if (g->nranks == 0 || g->rank[g->nranks - 1] != r)
				g->rank[g->nranks++] = r;
		}
}

static enum rc
check_node(struct et_job *job, uint32_t rank, const struct et_node *n, struct err *err)
{
	uint32_t peer = n->type == ET_SEND ? n->dst : n->src;
	uint32_t nranks = n->group == ET_NONE ? job->nranks : job->group[n->group].nranks;
	const char *why = NULL;
	char text[96];

	if (n->type == ET_COLL && !n->has_coll)
		why = "has no comm_type";
	else if (n->type == ET_COLL && n->coll != GPUSIM_BARRIER && !n->has_size)
		why = "has no comm_size";
	else if (n->type == ET_COLL && n->root >= nranks)
		why = "has a root that is not a rank";
	else if ((n->type == ET_SEND || n->type == ET_RECV) && !n->has_size)
		why = "has no comm_size";
	else if ((n->type == ET_SEND || n->type == ET_RECV) &&
		 (peer >= job->nranks || peer == rank))
		why = n->type == ET_SEND ? "has a comm_dst that is not another rank"
					 : "has a comm_src that is not another rank";
	else if (n->nbytes > ET_MAX_BYTES)
		why = "moves more than 1 GiB";
	if (!why)
		return RC_OK;
	et_say(rank, n, text, sizeof text);
	return err_set(err, RC_BADDATA, "%s %s", text, why);
}

/* Number the collectives of a group on a rank; returns the k-th, or NULL. */
static struct et_node *
collective(struct et_job *job, uint32_t rank, uint32_t group, size_t *from)
{
	struct et_trace *t = &job->rank[rank];

	for (; *from < t->nnodes; ++*from)
		if (t->node[*from].type == ET_COLL && t->node[*from].group == group)
			return &t->node[(*from)++];
	return NULL;
}

/* Check that the k-th collective of a group is the same on all its ranks. */
static enum rc
match_group(struct et_job *job, uint32_t group, const uint32_t *ranks, uint32_t n, struct err *err)
{
	size_t at[ET_MAX_RANKS] = {0};
	char a[96], b[96];

	for (uint32_t k = 0;; k++) {
		struct et_node *one = collective(job, ranks[0], group, &at[0]);

		if (one)
			one->number = k;
		for (uint32_t r = 1; r < n; r++) {
			struct et_node *other = collective(job, ranks[r], group, &at[r]);

			if (!one && !other)
				continue;
			if (!one || !other) {
				et_say(one ? ranks[0] : ranks[r], one ? one : other, a, sizeof a);
				return err_set(err, RC_BADDATA, "%s has no counterpart on rank %u",
					       a, one ? ranks[r] : ranks[0]);
			}
			other->number = k;
			if (one->coll == other->coll && one->nbytes == other->nbytes &&
			    one->root == other->root)
				continue;
			et_say(ranks[0], one, a, sizeof a);
			et_say(ranks[r], other, b, sizeof b);
			return err_set(err, RC_BADDATA,
				       "%s is %s of %" PRIu64 " bytes, but %s is %s of %" PRIu64
				       " bytes",
				       a, coll_name((enum gpusim_coll)one->coll), one->nbytes, b,
				       coll_name((enum gpusim_coll)other->coll), other->nbytes);
		}
		if (!one)
			return RC_OK;
	}
}

/* ---- sends and receives: by pair and tag in order */

struct end {
	uint32_t src, dst, tag, rank, at, order;
};

static int
compare_ends(const void *a, const void *b)
{
	const struct end *x = a, *y = b;
	const uint32_t v[][2] = {
	    {x->src, y->src}, {x->dst, y->dst}, {x->tag, y->tag}, {x->order, y->order}};

	for (size_t i = 0; i < sizeof v / sizeof *v; i++)
		if (v[i][0] != v[i][1])
			return v[i][0] < v[i][1] ? -1 : 1;
	return 0;
}

/* The nodes of one type, sorted; *n: their number. */
static struct end *
ends_of(struct et_job *job, enum et_type type, size_t *n)
{
	struct end *v;

	*n = 0;
	for (uint32_t r = 0; r < job->nranks; r++)
		for (size_t i = 0; i < job->rank[r].nnodes; i++)
			*n += job->rank[r].node[i].type == type;
	v = must_alloc(*n + 1, sizeof *v);
	*n = 0;
	for (uint32_t r = 0; r < job->nranks; r++)
		for (size_t i = 0; i < job->rank[r].nnodes; i++) {
			const struct et_node *k = &job->rank[r].node[i];

			if (k->type != type)
				continue;
			v[*n] = (struct end){.src = type == ET_SEND ? r : k->src,
					     .dst = type == ET_SEND ? k->dst : r,
					     .tag = k->tag,
					     .rank = r,
					     .at = (uint32_t)i,
					     .order = (uint32_t)*n};
			++*n;
		}
	qsort(v, *n, sizeof *v, compare_ends);
	return v;
}

/* A send's number is its position among the sends to the same rank; its receive has the same number. */
static void
number_sends(struct et_job *job)
{
	for (uint32_t r = 0; r < job->nranks; r++) {
		uint32_t next[ET_MAX_RANKS] = {0};

		for (size_t i = 0; i < job->rank[r].nnodes; i++) {
			struct et_node *n = &job->rank[r].node[i];

			if (n->type == ET_SEND)
				n->number = next[n->dst]++;
		}
	}
}

static enum rc
match_pairs(struct et_job *job, struct err *err)
{
	size_t ns, nr;
	struct end *s = ends_of(job, ET_SEND, &ns), *r = ends_of(job, ET_RECV, &nr);
	char text[96];
	enum rc rc = RC_OK;

	number_sends(job);
	for (size_t i = 0; rc == RC_OK && (i < ns || i < nr); i++) {
		const struct end *a = i < ns ? &s[i] : NULL, *b = i < nr ? &r[i] : NULL;
		const struct et_node *x = a ? &job->rank[a->rank].node[a->at] : NULL;
		struct et_node *y = b ? &job->rank[b->rank].node[b->at] : NULL;

		if (a && b && a->src == b->src && a->dst == b->dst && a->tag == b->tag &&
		    x->nbytes == y->nbytes) {
			y->number = x->number;
			continue;
		}
		et_say(a ? a->rank : b->rank, a ? x : y, text, sizeof text);
		rc = err_set(err, RC_BADDATA, "%s has no counterpart with its tag and size", text);
	}
	free(s);
	free(r);
	return rc;
}

enum rc
et_check(struct et_job *job, struct err *err)
{
	uint32_t all[ET_MAX_RANKS];
	enum rc rc = RC_OK;

	for (uint32_t r = 0; r < job->nranks && rc == RC_OK; r++) {
		all[r] = r;
		rc = resolve(job, r, err);
		if (rc == RC_OK)
			rc = refuse_circles(job, r, err);
	}
	if (rc == RC_OK)
		find_members(job);
	for (uint32_t r = 0; r < job->nranks && rc == RC_OK; r++)
		for (size_t i = 0; i < job->rank[r].nnodes && rc == RC_OK; i++)
			rc = check_node(job, r, &job->rank[r].node[i], err);
	if (rc == RC_OK)
		rc = match_group(job, ET_NONE, all, job->nranks, err);
	for (size_t g = 0; g < job->ngroups && rc == RC_OK; g++)
		if (job->group[g].nranks)
			rc = match_group(job, (uint32_t)g, job->group[g].rank, job->group[g].nranks,
					 err);
	return rc == RC_OK ? match_pairs(job, err) : rc;
}
