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

/* Find the collective of a verb; *v: the verb is its v-variant. RC_INVAL: the name is unknown. */
enum rc counts_verb(const char *name, enum gpusim_coll *coll, bool *v, struct err *err);

/*
 * counts_parse - parse numbers separated by commas, semicolons or blanks, or a file of such numbers.
 *
 *	option	"--counts", begins the message
 *	n	[in] the expected number, 0: any; [out] the number found
 *	out	[out] the caller's to free(3); NULL when text is NULL
 *
 * Errors: RC_INVAL; RC_FAILED the file cannot be read.
 */
enum rc counts_parse(const char *option, const char *text, size_t *n, uint64_t **out,
		     struct err *err);

#endif
