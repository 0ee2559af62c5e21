/*
 * Bodies of kernels. Where it can be seen that no thread waits for another, the body becomes a lambda that a loop calls
 * for all threads of a block, with the thread's index as a parameter: then the compiler sees a loop, and may use the
 * processor's vectors. Any other body begins with copies of its indices, which stay in registers.
 */
#include "base/must.h"
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

static bool
has_word(const struct rewrite *r, size_t from, size_t to, const char *const *v)
{
	for (size_t i = from; i < to; i++)
		for (const char *const *w = v; *w; w++)
			if (rewrite_is(r, i, *w))
				return true;
	return false;
}

/* Return true if the body has functions of its own, which cannot use its variables. */
static bool
has_functions(const struct rewrite *r, size_t from, size_t to)
{
	static const char *const words[] = {"class", "struct", "union", NULL};

	for (size_t i = from; i < to; i++)
		if (is_bare_lambda(r, i))
			return true;
	return has_word(r, from, to, words);
}

/* Return true if the body has its function's name, which a lambda changes. */
static bool
has_name(const struct rewrite *r, size_t from, size_t to)
{
	static const char *const words[] = {"__func__", "__FUNCTION__", "__PRETTY_FUNCTION__",
					    NULL};

	return has_word(r, from, to, words);
}

#define LOOP_END "}; ::gpusim_cuda::each_thread(__gpusim_body); "

static void
make_loop(const struct rewrite *r, struct buf *head, struct buf *tail)
{
	must_addf(head, " auto __gpusim_body = [=](" REWRITE_INDICES ")%s -> void {",
		  r->clang ? REWRITE_INLINE_CLANG : REWRITE_INLINE);
	must_add(tail, LOOP_END, sizeof LOOP_END);
}

bool
rewrite_body(struct rewrite *r, size_t open, size_t body, bool of_types, struct buf *head,
	     struct buf *tail)
{
	size_t close = token_close(&r->t, body);
	bool functions = has_functions(r, body, close), rounds;
	bool loop = r->waits && !functions && !has_name(r, body, close) &&
		    !waits_in(r->waits, open, close, of_types);

	rounds = !functions && rewrite_rounds(r, open, body, of_types, loop, head);
	if (loop)
		make_loop(r, head, tail);
	else if (r->waits && !functions)
		must_addf(
		    head,
		    " [[maybe_unused]] const ::uint3 threadIdx = ::threadIdx, blockIdx = "
		    "::blockIdx; "
		    "[[maybe_unused]] const ::dim3 blockDim = ::blockDim, gridDim = ::gridDim;");
	return loop || rounds;
}
