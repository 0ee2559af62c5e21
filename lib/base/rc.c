#include "base/rc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
	enum exit_code exit;
	const char *name;
} table[] = {
    [RC_OK] = {EXIT_OK, "ok"},
    [RC_FAILED] = {EXIT_FAILED, "failed"},
    [RC_INVAL] = {EXIT_USAGE, "invalid argument"},
    [RC_UNREACHABLE] = {EXIT_UNREACHABLE, "peer unreachable"},
    [RC_TIMEOUT] = {EXIT_TIMEOUT, "timed out"},
    [RC_BADDATA] = {EXIT_BADDATA, "bad data"},
    [RC_INTERNAL] = {EXIT_INTERNAL, "internal error"},
    [RC_NOMEM] = {EXIT_FAILED, "out of memory"},
    [RC_NOTFOUND] = {EXIT_FAILED, "not found"},
    [RC_BUSY] = {EXIT_BUSY, "busy"},
    [RC_ABORTED] = {EXIT_FAILED, "aborted"},
    [RC_RECOVERED] = {EXIT_FAILED, "recovered"},
};

#define NTABLE (sizeof table / sizeof table[0])

int
rc_exit(enum rc rc)
{
	return (size_t)rc < NTABLE ? (int)table[rc].exit : EXIT_INTERNAL;
}

const char *
rc_name(enum rc rc)
{
	return (size_t)rc < NTABLE ? table[rc].name : "unknown result";
}

enum rc
err_set(struct err *err, enum rc rc, const char *fmt, ...)
{
	va_list ap;

	if (err) {
		err->rc = rc;
		va_start(ap, fmt);
		vsnprintf(err->text, sizeof err->text, fmt, ap);
		va_end(ap);
	}
	return rc;
}

enum rc
err_prefix(struct err *err, const char *fmt, ...)
{
	char old[sizeof err->text];
	size_t n;
	va_list ap;

	memcpy(old, err->text, sizeof old);
	va_start(ap, fmt);
	vsnprintf(err->text, sizeof err->text, fmt, ap);
	va_end(ap);
	n = strlen(err->text);
	snprintf(err->text + n, sizeof err->text - n, ": %s", old);
	return err->rc;
}
