/*
 * ticks.h - the processor's clock: the cheapest reading that all processes of a host agree on.
 */
#ifndef FLIGHT_TICKS_H
#define FLIGHT_TICKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "flight/flight.h"

/* Chosen when the library is loaded: the time-stamp counter if it is synchronised on all processors, else
 * CLOCK_MONOTONIC. */
extern bool ticks_by_tsc;

/* Estimated ticks per second; 1e9 without the counter. */
uint64_t ticks_hz(void);

static inline uint64_t
ticks_now(void)
{
#if defined(__x86_64__)
	if (__builtin_expect(ticks_by_tsc, 1))
		return __builtin_ia32_rdtsc();
#endif
	return clock_now_ns();
}

/* All clocks, read together. */
void ticks_moment(struct flight_moment *out);

/* Ticks of an interval in ns, by a rate. */
uint64_t ticks_to_ns(uint64_t ticks, uint64_t hz);

#endif
