/* A plot as text: for terminals and logs. */
#include "plot/plot_impl.h"

#include <math.h>
#include <string.h>

#include "base/must.h"

#define WIDTH	 70 /* columns, after the 9 of the values */
#define ROWS_MAX 64
#define SEVERAL	 '#' /* where curves meet */

/* A panel's ends, and its rows from the top. */
struct grid {
	const struct plot_panel *of;
	struct plot_range x, y;
	unsigned rows;
	char cell[ROWS_MAX][WIDTH];
};

static void
grid_init(struct grid *g, const struct plot_panel *p, unsigned rows)
{
	*g = (struct grid){.of = p,
			   .x = plot_range_of(p, 0, true),
			   .y = plot_range_of(p, 1, true),
			   .rows = rows < 3	     ? 3
				   : rows > ROWS_MAX ? ROWS_MAX
						     : rows};
	memset(g->cell, ' ', sizeof g->cell);
}

/* The position of v on an axis: 0 at its beginning, 1 at its end. */
static double
part(const struct plot_axis *a, const struct plot_range *r, double v)
{
	return a->log ? log(v / r->lo) / log(r->hi / r->lo) : (v - r->lo) / (r->hi - r->lo);
}

static double
column_of(const struct grid *g, double x)
{
	return part(&g->of->x, &g->x, x) * (WIDTH - 1);
}

static double
row_of(const struct grid *g, double y)
{
	return (1 - part(&g->of->y, &g->y, y)) * (g->rows - 1);
}

static void
put(struct grid *g, double column, double row, char mark)
{
	long c = lround(column), r = lround(row);
	char *cell;

	if (c < 0 || c >= WIDTH || r < 0 || r >= (long)g->rows)
		return;
	cell = &g->cell[r][c];
	*cell = *cell == ' ' || *cell == '.' || *cell == mark ? mark : SEVERAL;
}

/* A straight line, ends included. */
static void
draw(struct grid *g, const double from[2], const double to[2], char mark)
{
	double c = column_of(g, from[0]), r = row_of(g, from[1]);
	double dc = column_of(g, to[0]) - c, dr = row_of(g, to[1]) - r;
	int n;

	if (!isfinite(c + r + dc + dr))
		return;
	n = 1 + (int)fmin(fmax(fabs(dc), fabs(dr)), 4.0 * WIDTH);
	for (int i = 0; i <= n; i++)
		put(g, c + dc * i / n, r + dr * i / n, mark);
}

static void
draw_curve(struct grid *g, const struct plot_curve *c)
{
	const double *from = NULL;

	for (size_t i = 0; i < c->n; i++) {
		const double *to = c->at[i];

		if (!plot_is_on(g->of, to))
			continue;
		draw(g, from && c->style.look != PLOT_POINTS ? from : to, to, c->style.mark);
		from = to;
	}
}

static const char *
value_text(const struct grid *g, unsigned row, char out[16])
{
	double down = (double)row / (g->rows - 1);
	double y = g->of->y.log ? g->y.hi * pow(g->y.lo / g->y.hi, down)
				: g->y.hi - (g->y.hi - g->y.lo) * down;

	snprintf(out, 16, fabs(y) >= 1e4 || (y != 0 && fabs(y) < 0.01) ? "%.1e" : "%.2f", y);
	return out;
}

/* Rows with the values of the first, the middle and the last; then the axis. */
static void
print_grid(const struct grid *g, struct buf *out)
{
	must_addf(out, "\n%s\n", g->of->text);
	for (unsigned i = 0; i < g->rows; i++) {
		char value[16] = "";
		int n = WIDTH;

		while (n > 0 && g->cell[i][n - 1] == ' ')
			n--;
		if (i == 0 || i == g->rows / 2 || i == g->rows - 1)
			value_text(g, i, value);
		must_addf(out, "%7s |%.*s\n", value, n, g->cell[i]);
	}
	must_addf(out, "%7s +%.*s\n", "", WIDTH,
		  "----------------------------------------"
		  "----------------------------------------");
}

/* Below the axis: texts at columns, if there is room. */
struct ticks {
	char text[WIDTH + 16];
	size_t end; /* of the text so far */
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

static void
print_ticks(const struct grid *g, struct buf *out)
{
	const struct plot_axis *a = &g->of->x;
	const char *unit = a->unit ? a->unit : "";
	struct ticks t = {0};
	char text[48], size[16];

	for (unsigned i = 0; i < g->x.nticks; i++) {
		snprintf(text, sizeof text, "%g", g->x.tick[i]);
		tick(&t, column_of(g, g->x.tick[i]),
		     a->sizes ? plot_size_text(g->x.tick[i], size) : text);
	}
	if (!g->x.nticks) {
		snprintf(text, sizeof text, "%.4g%s", g->x.lo, unit);
		tick(&t, 0, text);
		snprintf(text, sizeof text, "%.4g%s", g->x.hi, unit);
		tick(&t, WIDTH, text);
	}
	must_addf(out, "%9s%s\n", "", t.text);
}

/* "a allreduce" (mark and name), unless it was printed before. */
static void
print_mark(const struct plot_style *s, size_t *column, struct buf *out)
{
	size_t n = strlen(s->name) + 4;

	if (!s->mark || !s->name[0])
		return;
	if (*column + n > WIDTH && *column) {
		*column = 0;
		must_addf(out, "\n%9s", "");
	}
	*column += n;
	must_addf(out, "%c %s  ", s->mark, s->name);
}

/* The legend of the key, else of the first panel, whose curves the others have, too. */
static void
print_legend(const struct plot *p, struct buf *out)
{
	size_t column = 0;

	must_addf(out, "\n%9s", "");
	for (size_t i = 0; i < p->nkeys; i++)
		print_mark(&p->key[i], &column, out);
	for (size_t i = 0; !p->nkeys && i < p->panel[0].ncurves; i++)
		print_mark(&p->panel[0].curve[i].style, &column, out);
	must_addf(out, "%c several\n", SEVERAL);
}

static bool
is_alone(const struct plot *p)
{
	return !p->nkeys && p->panel[0].ncurves == 1;
}

void
plot_text(const struct plot *p, unsigned rows, struct buf *out)
{
	if (!plot_has_points(p))
		return;
	for (unsigned i = 0; i < p->npanels; i++) {
		struct grid g;

		if (!p->panel[i].text)
			continue;
		grid_init(&g, &p->panel[i], rows);
		for (size_t k = 0; k < p->panel[i].ncurves; k++)
			if (p->panel[i].curve[k].style.mark)
				draw_curve(&g, &p->panel[i].curve[k]);
		print_grid(&g, out);
		print_ticks(&g, out);
	}
	if (!is_alone(p))
		print_legend(p, out);
}
