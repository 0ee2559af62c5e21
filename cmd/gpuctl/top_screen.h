/*
 * top_screen.h - top in a terminal: drawing with ncurses, and keys.
 */
#ifndef GPUCTL_TOP_SCREEN_H
#define GPUCTL_TOP_SCREEN_H

#include "view/top.h"

/* The user's settings. */
struct top_settings {
	enum top_column sort;
	bool reverse, frozen, help;
	bool typing;	 /* the filter is being typed */
	char filter[32]; /* show devices with this text */
	uint32_t interval_ms;
	size_t first; /* the first visible row */
	bool quit;
};

#define TOP_INTERVAL_MIN 100
#define TOP_INTERVAL_MAX 60000

/* Take the terminal. RC_INVAL: not a terminal, or one of an unknown type. */
enum rc top_screen_begin(struct err *err);
/* Restore the terminal. May be called repeatedly, and without top_screen_begin. */
void top_screen_end(void);

/* Draw. t: sorted, or NULL; message: an error, or "". */
void top_screen_draw(const struct top *t, struct top_settings *s, const char *message);

/* Handle all keys that have been pressed. */
void top_screen_keys(struct top_settings *s, size_t nrows);

#endif
