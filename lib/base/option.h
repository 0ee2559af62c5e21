/*
 * option.h - getopt_long with its errors as one sentence, and the kinds of values options have.
 */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"

/*
 * The next option, as getopt_long returns it (-1: no more), or '?' with *err set: unknown, or
 * without the value it needs. shorts is as for getopt, without a leading colon.
 */
int option_next(int argc, char **argv, const char *shorts, const struct option *longs,
		struct err *err);

/* Put "--name: " before *err, where it is about the value of option `opt`. Returns err->rc. */
enum rc option_err(const struct option *longs, int opt, struct err *err);

/* For -h, -V and the like: print the text and end the program well; RC_FAILED: standard output does not
 * take it. */
enum rc option_answer(const char *text, struct err *err);

/* An open file descriptor's number. */
enum rc option_fd(const char *arg, int *fd, struct err *err);

/* A string of at most size - 1 bytes. */
enum rc option_string(const char *arg, char *out, size_t size, struct err *err);

/* A size of at least 1 byte. */
enum rc option_bytes(const char *arg, uint64_t *out, struct err *err);

/* A time of 1 ms to 24 days, rounded up to milliseconds. RC_INVAL. */
enum rc option_ms(const char *arg, uint32_t *out, struct err *err);

enum rc option_u32(const char *arg, uint32_t lo, uint32_t hi, uint32_t *out, struct err *err);

#endif
