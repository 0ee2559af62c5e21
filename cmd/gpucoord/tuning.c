#include "tuning.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

#define SAMPLE	256000 /* floats: larger than a core's own caches, and quick */
#define REPEATS 8

/* Measure the microseconds per byte of copying or adding one buffer to another: the best of several tries. */
static double
byte_us(float *to, const float *from, bool add)
{
	uint64_t best = UINT64_MAX;

	for (int k = 0; k < REPEATS; k++) {
		uint64_t begin = clock_now_ns(), took;

		for (size_t i = 0; add && i < SAMPLE; i++)
			to[i] += from[i];
		if (!add)
			memcpy(to, from, SAMPLE * sizeof *to);
		__asm__ volatile("" : : "r"(to) : "memory");
		took = clock_now_ns() - begin;
		best = took < best ? took : best;
	}
	return (double)best / 1e3 / (double)(SAMPLE * sizeof *to);
}

/* Measure the cost of bytes on this machine. The ratio of a socket to a copy stays built-in, and so do the
 * costs of messages, which need two devices to measure. */
static void
measure(struct tuner *t)
{
	float *a = calloc(SAMPLE, sizeof *a), *b = calloc(SAMPLE, sizeof *b);
	double socket = t->model[TUNE_NET].beta_us / t->model[TUNE_P2P].beta_us;

	if (a && b) {
		double copy, add;

		memset(b, 1,
		       SAMPLE *
			   sizeof *b); /* touch it: its own memory, not the kernel's zero page */
		copy = fmax(byte_us(a, b, false), 1e-6), add = fmax(byte_us(a, b, true), 1e-6);

		t->model[TUNE_P2P].beta_us = copy;
		t->model[TUNE_NET].beta_us = socket * copy;
		t->model[TUNE_P2P].gamma_us = t->model[TUNE_NET].gamma_us = add;
		log_say(LOG_INFO, LOG_TUNING, "copies %.2f GB/s, adds %.2f GB/s", 1e-3 / copy,
			1e-3 / add);
	}
	free(a);
	free(b);
}

enum rc
tuning_init(const char *algo, const char *file, bool calibrate, struct tuner *out, struct err *err)
{
	enum rc rc;

	tuner_init(out);
	out->takes_files = true;
	rc = tuner_configure(out, algo, file, err);
	if (rc == RC_OK && calibrate)
		measure(out);
	return rc;
}
