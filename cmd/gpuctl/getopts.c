#include "getopts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"

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
getopts_next(int argc, char **argv, const char *shorts, const struct option *longs, struct err *err)
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
getopts_err(const struct option *longs, int opt, struct err *err)
{
	for (; longs->name; longs++)
		if (longs->val == opt)
			return err_prefix(err, "--%s", longs->name);
	return err_prefix(err, "-%c", opt);
}
