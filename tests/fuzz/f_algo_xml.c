/* Fuzz MSCCL's XML. */
#include "algo/algo.h"

#include "f_algo_form.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return size > 1 << 16 ? 0 : fuzz_form(data, size, msccl_parse, msccl_print);
}
