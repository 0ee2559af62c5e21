#include "base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"

enum rc
parse_u64(const char *s, uint64_t lo, uint64_t hi, uint64_t *out, struct err *err)
{
	char *end;
	unsigned long long v;
	int base = s[0] == '0' && (s[1] == 'x' || s[1] == 'X') ? 16 : 10;

	errno = 0;
	v = strtoull(s, &end, base);
	if (!isdigit((unsigned char)s[*s == '-']) || *end)
		return err_set(err, RC_INVAL, "'%.64s' is not a whole number", s);
	if (*s == '-' || errno == ERANGE || v < lo || v > hi)
		return err_set(err, RC_INVAL, "%.64s is out of range (%llu to %llu)", s,
			       (unsigned long long)lo, (unsigned long long)hi);
	*out = v;
	return RC_OK;
}

enum rc
parse_double(const char *s, double lo, double hi, double *out, struct err *err)
{
	char *end;
	double v = strtod(s, &end);

	if (!*s || isspace((unsigned char)*s) || *end || !isfinite(v))
		return err_set(err, RC_INVAL, "'%.64s' is not a number", s);
	if (v < lo || v > hi)
		return err_set(err, RC_INVAL, "%.64s is out of range (%g to %g)", s, lo, hi);
	*out = v;
	return RC_OK;
}

struct unit {
	const char *suffix;
	double factor;
};

/* A non-negative number with a unit (ignoring case), as a whole number below 2^63. */
static enum rc
parse_scaled(const char *s, const struct unit *units, const char *what, uint64_t *out,
	     struct err *err)
{
	char *end;
	long double v; /* a double would round what lies above 2^53 */

	if (!isdigit((unsigned char)*s) && *s != '.')
		return err_set(err, RC_INVAL, "'%.64s' is not %s", s, what);
	v = strtold(s, &end);
	for (; units->suffix; units++)
		if (strcasecmp(end, units->suffix) == 0)
			break;
	if (end == s || !units->suffix || !isfinite(v))
		return err_set(err, RC_INVAL, "'%.64s' is not %s", s, what);
	v *= units->factor;
	v = roundl(v);
	if (v >= 0x1p63)
		return err_set(err, RC_INVAL, "'%.64s' is too large", s);
	*out = (uint64_t)v;
	return RC_OK;
}

enum rc
parse_size(const char *s, uint64_t *nbytes, struct err *err)
{
	static const struct unit units[] = {
	    {"", 1},	     {"B", 1},	     {"K", 0x1p10},   {"KB", 0x1p10},  {"KiB", 0x1p10},
	    {"M", 0x1p20},   {"MB", 0x1p20}, {"MiB", 0x1p20}, {"G", 0x1p30},   {"GB", 0x1p30},
	    {"GiB", 0x1p30}, {"T", 0x1p40},  {"TB", 0x1p40},  {"TiB", 0x1p40}, {NULL, 0}};

	return parse_scaled(s, units, "a size (such as 64K, 256M, 1G)", nbytes, err);
}

enum rc
parse_duration(const char *s, uint64_t *ns, struct err *err)
{
	static const struct unit units[] = {{"", 1e9}, {"s", 1e9},  {"ms", 1e6},   {"us", 1e3},
					    {"ns", 1}, {"m", 60e9}, {"h", 3600e9}, {NULL, 0}};

	return parse_scaled(s, units, "a duration (such as 500ms, 5s, 2m)", ns, err);
}

enum rc
parse_rate(const char *s, uint64_t *bits_per_s, struct err *err)
{
	static const struct unit units[] = {
	    {"", 1},	   {"b", 1},	  {"kb", 1e3}, {"Mb", 1e6}, {"Gb", 1e9},
	    {"Tb", 1e12},  {"k", 1e3},	  {"M", 1e6},  {"G", 1e9},  {"kbit", 1e3},
	    {"Mbit", 1e6}, {"Gbit", 1e9}, {NULL, 0}};

	uint64_t v;
	enum rc rc =
	    parse_scaled(s, units, "a rate in bits a second (such as 100Mb, 1Gb)", &v, err);

	if (rc == RC_OK && v == 0)
		rc = err_set(err, RC_INVAL, "'%.64s': the rate must not be 0", s);
	else if (rc == RC_OK && v < 1000)
		rc =
		    err_set(err, RC_INVAL,
			    "'%.64s' is %" PRIu64 " bits a second, but the minimum is 1kb; did you "
			    "mean '%" PRIu64 "Gb' or '%" PRIu64 "Mb'?",
			    s, v, v, v);
	if (rc == RC_OK)
		*bits_per_s = v;
	return rc;
}

enum rc
parse_u32(const char *s, uint32_t lo, uint32_t hi, uint32_t *out, struct err *err)
{
	uint64_t v;
	enum rc rc = parse_u64(s, lo, hi, &v, err);

	if (rc == RC_OK)
		*out = (uint32_t)v;
	return rc;
}

enum rc
parse_ms(const char *s, uint32_t *out, struct err *err)
{
	uint64_t ns, ms;
	enum rc rc = parse_duration(s, &ns, err);

	if (rc != RC_OK)
		return rc;
	ms = ns / NS_PER_MS + (ns % NS_PER_MS != 0);
	if (ms == 0 || ms > INT32_MAX)
		return err_set(err, RC_INVAL, "'%.64s': must be 1ms to 24 days", s);
	*out = (uint32_t)ms;
	return RC_OK;
}

enum rc
parse_bytes(const char *s, uint64_t *out, struct err *err)
{
	uint64_t v;
	enum rc rc = parse_size(s, &v, err);

	if (rc == RC_OK && v == 0)
		rc = err_set(err, RC_INVAL, "'%.64s': must be at least 1 byte", s);
	if (rc == RC_OK)
		*out = v;
	return rc;
}

enum rc
parse_fd(const char *s, int *fd, struct err *err)
{
	uint32_t v;
	enum rc rc = parse_u32(s, 0, INT32_MAX, &v, err);

	if (rc == RC_OK && fcntl((int)v, F_GETFD) < 0)
		rc = err_set(err, RC_INVAL, "file descriptor %u is not open", v);
	if (rc == RC_OK)
		*fd = (int)v;
	return rc;
}

bool
parse_is_loopback(const char *host, size_t n)
{
	return (n == 9 && memcmp(host, "localhost", 9) == 0) ||
	       (n > 4 && memcmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") >= n) ||
	       (n == 5 && memcmp(host, "[::1]", 5) == 0);
}

enum rc
parse_listen(const char *text, bool anywhere, char *out, size_t size, struct err *err)
{
	const char *colon = strrchr(text, ':'), *host = colon && colon > text ? text : "127.0.0.1";
	size_t n = host == text ? (size_t)(colon - text) : strlen(host);
	uint64_t port;

	if (n + 8 > size || strstr(text, "://") ||
	    parse_u64(colon ? colon + 1 : text, 0, 65535, &port, NULL) != RC_OK)
		return err_set(err, RC_INVAL, "'%.64s' is neither PORT nor HOST:PORT", text);
	if (memchr(host, ':', n) && (host[0] != '[' || host[n - 1] != ']'))
		return err_set(err, RC_INVAL,
			       "'%.64s': put an IPv6 address in brackets, such as [::1]:8080",
			       text);
	if (!anywhere && !parse_is_loopback(host, n))
		return err_set(err, RC_INVAL,
			       "%s is reachable from other hosts, unencrypted and unauthenticated; "
			       "--insecure allows that",
			       text);
	snprintf(out, size, "%.*s:%" PRIu64, (int)n, host, port);
	return RC_OK;
}
