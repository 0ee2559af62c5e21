/*
 * __global__ functions. A kernel stays one function. In the program its first line passes the arguments to
 * the run-time, which enqueues them; in the helper process it continues with the body. To name itself, with
 * its template arguments, it needs the names of all parameters, so unnamed ones get a name.
 */
#include "nvcc/rewrite_impl.h"

#include <stdio.h>

#include "base/must.h"

struct kernel {
	size_t name, name_end;	 /* with ns:: and <explicit arguments> */
	bool has_arguments;	 /* the name has <...> */
	bool of_types;		 /* a template with parameters that are types */
	size_t open, close;	 /* of its parameters */
	struct buf types, names; /* the type of each, "a, b" */
	struct buf self;	 /* the name with its template's parameters */
};

/* ---- lists of parameters */

static size_t
param_end(const struct rewrite *r, size_t i, size_t to)
{
	for (; i < to; i++) {
		size_t prev = token_prev(&r->t, i);

		if (rewrite_is(r, i, "(") || rewrite_is(r, i, "[") || rewrite_is(r, i, "{"))
			i = token_close(&r->t, i);
		else if (rewrite_is(r, i, "<") && prev != SIZE_MAX && rewrite_is_word(r, prev)) {
			size_t close = token_close_angle(&r->t, i);

			i = close < to ? close : i;
		} else if (rewrite_is(r, i, ","))
			return i;
	}
	return to;
}

/* For each parameter of [from, to): one line into each buffer. types may be NULL. */
static void
add_param(struct rewrite *r, size_t from, size_t to, bool of_template, unsigned n,
	  struct buf *types, struct buf *names)
{
	struct param p = rewrite_param(r, from, to, of_template);
	const char *comma = n ? ", " : "", *dots = p.pack ? "..." : "";
	char made[32];
	const char *name = made;
	int len = snprintf(made, sizeof made, "__gpusim_%c%u", of_template ? 't' : 'p', n);

	if (p.name == SIZE_MAX) {
		rewrite_before(r, p.at, " ");
		rewrite_before(r, p.at, made);
	} else {
		name = r->t.v[p.name].text;
		len = (int)r->t.v[p.name].len;
	}
	must_addf(names, "%s%.*s%s", comma, len, name, dots);
	if (types)
		must_addf(types, "%s::gpusim_cuda::plain<decltype(%.*s)>%s", comma, len, name,
			  dots);
}

static void
params(struct rewrite *r, size_t from, size_t to, bool of_template, struct buf *types,
       struct buf *names)
{
	size_t first = token_counts(&r->t.v[from]) ? from : token_next(&r->t, from);

	if (first >= to || (rewrite_is(r, first, "void") && token_next(&r->t, first) >= to))
		return;
	for (unsigned n = 0; from < to; n++) {
		size_t end = param_end(r, from, to);

		add_param(r, from, end, of_template, n, types, names);
		from = end + 1;
	}
}

/* ---- the declaration */

/* From the mark on: the name and the parameters. False: not a function. */
static bool
find_name(const struct rewrite *r, size_t i, struct kernel *k)
{
	for (i = token_next(&r->t, i); i + 1 < r->t.n; i = token_next(&r->t, i)) {
		size_t past = rewrite_skip_attribute(r, i), next;

		if (past != i) {
			i = token_prev(&r->t, past);
			continue;
		}
		if (rewrite_is(r, i, ";") || rewrite_is(r, i, "{") || rewrite_is(r, i, "}"))
			return false;
		if (!rewrite_is_word(r, i))
			continue;
		next = token_next(&r->t, i);
		k->has_arguments = rewrite_is(r, next, "<");
		if (k->has_arguments)
			next = token_next(&r->t, token_close_angle(&r->t, next));
		if (rewrite_is(r, next, "(")) {
			k->name = i;
			k->name_end = k->open = next;
			k->close = token_close(&r->t, next);
			return true;
		}
	}
	return false;
}

/* Before the mark: the parameters of its template, as arguments; an explicit instantiation has none. */
static void
add_template(struct rewrite *r, size_t mark, struct kernel *k)
{
	struct buf names = {0};

	for (size_t i = r->begin; i < mark; i++) {
		size_t open = token_next(&r->t, i), close;

		if (!rewrite_is(r, i, "template") || !rewrite_is(r, open, "<"))
			continue;
		close = token_close_angle(&r->t, open);
		for (size_t at = open; at < close; at++)
			if (rewrite_is(r, at, "typename") || rewrite_is(r, at, "class") ||
			    rewrite_is(r, at, "auto"))
				k->of_types = true;
		names.len = 0;
		params(r, open + 1, close, true, NULL, &names);
		i = close;
	}
	if (names.len && !k->has_arguments)
		must_addf(&k->self, "<%.*s>", (int)names.len, names.data);
	buf_fini(&names);
}

/* After the parameters: the body's brace, or the end of a declaration. */
static size_t
find_body(const struct rewrite *r, size_t i)
{
	while (i + 1 < r->t.n && !rewrite_is(r, i, "{") && !rewrite_is(r, i, ";"))
		i = token_next(&r->t, i);
	return i;
}

/* The kernel's first line: in the program it is a launch. */
static void
add_launch(struct rewrite *r, size_t body, const struct kernel *k)
{
	struct buf text = {0}, head = {0}, tail = {0};
	bool part = rewrite_body(r, k->open, body, k->of_types, &head, &tail);
	int nt = (int)k->types.len, nn = (int)k->names.len, ns = (int)k->self.len;
	const char *types = k->types.len ? k->types.data : "";

	must_addf(&text,
		  " if (__builtin_expect(%s, 0)) { if (!__gpusim_inside) "
		  "::gpusim_cuda::kernel<void (*)(%.*s), static_cast<void (*)(%.*s)>(&%.*s)%s>"
		  "::launch(%.*s); return; }%.*s",
		  part ? "!__gpusim_inside" : "__gpusim_inside != 1", nt, types, nt, types, ns,
		  k->self.data, part ? ", 1" : "", nn, nn ? k->names.data : "", (int)head.len,
		  head.len ? head.data : "");
	rewrite_before(r, body + 1, text.data);
	if (tail.len)
		rewrite_before(r, token_close(&r->t, body), tail.data);
	buf_fini(&tail);
	buf_fini(&text);
	buf_fini(&head);
}

enum rc
rewrite_kernel(struct rewrite *r, size_t i)
{
	struct kernel k = {0};
	size_t body;

	r->device = true;
	r->edit[i].instead = "";
	if (!find_name(r, i, &k))
		return rewrite_refuse(r, i, "__global__ must mark a function");
	body = find_body(r, token_next(&r->t, k.close));
	/* In a pack, __restrict__ would be part of the function's type for g++. */
	for (size_t at = k.open; at < k.close; at = token_next(&r->t, at))
		if ((rewrite_is(r, at, "__restrict__") || rewrite_is(r, at, "__restrict")) &&
		    rewrite_is(r, token_next(&r->t, at), "..."))
			r->edit[at].instead = "";
	if (rewrite_is(r, body, "{")) {
		rewrite_copy(r, k.name, k.name_end, &k.self);
		add_template(r, i, &k);
		params(r, k.open + 1, k.close, false, &k.types, &k.names);
		add_launch(r, body, &k);
	}
	buf_fini(&k.types);
	buf_fini(&k.names);
	buf_fini(&k.self);
	return RC_OK;
}
