/*
 * log.h - one line per event on stderr for the daemons, and the one-line failure of every program.
 *
 * Only cmd/ and the daemons' shells log; other rooms return their sentence in struct err.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

#include "base/rc.h"

enum log_level { LOG_ERROR = 0, LOG_WARN = 1, LOG_INFO = 2, LOG_DEBUG = 3 };

/* Set the program's name (static storage) and the level. GPUSIM_DEBUG wins, if log_check accepts
 * it. */
void log_open(const char *progname, enum log_level level);

/* The level for -v, given n times. */
static inline enum log_level
log_verbose(unsigned n)
{
	return n > LOG_DEBUG - LOG_WARN ? LOG_DEBUG : (enum log_level)(LOG_WARN + n);
}

/* Whether GPUSIM_DEBUG is error, warn, info or debug, and GPUSIM_DEBUG_SUBSYS is COLL or ALL, in any case,
 * or not set. RC_INVAL. */
enum rc log_check(struct err *err);

/* Whether each operation is logged: at debug, or at info with GPUSIM_DEBUG_SUBSYS. Ask after
 * log_open. */
bool log_operations(void);

/* "progname: text\n" in one write, at most 1 KiB. Thread-safe. */
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
