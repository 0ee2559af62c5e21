/* plot_impl.h - of the room alone. */
#ifndef PLOT_IMPL_H
#define PLOT_IMPL_H

#include "plot/plot.h"

#define PLOT_TICKS 16

/* An axis, when its curves are known; lo < hi. */
struct plot_range {
	double lo, hi;
	double tick[PLOT_TICKS]; /* where the axis says so, else by the one who draws */
	unsigned nticks;
};

/* Whether a point is on both axes. */
bool plot_is_on(const struct plot_panel *p, const double at[2]);

/* Of the axis 0 (x) or 1 (y). text: only curves with a mark count. */
struct plot_range plot_range_of(const struct plot_panel *p, unsigned axis, bool text);

/* "8", "1K", "32M". */
const char *plot_size_text(double nbytes, char out[16]);

#endif
