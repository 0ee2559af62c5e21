/*
 * clock.h - monotonic time and absolute deadlines, in nanoseconds.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_MS  1000000ull
#define NS_PER_SEC 1000000000ull

/* Now on CLOCK_MONOTONIC. */
uint64_t clock_now_ns(void);

/* Wall clock since 1970: for display, not for measuring. */
uint64_t clock_wall_ns(void);
uint64_t clock_wall_ms(void);

/* now + timeout_ms, saturating. */
uint64_t deadline_in_ms(uint64_t timeout_ms);

/* Milliseconds left until deadline_ns, rounded up; 0 when it has passed; at most INT32_MAX. */
int32_t deadline_left_ms(uint64_t deadline_ns);

/* deadline_ns as the absolute timespec for pthread_cond_clockwait. */
struct timespec deadline_timespec(uint64_t deadline_ns);

/* The calling thread sleeps for ns, whatever signals come. */
void clock_sleep(uint64_t ns);

#endif
