/*
 * f_algo_form.h - shared by the fuzzers of both forms of algorithms: an accepted input has a valid
 * shape, and is the same algorithm after printing and reading.
 */
#ifndef F_ALGO_FORM_H
#define F_ALGO_FORM_H

#include <string.h>

#include "algo/algo.h"

#include "fuzz.h"

typedef enum rc algo_parser(const char *text, size_t n, const char *name,
			    struct algo_budget *budget, struct algo **out, struct err *err);
typedef bool algo_printer(const struct algo *a, struct buf *out);

static inline int
fuzz_form(const uint8_t *data, size_t size, algo_parser *parse, algo_printer *print)
{
	struct algo *a = NULL, *again = NULL;
	struct err err = {0};
	struct buf out = {0};
	char was[17], is[17];

	if (parse((const char *)data, size, "fuzz", NULL, &a, &err) != RC_OK) {
		require(!a && err.text[0]);
		return 0;
	}
	require(algo_check_shape(a, &err) == RC_OK);
	require(print(a, &out));
	require(parse(out.data, out.len, "again", NULL, &again, &err) == RC_OK);
	algo_digest(a, was);
	algo_digest(again, is);
	require(strcmp(was, is) == 0);
	algo_free(a);
	algo_free(again);
	buf_fini(&out);
	return 0;
}

#endif
