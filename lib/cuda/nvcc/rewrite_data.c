/*
 * Variables of a device. __device__ and __constant__ variables are in a separate section, which the
 * run-time maps to each device's memory. __shared__ variables are thread-local: the threads of a
 * block run on one system thread, and no other block runs there meanwhile.
 */
#include <stdio.h>
#include <string.h>

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

/* ---- whole programs: what is marked __device__ belongs to its file, as in nvcc without -rdc=true */

/* Does an earlier declaration say `extern` and that name? */
static bool
is_extern(const struct rewrite *r, size_t to, size_t name)
{
	const struct token *n = &r->t.v[name];

	for (size_t i = 0; i < to; i++)
		if (rewrite_is(r, i, "extern"))
			for (; i < to && !rewrite_is(r, i, ";") && !rewrite_is(r, i, "{"); i++)
				if (rewrite_is_word(r, i) && r->t.v[i].len == n->len &&
				    memcmp(r->t.v[i].text, n->text, n->len) == 0)
					return true;
	return false;
}

/* at: the decider. May the declaration around the mark be static? Not members, templates and what says its linkage. */
static bool
may_be_static(const struct rewrite *r, size_t at)
{
	static const char *const no[] = {
	    "static",	       "extern",   "inline",	   "template",		"constexpr",
	    "friend",	       "typedef",  "using",	   "virtual",		"__inline__",
	    "__gpusim_host__", "__inline", "thread_local", "__gpusim_shared__", NULL};
	size_t name = rewrite_is(r, at, "operator") ? at : token_prev(&r->t, at);

	if (r->separate || !rewrite_at_ground(r) || name == SIZE_MAX || !rewrite_is_word(r, name) ||
	    rewrite_is(r, token_prev(&r->t, name), "::") ||
	    rewrite_is(r, token_prev(&r->t, name), "~"))
		return false;
	for (size_t i = r->begin; i < at; i++)
		for (const char *const *w = no; *w; w++)
			if (rewrite_is(r, i, *w))
				return false;
	return !is_extern(r, r->begin, name);
}

enum rc
rewrite_device(struct rewrite *r, size_t i)
{
	size_t at;
	bool own;

	for (size_t k = r->begin;
	     k + 1 < r->t.n && !rewrite_is(r, k, ";") && !rewrite_is(r, k, "("); k++)
		if (rewrite_is(r, k, "__gpusim_managed__")) {
			r->edit[i].instead = "";
			return RC_OK;
		}

	r->edit[i].instead = "";
	if (in_lambda(r, i)) {
		r->device = true;
		return RC_OK;
	}
	at = decider(r, token_next(&r->t, i));
	own = !r->own && may_be_static(r, at);
	r->own = r->own || own;
	if (rewrite_is(r, at, "(") || rewrite_is(r, at, "operator")) {
		r->device = true;
		if (own)
			r->edit[i].instead = "static __attribute__((unused))";
	} else if (!keeps_section(r, at)) {
		r->edit[i].instead =
		    own ? "static __attribute__((unused, section(\"gpusim_device\")))"
			: "__attribute__((section(\"gpusim_device\")))";
	}
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
	size_t end = semicolon(r, i), k = token_next(&r->t, i);

	r->edit[i].instead = "";
	if (drop(r, r->begin, end, "extern"))
		return dynamic(r, i, end);
	drop(r, r->begin, end, "static");
	/* Standard attributes stand in front of it. */
	for (size_t after; (after = rewrite_skip_attribute(r, k)) != k;)
		k = after;
	if (k == token_next(&r->t, i))
		r->edit[i].instead = "static thread_local";
	else
		rewrite_before(r, k, "static thread_local ");
	return RC_OK;
}

/* ---- __managed__ */

/*
 * __managed__ T x[2] = {1}; becomes static T __gpusim_initial_x[2] = {1}; and a reference x to managed memory that
 * begins with these values.
 */
enum rc
rewrite_managed(struct rewrite *r, size_t i)
{
	size_t end = semicolon(r, i), k = token_next(&r->t, i);
	bool is_static = false;

	for (size_t at = r->begin; at < end; at++) {
		is_static = is_static || rewrite_is(r, at, "static");
		if (!rewrite_at_ground(r) || rewrite_is(r, at, "extern"))
			return rewrite_refuse(r, i,
					      "__managed__ variables of classes, functions and "
					      "other files are not simulated");
	}
	r->edit[i].instead = is_static ? "" : "static";
	while (k < end) {
		size_t next = past(r, k);
		const struct token *name = &r->t.v[k];
		char text[300];

		if (!rewrite_is_word(r, k) ||
		    !(next == end || rewrite_is(r, next, "[") || rewrite_is(r, next, "=") ||
		      rewrite_is(r, next, "{") || rewrite_is(r, next, ","))) {
			k = next;
			continue;
		}
		rewrite_before(r, k, "__gpusim_initial_");
		snprintf(text, sizeof text,
			 " static auto &%.*s = ::gpusim_cuda::managed(__gpusim_initial_%.*s);",
			 (int)name->len, name->text, (int)name->len, name->text);
		rewrite_before(r, end + 1, text);
		for (k = next; k < end && !rewrite_is(r, k, ","); k = token_next(&r->t, k))
			if (rewrite_is(r, k, "(") || rewrite_is(r, k, "[") || rewrite_is(r, k, "{"))
				k = token_close(&r->t, k);
		k = token_next(&r->t, k);
	}
	return RC_OK;
}
