/*
 * fault.h - faults as people type and read them: "corrupt at=allreduce#7.step3 n=3 seed=1".
 *
 * A point is COLLECTIVE#NUMBER[.stepK], COLLECTIVE#next[.stepK], or now; COLLECTIVE may be any; .end, of a
 * flip, is the end of the operation. Steps count from 1, as in `gpuctl plan` and in messages of failures.
 */
#ifndef COLL_FAULT_H
#define COLL_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/rc.h"

#define FAULT_BY_MAX_NS	 10000000000ull	  /* the longest a step waits */
#define FAULT_AT_END	 UINT32_MAX	  /* flip: the step after the last */
#define FAULT_FOR_MAX_NS 3600000000000ull /* an hour */

/* "kill", "corrupt". Static storage. */
const char *fault_name(enum gpusim_fault_kind kind);

/* Print the kinds with their keys, and the syntax of targets and points. */
void fault_help(FILE *f);

/* If the word is the name of a kind, set *out to such a fault at point "now". */
bool fault_kind_parse(const char *word, struct gpusim_fault *out);

/*
 * Apply KEY=VALUE to a fault: at, for, by, count or n, p, seed, peer.
 *
 * RC_NOTFOUND: no such key, f and *err are untouched. RC_INVAL with a sentence.
 */
enum rc fault_word(struct gpusim_fault *f, const char *word, struct err *err);

/* Check that every value is in range and that the kind accepts the keys that are set. RC_INVAL with a
 * sentence. */
enum rc fault_check(const struct gpusim_fault *f, struct err *err);

/* After the last word: set the defaults (one frame, if no number of frames was given) and run
 * fault_check. */
enum rc fault_complete(struct gpusim_fault *f, struct err *err);

/* Write the fault as words for fault_kind_parse and fault_word; at most n bytes with the NUL. */
void fault_show(const struct gpusim_fault *f, char *out, size_t n);

#endif
