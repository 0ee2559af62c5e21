/* gpuctl bench - measure a collective, and check its results. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algo.h"
#include "base/log.h"
#include "base/must.h"
#include "base/nearest.h"
#include "bench_cli.h"
#include "coll/plan.h"
#include "hold.h"
#include "io.h"
#include "mem/dtype.h"
#include "operation.h"
#include "plot/plot.h"
#include "recover.h"

#define TIMEOUT_MS    600000 /* of one call, unless --timeout: it may be a whole measurement */
#define BASELINE_MARK '.'    /* in text plots */

static enum rc
go_on(void *cli, struct gpusim_comm **comm, uint32_t *was, enum rc rc, struct err *err)
{
	return recover(cli, comm, was, rc, err);
}

enum rc
bench_cli_open(struct bench_cli *b, enum gpusim_coll coll, struct bench **out, struct err *err)
{
	const struct args *a = b->a;
	struct args factored = *a; /* with the factor that lib/clients/bench expects */
	char what[32];
	uint32_t n;
	enum rc rc = cli_open(b->cli, err);

	if (!a->typed)
		factored.dtype = GPUSIM_F32;
	if (a->redop == GPUSIM_PREMULSUM)
		factored.scalar = "2";
	if (rc == RC_OK && !b->cli->timeout_ms)
		gpusim_set_timeout_ms(b->cli->g, TIMEOUT_MS);
	if (rc == RC_OK)
		rc = cli_nranks_or_all(b->cli, a, &n, err);
	b->cfg = (struct bench_config){.g = b->cli->g,
				       .comm = &b->comm,
				       .min_bytes = a->min_bytes,
				       .max_bytes = a->max_bytes,
				       .fits = !args_given(a, max_bytes),
				       .factor = a->factor,
				       .iters = a->iters,
				       .warmup = a->warmup,
				       .rewrite = a->rewrite,
				       .verify = a->verify,
				       .baseline = &b->baseline,
				       .recover = go_on,
				       .arg = b->cli};
	if (rc == RC_OK && coll == GPUSIM_SEND && n < 2)
		rc = err_set(err, RC_INVAL, "sendrecv: needs at least two ranks");
	if (rc == RC_OK)
		rc = operation_common(coll == GPUSIM_SEND ? GPUSIM_ALLTOALL : coll, &factored, n,
				      &b->cfg.c, err);
	b->cfg.c.coll = coll;
	if (rc != RC_OK)
		return rc;
	if (a->verify && !a->algo && !a->algo_file) /* then exactly one rank reduces each part */
		b->cfg.c.deterministic = 1;
	b->algo = a->algo && *a->algo ? a->algo : "auto";
	snprintf(what, sizeof what, "%" PRIu32 " rank%s", n, n == 1 ? "" : "s");
	rc = cli_lease_comm(b->cli, a, n, what, &b->comm, err);
	return rc == RC_OK ? bench_open(&b->cfg, out, err) : rc;
}

void
bench_cli_close(struct bench_cli *b, struct bench *bench, enum rc rc)
{
	bench_close(bench, rc);
	hold_release(b->cli, b->comm);
}

/* Read a baseline from a file; "-" is standard input. */
static enum rc
read_baseline(const char *path, struct baseline *out, struct err *err)
{
	bool dash = strcmp(path, "-") == 0;
	int fd = dash ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	struct buf text = {0};
	enum rc rc;

	if (fd < 0)
		return err_set(err, RC_FAILED, "%.200s: %s", path, strerror(errno));
	rc = io_read_all(fd, path, &text, err);
	if (!dash)
		close(fd);
	if (rc == RC_OK)
		must_add(&text, "", 1);
	if (rc == RC_OK && baseline_parse(text.data, out, err) != RC_OK)
		rc = err_prefix(err, "%.200s", path);
	buf_fini(&text);
	return rc;
}

/* ---- --plot: bus bandwidth over size, out of place; a curve for each algorithm and the baseline */

/* Initialise with {0}. */
struct bench_plot {
	struct plot plot;
	char title[96];
	double bus_factor; /* busbw divided by algbw, of the last row; 0: unknown */
};

/* A letter that no curve of a text plot uses yet: one of the name's, else any. */
static char
free_mark(const struct plot_panel *p, const char *name)
{
	static const char others[] = "abcdefghijklmnopqrstuvwxyz";
	const char *from[] = {name, others};

	for (size_t i = 0; i < sizeof from / sizeof *from; i++)
		for (const char *c = from[i]; *c; c++) {
			size_t k = 0;

			while (k < p->ncurves && p->curve[k].style.mark != *c)
				k++;
			if (k == p->ncurves && islower((unsigned char)*c))
				return *c;
		}
	return '*';
}

static void
begin_panel(struct bench_plot *p, const struct bench_cli *b)
{
	uint32_t n = gpusim_comm_count(b->comm);

	snprintf(p->title, sizeof p->title, "%s, %" PRIu32 " rank%s, %s", bench_collective_name(b),
		 n, n == 1 ? "" : "s", dtype_name(b->cfg.c.dtype));
	p->plot.npanels = 1;
	p->plot.title = p->title;
	p->plot.panel[0] =
	    (struct plot_panel){.text = "bus bandwidth in GB/s over size in bytes",
				.x = {.label = "size (bytes)", .log = true, .sizes = true},
				.y = {.label = "bus bandwidth (GB/s)", .log = true}};
}

/* Begin a curve for the algorithm that b measures; rows go to the last curve. */
static void
bench_plot_begin(struct bench_plot *p, const struct bench_cli *b)
{
	struct plot_panel *panel = &p->plot.panel[0];
	struct plot_style s = {0};

	if (p->plot.npanels == 0)
		begin_panel(p, b);
	snprintf(s.name, sizeof s.name, "%s", b->algo);
	s.colour = plot_colour((unsigned)panel->ncurves);
	s.shape = (unsigned)panel->ncurves;
	s.mark = free_mark(panel, b->algo);
	plot_curve_add(panel, &s);
}

static void
bench_plot_row(struct bench_plot *p, const struct bench_row *row)
{
	struct plot_panel *panel = &p->plot.panel[0];
	const struct bench_result *r = &row->result[BENCH_OUT_OF_PLACE];

	if (!r->ran)
		return;
	if (r->algbw > 0)
		p->bus_factor = r->busbw / r->algbw;
	plot_point_add(&panel->curve[panel->ncurves - 1], (double)row->nbytes, r->busbw);
}

/* Add the baseline. It has times only; bench_run has matched its collective and ranks. */
static void
add_baseline(struct bench_plot *p, const struct baseline *b)
{
	struct plot_curve *c;

	if (!b->n)
		return;
	c = plot_curve_add(&p->plot.panel[0], &(struct plot_style){.name = "baseline",
								   .look = PLOT_DASHED,
								   .colour = PLOT_GREY,
								   .mark = BASELINE_MARK});
	for (size_t i = 0; i < b->n; i++) {
		double us = b->row[i].us[BENCH_OUT_OF_PLACE], nbytes = (double)b->row[i].nbytes;

		if (us > 0)
			plot_point_add(c, nbytes, nbytes / 1e3 / us * p->bus_factor);
	}
}

/* Draw the plot; with --json a text plot goes to standard error. Errors: those of plot_show. */
static enum rc
bench_plot_show(struct bench_plot *p, const struct args *a, const struct baseline *baseline,
		struct err *err)
{
	add_baseline(p, baseline);
	if (plot_show(&p->plot, a->plot, a->json ? stderr : stdout, err) != RC_OK)
		return err_prefix(err, "--plot");
	return RC_OK;
}

/* ---- the verb */

struct job {
	struct cli *cli;
	const struct args *a;
	enum gpusim_coll coll;
	struct baseline baseline;
	struct bench_plot plot;
	struct bench_cli *now;
};

static void
take_row(void *arg, const struct bench_row *row)
{
	struct job *j = arg;

	bench_print_row(j->now, row);
	if (j->a->plot)
		bench_plot_row(&j->plot, row);
}

static enum rc
run(struct job *j, struct bench_cli *b, struct bench *bench, struct err *err)
{
	struct bench_summary sum;

	j->now = b;
	if (j->a->plot)
		bench_plot_begin(&j->plot, b);
	bench_print_head(b, bench_max_bytes(bench));
	if (bench_run(bench, take_row, j, &sum, err) != RC_OK)
		return err->rc;
	bench_print_foot(b, &sum);
	if (sum.nwrong)
		return err_set(err, RC_FAILED, "%" PRIu64 " wrong elements", sum.nwrong);
	if (b->a->max_slowdown && sum.worst > b->a->max_slowdown) {
		log_line(LOG_ERROR,
			 "bench: took %.3g times as long as in %.200s; at most %.3g is allowed",
			 sum.worst, b->a->baseline, b->a->max_slowdown);
		b->cli->status = BENCH_EXIT_SLOWER;
	}
	return RC_OK;
}

/* Measure one algorithm; NULL or "": the coordinator's choice. */
static enum rc
run_one(struct job *j, const char *algo, struct err *err)
{
	struct args a = *j->a;
	struct bench_cli b = {.cli = j->cli, .a = &a, .baseline = j->baseline, .json.f = stdout};
	struct bench *bench = NULL;
	enum rc rc;

	a.algo = algo;
	rc = bench_cli_open(&b, j->coll, &bench, err);
	if (rc == RC_OK)
		rc = run(j, &b, bench, err);
	bench_cli_close(&b, bench, rc);
	return rc;
}

static enum rc
check(struct job *j, char *const *algo, struct err *err)
{
	const struct args *a = j->a;
	const char *name = a->nrest ? a->rest[0] : "allreduce";
	bool sendrecv = nearest_same(name, "sendrecv");
	enum rc rc = sendrecv ? RC_OK : coll_parse(name, &j->coll, err);

	if (sendrecv)
		j->coll = GPUSIM_SEND;
	else if (rc == RC_OK && coll_is_sendrecv(j->coll))
		return err_set(err, RC_INVAL, "%s: bench measures both ends of it: sendrecv", name);
	if (rc == RC_OK && a->min_bytes > a->max_bytes)
		return err_set(err, RC_INVAL, "-b: must not exceed -e");
	if (rc == RC_OK && a->max_slowdown && !a->baseline)
		return err_set(err, RC_INVAL, "--max-slowdown: needs --baseline");
	for (size_t i = 0; rc == RC_OK && algo[i]; i++)
		rc = !*algo[i] && a->algo && *a->algo
			 ? err_set(err, RC_INVAL, "--algo: a name is missing")
			 : operation_algo(j->coll, algo[i], err);
	if (rc == RC_OK && a->plot && j->coll == GPUSIM_BARRIER)
		return err_set(err, RC_INVAL, "--plot: a barrier has no sizes");
	if (rc == RC_OK && a->plot && plot_check(a->plot, err) != RC_OK)
		return err_prefix(err, "--plot");
	return rc;
}

/* Split "ring,tree" into names, NULL-terminated; without names, one empty name. The caller frees the list
 * and its first element. */
static char **
split(const char *names)
{
	char *copy = must_strdup(names ? names : ""), **list;
	size_t n = 2;

	for (const char *p = copy; p && *p; p++)
		n += *p == ',';
	list = copy ? must_alloc(n, sizeof *list) : NULL;
	n = 0;
	for (char *p = copy; list && p; n++)
		list[n] = strsep(&p, ",");
	if (!list)
		free(copy);
	return list;
}

enum rc
run_bench(struct cli *cli, const struct args *a, struct err *err)
{
	struct args own = *a;
	struct job j = {.cli = cli, .a = &own};
	enum rc rc = algo_take(cli, &own, err);
	char **algo = rc == RC_OK ? split(own.algo) : NULL;

	if (rc == RC_OK)
		rc = check(&j, algo, err);

	if (rc == RC_OK && a->baseline)
		rc = read_baseline(a->baseline, &j.baseline, err);
	for (size_t i = 0; rc == RC_OK && algo[i]; i++)
		rc = run_one(&j, algo[i], err);
	if (rc == RC_OK && a->plot)
		rc = bench_plot_show(&j.plot, a, &j.baseline, err);
	plot_fini(&j.plot.plot);
	baseline_fini(&j.baseline);
	if (algo)
		free(algo[0]);
	free(algo);
	return rc;
}
