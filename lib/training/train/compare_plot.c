/*
 * A comparison as a plot. A method is a colour, a number of workers a shape of points. Text output
 * shows only each method's run with the most workers, and no losses.
 */
#include <inttypes.h>
#include <stdio.h>

#include "train/compare.h"

/* By method. */
static const char marks[COMPARE_NMETHODS] = "asptvlm";
static const unsigned colours[COMPARE_NMETHODS] = {
    [COMPARE_ALLREDUCE] = 0, [COMPARE_SENDRECV] = 1, [COMPARE_PS] = 2, [COMPARE_PS_ASYNC] = 3,
    [COMPARE_PS_STALE] = 4,  [COMPARE_LOCAL] = 5,    [COMPARE_MPI] = 6};

/* The run with the most workers of a method's runs that have a result. */
static const struct compare_run *
largest(const struct compare *c, enum compare_method m)
{
	const struct compare_run *found = NULL;

	for (size_t i = 0; i < c->nruns; i++)
		if (c->run[i].method == m && c->run[i].nepochs)
			found = &c->run[i];
	return found;
}

/* The index of a run's number of workers in the request. */
static unsigned
place_of(const struct compare *c, const struct compare_run *r)
{
	return (unsigned)((size_t)(r - c->run) % c->request.nworkers);
}

static struct plot_style
style_of(const struct compare *c, const struct compare_run *r, bool marked)
{
	return (struct plot_style){.colour = plot_colour(colours[r->method]),
				   .shape = place_of(c, r),
				   .mark = marked ? marks[r->method] : '\0'};
}

/* A curve of every run: accuracy over time, or loss over epochs. */
static void
add_progress(const struct compare *c, bool loss, struct plot_panel *p)
{
	for (size_t i = 0; i < c->nruns; i++) {
		const struct compare_run *r = &c->run[i];
		struct plot_style s = style_of(c, r, !loss && r == largest(c, r->method));
		struct plot_curve *curve = r->nepochs ? plot_curve_add(p, &s) : NULL;

		for (size_t k = 0; k < r->nepochs; k++) {
			const struct compare_epoch *e = &r->epoch[k];

			if (loss)
				plot_point_add(curve, e->epoch, e->loss);
			else
				plot_point_add(curve, e->seconds, e->accuracy * 100);
		}
	}
}

static void
add_ideal(const struct compare *c, struct plot_panel *p)
{
	uint32_t least = c->request.workers[0];
	uint32_t most = c->request.workers[c->request.nworkers - 1];
	struct plot_curve *ideal = plot_curve_add(
	    p, &(struct plot_style){.look = PLOT_DASHED, .colour = PLOT_GREY, .mark = '.'});

	plot_point_add(ideal, least, 1);
	plot_point_add(ideal, most, (double)most / least);
}

/* The ideal, then the methods: lines, with a point for each number of workers. */
static void
add_speedups(const struct compare *c, struct plot_panel *p)
{
	add_ideal(c, p);
	for (unsigned m = 0; m < c->request.nmethods; m++) {
		const struct compare_run *first = &c->run[(size_t)m * c->request.nworkers];
		struct plot_style s = style_of(c, first, true);
		struct plot_curve *line;

		if (!largest(c, first->method))
			continue;
		s.look = PLOT_LINE;
		line = plot_curve_add(p, &s);
		for (unsigned w = 0; w < c->request.nworkers; w++)
			if (first[w].nepochs)
				plot_point_add(line, first[w].workers, first[w].speedup);
		for (unsigned w = 0; w < c->request.nworkers; w++) {
			struct plot_style at = style_of(c, &first[w], false);

			at.look = PLOT_POINTS;
			if (first[w].nepochs)
				plot_point_add(plot_curve_add(p, &at), first[w].workers,
					       first[w].speedup);
		}
	}
}

static void
add_key(const struct compare *c, struct plot *p)
{
	for (unsigned m = 0; m < c->request.nmethods; m++) {
		const struct compare_run *r = largest(c, c->request.method[m]);
		struct plot_style s = r ? style_of(c, r, true) : (struct plot_style){0};

		if (!r)
			continue;
		s.look = PLOT_LINE;
		snprintf(s.name, sizeof s.name, "%s", compare_method_name(r->method));
		plot_key_add(p, &s);
	}
	for (unsigned w = 0; w < c->request.nworkers; w++) {
		struct plot_style s = {.look = PLOT_POINTS, .colour = 0x444444, .shape = w};
		uint32_t n = c->request.workers[w];

		snprintf(s.name, sizeof s.name, "%" PRIu32 " worker%s", n, n == 1 ? "" : "s");
		plot_key_add(p, &s);
	}
	plot_key_add(p, &(struct plot_style){
			    .name = "ideal speed-up", .look = PLOT_DASHED, .colour = PLOT_GREY});
}

void
compare_plot(const struct compare *c, struct plot *out)
{
	bool any = false;

	for (size_t i = 0; i < c->nruns; i++)
		any = any || c->run[i].nepochs;
	if (!any)
		return;
	out->title = "One training by several methods";
	out->npanels = 3;
	out->panel[0] = (struct plot_panel){
	    .title = "Accuracy",
	    .text =
		"test accuracy in % over seconds of training, each method with its most workers",
	    .x = {.label = "training (s)", .unit = " s", .from_zero = true},
	    .y = {.label = "test accuracy (%)", .whole = true}};
	out->panel[1] = (struct plot_panel){.title = "Loss",
					    .x = {.label = "epoch", .counts = true},
					    .y = {.label = "mean loss over the training images"}};
	out->panel[2] = (struct plot_panel){
	    .title = "Speed-up",
	    .text = c->request.nworkers > 1 ? "speed-up over workers; dots: ideal" : NULL,
	    .x = {.label = "workers", .tick = c->request.workers, .nticks = c->request.nworkers},
	    .y = {.label = "speed-up over the fewest workers", .from_zero = true}};
	add_progress(c, false, &out->panel[0]);
	add_progress(c, true, &out->panel[1]);
	add_speedups(c, &out->panel[2]);
	add_key(c, out);
}
