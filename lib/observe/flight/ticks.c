#include "flight/ticks.h"

#include <pthread.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define MEASURE_NS (2 * NS_PER_MS)

bool ticks_by_tsc;

/* Return true if the counter runs at one rate in all states of the processor. */
static bool
is_invariant(void)
{
#if defined(__x86_64__)
	unsigned a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
#else
	return false;
#endif
}

static __attribute__((constructor)) void
choose(void)
{
	ticks_by_tsc = is_invariant();
}

/* Read between two readings of the ticks, as often as it takes to have those close together. */
void
ticks_moment(struct flight_moment *out)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t before = ticks_now(), mono = clock_now_ns(), wall = clock_wall_ns(),
			 after = ticks_now();

		if (after - before >= best)
			continue;
		best = after - before;
		*out = (struct flight_moment){before + best / 2, mono, wall};
	}
}

static uint64_t rate;

static void
measure(void)
{
	struct flight_moment from, to;

	rate = NS_PER_SEC;
	if (!ticks_by_tsc)
		return;
	ticks_moment(&from);
	do
		nanosleep(&(struct timespec){.tv_nsec = MEASURE_NS}, NULL);
	while (clock_now_ns() - from.mono_ns < MEASURE_NS);
	ticks_moment(&to);
	rate = (uint64_t)((unsigned __int128)(to.ticks - from.ticks) * NS_PER_SEC /
			  (to.mono_ns - from.mono_ns));
}

uint64_t
ticks_hz(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, measure);
	return rate;
}

uint64_t
ticks_to_ns(uint64_t ticks, uint64_t hz)
{
	return (uint64_t)((unsigned __int128)ticks * NS_PER_SEC / hz);
}
