#include "base/option.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/nearest.h"
#include "base/parse.h"

/* Whether getopt_long refused `word` for the value it gives to an option that takes none. */
static bool
given_value(const char *word, const struct option *longs)
{
	if (strncmp(word, "--", 2) != 0 || !strchr(word, '='))
		return false;
	for (; longs->name; longs++)
		if (longs->val == optopt && longs->has_arg == no_argument)
			return true;
	return false;
}

/* A long option that is not there, or the beginning of several. */
static void
unknown_long(const char *word, const struct option *longs, struct err *err)
{
	char name[64];
	struct nearest n;

	snprintf(name, sizeof name, "%.*s", (int)strcspn(word + 2, "="), word + 2);
	n = nearest_begin(name);
	for (; longs->name; longs++)
		nearest_offer(&n, longs->name);
	if (n.name)
		err_set(err, RC_INVAL, "unknown option '%.64s', did you mean --%s? -h lists all",
			word, n.name);
	else
		err_set(err, RC_INVAL, "unknown option '%.64s'; -h lists them", word);
}

int
option_next(int argc, char **argv, const char *shorts, const struct option *longs, struct err *err)
{
	char spec[128];
	bool plus = shorts[0] == '+';
	int opt;

	/* A colon first: tell a missing value from an unknown option. */
	snprintf(spec, sizeof spec, "%s:%s", plus ? "+" : "", shorts + plus);
	opterr = 0;
	opt = getopt_long(argc, argv, spec, longs, NULL);
	if (opt != '?' && opt != ':')
		return opt;
	if (opt == ':')
		err_set(err, RC_INVAL, "%.64s needs a value", argv[optind - 1]);
	else if (optopt && given_value(argv[optind - 1], longs))
		err_set(err, RC_INVAL, "%.64s: the option takes no value", argv[optind - 1]);
	else if (optopt > 0 && optopt < 256 && isprint(optopt))
		err_set(err, RC_INVAL, "unknown option '-%c'; -h lists them", optopt);
	else if (optopt && optopt < 256)
		err_set(err, RC_INVAL, "unknown option '-\\x%02x'; -h lists them",
			(unsigned)optopt & 0xffu);
	else
		unknown_long(argv[optind - 1], longs, err);
	return '?';
}

enum rc
option_err(const struct option *longs, int opt, struct err *err)
{
	for (; longs->name; longs++)
		if (longs->val == opt)
			return err_prefix(err, "--%s", longs->name);
	return err_prefix(err, "-%c", opt);
}

enum rc
option_u32(const char *arg, uint32_t lo, uint32_t hi, uint32_t *out, struct err *err)
{
	uint64_t v;
	enum rc rc = parse_u64(arg, lo, hi, &v, err);

	if (rc == RC_OK)
		*out = (uint32_t)v;
	return rc;
}

enum rc
option_ms(const char *arg, uint32_t *out, struct err *err)
{
	uint64_t ns, ms;
	enum rc rc = parse_duration(arg, &ns, err);

	if (rc != RC_OK)
		return rc;
	ms = ns / NS_PER_MS + (ns % NS_PER_MS != 0);
	if (ms == 0 || ms > INT32_MAX)
		return err_set(err, RC_INVAL, "'%.64s' is not 1ms to 24 days", arg);
	*out = (uint32_t)ms;
	return RC_OK;
}

enum rc
option_bytes(const char *arg, uint64_t *out, struct err *err)
{
	uint64_t v;
	enum rc rc = parse_size(arg, &v, err);

	if (rc == RC_OK && v == 0)
		rc = err_set(err, RC_INVAL, "'%.64s': at least 1 byte", arg);
	if (rc == RC_OK)
		*out = v;
	return rc;
}

enum rc
option_answer(const char *text, struct err *err)
{
	if (fputs(text, stdout) < 0 || fflush(stdout) != 0 || close(STDOUT_FILENO) != 0)
		return err_set(err, RC_FAILED, "standard output: %m");
	exit(EXIT_SUCCESS);
}

enum rc
option_fd(const char *arg, int *fd, struct err *err)
{
	uint32_t v;
	enum rc rc = option_u32(arg, 0, INT32_MAX, &v, err);

	if (rc == RC_OK && fcntl((int)v, F_GETFD) < 0)
		rc = err_set(err, RC_INVAL, "file descriptor %u is not open", v);
	if (rc == RC_OK)
		*fd = (int)v;
	return rc;
}

enum rc
option_string(const char *arg, char *out, size_t size, struct err *err)
{
	if (strlen(arg) >= size)
		return err_set(err, RC_INVAL, "longer than %zu bytes", size - 1);
	memcpy(out, arg, strlen(arg) + 1);
	return RC_OK;
}
