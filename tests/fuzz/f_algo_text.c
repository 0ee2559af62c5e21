/* Fuzz gpusim's text form of algorithms. */
#include "algo/algo.h"

#include "f_algo_form.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return size > 1 << 12 ? 0 : fuzz_form(data, size, text_parse, text_print);
}
