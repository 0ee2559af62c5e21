/*
 * race.h - find conflicting accesses to a chunk without a fixed order. Pure.
 */
#ifndef ALGO_RACE_H
#define ALGO_RACE_H

#include "algo/graph.h"

/*
 * race_find - look for two steps of a rank that touch the same chunk, one of which writes, and of which
 * neither happens before the other.
 *
 *	g	sorted without slots: an order that only full connections enforce does not count
 *
 * Errors: RC_BADDATA with the first race; RC_INVAL it would need more time or memory than allowed; RC_NOMEM.
 */
enum rc race_find(const struct graph *g, struct err *err);

#endif
