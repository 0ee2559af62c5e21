/*
 * Bodies of kernels. Where it can be seen that no thread waits for another, the body becomes a lambda that a loop calls
 * for all threads of a block, with the thread's index as a parameter: then the compiler sees a loop, and may use the
 * processor's vectors. Any other body begins with copies of its indices, which stay in registers.
 */
#include "nvcc/rewrite_impl.h"

/* Return true if a [ ] of the body captures nothing: its function cannot use the kernel's variables. */
static bool
is_bare_lambda(const struct rewrite *r, size_t i)
{
	size_t next = token_next(&r->t, i), prev = token_prev(&r->t, i);

	if (!rewrite_is(r, i, "[") || !rewrite_is(r, next, "]"))
		return false;
	return !(rewrite_is_word(r, prev) || rewrite_is(r, prev, ")") || rewrite_is(r, prev, "]"));
}

/* Return true if the body has functions of its own, or its function's name. */
static bool
has_functions(const struct rewrite *r, size_t from, size_t to)
{
	static const char *const words[] = {"class",	    "struct",		  "union",
					    "__func__", "__FUNCTION__", "__PRETTY_FUNCTION__"};

	for (size_t i = from; i < to; i++) {
		if (is_bare_lambda(r, i))
			return true;
		for (size_t k = 0; k < sizeof words / sizeof *words; k++)
			if (rewrite_is(r, i, words[k]))
				return true;
	}
	return false;
}

enum body
rewrite_body_is(const struct rewrite *r, size_t open, size_t body, bool of_types)
{
	size_t close = token_close(&r->t, body);

	if (!r->waits || has_functions(r, body, close) || waits_in(r->waits, open, close, of_types))
		return BODY_THREADS;
	return BODY_LOOP;
}

#define INDICES                                                                                \
	"[[maybe_unused]] const ::uint3 threadIdx, [[maybe_unused]] const ::uint3 blockIdx, "  \
	"[[maybe_unused]] const ::dim3 blockDim, [[maybe_unused]] const ::dim3 gridDim"

void
rewrite_body(struct rewrite *r, size_t body, enum body is)
{
	size_t close = token_close(&r->t, body);

	if (is == BODY_THREADS) {
		if (!has_functions(r, body, close))
			rewrite_before(r, body + 1,
				       " [[maybe_unused]] const ::uint3 threadIdx = ::threadIdx, blockIdx = ::blockIdx; "
				       "[[maybe_unused]] const ::dim3 blockDim = ::blockDim, gridDim = ::gridDim;");
		return;
	}
	/* Compilers disagree about the place of an attribute. */
	rewrite_before(r, body + 1, " auto __gpusim_body = [=](" INDICES ")");
	rewrite_before(r, body + 1,
		       r->clang ? " __attribute__((always_inline)) mutable -> void {"
				: " mutable __attribute__((always_inline)) -> void {");
	rewrite_before(r, close, "}; ::gpusim_cuda::each_thread(__gpusim_body); ");
}
