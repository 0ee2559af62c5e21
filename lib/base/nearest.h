/*
 * nearest.h - the name that a mistyped word may stand for.
 *
 * The distance of two words is how many letters must be put in, taken out, changed or swapped with
 * their neighbour to make one of the other (optimal string alignment), without regard to case. The
 * beginning of a name, three letters or more, is at most one step from it.
 * Checked by: tests/unit/base/t_nearest.c
 */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

/* A search over the names of a table: begin, offer each, read name. */
struct nearest {
	const char *word; /* the caller's */
	const char *name; /* the nearest so far, the first of those; NULL: none is near */
	unsigned steps;	  /* how far it is; behind nearest_begin: one more than may be */
};

/* How far a name may be depends on the word's length: 1 step up to 3 letters, 2 up to 7, else 3. */
struct nearest nearest_begin(const char *word);

/* name: borrowed as long as the search; NULL is ignored. */
void nearest_offer(struct nearest *n, const char *name);

/* The same for a list; NULL when none is near. */
const char *nearest(const char *word, const char *const *names, size_t n);

/* Whether two words are one name but for case, '-' and '_': "all_reduce", "AllReduce" and "allreduce" are. */
bool nearest_same(const char *a, const char *b);

#endif
