/* A plot as a script for gnuplot. */
#include "plot/plot_impl.h"

#include <math.h>
#include <string.h>

#define MARGIN	   0.04 /* of an axis, beyond its curves */
#define COUNTS_MAX 20	/* with a tick each */

/* Filled circle, square, triangle, diamond; then the same empty. */
static const unsigned shapes[] = {7, 5, 9, 13, 6, 4, 8, 12};
#define NSHAPES (sizeof shapes / sizeof *shapes)

/* A string of gnuplot's; its quotes are doubled. */
static bool
add_string(struct buf *out, const char *text)
{
	bool good = buf_addf(out, "'");

	for (; *text && good; text++)
		good = *text == '\''				     ? buf_addf(out, "''")
		       : (unsigned char)*text < ' ' || *text == 0x7f ? buf_addf(out, "?")
								     : buf_add(out, text, 1);
	return good && buf_addf(out, "'");
}

static bool
set_string(struct buf *out, const char *what, const char *text)
{
	return buf_addf(out, "set %s ", what) && add_string(out, text ? text : "") &&
	       buf_addf(out, "\n");
}

/* ---- the page: panels in one or two columns, the legend behind them */

static unsigned
places(const struct plot *p)
{
	return p->npanels + (p->nkeys > 0);
}

static bool
add_terminal(const struct plot *p, enum plot_form form, struct buf *out)
{
	unsigned w = places(p) > 1 ? 1200 : 900, h = places(p) > 2    ? 900
						     : places(p) == 2 ? 500
								      : 600;

	if (form == PLOT_SVG)
		return buf_addf(out,
				"set terminal svg size %u,%u dynamic noenhanced font 'sans,12' "
				"background '#ffffff'\n",
				w, h);
	return buf_addf(out,
			"if (strstrt(GPVAL_TERMINALS, ' pngcairo ')) set terminal pngcairo size "
			"%u,%u noenhanced font 'sans,12'; else set terminal png size %u,%u "
			"noenhanced\n",
			w, h, w, h);
}

static bool
add_place(const struct plot *p, unsigned i, struct buf *out)
{
	unsigned columns = places(p) > 1 ? 2 : 1, rows = (places(p) + columns - 1) / columns;
	double head = p->title ? rows > 1 ? 0.05 : 0.08 : 0, high = (1 - head) / rows;

	return buf_addf(out, "set origin %.3f,%.3f\nset size %.3f,%.3f\n",
			(double)(i % columns) / columns, high * (rows - 1 - i / columns),
			1.0 / columns, high);
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
static bool
add_data(const struct plot *p, struct buf *out)
{
	bool good = true;

	for (unsigned i = 0; i < p->npanels; i++)
		for (size_t k = 0; k < p->panel[i].ncurves && good; k++) {
			const struct plot_curve *c = &p->panel[i].curve[k];

			if (!is_drawn(&p->panel[i], c))
				continue;
			good = buf_addf(out, "$panel%ucurve%zu << END\n", i, k);
			for (size_t n = 0; n < c->n && good; n++)
				if (plot_is_on(&p->panel[i], c->at[n]))
					good =
					    buf_addf(out, "%.9g %.9g\n", c->at[n][0], c->at[n][1]);
			good = good && buf_addf(out, "END\n");
		}
	return good;
}

/* "with lines linewidth 2 linecolor '#0072B2'". */
static bool
add_style(const struct plot_style *s, struct buf *out)
{
	static const char *const looks[] = {[PLOT_BOTH] = "linespoints linewidth 2",
					    [PLOT_LINE] = "lines linewidth 2",
					    [PLOT_DASHED] = "lines linewidth 2 dashtype 2",
					    [PLOT_POINTS] = "points"};
	bool points = s->look == PLOT_BOTH || s->look == PLOT_POINTS;

	return buf_addf(out, " with %s linecolor '#%06X'", looks[s->look],
			(unsigned)(s->colour & 0xffffff)) &&
	       (!points ||
		buf_addf(out, " pointtype %u pointsize 1.2", shapes[s->shape % NSHAPES]));
}

static bool
add_curves(const struct plot *p, unsigned i, struct buf *out)
{
	const struct plot_panel *panel = &p->panel[i];
	bool good = buf_addf(out, "plot"), any = false;

	for (size_t k = 0; k < panel->ncurves && good; k++) {
		const struct plot_style *s = &panel->curve[k].style;

		if (!is_drawn(panel, &panel->curve[k]))
			continue;
		good = buf_addf(out, "%s \\\n  $panel%ucurve%zu using 1:2", any ? "," : "", i, k) &&
		       add_style(s, out) &&
		       (p->nkeys || !s->name[0]
			    ? buf_addf(out, " notitle")
			    : buf_addf(out, " title ") && add_string(out, s->name));
		any = true;
	}
	return good && buf_addf(out, any ? "\n" : " NaN notitle\n");
}

/* ---- axes */

/* The range with a margin where it is not fixed. */
static bool
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
	return buf_addf(out, "%sset logscale %c\nset %crange [%.9g:%.9g]\n", a->log ? "" : "un",
			axis, axis, lo, hi);
}

static bool
add_ticks(const struct plot_axis *a, const struct plot_range *r, char axis, struct buf *out)
{
	bool few = a->counts && r->hi - r->lo <= COUNTS_MAX;
	bool good = buf_addf(out, "set %ctics %s", axis, r->nticks ? "(" : few ? "1" : "autofreq");

	for (unsigned i = 0; i < r->nticks && good; i++) {
		char size[16];

		good = a->sizes ? buf_addf(out, "%s'%s' %.9g", i ? "," : "",
					   plot_size_text(r->tick[i], size), r->tick[i])
				: buf_addf(out, "%s%.9g", i ? "," : "", r->tick[i]);
	}
	return good && buf_addf(out, "%s\n", r->nticks ? ")" : "");
}

static bool
add_axis(const struct plot_panel *p, unsigned axis, struct buf *out)
{
	const struct plot_axis *a = axis ? &p->y : &p->x;
	struct plot_range r = plot_range_of(p, axis, false);

	return set_string(out, axis ? "ylabel" : "xlabel", a->label) &&
	       add_range(a, &r, axis ? 'y' : 'x', out) && add_ticks(a, &r, axis ? 'y' : 'x', out);
}

static bool
has_names(const struct plot_panel *p)
{
	for (size_t k = 0; k < p->ncurves; k++)
		if (p->curve[k].style.name[0])
			return true;
	return false;
}

static bool
add_panel(const struct plot *p, unsigned i, struct buf *out)
{
	const struct plot_panel *panel = &p->panel[i];

	return add_place(p, i, out) && set_string(out, "title", panel->title) &&
	       buf_addf(out, "%s\n",
			!p->nkeys && has_names(panel) ? "set key left top Left reverse"
						      : "unset key") &&
	       add_axis(panel, 0, out) && add_axis(panel, 1, out) && add_curves(p, i, out);
}

/* Nothing but the key: a curve of each look, out of sight. */
static bool
add_legend(const struct plot *p, struct buf *out)
{
	bool good = add_place(p, p->npanels, out) &&
		    buf_addf(out, "set title ''\nset xlabel ''\nset ylabel ''\nunset border\n"
				  "unset tics\nunset logscale\nset xrange [0:1]\nset yrange [0:1]\n"
				  "set key at graph 0.5,0.55 center center vertical maxrows 14 "
				  "Left reverse samplen 3 spacing 1.3\nplot");

	for (size_t i = 0; i < p->nkeys && good; i++)
		good = buf_addf(out, "%s \\\n  -1", i ? "," : "") && add_style(&p->key[i], out) &&
		       buf_addf(out, " title ") && add_string(out, p->key[i].name);
	return good && buf_addf(out, "\n");
}

bool
plot_gnuplot(const struct plot *p, enum plot_form form, struct buf *out)
{
	bool good = !plot_has_points(p) ||
		    (add_terminal(p, form, out) &&
		     buf_addf(out, "set grid linetype 1 linecolor '#dddddd'\nset border 3\n"
				   "set tics nomirror\n") &&
		     add_data(p, out) && buf_addf(out, "set multiplot title ") &&
		     add_string(out, p->title ? p->title : "") && buf_addf(out, " font ',15'\n"));

	if (!good || !plot_has_points(p))
		return good;
	for (unsigned i = 0; i < p->npanels && good; i++)
		good = add_panel(p, i, out);
	return good && (!p->nkeys || add_legend(p, out)) && buf_addf(out, "unset multiplot\n");
}
