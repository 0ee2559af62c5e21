/* plot_impl.h - only for lib/observe/plot. */
#ifndef PLOT_IMPL_H
#define PLOT_IMPL_H

#include "plot/plot.h"

#define PLOT_TICKS 16

/* The range of an axis; lo < hi. */
struct plot_range {
	double lo, hi;
	double tick[PLOT_TICKS]; /* the axis' own, else chosen when drawing */
	unsigned nticks;
};

/* Return true if a point is within both axes. */
bool plot_is_on(const struct plot_panel *p, const double at[2]);

/* The range of axis 0 (x) or 1 (y). text: only curves with a mark count. */
struct plot_range plot_range_of(const struct plot_panel *p, unsigned axis, bool text);

/* "8", "1K", "32M". */
const char *plot_size_text(double nbytes, char out[16]);

#endif
