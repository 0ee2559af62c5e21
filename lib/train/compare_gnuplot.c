/*
 * A comparison as a script for gnuplot. A method is a colour, a number of workers a shape of points;
 * the legend has both and the fourth quarter for itself.
 */
#include <inttypes.h>
#include <math.h>

#include "train/compare.h"

/* Okabe and Ito's colours, which look different to everybody. */
static const char *const colours[COMPARE_NMETHODS] = {
    [COMPARE_ALLREDUCE] = "#0072B2", [COMPARE_SENDRECV] = "#D55E00", [COMPARE_PS] = "#009E73",
    [COMPARE_PS_ASYNC] = "#CC79A7",  [COMPARE_PS_STALE] = "#E69F00", [COMPARE_LOCAL] = "#56B4E9",
    [COMPARE_MPI] = "#000000"};

/* Points: filled circle, square, triangle, diamond; then the same empty. */
static const unsigned points[] = {7, 5, 9, 13, 6, 4, 8, 12};
#define NPOINTS (sizeof points / sizeof points[0])

static const char head[] =
    "if (strstrt(GPVAL_TERMINALS, ' pngcairo ')) set terminal pngcairo size 1200,900 "
    "font 'sans,12'; else set terminal png size 1200,900\n"
    "set datafile missing 'nan'\n"
    "set grid linetype 1 linecolor '#dddddd'\n"
    "set border 3\n"
    "set tics nomirror\n"
    "unset key\n";

/* Which of the request's numbers of workers a run has. */
static unsigned
place_of(const struct compare *c, const struct compare_run *r)
{
	return (unsigned)((size_t)(r - c->run) % c->request.nworkers);
}

/* $runN: epoch, loss, accuracy in %, seconds. */
static bool
add_epochs(const struct compare *c, struct buf *out)
{
	bool good = true;

	for (size_t i = 0; i < c->nruns && good; i++) {
		const struct compare_run *r = &c->run[i];

		if (!r->nepochs)
			continue;
		good = buf_addf(out, "$run%zu << END\n", i);
		for (size_t k = 0; k < r->nepochs && good; k++)
			good = buf_addf(out, "%" PRIu32 " %.9g %.6f %.6f\n", r->epoch[k].epoch,
					r->epoch[k].loss, r->epoch[k].accuracy * 100,
					r->epoch[k].seconds);
		good = good && buf_addf(out, "END\n");
	}
	return good;
}

/* $speedM: workers and speed-up of a method; $ideal. */
static bool
add_speedups(const struct compare *c, struct buf *out)
{
	unsigned n = c->request.nworkers;
	uint32_t least = c->request.workers[0], most = c->request.workers[n - 1];
	bool good = buf_addf(out, "$ideal << END\n%" PRIu32 " 1\n%" PRIu32 " %.4f\nEND\n", least,
			     most, (double)most / least);

	for (size_t i = 0; i < c->nruns && good; i++) {
		const struct compare_run *r = &c->run[i];

		if (i % n == 0)
			good = buf_addf(out, "$speed%zu << END\n", i / n);
		if (r->nepochs)
			good = good && buf_addf(out, "%" PRIu32 " %.4f\n", r->workers, r->speedup);
		if (i % n == n - 1)
			good = good && buf_addf(out, "END\n");
	}
	return good;
}

static bool
has_result(const struct compare *c, unsigned m)
{
	unsigned n = c->request.nworkers;
	bool any = false;

	for (unsigned w = 0; w < n; w++)
		any = any || c->run[(size_t)m * n + w].nepochs;
	return any;
}

/* A curve of every run: columns x and y of its data. */
static bool
add_curves(const struct compare *c, const char *columns, struct buf *out)
{
	bool good = buf_addf(out, "plot");
	const char *comma = "";

	for (size_t i = 0; i < c->nruns && good; i++) {
		const struct compare_run *r = &c->run[i];

		if (!r->nepochs)
			continue;
		good = buf_addf(out,
				"%s \\\n  $run%zu using %s with linespoints linewidth 2 "
				"linecolor '%s' pointtype %u pointsize 1.2",
				comma, i, columns, colours[r->method],
				points[place_of(c, r) % NPOINTS]);
		comma = ",";
	}
	return good && buf_addf(out, "\n");
}

/* The quarter (column, row) of the picture, from the upper left. */
static bool
add_panel(struct buf *out, unsigned column, unsigned row, const char *title, const char *x,
	  const char *y)
{
	return buf_addf(out,
			"set origin %.2f,%.3f\nset size 0.5,0.475\nset title '%s'\n"
			"set xlabel '%s'\nset ylabel '%s'\n",
			column * 0.5, (1 - row) * 0.475, title, x, y);
}

static bool
add_progress(const struct compare *c, struct buf *out)
{
	uint32_t last = 1;

	for (size_t i = 0; i < c->nruns; i++)
		if (c->run[i].nepochs && c->run[i].epoch[c->run[i].nepochs - 1].epoch > last)
			last = c->run[i].epoch[c->run[i].nepochs - 1].epoch;
	return add_panel(out, 0, 0, "Accuracy", "training (s)", "test accuracy (%)") &&
	       buf_addf(out, "set xrange [0:*]\nset yrange [*:*]\nset offsets 0,0,0.2,0.2\n") &&
	       add_curves(c, "4:3", out) &&
	       add_panel(out, 1, 0, "Loss", "epoch", "mean loss over the training images") &&
	       buf_addf(out, "set offsets 0,0,0,0\nset xrange [0.5:%" PRIu32 ".5]\n%s", last,
			last <= 20 ? "set xtics 1\n" : "") &&
	       add_curves(c, "1:2", out) && buf_addf(out, "set xtics autofreq\n");
}

/* The ideal, then the methods: lines, and on them the points of each number of workers. */
static bool
add_speedup_panel(const struct compare *c, struct buf *out)
{
	const struct compare_request *q = &c->request;
	uint32_t least = q->workers[0], most = q->workers[q->nworkers - 1];
	double margin = most > least ? 0.04 * (most - least) : 0.5;
	bool good = add_panel(out, 0, 1, "Speed-up", "workers", "") &&
		    buf_addf(out,
			     "set ylabel 'times as fast as %" PRIu32 " worker%s'\n"
			     "set xrange [%g:%g]\nset yrange [0:*]\nset xtics (",
			     least, least == 1 ? "" : "s", least - margin, most + margin);

	for (unsigned w = 0; w < q->nworkers && good; w++)
		good = buf_addf(out, "%s%" PRIu32, w ? "," : "", q->workers[w]);
	good = good && buf_addf(out, ")\nplot $ideal using 1:2 with lines linewidth 2 dashtype 2 "
				     "linecolor '#888888'");
	for (unsigned m = 0; m < q->nmethods && good; m++) {
		if (!has_result(c, m))
			continue;
		good = buf_addf(out,
				", \\\n  $speed%u using 1:2 with lines linewidth 2 linecolor '%s'",
				m, colours[q->method[m]]);
		for (unsigned w = 0; w < q->nworkers && good; w++)
			good =
			    buf_addf(out,
				     ", \\\n  $speed%u using 1:($1 == %" PRIu32
				     " ? $2 : NaN) with points linecolor '%s' pointtype %u "
				     "pointsize 1.2",
				     m, q->workers[w], colours[q->method[m]], points[w % NPOINTS]);
	}
	return good && buf_addf(out, "\n");
}

/* Nothing but the key: a curve of each look, out of sight. */
static bool
add_legend(const struct compare *c, struct buf *out)
{
	const struct compare_request *q = &c->request;
	bool good = add_panel(out, 1, 1, "", "", "") &&
		    buf_addf(out, "unset border\nunset tics\nset xrange [0:1]\nset yrange [0:1]\n"
				  "set key at graph 0.5,0.55 center center vertical maxrows 14 "
				  "Left reverse samplen 3 spacing 1.3\nplot");

	for (unsigned m = 0; m < q->nmethods && good; m++)
		if (has_result(c, m))
			good = buf_addf(
			    out, " \\\n  -1 with lines linewidth 4 linecolor '%s' title '%s',",
			    colours[q->method[m]], compare_method_name(q->method[m]));
	for (unsigned w = 0; w < q->nworkers && good; w++)
		good = buf_addf(out,
				" \\\n  -1 with points linecolor '#444444' pointtype %u pointsize "
				"1.5 title '%" PRIu32 " worker%s',",
				points[w % NPOINTS], q->workers[w], q->workers[w] == 1 ? "" : "s");
	return good &&
	       buf_addf(out, " \\\n  -1 with lines linewidth 2 dashtype 2 linecolor '#888888' "
			     "title 'ideal speed-up'\nunset multiplot\n");
}

bool
compare_gnuplot(const struct compare *c, struct buf *out)
{
	bool any = false;

	for (unsigned m = 0; m < c->request.nmethods; m++)
		any = any || has_result(c, m);
	return !any ||
	       (buf_addf(out, "%s", head) && add_epochs(c, out) && add_speedups(c, out) &&
		buf_addf(out,
			 "set multiplot title 'The same training by several methods, %" PRIu64
			 " images a step' font ',15'\n",
			 c->global) &&
		add_progress(c, out) && add_speedup_panel(c, out) && add_legend(c, out));
}
