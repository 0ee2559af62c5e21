/* A plot as a script for gnuplot. */
#include "plot/plot_impl.h"

#include <math.h>
#include <string.h>

#include "base/must.h"

#define MARGIN	   0.04 /* of an axis, beyond its curves */
#define COUNTS_MAX 20	/* with a tick each */

/* Filled circle, square, triangle, diamond; then the same empty. */
static const unsigned shapes[] = {7, 5, 9, 13, 6, 4, 8, 12};
#define NSHAPES (sizeof shapes / sizeof *shapes)

/* A string of gnuplot's; its quotes are doubled. */
static void
add_string(struct buf *out, const char *text)
{
	must_addf(out, "'");
	for (; *text; text++) {
		if (*text == '\'')
			must_addf(out, "''");
		else if ((unsigned char)*text < ' ' || *text == 0x7f)
			must_addf(out, "?");
		else
			must_add(out, text, 1);
	}
	must_addf(out, "'");
}

static void
set_string(struct buf *out, const char *what, const char *text)
{
	must_addf(out, "set %s ", what);
	add_string(out, text ? text : "");
	must_addf(out, "\n");
}

/* ---- the page: panels in one or two columns, the legend behind them */

static unsigned
places(const struct plot *p)
{
	return p->npanels + (p->nkeys > 0);
}

static void
add_terminal(const struct plot *p, enum plot_form form, struct buf *out)
{
	unsigned w = places(p) > 1 ? 1200 : 900, h = places(p) > 2    ? 900
						     : places(p) == 2 ? 500
								      : 600;

	if (form == PLOT_SVG) {
		must_addf(out,
			  "set terminal svg size %u,%u dynamic noenhanced font 'sans,12' "
			  "background '#ffffff'\n",
			  w, h);
		return;
	}
	must_addf(out,
		  "if (strstrt(GPVAL_TERMINALS, ' pngcairo ')) set terminal pngcairo size "
		  "%u,%u noenhanced font 'sans,12'; else set terminal png size %u,%u "
		  "noenhanced\n",
		  w, h, w, h);
}

static void
add_place(const struct plot *p, unsigned i, struct buf *out)
{
	unsigned columns = places(p) > 1 ? 2 : 1, rows = (places(p) + columns - 1) / columns;
	double head = p->title ? rows > 1 ? 0.05 : 0.08 : 0, high = (1 - head) / rows;

	must_addf(out, "set origin %.3f,%.3f\nset size %.3f,%.3f\n",
		  (double)(i % columns) / columns, high * (rows - 1 - i / columns), 1.0 / columns,
		  high);
}

/* ---- curves */

static bool
is_drawn(const struct plot_panel *p, const struct plot_curve *c)
{
	for (size_t k = 0; k < c->n; k++)
		if (plot_is_on(p, c->at[k]))
			return true;
	return false;
}

/* $panel0curve1: x, y. */
static void
add_data(const struct plot *p, struct buf *out)
{
	for (unsigned i = 0; i < p->npanels; i++)
		for (size_t k = 0; k < p->panel[i].ncurves; k++) {
			const struct plot_curve *c = &p->panel[i].curve[k];

			if (!is_drawn(&p->panel[i], c))
				continue;
			must_addf(out, "$panel%ucurve%zu << END\n", i, k);
			for (size_t n = 0; n < c->n; n++)
				if (plot_is_on(&p->panel[i], c->at[n]))
					must_addf(out, "%.9g %.9g\n", c->at[n][0], c->at[n][1]);
			must_addf(out, "END\n");
		}
}

/* "with lines linewidth 2 linecolor '#0072B2'". */
static void
add_style(const struct plot_style *s, struct buf *out)
{
	static const char *const looks[] = {[PLOT_BOTH] = "linespoints linewidth 2",
					    [PLOT_LINE] = "lines linewidth 2",
					    [PLOT_DASHED] = "lines linewidth 2 dashtype 2",
					    [PLOT_POINTS] = "points"};
	bool points = s->look == PLOT_BOTH || s->look == PLOT_POINTS;

	must_addf(out, " with %s linecolor '#%06X'", looks[s->look],
		  (unsigned)(s->colour & 0xffffff));
	if (points)
		must_addf(out, " pointtype %u pointsize 1.2", shapes[s->shape % NSHAPES]);
}

static void
add_curves(const struct plot *p, unsigned i, struct buf *out)
{
	const struct plot_panel *panel = &p->panel[i];
	bool any = false;

	must_addf(out, "plot");
	for (size_t k = 0; k < panel->ncurves; k++) {
		const struct plot_style *s = &panel->curve[k].style;

		if (!is_drawn(panel, &panel->curve[k]))
			continue;
		must_addf(out, "%s \\\n  $panel%ucurve%zu using 1:2", any ? "," : "", i, k);
		add_style(s, out);
		if (p->nkeys || !s->name[0]) {
			must_addf(out, " notitle");
		} else {
			must_addf(out, " title ");
			add_string(out, s->name);
		}
		any = true;
	}
	must_addf(out, any ? "\n" : " NaN notitle\n");
}

/* ---- axes */

/* The range with a margin where it is not fixed. */
static void
add_range(const struct plot_axis *a, const struct plot_range *r, char axis, struct buf *out)
{
	double lo = r->lo, hi = r->hi;

	if (a->log) {
		double by = pow(hi / lo, MARGIN);

		lo /= by;
		hi *= by;
	} else if (!a->whole) {
		double by = (hi - lo) * MARGIN;

		lo -= a->from_zero && lo == 0 ? 0 : by;
		hi += by;
	}
	must_addf(out, "%sset logscale %c\nset %crange [%.9g:%.9g]\n", a->log ? "" : "un", axis,
		  axis, lo, hi);
}

static void
add_ticks(const struct plot_axis *a, const struct plot_range *r, char axis, struct buf *out)
{
	bool few = a->counts && r->hi - r->lo <= COUNTS_MAX;

	must_addf(out, "set %ctics %s", axis, r->nticks ? "(" : few ? "1" : "autofreq");
	for (unsigned i = 0; i < r->nticks; i++) {
		char size[16];

		if (a->sizes)
			must_addf(out, "%s'%s' %.9g", i ? "," : "",
				  plot_size_text(r->tick[i], size), r->tick[i]);
		else
			must_addf(out, "%s%.9g", i ? "," : "", r->tick[i]);
	}
	must_addf(out, "%s\n", r->nticks ? ")" : "");
}

static void
add_axis(const struct plot_panel *p, unsigned axis, struct buf *out)
{
	const struct plot_axis *a = axis ? &p->y : &p->x;
	struct plot_range r = plot_range_of(p, axis, false);

	set_string(out, axis ? "ylabel" : "xlabel", a->label);
	add_range(a, &r, axis ? 'y' : 'x', out);
	add_ticks(a, &r, axis ? 'y' : 'x', out);
}

static bool
has_names(const struct plot_panel *p)
{
	for (size_t k = 0; k < p->ncurves; k++)
		if (p->curve[k].style.name[0])
			return true;
	return false;
}

static void
add_panel(const struct plot *p, unsigned i, struct buf *out)
{
	const struct plot_panel *panel = &p->panel[i];

	add_place(p, i, out);
	set_string(out, "title", panel->title);
	must_addf(out, "%s\n",
		  !p->nkeys && has_names(panel) ? "set key left top Left reverse" : "unset key");
	add_axis(panel, 0, out);
	add_axis(panel, 1, out);
	add_curves(p, i, out);
}

/* Nothing but the key: a curve of each look, out of sight. */
static void
add_legend(const struct plot *p, struct buf *out)
{
	add_place(p, p->npanels, out);
	must_addf(out, "set title ''\nset xlabel ''\nset ylabel ''\nunset border\n"
		       "unset tics\nunset logscale\nset xrange [0:1]\nset yrange [0:1]\n"
		       "set key at graph 0.5,0.55 center center vertical maxrows 14 "
		       "Left reverse samplen 3 spacing 1.3\nplot");
	for (size_t i = 0; i < p->nkeys; i++) {
		must_addf(out, "%s \\\n  -1", i ? "," : "");
		add_style(&p->key[i], out);
		must_addf(out, " title ");
		add_string(out, p->key[i].name);
	}
	must_addf(out, "\n");
}

void
plot_gnuplot(const struct plot *p, enum plot_form form, struct buf *out)
{
	if (!plot_has_points(p))
		return;
	add_terminal(p, form, out);
	must_addf(out, "set grid linetype 1 linecolor '#dddddd'\nset border 3\n"
		       "set tics nomirror\n");
	add_data(p, out);
	must_addf(out, "set multiplot title ");
	add_string(out, p->title ? p->title : "");
	must_addf(out, " font ',15'\n");
	for (unsigned i = 0; i < p->npanels; i++)
		add_panel(p, i, out);
	if (p->nkeys)
		add_legend(p, out);
	must_addf(out, "unset multiplot\n");
}
