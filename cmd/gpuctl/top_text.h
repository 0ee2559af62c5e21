/*
 * top_text.h - format rows of top as lines of text, for the screen's width and for scripts.
 */
#ifndef GPUCTL_TOP_TEXT_H
#define GPUCTL_TOP_TEXT_H

#include "view/top.h"

#define TOP_LINE 512 /* bytes of a line, its end included */

/* The columns, in order, and their widths; a negative width is flush left. */
struct top_layout {
	unsigned n;
	enum top_column column[TOP_NCOLUMNS];
	int width[TOP_NCOLUMNS];
	bool dense; /* no blanks within cells except in the last column */
};

/* The layout for a screen of `cols` columns. */
struct top_layout top_layout_screen(int cols);

/* The layout for scripts: every column, words separated by blanks, the operation last. */
struct top_layout top_layout_batch(void);

/* Find a column's position in a line and its width; false: it is not shown. */
bool top_layout_find(const struct top_layout *l, enum top_column c, int *at, int *width);

void top_line_headings(const struct top_layout *l, char out[TOP_LINE]);
/* A lost device's line has the reason in place of its operation. */
void top_line_device(const struct top_layout *l, const struct top_device *d, char out[TOP_LINE]);

void top_line_comm_headings(char out[TOP_LINE]);
void top_line_comm(const struct top_comm *c, char out[TOP_LINE]);

/* "4 devices: 3 running, 1 stopped; 1 communicator" */
void top_line_summary(const struct top *t, char out[TOP_LINE]);

#endif
