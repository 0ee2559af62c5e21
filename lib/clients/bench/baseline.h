/*
 * baseline.h - the times of an earlier gpuctl bench, from its --json output.
 */
#ifndef BENCH_BASELINE_H
#define BENCH_BASELINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

enum bench_place { BENCH_OUT_OF_PLACE, BENCH_IN_PLACE, BENCH_NPLACES };

struct baseline_row {
	uint64_t nbytes;
	double us[BENCH_NPLACES]; /* 0: none */
};

/* Initialise with {0}. */
struct baseline {
	struct baseline_row *row;
	size_t n, cap;
};

/* Parse text that ends with a NUL. RC_BADDATA: not such text, or without rows. */
enum rc baseline_parse(const char *text, struct baseline *out, struct err *err);
void baseline_fini(struct baseline *b);

/* us as a multiple of the baseline's time for that size and place; 0: it has none. */
double baseline_ratio(const struct baseline *b, uint64_t nbytes, enum bench_place where, double us);

#endif
