/*
 * show.h - print an algorithm's thread blocks and steps, as text or JSON. Pure.
 */
#ifndef ALGO_SHOW_H
#define ALGO_SHOW_H

#include "algo/prove.h"
#include "base/buf.h"

/* Append; one line a step, under its block, under its rank. False: out of memory. */
bool algo_show(const struct algo *a, const struct proof *proof, struct buf *out);

/* As algo_show, as one JSON object. */
bool algo_show_json(const struct algo *a, const struct proof *proof, struct buf *out);

#endif
