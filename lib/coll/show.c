/*
 * show.c - every rank's plan as text for people.
 */
#include <inttypes.h>

#include "coll/check.h"
#include "coll/plan.h"

static const char *const buf_names[] = {"in", "out", "tmp", "shared"};
static const char *const kinds[] = {"send",   "recv", "recv-reduce", "copy",
				    "finish", "sync", "share",	     "reduce-all"};

static bool
show_range(struct buf *out, unsigned buf, uint64_t off, uint64_t count)
{
	return buf_addf(out, "[%" PRIu64 ",%" PRIu64 ") of %s", off, off + count, buf_names[buf]);
}

static bool
show_step(struct buf *out, const struct plan_step *s)
{
	if (!buf_addf(out, "  round %-3" PRIu32 " %-11s  ", s->round, kinds[s->kind]))
		return false;
	switch ((enum plan_step_kind)s->kind) {
	case STEP_SEND:
		return show_range(out, s->src, s->src_off, s->count) &&
		       buf_addf(out, " -> rank %" PRIu32 "\n", s->peer);
	case STEP_RECV:
		return buf_addf(out, "rank %" PRIu32 " -> ", s->peer) &&
		       show_range(out, s->dst, s->dst_off, s->count) && buf_addf(out, "\n");
	case STEP_RECV_REDUCE:
		return buf_addf(out, "rank %" PRIu32 " + ", s->peer) &&
		       show_range(out, s->src, s->src_off, s->count) && buf_addf(out, " -> ") &&
		       show_range(out, s->dst, s->dst_off, s->count) && buf_addf(out, "\n");
	case STEP_COPY:
		return show_range(out, s->src, s->src_off, s->count) && buf_addf(out, " -> ") &&
		       show_range(out, s->dst, s->dst_off, s->count) && buf_addf(out, "\n");
	case STEP_FINISH:
		return show_range(out, s->dst, s->dst_off, s->count) && buf_addf(out, "\n");
	case STEP_SYNC:
		return buf_addf(out, "all ranks\n");
	case STEP_SHARE:
		return show_range(out, s->src, s->src_off, s->count) &&
		       buf_addf(out, " with all ranks\n");
	case STEP_REDUCE_ALL:
		return show_range(out, s->src, s->src_off, s->count) &&
		       buf_addf(out, " of all ranks -> ") &&
		       show_range(out, s->dst, s->dst_off, s->count) &&
		       buf_addf(out, s->peer == PLAN_EVERY ? " of all ranks\n" : "\n");
	}
	return false;
}

static bool
show_rank(struct buf *out, uint32_t r, const struct plan *plan)
{
	struct plan_counts c;

	plan_count(plan, 1, &c);
	if (!buf_addf(out, "\nrank %" PRIu32 ": sends %" PRIu64 " messages, %" PRIu64 " elements",
		      r, c.total_messages, c.total_elements))
		return false;
	if (plan->ntmp && !buf_addf(out, "; scratch %" PRIu64, plan->ntmp))
		return false;
	if (!buf_addf(out, "\n"))
		return false;
	for (size_t i = 0; i < plan->nstep; i++) {
		if (!show_step(out, &plan->step[i]))
			return false;
	}
	return true;
}

static bool
show_header(struct buf *out, const struct plan_args *a, const struct plan_algo *row,
	    const struct plan *plans)
{
	struct plan_counts c;

	plan_count(plans, a->nranks, &c);
	if (!buf_addf(out, "%s %s: %s\n", coll_name(a->coll), row->name, row->summary) ||
	    !buf_addf(out, "ranks %" PRIu32 ", elements %" PRIu64, a->nranks, a->nelem))
		return false;
	if (a->chunk && !buf_addf(out, ", at most %" PRIu64 " in a message", a->chunk))
		return false;
	return buf_addf(out, "\nrounds %" PRIu32 "\n", c.rounds) &&
	       buf_addf(out,
			"a rank sends at most %" PRIu64 " messages, %" PRIu64
			" elements; receives at most %" PRIu64 " elements\n",
			c.max_messages, c.max_elements, c.max_recv_elements) &&
	       buf_addf(out, "all ranks send %" PRIu64 " messages, %" PRIu64 " elements\n",
			c.total_messages, c.total_elements);
}

static bool
text(struct buf *out, const struct plan_args *a, const struct plan_algo *row,
     const struct plan *plans)
{
	bool good = show_header(out, a, row, plans);

	for (uint32_t r = 0; r < a->nranks && good; r++)
		good = show_rank(out, r, &plans[r]);
	return good;
}

/* ,"src":{"buffer":"in","offset":0} */
static bool
json_place(struct buf *out, const char *name, unsigned buf, uint64_t off)
{
	return buf_addf(out, ",\"%s\":{\"buffer\":\"%s\",\"offset\":%" PRIu64 "}", name,
			buf_names[buf], off);
}

/* A step has the members that its kind uses; peer null: every rank. */
static bool
json_step(struct buf *out, const struct plan_step *s)
{
	enum plan_step_kind k = (enum plan_step_kind)s->kind;
	bool src = k != STEP_RECV && k != STEP_FINISH && k != STEP_SYNC;
	bool dst = k != STEP_SEND && k != STEP_SHARE && k != STEP_SYNC;
	bool peer = k == STEP_SEND || k == STEP_RECV || k == STEP_RECV_REDUCE;
	bool good = buf_addf(out, "{\"round\":%" PRIu32 ",\"kind\":\"%s\"", s->round, kinds[k]);

	if (good && peer)
		good = buf_addf(out, ",\"peer\":%" PRIu32, s->peer);
	if (good && src)
		good = json_place(out, "src", s->src, s->src_off);
	if (good && dst)
		good = json_place(out, "dst", s->dst, s->dst_off);
	if (good && k == STEP_REDUCE_ALL)
		good = buf_addf(out, ",\"to_all\":%s", s->peer == PLAN_EVERY ? "true" : "false");
	return good && buf_addf(out, ",\"count\":%" PRIu64 "}", s->count);
}

static bool
json_rank(struct buf *out, uint32_t r, const struct plan *plan)
{
	bool good = buf_addf(out, "%s{\"rank\":%" PRIu32 ",\"scratch\":%" PRIu64 ",\"steps\":[",
			     r ? "," : "", r, plan->ntmp);

	for (size_t i = 0; i < plan->nstep && good; i++)
		good = (i == 0 || buf_addf(out, ",")) && json_step(out, &plan->step[i]);
	return good && buf_addf(out, "]}");
}

static bool
json(struct buf *out, const struct plan_args *a, const struct plan_algo *row,
     const struct plan *plans)
{
	struct plan_counts c;
	bool good;

	plan_count(plans, a->nranks, &c);
	good =
	    buf_addf(out,
		     "{\"collective\":\"%s\",\"algo\":\"%s\",\"nranks\":%" PRIu32
		     ",\"elements\":%" PRIu64 ",\"chunk\":%" PRIu64 ",\"rounds\":%" PRIu32
		     ",\"max_messages\":%" PRIu64 ",\"max_elements\":%" PRIu64
		     ",\"total_messages\":%" PRIu64 ",\"total_elements\":%" PRIu64 ",\"ranks\":[",
		     coll_name(a->coll), row->name, a->nranks, a->nelem, a->chunk, c.rounds,
		     c.max_messages, c.max_elements, c.total_messages, c.total_elements);
	for (uint32_t r = 0; r < a->nranks && good; r++)
		good = json_rank(out, r, &plans[r]);
	return good && buf_addf(out, "]}\n");
}

typedef bool show_fn(struct buf *, const struct plan_args *, const struct plan_algo *,
		     const struct plan *);

static enum rc
show(const struct plan_args *a, const char *algo, show_fn *fn, struct buf *out, struct err *err)
{
	const struct plan_algo *row;
	struct plan *plans;
	size_t len = out->len;
	bool good;
	enum rc rc = plan_build_all(a, algo, &plans, err);

	if (rc)
		return rc;
	rc = plan_algo_find(a->coll, algo, &row, err);
	good = !rc && fn(out, a, row, plans);
	plan_free_all(plans, a->nranks);
	if (good)
		return RC_OK;
	out->len = len;
	return rc ? rc
		  : err_set(err, RC_NOMEM, "no memory to show the plans of %u ranks", a->nranks);
}

enum rc
plan_show(const struct plan_args *a, const char *algo, struct buf *out, struct err *err)
{
	return show(a, algo, text, out, err);
}

enum rc
plan_show_json(const struct plan_args *a, const char *algo, struct buf *out, struct err *err)
{
	return show(a, algo, json, out, err);
}
