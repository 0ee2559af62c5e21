/*
 * option_rows.h - the words of a table of options. Only files with a table include it.
 *
 *	#define OPTION_TARGET struct options
 *	static const struct option_row rows[] = {
 *		{"heartbeat", "TIME", "interval of heartbeats", AS_MS(heartbeat_ms), DEFAULT("250ms")},
 *
 * Name, argument, help; then the field with its type and bounds, which must be the field's; then, in any
 * order, what else holds. A row in which the type is another than the field's does not compile.
 */
#ifndef BASE_OPTION_ROWS_H
#define BASE_OPTION_ROWS_H

#include <limits.h>

#include "base/option.h"

/* A field of another type has no association, and an array of -1 no size: neither compiles. */
#define OPTION_AT_(field, type)                \
	.at = offsetof(OPTION_TARGET, field) + \
	      0 * sizeof(_Generic(&((OPTION_TARGET *)0)->field, type * : 0))
#define OPTION_ENUM_(field)                    \
	.at = offsetof(OPTION_TARGET, field) + \
	      0 * sizeof(char[sizeof((OPTION_TARGET *)0)->field == sizeof(int) ? 1 : -1])
#define AT(field) .at = offsetof(OPTION_TARGET, field)

#define AS_BOOL(field)	    .kind = &option_bool, OPTION_AT_(field, bool)
#define AS_COUNT(field)	    .kind = &option_count, OPTION_AT_(field, unsigned)
#define AS_U32(field, l, h) .kind = &option_u32, OPTION_AT_(field, uint32_t), .lo = (l), .hi = (h)
#define AS_U64(field, l, h) .kind = &option_u64, OPTION_AT_(field, uint64_t), .lo = (l), .hi = (h)
#define AS_DOUBLE(field, l, h) \
	.kind = &option_double, OPTION_AT_(field, double), .lo = (l), .hi = (h)
#define AS_SIZE(field)	     .kind = &option_size, OPTION_AT_(field, uint64_t)
#define AS_BYTES(field)	     .kind = &option_bytes, OPTION_AT_(field, uint64_t)
#define AS_RATE(field)	     .kind = &option_rate, OPTION_AT_(field, uint64_t)
#define AS_NS(field)	     .kind = &option_ns, OPTION_AT_(field, uint64_t)
#define AS_MS(field)	     .kind = &option_ms, OPTION_AT_(field, uint32_t)
#define AS_FD(field)	     .kind = &option_fd, OPTION_AT_(field, int), FLAG_ONLY
#define AS_STRING(field)     .kind = &option_string, OPTION_AT_(field, const char *)
#define AS_ANY_STRING(field) .kind = &option_any_string, OPTION_AT_(field, const char *)
#define AS_CHARS(field)	     .kind = &option_chars, AT(field), .hi = sizeof((OPTION_TARGET *)0)->field
#define AS_WORD(field, list) .kind = &option_word_kind, OPTION_ENUM_(field), .words = (list)
#define AS_NAME(field, fn, n) \
	.kind = &option_word_kind, OPTION_ENUM_(field), .names = (fn), .hi = (n)
#define AS_KIND(k) .kind = &(k) /* a type of the program's own */
#define ASKS(what) .ask = (what), FLAG_ONLY

#define LETTER(c)	   .letter = (c)
#define FLAG_ONLY	   .flag_only = true
#define NOT_PRINTED	   .unprinted = true
#define DEFAULT(text)	   .dflt = (text)
#define DEFAULT_NOTE(text) .dflt_note = (text)
#define ENV(variable)	   .env = (variable)
#define WAS(old)	   .was = (old)
#define KEY(text)	   .key = (text)
#define ALSO(...)                     \
	.also = (const char *const[]) \
	{                             \
		__VA_ARGS__, NULL     \
	}
#define ONLY(when, o, t) .applies = (when), .on = (o), .needs = (t)

/* The last rows of each program. */
#define ROW_VERSION                                                                     \
	{                                                                               \
		"version", NULL, "print the version", ASKS(OPTION_VERSION), LETTER('V') \
	}
#define ROW_HELP                                                           \
	{                                                                  \
		"help", NULL, "print this", ASKS(OPTION_HELP), LETTER('h') \
	}

#define NROWS(table) (sizeof(table) / sizeof *(table))

#endif
