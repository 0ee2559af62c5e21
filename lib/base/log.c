#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char *name = "gpusim";
static enum log_level limit = LOG_WARN;

static const char *const levels[] = {"error", "warn", "info", "debug"};

/* The level that GPUSIM_DEBUG names; -1: none. */
static int
level_named(const char *text)
{
	for (int i = 0; text && i < (int)(sizeof levels / sizeof *levels); i++)
		if (strcasecmp(text, levels[i]) == 0)
			return i;
	return -1;
}

void
log_open(const char *progname, enum log_level level)
{
	int named = level_named(getenv("GPUSIM_DEBUG"));

	name = progname;
	limit = named >= 0 ? (enum log_level)named : level;
}

static bool
is_subsystem(const char *text)
{
	return strcasecmp(text, "COLL") == 0 || strcasecmp(text, "ALL") == 0;
}

enum rc
log_check(struct err *err)
{
	const char *level = getenv("GPUSIM_DEBUG"), *subsystem = getenv("GPUSIM_DEBUG_SUBSYS");

	if (level && *level && level_named(level) < 0)
		return err_set(err, RC_INVAL,
			       "GPUSIM_DEBUG: '%.64s' is none of error, warn, info, debug", level);
	if (subsystem && *subsystem && !is_subsystem(subsystem))
		return err_set(err, RC_INVAL,
			       "GPUSIM_DEBUG_SUBSYS: '%.64s' is neither COLL nor ALL", subsystem);
	return RC_OK;
}

bool
log_operations(void)
{
	const char *subsystem = getenv("GPUSIM_DEBUG_SUBSYS");

	return limit == LOG_DEBUG || (limit == LOG_INFO && subsystem && is_subsystem(subsystem));
}

void
log_line(enum log_level level, const char *fmt, ...)
{
	char line[1024];
	size_t n, room = sizeof line - 1;
	va_list ap;

	if (level > limit)
		return;
	n = (size_t)snprintf(line, room, "%s: ", name);
	if (n >= room)
		n = room - 1;
	va_start(ap, fmt);
	vsnprintf(line + n, room - n, fmt, ap);
	va_end(ap);
	n = strlen(line);
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, n) < 0)
		return; /* stderr is closed */
}
