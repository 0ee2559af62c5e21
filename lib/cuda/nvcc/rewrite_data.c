/*
 * Variables of a device. __device__ and __constant__ variables are in a separate section, which the
 * run-time maps to each device's memory. __shared__ variables are thread-local: the threads of a
 * block run on one system thread, and no other block runs there meanwhile.
 */
#include "nvcc/rewrite_impl.h"

/* The token after a name's < >; else i + 1. */
static size_t
past(const struct rewrite *r, size_t i)
{
	size_t close;

	if (rewrite_is(r, i, "<")) {
		close = token_close_angle(&r->t, i);
		return close == r->t.n - 1 ? token_next(&r->t, i) : token_next(&r->t, close);
	}
	return token_next(&r->t, i);
}

/* The token that shows the kind of a declaration: ( for a function, or = ; [ { for a variable. */
static size_t
decider(const struct rewrite *r, size_t i)
{
	while (i + 1 < r->t.n) {
		size_t after = rewrite_skip_attribute(r, i);

		if (after != i) {
			i = after;
			continue;
		}
		if (rewrite_is(r, i, "operator") || rewrite_is(r, i, "("))
			return i;
		if (rewrite_is(r, i, "decltype")) {
			i = token_next(&r->t, token_close(&r->t, token_next(&r->t, i)));
			continue;
		}
		if (rewrite_is(r, i, "=") || rewrite_is(r, i, ";") || rewrite_is(r, i, "[") ||
		    rewrite_is(r, i, "{"))
			return i;
		i = past(r, i);
	}
	return i;
}

/* [..] __device__ (..) {..} */
static bool
in_lambda(const struct rewrite *r, size_t i)
{
	size_t prev = token_prev(&r->t, i);

	while (prev != SIZE_MAX && rewrite_is_word(r, prev) &&
	       (rewrite_is(r, prev, "__gpusim_host__") || rewrite_is(r, prev, "__gpusim_device__")))
		prev = token_prev(&r->t, prev);
	return prev != SIZE_MAX && rewrite_is(r, prev, "]");
}

/* A constant, or one that many files may define: the compiler chooses its section, and no one can
 * write to it. */
static bool
keeps_section(const struct rewrite *r, size_t to)
{
	bool constant = false;

	for (size_t i = r->begin; i < to; i++) {
		if (rewrite_is(r, i, "template") || rewrite_is(r, i, "inline") ||
		    rewrite_is(r, i, "constexpr"))
			return true;
		if (rewrite_is(r, i, "const"))
			constant = true;
		else if (rewrite_is(r, i, "*"))
			constant = false;
		else if (rewrite_is(r, i, "<"))
			i = token_prev(&r->t, past(r, i));
	}
	return constant;
}

enum rc
rewrite_device(struct rewrite *r, size_t i)
{
	size_t at;

	r->edit[i].instead = "";
	if (in_lambda(r, i)) {
		r->device = true;
		return RC_OK;
	}
	at = decider(r, token_next(&r->t, i));
	if (rewrite_is(r, at, "(") || rewrite_is(r, at, "operator"))
		r->device = true;
	else if (!keeps_section(r, at))
		r->edit[i].instead = "__attribute__((section(\"gpusim_device\")))";
	return RC_OK;
}

/* ---- __shared__ */

/* The ; of the declaration around i. */
static size_t
semicolon(const struct rewrite *r, size_t i)
{
	while (i + 1 < r->t.n && !rewrite_is(r, i, ";")) {
		if (rewrite_is(r, i, "(") || rewrite_is(r, i, "[") || rewrite_is(r, i, "{"))
			i = token_close(&r->t, i);
		i = token_next(&r->t, i);
	}
	return i;
}

/* Blank out a word of [from, to). True: found. */
static bool
drop(struct rewrite *r, size_t from, size_t to, const char *word)
{
	for (size_t i = from; i < to; i++)
		if (rewrite_is(r, i, word)) {
			r->edit[i].instead = "";
			return true;
		}
	return false;
}

/*
 * extern __shared__ T x[]; becomes T (*const x) = the block's dynamic shared memory. Outside of
 * functions x is a reference to the running thread's pointer.
 */
static enum rc
dynamic(struct rewrite *r, size_t mark, size_t end)
{
	bool ground = rewrite_at_ground(r);
	size_t open = mark, name;

	for (; open < end && !rewrite_is(r, open, "["); open = token_next(&r->t, open)) {
		size_t after = rewrite_skip_attribute(r, open);

		if (after != open)
			open = token_prev(&r->t, after);
	}
	name = open < end ? token_prev(&r->t, open) : SIZE_MAX;
	if (name == SIZE_MAX || !rewrite_is_word(r, name) ||
	    !rewrite_is(r, token_next(&r->t, open), "]"))
		return rewrite_refuse(r, mark, "extern __shared__ needs an array without a size");
	r->edit[open].instead = ")";
	r->edit[token_next(&r->t, open)].instead = "";
	rewrite_before(r, name, ground ? "(*const &" : "(*const ");
	if (ground)
		rewrite_before(r, token_next(&r->t, r->begin - (r->begin > 0)),
			       " static thread_local ");
	rewrite_before(r, end, " = ::gpusim_cuda::dynamic_shared()");
	return RC_OK;
}

enum rc
rewrite_shared(struct rewrite *r, size_t i)
{
	size_t end = semicolon(r, i);

	r->edit[i].instead = "";
	if (drop(r, r->begin, end, "extern"))
		return dynamic(r, i, end);
	drop(r, r->begin, end, "static");
	r->edit[i].instead = "static thread_local";
	return RC_OK;
}
