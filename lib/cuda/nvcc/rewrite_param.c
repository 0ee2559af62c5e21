/* Finds the names of parameters of templates and functions. */
#include "nvcc/rewrite_impl.h"

static bool
one_of(const struct rewrite *r, size_t i, const char *const *v)
{
	for (; *v; v++)
		if (rewrite_is(r, i, *v))
			return true;
	return false;
}

static const char *const qualifiers[] = {"const",      "volatile", "struct",   "class",
					 "enum",       "union",	   "typename", "__restrict__",
					 "__restrict", "register", NULL};
static const char *const builtin[] = {"void",	  "bool",     "char",	 "short",    "int",
				      "long",	  "float",    "double",	 "signed",   "unsigned",
				      "auto",	  "wchar_t",  "char8_t", "char16_t", "char32_t",
				      "__int128", "_Float16", "__bf16",	 NULL};
static const char *const pointer[] = {"*",	    "&", "const", "volatile", "__restrict__",
				      "__restrict", NULL};

static struct param
named(const struct rewrite *r, size_t i, size_t to, bool pack)
{
	if (i < to && rewrite_is_word(r, i))
		return (struct param){i, i, pack};
	return (struct param){SIZE_MAX, i < to ? i : to, pack};
}

/* template <typename T>: T in `class T`, `typename... T`, `template <class> class T`. False: not
 * such a type. */
static bool
type_param(const struct rewrite *r, size_t i, size_t to, struct param *out)
{
	bool pack = false;
	size_t next;

	if (rewrite_is(r, i, "template"))
		i = token_next(&r->t, token_close_angle(&r->t, token_next(&r->t, i)));
	if (!rewrite_is(r, i, "typename") && !rewrite_is(r, i, "class"))
		return false;
	i = token_next(&r->t, i);
	if (rewrite_is(r, i, "...")) {
		pack = true;
		i = token_next(&r->t, i);
	}
	next = i < to && rewrite_is_word(r, i) ? token_next(&r->t, i) : i;
	if (next < to && !rewrite_is(r, next, "="))
		return false;
	*out = named(r, i, to, pack);
	return true;
}

/* Skip qualifiers and the type's name. */
static size_t
over_type(const struct rewrite *r, size_t i, size_t to)
{
	for (size_t next; i < to; i = next) {
		next = rewrite_skip_attribute(r, i);
		if (next == i && one_of(r, i, qualifiers))
			next = token_next(&r->t, i);
		if (next == i)
			break;
	}
	if (one_of(r, i, builtin)) {
		while (i < to && (one_of(r, i, builtin) || one_of(r, i, qualifiers)))
			i = token_next(&r->t, i);
		return i;
	}
	if (rewrite_is(r, i, "decltype"))
		return token_next(&r->t, token_close(&r->t, token_next(&r->t, i)));
	if (rewrite_is(r, i, "::"))
		i = token_next(&r->t, i);
	while (i < to && rewrite_is_word(r, i)) {
		i = token_next(&r->t, i);
		if (i < to && rewrite_is(r, i, "<"))
			i = token_next(&r->t, token_close_angle(&r->t, i));
		if (i >= to || !rewrite_is(r, i, "::"))
			break;
		i = token_next(&r->t, i);
		if (rewrite_is(r, i, "template"))
			i = token_next(&r->t, i);
	}
	return i;
}

struct param
rewrite_param(const struct rewrite *r, size_t i, size_t to, bool of_template)
{
	struct param p;
	bool pack = false;

	if (!token_counts(&r->t.v[i]))
		i = token_next(&r->t, i);
	if (of_template && type_param(r, i, to, &p))
		return p;
	i = over_type(r, i, to);
	while (i < to && one_of(r, i, pointer))
		i = token_next(&r->t, i);
	if (i < to && rewrite_is(r, i, "...")) {
		pack = true;
		i = token_next(&r->t, i);
	}
	if (i < to && rewrite_is(r, i, "(")) {
		/* void (*f)(int): the last word in the brackets */
		size_t close = token_close(&r->t, i), last = token_prev(&r->t, close);

		return named(r, rewrite_is_word(r, last) ? last : close, close, pack);
	}
	return named(r, i, to, pack);
}
