/*
 * lower_rounds.c - the round of each message: list scheduling, the longest chain first, then in the file's
 * order.
 */
#include <stdlib.h>
#include <string.h>

#include "algo/lower_impl.h"
#include "base/buf.h"

#define MAX_WORK (1u << 28) /* messages visited in all rounds */

struct rounds {
	struct flow *f;
	uint32_t *succ_at, *succ; /* by value: the messages that need it */
	uint32_t *order;	  /* messages, each after those that it needs */
	uint32_t *ready;	  /* messages, the highest first */
	size_t nready;
	uint32_t *sends, *recvs; /* by rank: messages in this round */
	uint32_t *busy;		 /* by pair: the round in which it was used last, + 1 */
	uint32_t norder;
};

/* The values that a message needs: those that it carries, and those that they are added to. */
static void
needs(const struct flow *f, uint32_t item, uint32_t out[2])
{
	out[0] = f->val[item].from;
	out[1] = f->val[item].a;
}

/* The message that a value waits for, through the sums here; calls fn for each. */
static void
each_source(struct rounds *s, uint32_t v, uint32_t to,
	    void (*fn)(struct rounds *, uint32_t, uint32_t))
{
	const struct val *x;

	while (v != ALGO_NONE) {
		x = &s->f->val[v];
		if (x->message != ALGO_NONE) {
			fn(s, x->message, to);
			return;
		}
		if (x->made == MADE_INPUT)
			return;
		each_source(s, x->b, to, fn);
		v = x->a;
	}
}

static void
count_edge(struct rounds *s, uint32_t from, uint32_t to)
{
	s->succ_at[from + 1]++;
	s->f->msg[to].npred++;
}

static void
add_edge(struct rounds *s, uint32_t from, uint32_t to)
{
	s->succ[s->succ_at[from]++] = to;
}

static void
each_edge(struct rounds *s, void (*fn)(struct rounds *, uint32_t, uint32_t))
{
	for (uint32_t m = 0; m < s->f->nmsg; m++)
		for (uint32_t k = 0; k < s->f->msg[m].n; k++) {
			uint32_t v[2];

			needs(s->f, s->f->item[s->f->msg[m].first + k], v);
			each_source(s, v[0], m, fn);
			each_source(s, v[1], m, fn);
		}
}

static bool
build_edges(struct rounds *s)
{
	size_t n = s->f->nmsg;

	s->succ_at = alloc_zeroed(n + 2, sizeof *s->succ_at);
	if (!s->succ_at)
		return false;
	each_edge(s, count_edge);
	for (size_t m = 0; m < n; m++)
		s->succ_at[m + 1] += s->succ_at[m];
	s->succ = alloc_zeroed((size_t)s->succ_at[n] + 1, sizeof *s->succ);
	if (!s->succ)
		return false;
	each_edge(s, add_edge);
	memmove(s->succ_at + 1, s->succ_at, n * sizeof *s->succ_at);
	s->succ_at[0] = 0;
	return true;
}

/* Sort all messages, and find the length of the chain after each. False: some wait for each other. */
static bool
sort(struct rounds *s, uint32_t *left)
{
	struct flow *f = s->f;
	size_t alive = 0;

	for (uint32_t m = 0; m < f->nmsg; m++) {
		left[m] = f->msg[m].npred;
		alive += f->msg[m].n > 0;
		if (f->msg[m].n && !left[m])
			s->order[s->norder++] = m;
	}
	for (uint32_t i = 0; i < s->norder; i++)
		for (uint32_t e = s->succ_at[s->order[i]]; e < s->succ_at[s->order[i] + 1]; e++)
			if (--left[s->succ[e]] == 0)
				s->order[s->norder++] = s->succ[e];
	for (uint32_t i = s->norder; i-- > 0;) {
		struct msg *x = &f->msg[s->order[i]];

		for (uint32_t e = s->succ_at[s->order[i]]; e < s->succ_at[s->order[i] + 1]; e++)
			if (x->height <= f->msg[s->succ[e]].height)
				x->height = f->msg[s->succ[e]].height + 1;
	}
	return s->norder == alive;
}

struct rank_of_message {
	uint32_t height, order, m;
};

static int
higher(const void *x, const void *y)
{
	const struct rank_of_message *a = x, *b = y;

	if (a->height != b->height)
		return a->height > b->height ? -1 : 1;
	if (a->order != b->order)
		return a->order < b->order ? -1 : 1;
	return a->m < b->m ? -1 : a->m > b->m;
}

static struct rank_of_message
rank_of(const struct flow *f, uint32_t m)
{
	return (struct rank_of_message){f->msg[m].height, f->msg[m].order, m};
}

/* Keep the ready messages sorted: those that were not taken, and the new ones. */
static bool
merge_ready(struct rounds *s, struct rank_of_message *list, const uint32_t *fresh, size_t nfresh)
{
	for (size_t i = 0; i < s->nready; i++)
		list[i] = rank_of(s->f, s->ready[i]);
	for (size_t i = 0; i < nfresh; i++)
		list[s->nready + i] = rank_of(s->f, fresh[i]);
	s->nready += nfresh;
	if (nfresh)
		qsort(list, s->nready, sizeof *list, higher);
	for (size_t i = 0; i < s->nready; i++)
		s->ready[i] = list[i].m;
	return s->nready > 0;
}

static bool
take(struct rounds *s, uint32_t m, uint32_t t, uint32_t ports)
{
	struct msg *x = &s->f->msg[m];
	uint32_t *busy = &s->busy[(size_t)x->from * s->f->algo->nranks + x->to];

	if (*busy == t + 1 || (ports && (s->sends[x->from] >= ports || s->recvs[x->to] >= ports)))
		return false;
	*busy = t + 1;
	s->sends[x->from]++;
	s->recvs[x->to]++;
	x->round = t;
	return true;
}

static enum rc
schedule(struct rounds *s, uint32_t ports, uint32_t *fresh, struct rank_of_message *list,
	 struct err *err)
{
	struct flow *f = s->f;
	uint64_t work = 0;
	size_t nfresh = 0;
	enum rc rc;

	for (uint32_t i = 0; i < s->norder; i++)
		if (!f->msg[s->order[i]].npred)
			fresh[nfresh++] = s->order[i];
	for (uint32_t t = 0; merge_ready(s, list, fresh, nfresh); t++) {
		size_t kept = 0;
		bool sorts = nfresh > 0;

		nfresh = 0;
		work += s->nready;
		rc = algo_spend(f->algo->budget, s->nready * (sorts ? 8 : 2), err);
		if (rc != RC_OK)
			return rc;
		if (work > MAX_WORK)
			return err_set(err, RC_INVAL, "algorithm %s is too large to lower",
				       f->algo->name);
		memset(s->sends, 0, f->algo->nranks * sizeof *s->sends);
		memset(s->recvs, 0, f->algo->nranks * sizeof *s->recvs);
		for (size_t i = 0; i < s->nready; i++) {
			uint32_t m = s->ready[i];

			if (!take(s, m, t, ports)) {
				s->ready[kept++] = m;
				continue;
			}
			for (uint32_t e = s->succ_at[m]; e < s->succ_at[m + 1]; e++)
				if (--f->msg[s->succ[e]].npred == 0)
					fresh[nfresh++] = s->succ[e];
		}
		s->nready = kept;
		f->nround = t + 1;
	}
	return RC_OK;
}

/* Find the first round that can use each value; values follow their operands. */
static void
find_avail(struct flow *f)
{
	for (size_t i = 0; i < f->nval; i++) {
		struct val *x = &f->val[i];

		if (!x->live || x->made == MADE_INPUT)
			continue;
		if (x->made != MADE_SUM)
			x->avail = f->msg[x->message].round + 1;
		else
			x->avail = f->val[x->a].avail > f->val[x->b].avail ? f->val[x->a].avail
									   : f->val[x->b].avail;
	}
}

enum rc
flow_rounds(struct flow *f, uint32_t ports, struct err *err)
{
	struct rounds s = {.f = f};
	size_t n = f->nmsg + 1, p = f->algo->nranks;
	struct rank_of_message *list = alloc_zeroed(n, sizeof *list);
	uint32_t *fresh = alloc_zeroed(n, sizeof *fresh);
	enum rc rc = RC_NOMEM;

	s.order = alloc_zeroed(n, sizeof *s.order);
	s.ready = alloc_zeroed(n, sizeof *s.ready);
	s.sends = alloc_zeroed(p, sizeof *s.sends);
	s.recvs = alloc_zeroed(p, sizeof *s.recvs);
	s.busy = alloc_zeroed(p * p, sizeof *s.busy);
	if (!list || !fresh || !s.order || !s.ready || !s.sends || !s.recvs || !s.busy ||
	    !build_edges(&s))
		err_set(err, rc, "no memory to lower algorithm %s", f->algo->name);
	else if (!sort(&s, fresh))
		rc = err_set(err, RC_FAILED, "messages of algorithm %s wait for each other",
			     f->algo->name);
	else
		rc = schedule(&s, ports, fresh, list, err);
	if (rc == RC_OK)
		find_avail(f);
	free(list);
	free(fresh);
	free(s.order);
	free(s.ready);
	free(s.sends);
	free(s.recvs);
	free(s.busy);
	free(s.succ_at);
	free(s.succ);
	return rc;
}
