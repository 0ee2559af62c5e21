/* Fuzz our text form of algorithms: what is taken has a sound shape, and is the same algorithm when it is printed and read again. */
#include <string.h>

#include "algo/text.h"

#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct algo *a = NULL, *again = NULL;
	struct err err = {0};
	struct buf out = {0};
	char was[17], is[17];

	if (size > 1 << 12)
		return 0;
	if (text_parse((const char *)data, size, "fuzz", &a, &err) != RC_OK) {
		require(!a && err.text[0]);
		return 0;
	}
	require(algo_check_shape(a, &err) == RC_OK);
	require(text_print(a, &out));
	require(text_parse(out.data, out.len, "again", &again, &err) == RC_OK);
	algo_digest(a, was);
	algo_digest(again, is);
	require(strcmp(was, is) == 0);
	algo_free(a);
	algo_free(again);
	buf_fini(&out);
	return 0;
}
