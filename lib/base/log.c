/*
 * A program's log.
 *
 * Design notes. Name, level, mask and file are set before threads begin, and only read from then on. A
 * line is one write, so that lines of processes that share a file do not mix.
 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpusim.h"

#define LINE_BYTES 1024
#define BY_DEFAULT (LOG_INIT | LOG_BOOTSTRAP | LOG_NET | LOG_TUNING | LOG_RAS)

static const char *name = "gpusim";
static enum log_level limit = LOG_WARN;
static uint32_t mask = BY_DEFAULT;
static int file = -1;
static char host[LOG_HOST];

extern char **environ;

/* A variable's value; NULL: it is missing or empty. */
static const char *
value_of(const char *variable)
{
	const char *text = getenv(variable);

	return text && *text ? text : NULL;
}

void
log_open(const char *progname, enum log_level level)
{
	const char *text = value_of("GPUSIM_DEBUG"), *subsys = value_of("GPUSIM_DEBUG_SUBSYS");

	name = progname;
	limit = level;
	if (text)
		log_parse_level(text, &limit, NULL);
	mask = limit >= LOG_DEBUG ? LOG_ALL : BY_DEFAULT;
	if (subsys)
		log_parse_subsys(subsys, &mask, NULL);
}

/* A password is nobody's business. */
static void
say_variables(void)
{
	static const char prefix[] = "GPUSIM_";

	for (char **e = environ; e && *e; e++) {
		int n = (int)strcspn(*e, "=");

		if (strncmp(*e, prefix, sizeof prefix - 1) != 0 || (*e)[n] != '=')
			continue;
		if (memmem(*e, (size_t)n, "PASSWORD", strlen("PASSWORD")))
			log_say(LOG_INFO, LOG_ENV, "%.*s is set", n, *e);
		else
			log_say(LOG_INFO, LOG_ENV, "%.*s is %s", n, *e, *e + n + 1);
	}
}

static enum rc
open_file(struct err *err)
{
	const char *pattern = value_of("GPUSIM_DEBUG_FILE");

	if (!pattern || limit <= LOG_VERSION || (limit == LOG_WARN && !value_of("GPUSIM_DEBUG")))
		return RC_OK;
	log_host(host);
	if (log_open_file(pattern, LOG_APPEND, &file, err) != RC_OK)
		return err_prefix(err, "GPUSIM_DEBUG_FILE");
	return RC_OK;
}

enum rc
log_check(struct err *err)
{
	const char *level = value_of("GPUSIM_DEBUG"), *subsys = value_of("GPUSIM_DEBUG_SUBSYS");
	enum log_level l;
	uint32_t m;

	if (level && log_parse_level(level, &l, err) != RC_OK)
		return err_prefix(err, "GPUSIM_DEBUG");
	if (subsys && log_parse_subsys(subsys, &m, err) != RC_OK)
		return err_prefix(err, "GPUSIM_DEBUG_SUBSYS");
	if (file < 0 && open_file(err) != RC_OK)
		return err->rc;
	if (limit == LOG_VERSION)
		log_line(LOG_VERSION, "version %s", GPUSIM_VERSION);
	else if (level)
		log_say(LOG_INFO, LOG_INIT, "version %s", GPUSIM_VERSION);
	say_variables();
	return RC_OK;
}

bool
log_has(enum log_level level, enum log_subsys subsys)
{
	return level <= limit && (level <= LOG_WARN || subsys == LOG_NONE || (mask & subsys));
}

/* The line's n bytes and what is said, cut to leave room for the end of a line; its length. */
static size_t
finish(char line[LINE_BYTES], size_t n, const char *fmt, va_list ap)
{
	size_t room = LINE_BYTES - 1;

	if (n >= room)
		n = room - 1;
	vsnprintf(line + n, room - n, fmt, ap);
	n = strlen(line);
	line[n++] = '\n';
	return n;
}

static size_t
begin(char line[LINE_BYTES], enum log_level level, enum log_subsys subsys)
{
	const char *of = log_subsys_name(subsys);
	struct timespec now;
	struct tm tm;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &tm);
	n = strftime(line, LINE_BYTES, "%F %T", &tm);
	return n + (size_t)snprintf(line + n, LINE_BYTES - n,
				    ".%06ld %s:%d %s %s%s%s: ", now.tv_nsec / 1000, host,
				    (int)getpid(), name, log_level_name(level), *of ? " " : "", of);
}

static void
put(int fd, const char *line, size_t n)
{
	if (write(fd, line, n) < 0)
		return; /* closed, or full */
}

static void
say(enum log_level level, enum log_subsys subsys, const char *fmt, va_list ap)
{
	char line[LINE_BYTES];
	va_list again;
	size_t n;

	if (!log_has(level, subsys))
		return;
	if (file >= 0) {
		va_copy(again, ap);
		n = finish(line, begin(line, level, subsys), fmt, again);
		va_end(again);
		put(file, line, n);
		if (level != LOG_ERROR)
			return;
	}
	n = finish(line, (size_t)snprintf(line, sizeof line, "%s: ", name), fmt, ap);
	put(STDERR_FILENO, line, n);
}

void
log_say(enum log_level level, enum log_subsys subsys, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(level, subsys, fmt, ap);
	va_end(ap);
}

void
log_line(enum log_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(level, LOG_NONE, fmt, ap);
	va_end(ap);
}
