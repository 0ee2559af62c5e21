#include "plot/plot_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

/* Okabe and Ito's. */
static const uint32_t colours[] = {0x0072B2, 0xD55E00, 0x009E73, 0xCC79A7,
				   0xE69F00, 0x56B4E9, 0x000000, 0xF0E442};

uint32_t
plot_colour(unsigned i)
{
	return colours[i % (sizeof colours / sizeof *colours)];
}

struct plot_curve *
plot_curve_add(struct plot_panel *p, const struct plot_style *s)
{
	p->curve = must_resize(p->curve, p->ncurves + 1, sizeof *p->curve);
	p->curve[p->ncurves] = (struct plot_curve){.style = *s};
	return &p->curve[p->ncurves++];
}

void
plot_point_add(struct plot_curve *c, double x, double y)
{
	if (!isfinite(x) || !isfinite(y))
		return;
	must_room(&c->at, c->n, &c->cap, sizeof *c->at);
	c->at[c->n][0] = x;
	c->at[c->n++][1] = y;
}

void
plot_key_add(struct plot *p, const struct plot_style *s)
{
	p->key = must_resize(p->key, p->nkeys + 1, sizeof *p->key);
	p->key[p->nkeys++] = *s;
}

void
plot_fini(struct plot *p)
{
	for (unsigned i = 0; i < p->npanels; i++) {
		for (size_t k = 0; k < p->panel[i].ncurves; k++)
			free(p->panel[i].curve[k].at);
		free(p->panel[i].curve);
	}
	free(p->key);
	*p = (struct plot){0};
}

/* ---- axes */

bool
plot_is_on(const struct plot_panel *p, const double at[2])
{
	return !(p->x.log && at[0] <= 0) && !(p->y.log && at[1] <= 0);
}

bool
plot_has_points(const struct plot *p)
{
	for (unsigned i = 0; i < p->npanels; i++)
		for (size_t c = 0; c < p->panel[i].ncurves; c++)
			for (size_t k = 0; k < p->panel[i].curve[c].n; k++)
				if (plot_is_on(&p->panel[i], p->panel[i].curve[c].at[k]))
					return true;
	return false;
}

static void
find_ends(const struct plot_panel *p, unsigned axis, bool text, struct plot_range *r)
{
	r->lo = INFINITY;
	r->hi = -INFINITY;
	for (size_t i = 0; i < p->ncurves; i++)
		for (size_t k = 0; k < p->curve[i].n; k++) {
			const double *at = p->curve[i].at[k];

			if ((text && !p->curve[i].style.mark) || !plot_is_on(p, at))
				continue;
			r->lo = fmin(r->lo, at[axis]);
			r->hi = fmax(r->hi, at[axis]);
		}
	if (r->lo > r->hi)
		r->lo = r->hi = 1;
}

/* Powers of two, and few enough. */
static void
tick_sizes(struct plot_range *r)
{
	int first = (int)ceil(log2(r->lo) - 1e-9), last = (int)floor(log2(r->hi) + 1e-9);
	int step = 1 + (last - first) / 10;

	for (int i = first; i <= last && r->nticks < PLOT_TICKS; i += step)
		r->tick[r->nticks++] = ldexp(1, i);
}

struct plot_range
plot_range_of(const struct plot_panel *p, unsigned axis, bool text)
{
	const struct plot_axis *a = axis ? &p->y : &p->x;
	struct plot_range r = {0};

	find_ends(p, axis, text, &r);
	if (a->from_zero && !a->log)
		r.lo = fmin(r.lo, 0);
	if (a->whole) {
		r.lo = floor(r.lo);
		r.hi = ceil(r.hi);
	}
	if (r.hi <= r.lo && a->log) {
		r.lo /= 2;
		r.hi *= 2;
	} else if (r.hi <= r.lo) {
		r.hi = r.lo + 1;
	}
	for (unsigned i = 0; i < a->nticks && r.nticks < PLOT_TICKS; i++)
		r.tick[r.nticks++] = a->tick[i];
	if (a->sizes && a->log)
		tick_sizes(&r);
	return r;
}

const char *
plot_size_text(double nbytes, char out[16])
{
	static const char units[] = "\0KMGTPE";
	unsigned u = 0;

	for (; nbytes >= 1024 && u < sizeof units - 2; u++)
		nbytes /= 1024;
	snprintf(out, 16, "%.4g%.1s", nbytes, units + u);
	return out;
}
