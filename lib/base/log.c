#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *name = "gpusim";
static enum log_level limit = LOG_WARN;

void
log_open(const char *progname, enum log_level level)
{
	static const char *const words[] = {"error", "warn", "info", "debug"};
	const char *env = getenv("GPUSIM_DEBUG");

	name = progname;
	limit = level;
	for (int i = 0; env && i < 4; i++)
		if (strcmp(env, words[i]) == 0)
			limit = (enum log_level)i;
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
		return; /* stderr is gone: there is nobody left to tell */
}
