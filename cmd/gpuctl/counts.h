/*
 * counts.h - the counts and displacements of v-variants, from options.
 */
#ifndef GPUCTL_COUNTS_H
#define GPUCTL_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "gpusim.h"

/* The collective of a verb, and whether it is its v-variant. RC_INVAL. */
enum rc counts_verb(const char *name, enum gpusim_coll *coll, bool *v, struct err *err);

/*
 * counts_parse - numbers with commas, semicolons or blanks between, or the path of a file that has such.
 *
 *	option	"--counts", begins the sentence
 *	n	[in] how many are wanted, 0: any number; [out] how many there are
 *	out	[out] the caller's to free(3); NULL when text is NULL
 *
 * Errors: RC_INVAL; RC_FAILED the file cannot be read.
 */
enum rc counts_parse(const char *option, const char *text, size_t *n, uint64_t **out,
		     struct err *err);

#endif
