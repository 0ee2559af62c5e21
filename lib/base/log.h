/*
 * log.h - a program's lines on stderr or in GPUSIM_DEBUG_FILE, and the one-line failure of every program.
 *
 * Only cmd/ and the daemons' shells log; other rooms return their sentence in struct err.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

#include "base/log_env.h"
#include "base/rc.h"

/* Set the program's name (static storage) and the level. GPUSIM_DEBUG wins, if log_check accepts
 * it. */
void log_open(const char *progname, enum log_level level);

/* The level for -v, given n times. */
static inline enum log_level
log_verbose(unsigned n)
{
	return n > LOG_TRACE - LOG_WARN ? LOG_TRACE : (enum log_level)(LOG_WARN + n);
}

/*
 * log_check - read GPUSIM_DEBUG, GPUSIM_DEBUG_SUBSYS and GPUSIM_DEBUG_FILE, which may be missing or
 * empty; once, after log_open.
 *
 * The file is opened, and from then on it gets all lines, at LOG_WARN and above, unless nothing was asked
 * for: neither GPUSIM_DEBUG nor a level above LOG_WARN. Then the version and, of ENV, GPUSIM's variables
 * are logged. RC_INVAL: a value is wrong, or the file cannot be written.
 */
enum rc log_check(struct err *err);

/*
 * Are such lines shown? Up to LOG_WARN whatever their subsystem. Those above if it is among
 * GPUSIM_DEBUG_SUBSYS; without it all are from LOG_DEBUG on, and at LOG_INFO INIT, BOOTSTRAP, NET, TUNING
 * and RAS.
 */
bool log_has(enum log_level level, enum log_subsys subsys);

/* "progname: text\n" in one write, at most 1 KiB, if it is shown. To stderr; to the file as
 * "time host:pid progname level SUBSYSTEM: text\n", and errors to both. Thread-safe. */
void log_say(enum log_level level, enum log_subsys subsys, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, of no subsystem. */
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
