/*
 * text.h - our own text form of algorithms, see gpusim-algo(5). Pure.
 */
#ifndef ALGO_TEXT_H
#define ALGO_TEXT_H

#include "algo/algo.h"
#include "base/buf.h"
#include "coll/plan.h"

/*
 * text_parse - an algorithm from our text form.
 *
 *	name	of the file, for sentences
 *	budget	see algo_parse
 *	out	[out] the caller's, to release with algo_free; its shape has been checked
 *
 * The work is bounded for any loops. RC_BADDATA "NAME:LINE: reason", RC_NOMEM.
 */
enum rc text_parse(const char *bytes, size_t n, const char *name, struct algo_budget *budget,
		   struct algo **out, struct err *err);

/* Append an algorithm as steps of blocks; text_parse makes the same structure of it. False: out of memory. */
bool text_print(const struct algo *a, struct buf *out);

/*
 * text_print_plans - append an algorithm of coll as transfers.
 *
 *	a	as for plan_build_all; a chunk of the algorithm is the largest number of elements that divides all
 *		offsets and counts of the plans
 *	algo	its name
 *
 * RC_INVAL it cannot be expressed as transfers: one-sided steps, or a collective that files do not have. As
 * plan_build_all.
 */
enum rc text_print_plans(const struct plan_args *a, const char *algo, struct buf *out,
			 struct err *err);

#endif
