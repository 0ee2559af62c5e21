/*
 * top_screen.h - top in a terminal: drawn by ncurses, and what keys do.
 */
#ifndef GPUCTL_TOP_SCREEN_H
#define GPUCTL_TOP_SCREEN_H

#include "view/top.h"

/* What the user has set. */
struct top_settings {
	enum top_column sort;
	bool reverse, frozen, help;
	bool typing;	 /* the filter is being typed */
	char filter[32]; /* devices that have this text */
	uint32_t interval_ms;
	size_t first; /* row that is on top */
	bool quit;
};

#define TOP_INTERVAL_MIN 100
#define TOP_INTERVAL_MAX 60000

/* Take the terminal. RC_INVAL: it is none, or of a kind that is not known. */
enum rc top_screen_begin(struct err *err);
/* Give it back as it was. May be called again, and without a beginning. */
void top_screen_end(void);

/* Draw. t: sorted already, or NULL; message: an error, or "". */
void top_screen_draw(const struct top *t, struct top_settings *s, const char *message);

/* Carry out all keys that have been pressed. */
void top_screen_keys(struct top_settings *s, size_t nrows);

#endif
