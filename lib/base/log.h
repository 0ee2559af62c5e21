/*
 * log.h - one line a event on stderr for the daemons, and the one-line failure of every program.
 *
 * Only cmd/ and the daemons' shells log; other rooms return their sentence in struct err.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_ERROR = 0, LOG_WARN = 1, LOG_INFO = 2, LOG_DEBUG = 3 };

/* Set the program's name (static storage) and how much to say. GPUSIM_DEBUG=warn|info|debug wins.
 */
void log_open(const char *progname, enum log_level level);

/* "progname: text\n" in one write, at most 1 KiB. Thread-safe. */
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
