/*
 * fault.h - faults as people type and read them: "corrupt at=allreduce#7.step3 n=3 seed=1".
 *
 * A point is COLLECTIVE#NUMBER[.stepK], COLLECTIVE#next[.stepK], or now; COLLECTIVE may be any; .end of a
 * flip is when the operation is over. Steps
 * count from 1, as `gpuctl plan` and the sentences of failures count them.
 */
#ifndef COLL_FAULT_H
#define COLL_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/rc.h"

#define FAULT_BY_MAX_NS	 10000000000ull	  /* the longest a step waits */
#define FAULT_AT_END	 UINT32_MAX	  /* of flip: the step after the last */
#define FAULT_FOR_MAX_NS 3600000000000ull /* an hour */

/* "kill", "corrupt". Static storage. */
const char *fault_name(enum gpusim_fault_kind kind);

/* The kinds with what each takes, and what a target and a point are, for people. */
void fault_help(FILE *f);

/* Is it the name of a kind? Then *out is such a fault, now. */
bool fault_kind_parse(const char *word, struct gpusim_fault *out);

/*
 * Apply KEY=VALUE to a fault: at, for, by, count or n, p, seed, peer.
 *
 * RC_NOTFOUND: no such key, f and *err are untouched. RC_INVAL with a sentence.
 */
enum rc fault_word(struct gpusim_fault *f, const char *word, struct err *err);

/* Everything is in range, and nothing said that the kind does not know. RC_INVAL with a sentence. */
enum rc fault_check(const struct gpusim_fault *f, struct err *err);

/* All words have been applied: the defaults, one frame where nothing was said of how many, and
 * fault_check. */
enum rc fault_complete(struct gpusim_fault *f, struct err *err);

/* At most n bytes with the NUL; what fault_kind_parse and fault_word would take. */
void fault_show(const struct gpusim_fault *f, char *out, size_t n);

/* "allreduce#7.step3", "send#next", "now". */
void fault_show_point(const struct gpusim_fault *f, char *out, size_t n);

#endif
