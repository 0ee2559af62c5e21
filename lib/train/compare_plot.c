/* A comparison as a plot in text: for terminals and logs, where no gnuplot is. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train/compare.h"

#define WIDTH	70 /* columns, behind the 9 of the values */
#define HEIGHT	14
#define SEVERAL '#' /* where curves meet */

/* By method. */
static const char marks[COMPARE_NMETHODS] = "asptvlm";

/* A panel: what its corners stand for, and its rows from the top. */
struct panel {
	double x0, x1, y0, y1;
	char cell[HEIGHT][WIDTH + 1];
};

static void
panel_init(struct panel *p, double x0, double x1, double y0, double y1)
{
	*p = (struct panel){.x0 = x0, .x1 = x1 > x0 ? x1 : x0 + 1, .y0 = y0, .y1 = y1};
	for (unsigned i = 0; i < HEIGHT; i++)
		memset(p->cell[i], ' ', WIDTH);
}

static double
column_of(const struct panel *p, double x)
{
	return (x - p->x0) / (p->x1 - p->x0) * (WIDTH - 1);
}

static double
row_of(const struct panel *p, double y)
{
	return (p->y1 - y) / (p->y1 - p->y0) * (HEIGHT - 1);
}

static void
put(struct panel *p, double column, double row, char mark)
{
	long c = lround(column), r = lround(row);
	char *cell;

	if (c < 0 || c >= WIDTH || r < 0 || r >= HEIGHT)
		return;
	cell = &p->cell[r][c];
	*cell = *cell == ' ' || *cell == '.' || *cell == mark ? mark : SEVERAL;
}

/* A straight line, ends included. */
static void
draw(struct panel *p, double xa, double ya, double xb, double yb, char mark)
{
	double c = column_of(p, xa), r = row_of(p, ya);
	double dc = column_of(p, xb) - c, dr = row_of(p, yb) - r;
	int n;

	if (!isfinite(c + r + dc + dr))
		return;
	n = 1 + (int)fmin(fmax(fabs(dc), fabs(dr)), 4.0 * WIDTH);
	for (int i = 0; i <= n; i++)
		put(p, c + dc * i / n, r + dr * i / n, mark);
}

/* Rows with the values of the first, the middle and the last; then the axis. */
static bool
print_panel(const struct panel *p, const char *title, struct buf *out)
{
	bool good = buf_addf(out, "\n%s\n", title);

	for (int i = 0; i < HEIGHT && good; i++) {
		double y = p->y1 - (p->y1 - p->y0) * i / (HEIGHT - 1);
		char value[16] = "";
		int n = WIDTH;

		while (n > 0 && p->cell[i][n - 1] == ' ')
			n--;
		if (i == 0 || i == HEIGHT / 2 || i == HEIGHT - 1)
			snprintf(value, sizeof value, "%.2f", y);
		good = buf_addf(out, "%7s |%.*s\n", value, n, p->cell[i]);
	}
	return good && buf_addf(out, "%7s +%.*s\n", "", WIDTH,
				"----------------------------------------"
				"----------------------------------------");
}

/* Below the axis: texts at columns, as far as they have room. */
struct ticks {
	char text[WIDTH + 16];
	size_t end; /* of what is there */
};

static void
tick(struct ticks *t, double column, const char *text)
{
	size_t len = strlen(text), at = (size_t)lround(fmax(column, 0));

	at = at + len > WIDTH ? WIDTH - len : at;
	if (len > WIDTH || (t->end && at <= t->end))
		return;
	memset(t->text + t->end, ' ', at - t->end);
	memcpy(t->text + at, text, len + 1);
	t->end = at + len;
}

/* The run of a method with the most workers of those that have a result. */
static const struct compare_run *
largest(const struct compare *c, enum compare_method m)
{
	const struct compare_run *found = NULL;

	for (size_t i = 0; i < c->nruns; i++)
		if (c->run[i].method == m && c->run[i].nepochs)
			found = &c->run[i];
	return found;
}

/* Whole per cents around what there is, and the longest time. */
static void
accuracy_range(const struct compare *c, double *lo, double *hi, double *seconds)
{
	*lo = 100, *hi = 0, *seconds = 0;
	for (unsigned m = 0; m < c->request.nmethods; m++) {
		const struct compare_run *r = largest(c, c->request.method[m]);

		for (size_t k = 0; r && k < r->nepochs; k++) {
			*lo = fmin(*lo, r->epoch[k].accuracy * 100);
			*hi = fmax(*hi, r->epoch[k].accuracy * 100);
			*seconds = fmax(*seconds, r->epoch[k].seconds);
		}
	}
	*lo = fmax(floor(*lo), 0);
	*hi = fmin(ceil(*hi), 100);
	if (*hi <= *lo)
		*hi = *lo + 1;
}

static bool
plot_accuracy(const struct compare *c, struct buf *out)
{
	double lo, hi, seconds;
	struct ticks ticks = {0};
	struct panel p;
	char last[32];

	accuracy_range(c, &lo, &hi, &seconds);
	panel_init(&p, 0, seconds, lo, hi);
	for (unsigned m = 0; m < c->request.nmethods; m++) {
		const struct compare_run *r = largest(c, c->request.method[m]);

		for (size_t k = 0; r && k < r->nepochs; k++) {
			const struct compare_epoch *to = &r->epoch[k], *from = k ? to - 1 : to;

			draw(&p, from->seconds, from->accuracy * 100, to->seconds,
			     to->accuracy * 100, marks[r->method]);
		}
	}
	snprintf(last, sizeof last, "%.2f s", p.x1);
	tick(&ticks, 0, "0");
	tick(&ticks, WIDTH, last);
	return print_panel(
		   &p, "test accuracy in % over seconds of training, each with its most workers",
		   out) &&
	       buf_addf(out, "%9s%s\n", "", ticks.text);
}

static void
draw_speedups(const struct compare *c, struct panel *p)
{
	double least = c->request.workers[0];
	const struct compare_run *from = NULL;

	draw(p, p->x0, p->x0 / least, p->x1, p->x1 / least, '.');
	for (size_t i = 0; i < c->nruns; i++) {
		const struct compare_run *r = &c->run[i];

		if (!r->nepochs)
			continue;
		if (!from || from->method != r->method)
			from = r;
		draw(p, from->workers, from->speedup, r->workers, r->speedup, marks[r->method]);
		from = r;
	}
}

static bool
plot_speedup(const struct compare *c, struct buf *out)
{
	const struct compare_request *q = &c->request;
	double least = q->workers[0], most = q->workers[q->nworkers - 1], top = most / least;
	struct ticks ticks = {0};
	struct panel p;

	if (q->nworkers < 2)
		return true;
	for (size_t i = 0; i < c->nruns; i++)
		top = fmax(top, c->run[i].speedup);
	panel_init(&p, least, most, 0, top);
	draw_speedups(c, &p);
	for (unsigned w = 0; w < q->nworkers; w++) {
		char text[16];

		snprintf(text, sizeof text, "%" PRIu32, q->workers[w]);
		tick(&ticks, column_of(&p, q->workers[w]), text);
	}
	return print_panel(&p, "speed-up over workers; dots: ideal", out) &&
	       buf_addf(out, "%9s%s\n", "", ticks.text);
}

static bool
plot_legend(const struct compare *c, struct buf *out)
{
	bool good = buf_addf(out, "\n%9s", "");

	for (unsigned m = 0; m < c->request.nmethods && good; m++) {
		enum compare_method method = c->request.method[m];

		if (largest(c, method))
			good = buf_addf(out, "%c %s  ", marks[method], compare_method_name(method));
	}
	return good && buf_addf(out, "%c several\n", SEVERAL);
}

bool
compare_plot(const struct compare *c, struct buf *out)
{
	bool any = false;

	for (size_t i = 0; i < c->nruns; i++)
		any = any || c->run[i].nepochs;
	return !any || (plot_accuracy(c, out) && plot_speedup(c, out) && plot_legend(c, out));
}
