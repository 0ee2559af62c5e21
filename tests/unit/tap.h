/*
 * tap.h - the whole test harness: TAP lines on stdout, which prove(1) reads.
 *
 * A test program is a main() of checks that ends with `return tap_done();`.
 */
#ifndef TAP_H
#define TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* everything takes many times longer: run a part */
#else
#define SANITIZED 0
#endif

static int tap_count, tap_failures;

/* The test cannot go on. */
__attribute__((noreturn)) static inline void
tap_bail(const char *why)
{
	printf("Bail out! %s\n", why);
	exit(1);
}

/* One check and its name; reports the place of a failure. Returns the condition. */
__attribute__((format(printf, 4, 5))) static inline bool
tap_check(bool good, const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	printf("%s %d - ", good ? "ok" : "not ok", ++tap_count);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	if (!good) {
		tap_failures++;
		printf("#   at %s:%d\n", file, line);
	}
	fflush(stdout);
	return good;
}

#define ok(good, ...) tap_check((good), __FILE__, __LINE__, __VA_ARGS__)

/* Print the plan; the program's exit status. */
static inline int
tap_done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failures ? 1 : 0;
}

#endif
