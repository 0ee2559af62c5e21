/*
 * parse.h - whole numbers, sizes, durations and rates as people type them.
 *
 * Each takes the whole string and returns RC_INVAL with a message in *err that quotes it. *out is
 * unchanged on failure.
 */
#ifndef BASE_PARSE_H
#define BASE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

/* Decimal, or 0x hexadecimal; lo <= value <= hi. */
enum rc parse_u64(const char *s, uint64_t lo, uint64_t hi, uint64_t *out, struct err *err);

/* Bytes: "4096", "64K", "1.5G"; K M G T are powers of 1024. */
enum rc parse_size(const char *s, uint64_t *nbytes, struct err *err);

/* "500ms", "5s", "2m", "10us"; a bare number is seconds. Result in nanoseconds. */
enum rc parse_duration(const char *s, uint64_t *ns, struct err *err);

/* Bits a second, 1 kb at least: "1Gb", "100Mb", "56kb" (powers of 1000); a bare number is bits. */
enum rc parse_rate(const char *s, uint64_t *bits_per_s, struct err *err);

/* A finite double, lo <= value <= hi. */
enum rc parse_double(const char *s, double lo, double hi, double *out, struct err *err);

enum rc parse_u32(const char *s, uint32_t lo, uint32_t hi, uint32_t *out, struct err *err);

/* A size of at least 1 byte. */
enum rc parse_bytes(const char *s, uint64_t *out, struct err *err);

/* A time of 1 ms to 24 days, rounded up to milliseconds. */
enum rc parse_ms(const char *s, uint32_t *ms, struct err *err);

/* A host, of n bytes, is loopback: localhost, 127.*, [::1]. */
bool parse_is_loopback(const char *host, size_t n);

/* A listening address: "8080" (loopback), ":8080" or "host:8080", as "host:8080". RC_INVAL: malformed;
 * or, unless `anywhere`, it is beyond loopback. */
enum rc parse_listen(const char *text, bool anywhere, char *out, size_t size, struct err *err);

/* An open file descriptor's number. */
enum rc parse_fd(const char *s, int *fd, struct err *err);

#endif
