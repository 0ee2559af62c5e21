/* kernel<<<grid, block, shared, stream>>>(args). */
#include "nvcc/rewrite_impl.h"

#include "base/must.h"

/* Keywords that may precede an expression: they are not part of a name. */
static bool
is_keyword(const struct rewrite *r, size_t i)
{
	static const char *const v[] = {"return", "else",     "do",	   "case",    "goto",
					"throw",  "co_yield", "co_return", "co_await"};

	for (size_t k = 0; k < sizeof v / sizeof *v; k++)
		if (rewrite_is(r, i, v[k]))
			return true;
	return false;
}

/* Does the token end something that a call or :: may follow? */
static bool
ends_operand(const struct rewrite *r, size_t i)
{
	return (rewrite_is_word(r, i) && !is_keyword(r, i)) || rewrite_is(r, i, ")") ||
	       rewrite_is(r, i, "]") || rewrite_is(r, i, ">");
}

/* One step to the left, over a bracket and what it belongs to: the first token of [..], (..), <..>
 * or a word. */
static size_t
operand(const struct rewrite *r, size_t i)
{
	size_t prev;

	if (rewrite_is(r, i, ">"))
		i = token_open_angle(&r->t, i);
	else if (rewrite_is(r, i, ")") || rewrite_is(r, i, "]"))
		i = token_open(&r->t, i);
	else
		return i;
	if (i == SIZE_MAX)
		return i;
	prev = token_prev(&r->t, i);
	/* f(x), a[i], k<T>: the token before belongs to it; in (k) it does not. */
	return prev != SIZE_MAX && ends_operand(r, prev) ? operand(r, prev) : i;
}

/* The first token of the expression that ends at i: names with ::, . and ->, calls, indices,
 * template arguments. */
static size_t
callee(const struct rewrite *r, size_t i)
{
	for (;;) {
		size_t prev, before;

		if (!ends_operand(r, i))
			return SIZE_MAX;
		i = operand(r, i);
		if (i == SIZE_MAX)
			return i;
		prev = token_prev(&r->t, i);
		if (prev != SIZE_MAX && rewrite_is(r, prev, "template"))
			prev = token_prev(&r->t, prev);
		if (prev == SIZE_MAX || !(rewrite_is(r, prev, "::") || rewrite_is(r, prev, ".") ||
					  rewrite_is(r, prev, "->")))
			return i;
		before = token_prev(&r->t, prev);
		if (rewrite_is(r, prev, "::") && (before == SIZE_MAX || !ends_operand(r, before)))
			return prev; /* ::name */
		if (before == SIZE_MAX)
			return before;
		i = before;
	}
}

/* The first > of the >>> that ends the configuration. */
static size_t
config_end(const struct rewrite *r, size_t i)
{
	for (; i + 1 < r->t.n; i++) {
		if (rewrite_is(r, i, "(") || rewrite_is(r, i, "[") || rewrite_is(r, i, "{"))
			i = token_close(&r->t, i);
		else if (rewrite_is(r, i, ";"))
			break;
		else if (rewrite_is(r, i, ">") && rewrite_is(r, i + 1, ">") &&
			 rewrite_is(r, i + 2, ">") && rewrite_is(r, token_next(&r->t, i + 2), "("))
			return i;
	}
	return SIZE_MAX;
}

enum rc
rewrite_launch(struct rewrite *r, size_t i)
{
	struct launch l = {.callee = callee(r, token_prev(&r->t, i)), .config = i + 3};

	if (l.callee == SIZE_MAX)
		return rewrite_refuse(r, i, "<<< has no kernel before it");
	l.config_end = config_end(r, l.config);
	if (l.config_end == SIZE_MAX)
		return rewrite_refuse(r, i, "<<< has no >>>( after it");
	l.args = token_next(&r->t, l.config_end + 2);
	l.args_end = token_close(&r->t, l.args);
	if (l.args_end == r->t.n - 1)
		return rewrite_refuse(r, l.args, "the arguments of a launch are not closed");
	if (r->edit[l.callee].launch)
		return rewrite_refuse(r, i, "two launches in one expression");
	r->edit[l.callee].launch = must_alloc(1, sizeof l);
	*r->edit[l.callee].launch = l;
	return RC_OK;
}
