/*
 * plot.h - curves as a picture: SVG and PNG by gnuplot, or text for terminals and logs.
 *
 * Building a plot, its script and its text are pure. plot_save alone runs a program.
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
	char name[PLOT_NAME]; /* in the legend; "": not there */
	enum plot_look look;
	uint32_t colour; /* 0xRRGGBB; plot_colour() has some */
	unsigned shape;	 /* of the points: any number */
	char mark;	 /* in text; 0: it is not in text. '.': others go over it */
};

struct plot_curve {
	struct plot_style style;
	double (*at)[2]; /* x and y, by x */
	size_t n, cap;
};

struct plot_axis {
	const char *label;
	const char *unit; /* behind the text's numbers: " s"; NULL: none */
	bool log;	  /* logarithmic: what is not above 0 is left out */
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
	/* The legend, if it is not that of each panel's curves: it has a panel's place for itself. */
	struct plot_style *key;
	size_t nkeys;
};

/* Colours that look different to everybody, by a number; and a grey. */
uint32_t plot_colour(unsigned i);
#define PLOT_GREY 0x888888

/* Append. The curve is good until the next is added to its panel. False, NULL: out of memory. */
struct plot_curve *plot_curve_add(struct plot_panel *p, const struct plot_style *s);
bool plot_point_add(struct plot_curve *c, double x, double y); /* left out if it is not finite */
bool plot_key_add(struct plot *p, const struct plot_style *s);
void plot_fini(struct plot *p);

/* Is there a point at all? */
bool plot_has_points(const struct plot *p);

enum plot_form { PLOT_TEXT, PLOT_SVG, PLOT_PNG };

/* By the name: .svg, .png; "-" is text. RC_INVAL: something else. */
enum rc plot_form_of(const char *path, enum plot_form *out, struct err *err);

/* The same, and could the file be made? Before hours are spent. RC_INVAL, RC_FAILED. */
enum rc plot_check(const char *path, struct err *err);

/* A script for gnuplot 5, data included, that writes the picture to standard output. False: out of memory. */
bool plot_gnuplot(const struct plot *p, enum plot_form form, struct buf *out);

/* The panels one below the other, each of so many rows, 80 columns wide; then the legend. False: out of memory. */
bool plot_text(const struct plot *p, unsigned rows, struct buf *out);

/*
 * plot_save - draw by gnuplot, into a file that has all of the picture or is as it was.
 *
 * RC_NOTFOUND there is no gnuplot; RC_FAILED with what it says, or the file's error; RC_TIMEOUT; RC_NOMEM.
 */
enum rc plot_save(const struct plot *p, const char *path, struct err *err);

/* The picture of --plot: into the file; to the stream as text for "-", and with a warning where no gnuplot is. */
enum rc plot_show(const struct plot *p, const char *path, FILE *text, struct err *err);

#endif
