/*
 * plan_file.h - plan of algorithms from files, and plans in the forms that files have.
 */
#ifndef GPUCTL_PLAN_FILE_H
#define GPUCTL_PLAN_FILE_H

#include "algo/prove.h"
#include "args.h"
#include "base/buf.h"
#include "coll/simulate.h"

/*
 * plan_file_load - the algorithm of --algo-file, proven.
 *
 *	a	its first operand is the collective: it, -n and --root agree with the file
 *	out	[out] released with algo_free
 *	proof	[out] or NULL
 *
 * RC_INVAL they do not; RC_BADDATA the file or its proof is refused.
 */
enum rc plan_file_load(const struct args *a, struct algo **out, struct proof *proof,
		       struct err *err);

/* Append the algorithm of --algo-file, proven, in the form of --format. Errors as plan_file_load. */
enum rc plan_file_show(const struct args *a, struct buf *out, struct err *err);

/* Append a row of the table of simulated algorithms: the file's, of p->nelem elements. It is not custom. */
enum rc plan_file_simulate(const struct algo *f, struct plan_args *p, const struct args *a,
			   const struct cost_model *m, struct buf *out, struct err *err);

/* Append a built-in algorithm as --format says, text or xml. As text_print_plans. */
enum rc plan_file_convert(const struct plan_args *p, const struct args *a, const char *algo,
			  struct buf *out, struct err *err);

#endif
