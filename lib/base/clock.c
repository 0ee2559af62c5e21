#include "base/clock.h"

#include <errno.h>

uint64_t
clock_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t
clock_wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t
clock_wall_ms(void)
{
	return clock_wall_ns() / NS_PER_MS;
}

uint64_t
deadline_in_ms(uint64_t timeout_ms)
{
	uint64_t now = clock_now_ns();

	if (timeout_ms > (UINT64_MAX - now) / NS_PER_MS)
		return UINT64_MAX;
	return now + timeout_ms * NS_PER_MS;
}

int32_t
deadline_left_ms(uint64_t deadline_ns)
{
	uint64_t now = clock_now_ns(), ms;

	if (deadline_ns <= now)
		return 0;
	ms = (deadline_ns - now - 1) / NS_PER_MS + 1;
	return ms > INT32_MAX ? INT32_MAX : (int32_t)ms;
}

struct timespec
deadline_timespec(uint64_t deadline_ns)
{
	/* Limited to some centuries, so that time_t does not overflow. */
	uint64_t sec = deadline_ns / NS_PER_SEC;

	return (struct timespec){.tv_sec = sec > INT32_MAX ? INT32_MAX : (time_t)sec,
				 .tv_nsec = (long)(deadline_ns % NS_PER_SEC)};
}

void
clock_sleep(uint64_t ns)
{
	struct timespec ts = {.tv_sec = (time_t)(ns / NS_PER_SEC),
			      .tv_nsec = (long)(ns % NS_PER_SEC)};

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}
