/*
 * top_text.h - rows of top as lines of text: for the screen, as wide as it is, and for scripts.
 */
#ifndef GPUCTL_TOP_TEXT_H
#define GPUCTL_TOP_TEXT_H

#include "view/top.h"

#define TOP_LINE 512 /* bytes of a line, its end included */

/* Which columns, in their order, and how wide; a negative width is flush left. */
struct top_layout {
	unsigned n;
	enum top_column column[TOP_NCOLUMNS];
	int width[TOP_NCOLUMNS];
	bool dense; /* no blanks within cells but in the last column */
};

/* For a screen of so many columns. */
struct top_layout top_layout_screen(int cols);

/* For scripts: every column, words separated by blanks, the operation last. */
struct top_layout top_layout_batch(void);

/* Where a column begins in a line and how wide it is; false: it is not shown. */
bool top_layout_find(const struct top_layout *l, enum top_column c, int *at, int *width);

void top_line_headings(const struct top_layout *l, char out[TOP_LINE]);
/* A lost device has the reason in place of its operation. */
void top_line_device(const struct top_layout *l, const struct top_device *d, char out[TOP_LINE]);

void top_line_comm_headings(char out[TOP_LINE]);
void top_line_comm(const struct top_comm *c, char out[TOP_LINE]);

/* "4 devices: 3 running, 1 stopped; 1 communicator" */
void top_line_summary(const struct top *t, char out[TOP_LINE]);

#endif
