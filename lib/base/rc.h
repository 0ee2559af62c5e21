/*
 * rc.h - the result of a library function, and its message.
 */
#ifndef BASE_RC_H
#define BASE_RC_H

#include "gpusim.h"

enum rc {
	RC_OK = GPUSIM_OK,
	RC_FAILED = GPUSIM_FAILED,
	RC_INVAL = GPUSIM_INVAL,
	RC_UNREACHABLE = GPUSIM_UNREACHABLE,
	RC_TIMEOUT = GPUSIM_TIMEOUT,
	RC_BADDATA = GPUSIM_BADDATA,
	RC_INTERNAL = GPUSIM_INTERNAL,
	RC_NOMEM = GPUSIM_NOMEM,
	RC_NOTFOUND = GPUSIM_NOTFOUND,
	RC_BUSY = GPUSIM_BUSY,
	RC_ABORTED = GPUSIM_ABORTED,
	RC_RECOVERED = GPUSIM_RECOVERED,
};

/* The exit codes of every program; the one table, repeated in each man page. */
enum exit_code {
	EXIT_OK = 0,
	EXIT_FAILED = 1,      /* the operation failed */
	EXIT_USAGE = 2,	      /* wrong usage */
	EXIT_UNREACHABLE = 3, /* peer unreachable */
	EXIT_TIMEOUT = 4,     /* timed out */
	EXIT_BADDATA = 5,     /* bad data */
	EXIT_INTERNAL = 6,    /* internal error */
	EXIT_BUSY = 8,	      /* in use, or a limit is reached; 7 is gpuctl bench's own */
};

/* A result and its message, in the caller's storage. Initialise with {0}. */
struct err {
	enum rc rc;
	char text[480];
};

/* The exit code for a result; every rc has one. */
int rc_exit(enum rc rc);

/* The short name of a result, "timed out". Static storage. */
const char *rc_name(enum rc rc);

/* Fill *err (which may be NULL) and return rc. The text is cut, never overrun. */
enum rc err_set(struct err *err, enum rc rc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Put "prefix: " before the message in *err; returns err->rc. */
enum rc err_prefix(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
