/*
 * text.h - our own text form of algorithms; gpusim-algo(5) tells of it. Pure.
 */
#ifndef ALGO_TEXT_H
#define ALGO_TEXT_H

#include "algo/algo.h"
#include "base/buf.h"

/*
 * text_parse - an algorithm from our text form.
 *
 *	name	of the file, for sentences
 *	out	[out] the caller's, to release with algo_free; its shape has been checked
 *
 * The work is bounded, whatever the loops say. RC_BADDATA "NAME:LINE: reason", RC_NOMEM.
 */
enum rc text_parse(const char *bytes, size_t n, const char *name, struct algo **out,
		   struct err *err);

#endif
