/* gpuctl pipeline - prove, draw, write and search for schedules of pipeline parallelism. */
#include "pipeline/pipeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/must.h"
#include "cli.h"
#include "pipeline/search.h"

#define COLUMNS 120 /* of a drawing, where no terminal has another number */

static struct pipeline_facts facts;

static enum rc
write_out(const struct args *a, struct buf *text, struct err *err)
{
	enum rc rc = RC_OK;

	must(!text->failed);
	if (a->output && strcmp(a->output, "-") != 0)
		rc = file_replace(a->output, text->data, text->len, err);
	else
		fwrite(text->data, 1, text->len, stdout);
	buf_fini(text);
	return rc;
}

/* What is proved, and how long it takes. */
static void
print_facts(const struct args *a, const struct pipeline *p, const struct pipeline_times *t)
{
	struct json j = {stdout, false};
	double part = t->busy > 0 ? t->bubble / t->busy : 0;

	if (a->json)
		json_put(&j,
			 "{ranks:%" PRIu32 " stages:%" PRIu32 " microbatches:%" PRIu32
			 " end:%.9g busy:%.9g bubble:%.9g "
			 "bubble_fraction:%.9g by_rank:[",
			 p->nranks, p->nstages, p->nmicro, t->end, t->busy, t->bubble, part);
	else {
		printf("end %g, busy %g, bubble %g (%.1f %%)\n", t->end, t->busy, t->bubble,
		       100 * part);
		printf("%5s  %6s  %8s  %8s\n", "rank", "peak", "messages", "idle");
	}
	for (uint32_t r = 0; r < p->nranks; r++)
		if (a->json)
			json_put(&j,
				 "{rank:%" PRIu32 " peak:%" PRIu32 " messages:%" PRIu32
				 " idle:%.9g}",
				 r, facts.peak[r], facts.messages[r], t->idle[r]);
		else
			printf("%5" PRIu32 "  %6" PRIu32 "  %8" PRIu32 "  %8g\n", r, facts.peak[r],
			       facts.messages[r], t->idle[r]);
	if (a->json)
		json_put(&j, "]}\n");
}

static enum rc
draw(const struct args *a, const struct pipeline *p, const struct pipeline_times *t,
     struct err *err)
{
	const char *term = getenv("TERM");
	bool screen = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
	struct buf text = {0};
	struct winsize size;
	enum rc rc = RC_OK;

	if (a->svg)
		rc = pipeline_show_svg(p, t, &text, err);
	else if (screen && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		must(pipeline_show_text(p, t, size.ws_col, true, &text));
	else
		must(pipeline_show_text(p, t, COLUMNS, false, &text));
	if (rc == RC_OK)
		return write_out(a, &text, err);
	buf_fini(&text);
	return rc;
}

/* check, show: FILE, or the name of a schedule. */
static enum rc
check_or_show(const struct args *a, bool shows, struct err *err)
{
	struct pipeline_times t = {0};
	struct pipeline *p;
	enum rc rc = pipeline_named(a->rest[1], a->pp, a->micro, &p, err);

	if (rc == RC_OK && pipeline_check(p, &facts, err) != RC_OK)
		rc = err_prefix(err, "%.200s", a->rest[1]);
	if (rc == RC_OK)
		rc = pipeline_time(p, &a->costs, &t, err);
	if (rc == RC_OK && !shows && !a->json)
		printf("right for every timing: %" PRIu32 " ranks, %" PRIu32 " stages, %" PRIu32
		       " microbatches\n",
		       p->nranks, p->nstages, p->nmicro);
	if (rc == RC_OK && shows && (!a->json || a->svg))
		rc = draw(a, p, &t, err);
	if (rc == RC_OK && !(a->svg && (!a->output || strcmp(a->output, "-") == 0)))
		print_facts(a, p, &t);
	pipeline_times_fini(&t);
	pipeline_free(p);
	return rc;
}

static enum rc
make_or_search(const struct args *a, bool makes, struct err *err)
{
	const struct pipeline_goal goal = {a->pp, a->micro, a->costs,
					   a->pipe_memory ? a->pipe_memory : a->pp};
	struct pipeline_found found = {0};
	struct pipeline *p = NULL;
	struct buf text = {0};
	enum rc rc;

	if (makes) {
		rc = pipeline_named(a->rest[1], a->pp, a->micro, &p, err);
	} else {
		rc = pipeline_search(&goal, &found, err);
		p = found.pipeline;
	}
	if (rc == RC_OK && a->sends)
		rc = pipeline_check(p, &facts, err);
	if (rc == RC_OK) {
		pipeline_print(p, &text);
		rc = write_out(a, &text, err);
	}
	if (rc == RC_OK && !makes)
		fprintf(stderr, "bubble %g, end %g: %s\n", found.bubble, found.end,
			found.exact ? "no schedule has a smaller bubble"
				    : "the best that was found");
	pipeline_free(p);
	return rc;
}

enum rc
run_pipeline(struct cli *cli, const struct args *a, struct err *err)
{
	const char *what = a->rest[0];
	bool shows = strcmp(what, "show") == 0, makes = strcmp(what, "make") == 0;
	bool checks = strcmp(what, "check") == 0, searches = strcmp(what, "search") == 0;

	(void)cli;
	if (!checks && !shows && !makes && !searches)
		return err_set(err, RC_INVAL, "must be check, show, make or search, not '%.64s'",
			       what);
	if (searches && a->nrest > 1)
		return err_set(err, RC_INVAL, "search: unexpected operand '%.64s'", a->rest[1]);
	if (!searches && a->nrest < 2)
		return err_set(err, RC_INVAL,
			       makes ? "make: the name of a schedule is missing"
				     : "%s: a FILE is missing",
			       what);
	if (searches && (!a->pp || !a->micro))
		return err_set(err, RC_INVAL, "search: needs -p RANKS and -m MICROBATCHES");
	return makes || searches ? make_or_search(a, makes, err) : check_or_show(a, shows, err);
}
