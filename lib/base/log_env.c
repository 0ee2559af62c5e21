#include "base/log_env.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/buf.h"

/* The first name of a level is the one that is shown. */
static const struct {
	const char *name;
	enum log_level level;
} levels[] = {
    {"error", LOG_ERROR}, {"version", LOG_VERSION}, {"warn", LOG_WARN},	 {"info", LOG_INFO},
    {"debug", LOG_DEBUG}, {"trace", LOG_TRACE},	    {"none", LOG_ERROR}, {"abort", LOG_DEBUG},
};

static const struct {
	const char *name;
	enum log_subsys subsys;
} subsystems[] = {
#define X(name) {#name, LOG_##name},
    LOG_SUBSYSTEMS(X)
#undef X
	{"ALL", LOG_ALL},
};

#define N(table) (sizeof(table) / sizeof *(table))

const char *
log_level_name(enum log_level level)
{
	return (size_t)level < N(levels) ? levels[level].name : "?";
}

const char *
log_subsys_name(enum log_subsys subsys)
{
	for (size_t i = 0; i < N(subsystems); i++)
		if (subsystems[i].subsys == subsys)
			return subsystems[i].name;
	return "";
}

enum rc
log_parse_level(const char *text, enum log_level *out, struct err *err)
{
	for (size_t i = 0; i < N(levels); i++)
		if (strcasecmp(text, levels[i].name) == 0) {
			*out = levels[i].level;
			return RC_OK;
		}
	return err_set(err, RC_INVAL,
		       "'%.64s': must be one of error, version, warn, info, debug, trace", text);
}

/* The subsystems of a name of n bytes; LOG_NONE: it is none. */
static enum log_subsys
subsys_named(const char *name, size_t n)
{
	for (size_t i = 0; i < N(subsystems); i++)
		if (strlen(subsystems[i].name) == n &&
		    strncasecmp(name, subsystems[i].name, n) == 0)
			return subsystems[i].subsys;
	return LOG_NONE;
}

static enum rc
no_subsys(const char *name, size_t n, struct err *err)
{
	struct buf list = {0};

	for (size_t i = 0; i < N(subsystems); i++)
		buf_addf(&list, "%s%s", i ? ", " : "", subsystems[i].name);
	err_set(err, RC_INVAL, "'%.*s': must be one of %s", n < 64 ? (int)n : 64, name,
		list.data ? list.data : "the subsystems");
	buf_fini(&list);
	return RC_INVAL;
}

enum rc
log_parse_subsys(const char *text, uint32_t *out, struct err *err)
{
	bool invert = *text == '^';
	uint32_t mask = 0;
	enum rc rc = RC_OK;
	size_t n;

	for (const char *p = text + invert; *p; p += n + (p[n] == ',')) {
		enum log_subsys one;

		n = strcspn(p, ",");
		one = subsys_named(p, n);
		if (n && one == LOG_NONE && rc == RC_OK)
			rc = no_subsys(p, n, err);
		mask |= one;
	}
	*out = invert ? LOG_ALL & ~mask : mask;
	return rc;
}

enum rc
log_path(char *out, size_t room, const char *pattern, const char *host, int pid, struct err *err)
{
	char number[16];
	size_t n = 0;

	snprintf(number, sizeof number, "%d", pid);
	for (const char *p = pattern; *p; p++) {
		const char *add = p;
		size_t len = 1;

		if (p[0] == '%' && p[1] && strchr("hp%", p[1])) {
			add = p[1] == 'h' ? host : p[1] == 'p' ? number : "%";
			len = strlen(add);
			p++;
		}
		if (len >= room - n)
			return err_set(err, RC_INVAL, "the name is longer than %zu bytes: %.64s...",
				       room - 1, pattern);
		memcpy(out + n, add, len);
		n += len;
	}
	out[n] = '\0';
	return RC_OK;
}

void
log_host(char out[LOG_HOST])
{
	if (gethostname(out, LOG_HOST) != 0)
		snprintf(out, LOG_HOST, "localhost");
	out[LOG_HOST - 1] = '\0';
	out[strcspn(out, ".")] = '\0';
}

enum rc
log_open_file(const char *pattern, enum log_open how, int *out, struct err *err)
{
	char path[PATH_MAX], host[LOG_HOST];
	enum rc rc;
	int fd;

	log_host(host);
	rc = log_path(path, sizeof path, pattern, host, (int)getpid(), err);
	if (rc != RC_OK)
		return rc;
	fd = open(path,
		  O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK |
		      (how == LOG_TRUNCATE ? O_TRUNC : 0),
		  0644);
	if (fd < 0 && errno == ENXIO)
		return err_set(err, RC_INVAL, "%.300s: nobody reads this pipe", path);
	if (fd < 0)
		return err_set(err, RC_INVAL, "%.300s: %s", path, strerror(errno));
	*out = fd;
	return RC_OK;
}
