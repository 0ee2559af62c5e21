/*
 * show.c - every rank's plan as text, and as JSON. A stream in memory remembers a failed write, so only
 * its end is checked.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "coll/check.h"
#include "coll/plan.h"

static const char *const buf_names[] = {"in", "out", "tmp", "wide", "shared"};
static const char *const kinds[] = {"send",   "recv", "recv-reduce", "copy",	   "finish",
				    "reduce", "sync", "share",	     "reduce-all", "recv-all"};

const char *
plan_step_name(unsigned kind)
{
	return kind < sizeof kinds / sizeof *kinds ? kinds[kind] : "?";
}

static const char *
kind_of(const struct plan_step *s)
{
	if (s->last)
		return s->kind == STEP_REDUCE ? "reduce-finish" : "recv-finish";
	return kinds[s->kind];
}

/* The ranges that a step of a kind uses. */
static bool
has_src(enum plan_step_kind k)
{
	return k != STEP_RECV && k != STEP_FINISH && k != STEP_SYNC;
}

static bool
has_dst(enum plan_step_kind k)
{
	return k != STEP_SEND && k != STEP_SHARE && k != STEP_SYNC;
}

static void
show_range(FILE *f, const char *before, unsigned buf, uint64_t off, uint64_t count)
{
	fprintf(f, "%s[%" PRIu64 ",%" PRIu64 ") of %s", before, off, off + count, buf_names[buf]);
}

static void
show_step(FILE *f, const struct plan_step *s)
{
	enum plan_step_kind k = (enum plan_step_kind)s->kind;
	bool comes = k == STEP_RECV || k == STEP_RECV_REDUCE || k == STEP_RECV_ALL;

	fprintf(f, "  round %-3" PRIu32 " %-11s  ", s->round, kind_of(s));
	if (k == STEP_RECV_ALL)
		fputs("all ranks", f);
	else if (comes)
		fprintf(f, "rank %" PRIu32, s->peer);
	if (k == STEP_REDUCE) {
		show_range(f, "", s->with, s->with_off, s->count);
		fputs(" + ", f);
	}
	if (has_src(k))
		show_range(f, comes ? " + " : "", s->src, s->src_off, s->count);
	if (k == STEP_REDUCE_ALL)
		fputs(" of all ranks", f);
	if (has_dst(k))
		show_range(f, k == STEP_FINISH ? "" : " -> ", s->dst, s->dst_off, s->count);
	if (k == STEP_SEND)
		fprintf(f, " -> rank %" PRIu32, s->peer);
	if (k == STEP_REDUCE_ALL && s->peer == PLAN_EVERY)
		fputs(" of all ranks", f);
	fputs(k == STEP_SYNC ? "all ranks\n" : k == STEP_SHARE ? " with all ranks\n" : "\n", f);
}

static void
text(FILE *f, const struct plan_args *a, const struct plan_algo *row, const struct plan *plans)
{
	struct plan_counts c;

	plan_count(plans, a->nranks, &c);
	fprintf(f, "%s %s: %s\nranks %" PRIu32 ", elements %" PRIu64, coll_name(a->coll), row->name,
		row->summary, a->nranks, a->nelem);
	if (a->chunk)
		fprintf(f, ", at most %" PRIu64 " in a message", a->chunk);
	fprintf(f,
		"\nrounds %" PRIu32 "\na rank sends at most %" PRIu64 " messages, %" PRIu64
		" elements; receives at most %" PRIu64 " elements\n",
		c.rounds, c.max_messages, c.max_elements, c.max_recv_elements);
	fprintf(f, "all ranks send %" PRIu64 " messages, %" PRIu64 " elements", c.total_messages,
		c.total_elements);
	if (a->wide && coll_reduces(a->coll))
		fprintf(f, ", %" PRIu64 " of them partial sums in f32", c.total_wide);
	fputc('\n', f);
	for (uint32_t r = 0; r < a->nranks; r++) {
		plan_count(&plans[r], 1, &c);
		fprintf(f, "\nrank %" PRIu32 ": sends %" PRIu64 " messages, %" PRIu64 " elements",
			r, c.total_messages, c.total_elements);
		if (plans[r].ntmp)
			fprintf(f, "; scratch %" PRIu64, plans[r].ntmp);
		if (plans[r].nwide)
			fprintf(f, "; wide %" PRIu64, plans[r].nwide);
		fputc('\n', f);
		for (size_t i = 0; i < plans[r].nstep; i++)
			show_step(f, &plans[r].step[i]);
	}
}

/* ,"src":{"buffer":"in","offset":0} */
static void
json_place(FILE *f, const char *name, unsigned buf, uint64_t off)
{
	fprintf(f, ",\"%s\":{\"buffer\":\"%s\",\"offset\":%" PRIu64 "}", name, buf_names[buf], off);
}

/* Print a step with the members that its kind uses. */
static void
json_step(FILE *f, const struct plan_step *s)
{
	enum plan_step_kind k = (enum plan_step_kind)s->kind;

	fprintf(f, "{\"round\":%" PRIu32 ",\"kind\":\"%s\"", s->round, kind_of(s));
	if (k == STEP_SEND || k == STEP_RECV || k == STEP_RECV_REDUCE)
		fprintf(f, ",\"peer\":%" PRIu32, s->peer);
	if (k == STEP_REDUCE)
		json_place(f, "with", s->with, s->with_off);
	if (has_src(k))
		json_place(f, "src", s->src, s->src_off);
	if (has_dst(k))
		json_place(f, "dst", s->dst, s->dst_off);
	if (k == STEP_REDUCE_ALL)
		fprintf(f, ",\"to_all\":%s", s->peer == PLAN_EVERY ? "true" : "false");
	fprintf(f, ",\"count\":%" PRIu64 "}", s->count);
}

static void
json(FILE *f, const struct plan_args *a, const struct plan_algo *row, const struct plan *plans)
{
	struct plan_counts c;

	plan_count(plans, a->nranks, &c);
	fprintf(f,
		"{\"collective\":\"%s\",\"algo\":\"%s\",\"nranks\":%" PRIu32
		",\"elements\":%" PRIu64 ",\"chunk\":%" PRIu64 ",\"rounds\":%" PRIu32
		",\"max_messages\":%" PRIu64 ",\"max_elements\":%" PRIu64
		",\"total_messages\":%" PRIu64 ",\"total_elements\":%" PRIu64
		",\"total_wide\":%" PRIu64 ",\"ranks\":[",
		coll_name(a->coll), row->name, a->nranks, a->nelem, a->chunk, c.rounds,
		c.max_messages, c.max_elements, c.total_messages, c.total_elements, c.total_wide);
	for (uint32_t r = 0; r < a->nranks; r++) {
		fprintf(f,
			"%s{\"rank\":%" PRIu32 ",\"scratch\":%" PRIu64 ",\"wide\":%" PRIu64
			",\"steps\":[",
			r ? "," : "", r, plans[r].ntmp, plans[r].nwide);
		for (size_t i = 0; i < plans[r].nstep; i++) {
			fputs(i ? "," : "", f);
			json_step(f, &plans[r].step[i]);
		}
		fputs("]}", f);
	}
	fputs("]}\n", f);
}

typedef void show_fn(FILE *, const struct plan_args *, const struct plan_algo *,
		     const struct plan *);

static enum rc
show(const struct plan_args *a, const char *algo, show_fn *fn, struct buf *out, struct err *err)
{
	const struct plan_algo *row;
	struct plan *plans;
	char *shown = NULL;
	size_t n = 0;
	bool good = false;
	FILE *f;
	enum rc rc = plan_algo_find(a->coll, algo, &row, err);

	if (rc == RC_OK)
		rc = plan_build_all(a, algo, &plans, err);
	if (rc)
		return rc;
	f = open_memstream(&shown, &n);
	if (f) {
		fn(f, a, row, plans);
		good = !ferror(f);
		good = fclose(f) == 0 && good && buf_add(out, shown, n);
	}
	free(shown);
	plan_free_all(plans, a->nranks);
	return good ? RC_OK
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
