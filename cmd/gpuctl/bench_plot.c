/* gpuctl bench --plot: plot the out-of-place results. */
#include "bench_plot.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "coll/plan.h"
#include "mem/dtype.h"

#define BASELINE_MARK '.'

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

void
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

void
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

enum rc
bench_plot_show(struct bench_plot *p, const struct args *a, const struct baseline *baseline,
		struct err *err)
{
	add_baseline(p, baseline);
	if (plot_show(&p->plot, a->plot, a->json ? stderr : stdout, err) != RC_OK)
		return err_prefix(err, "--plot");
	return RC_OK;
}
