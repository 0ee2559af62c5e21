/*
 * plot.h - curves as a picture: SVG and PNG by gnuplot, or text for terminals and logs.
 *
 * Building a plot, its script and its text are pure. Only plot_save runs a program.
 */
#ifndef PLOT_PLOT_H
#define PLOT_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/rc.h"

#define PLOT_PANELS 4
#define PLOT_NAME   80
#define PLOT_ROWS   14 /* of a panel in text, unless the terminal has fewer */

enum plot_look { PLOT_BOTH, PLOT_LINE, PLOT_DASHED, PLOT_POINTS }; /* BOTH: a line with points */

/* How a curve is shown. */
struct plot_style {
	char name[PLOT_NAME]; /* in the legend; "": left out */
	enum plot_look look;
	uint32_t colour; /* 0xRRGGBB; plot_colour() has some */
	unsigned shape;	 /* of the points: any number */
	char mark;	 /* in text; 0: not in text. '.': other marks replace it */
};

struct plot_curve {
	struct plot_style style;
	double (*at)[2]; /* x and y, by x */
	size_t n, cap;
};

struct plot_axis {
	const char *label;
	const char *unit; /* after the text's numbers: " s"; NULL: none */
	bool log;	  /* logarithmic: values up to 0 are left out */
	bool sizes;	  /* ticks as 1K, 32K, 1M */
	bool from_zero;
	bool whole;	      /* from a whole number to a whole number */
	bool counts;	      /* things that are counted: few have a tick each */
	const uint32_t *tick; /* only there; NULL: anywhere */
	unsigned nticks;
};

struct plot_panel {
	const char *title;
	const char *text; /* its title in text; NULL: text leaves the panel out */
	struct plot_axis x, y;
	struct plot_curve *curve;
	size_t ncurves;
};

/* Initialise with {0}. Titles and labels are borrowed. */
struct plot {
	const char *title;
	struct plot_panel panel[PLOT_PANELS];
	unsigned npanels;
	/* A common legend, in the place of a panel, instead of one for each panel's curves. */
	struct plot_style *key;
	size_t nkeys;
};

/* Colours that are distinct also for colour-blind readers, by number; and a grey. */
uint32_t plot_colour(unsigned i);
#define PLOT_GREY 0x888888

/* Append. The curve is valid until the next is added to its panel. */
struct plot_curve *plot_curve_add(struct plot_panel *p, const struct plot_style *s);
void plot_point_add(struct plot_curve *c, double x, double y); /* left out if it is not finite */
void plot_key_add(struct plot *p, const struct plot_style *s);
void plot_fini(struct plot *p);

/* Return true if there is any point. */
bool plot_has_points(const struct plot *p);

enum plot_form { PLOT_TEXT, PLOT_SVG, PLOT_PNG };

/* Check the form, and that the file could be created, before hours of work. RC_INVAL, RC_FAILED. */
enum rc plot_check(const char *path, struct err *err);

/* A script for gnuplot 5, data included, that writes the picture to standard output. */
void plot_gnuplot(const struct plot *p, enum plot_form form, struct buf *out);

/* The panels one below the other, each with `rows` rows of 80 columns; then the legend. */
void plot_text(const struct plot *p, unsigned rows, struct buf *out);

/*
 * plot_save - draw by gnuplot, to a file that gets the whole picture or is unchanged.
 *
 * RC_NOTFOUND gnuplot was not found; RC_FAILED with its message, or the file's error; RC_TIMEOUT.
 */
enum rc plot_save(const struct plot *p, const char *path, struct err *err);

/* The picture of --plot: to the file; as text to the stream for "-", or, with a warning, without gnuplot. */
enum rc plot_show(const struct plot *p, const char *path, FILE *text, struct err *err);

#endif
