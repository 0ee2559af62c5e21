/*
 * plan_file.h - plans of algorithms from files, and plans printed as such files.
 */
#ifndef GPUCTL_PLAN_FILE_H
#define GPUCTL_PLAN_FILE_H

#include "algo/algo.h"
#include "args.h"
#include "base/buf.h"
#include "coll/simulate.h"

/*
 * plan_file_load - load and prove the algorithm of --algo-file.
 *
 *	a	its first operand, the collective, -n and --root must agree with the file
 *	out	[out] released with algo_free
 *	proof	[out] or NULL
 *
 * RC_INVAL: they do not; RC_BADDATA: the file is rejected.
 */
enum rc plan_file_load(const struct args *a, struct algo **out, struct proof *proof,
		       struct err *err);

/* Append the algorithm of --algo-file, proven, in the format of --format. Errors as plan_file_load. */
enum rc plan_file_show(const struct args *a, struct buf *out, struct err *err);

/* Append a row of the table of simulated algorithms: the file's, on p->nelem elements. It must not be
 * custom. */
enum rc plan_file_simulate(const struct algo *f, struct plan_args *p, const struct args *a,
			   const struct cost_model *m, struct buf *out, struct err *err);

/* Append a built-in algorithm in the format of --format, text or xml. Errors as text_print_plans. */
enum rc plan_file_convert(const struct plan_args *p, const struct args *a, const char *algo,
			  struct buf *out, struct err *err);

#endif
