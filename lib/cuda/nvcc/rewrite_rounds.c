/*
 * Strided loops. In `for (int i = threadIdx.x + ..; i < n; i += stride) S` each thread walks through memory in large
 * steps, and one thread after the other would do so; on a GPU all threads make a step at a time, next to each other. So
 * the part of a kernel for all threads runs the loop in rounds: round m is step m of every thread. It goes on while no
 * thread's loop has ended; then the threads continue on their own, from their steps and variables.
 *
 * This is right if what precedes the loop may be evaluated again in each round: only declarations without side effects
 * and without loads; and if S neither leaves the loop nor waits, and changes, of the variables declared before, only
 * numbers, which are kept in an array with an element for each thread.
 */
#include "nvcc/rewrite_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"

#define VARS 32

struct var {
	size_t name, from, to; /* its token; the tokens of its initialiser, from == to: none */
	size_t type, type_end; /* the declaration's tokens before the name */
	bool number, whole;    /* a number's type; an integer's */
	bool varies;	       /* with threadIdx */
	bool needed, kept;     /* by the loop; changed by S */
	bool shared;
};

struct loop {
	size_t at, open, close; /* for or while, its brackets */
	size_t init,
	    init_end; /* of a loop variable that the loop declares: its value; equal: none */
	size_t type, type_end;
	size_t name; /* the loop variable */
	size_t cond, cond_end, step, step_end;
	size_t body, body_end; /* S */
	size_t end;	       /* after the statement */
};

struct rounds {
	struct rewrite *r;
	size_t open, close; /* parameters */
	bool of_types;
	struct var var[VARS];
	size_t nvars;
	struct loop loop;
};

/* ---- tokens */

static bool
is(const struct rounds *s, size_t i, const char *text)
{
	return rewrite_is(s->r, i, text);
}

static bool
is_in(const struct rounds *s, size_t i, const char *const *v)
{
	for (; *v; v++)
		if (is(s, i, *v))
			return true;
	return false;
}

static size_t
next(const struct rounds *s, size_t i)
{
	return token_next(&s->r->t, i);
}

static size_t
prev(const struct rounds *s, size_t i)
{
	return token_prev(&s->r->t, i);
}

static size_t
first(const struct rounds *s, size_t i)
{
	return token_counts(&s->r->t.v[i]) ? i : next(s, i);
}

static bool
same(const struct rounds *s, size_t a, size_t b)
{
	const struct token *x = &s->r->t.v[a], *y = &s->r->t.v[b];

	return x->kind == TOKEN_WORD && y->kind == TOKEN_WORD && x->len == y->len &&
	       memcmp(x->text, y->text, x->len) == 0;
}

/* Return true if the range has the word of token `name`. */
static bool
mentions(const struct rounds *s, size_t from, size_t to, size_t name)
{
	for (size_t i = from; i < to; i++)
		if (same(s, i, name))
			return true;
	return false;
}

static bool
is_operand(const struct rounds *s, size_t i)
{
	return i != SIZE_MAX && (rewrite_is_word(s->r, i) || s->r->t.v[i].kind == TOKEN_NUMBER ||
				 is(s, i, ")") || is(s, i, "]"));
}

/* The variable that token i names; NULL: none. */
static struct var *
var_of(struct rounds *s, size_t i)
{
	for (size_t k = 0; k < s->nvars; k++)
		if (same(s, s->var[k].name, i))
			return &s->var[k];
	return NULL;
}

/* Return true if token i is the second character of an operator that changes its left side: +=, ++, =, .. */
static bool
is_assign(const struct rounds *s, size_t i)
{
	static const char *const before[] = {"=", "<", ">", "!", NULL};
	size_t p = prev(s, i);

	return is(s, i, "=") && !is(s, i + 1, "=") &&
	       !(p + 1 == i && is_in(s, p, before) && !(is(s, p, "<") && is(s, p - 1, "<")) &&
		 !(is(s, p, ">") && is(s, p - 1, ">")));
}

static bool
is_twice(const struct rounds *s, size_t i, const char *text)
{
	return is(s, i, text) && is(s, i + 1, text);
}

/* ---- expressions without side effects and loads */

/* Functions of their arguments' values; loads are not among them. */
static const char *const values[] = {
    "float", "double", "int",	"unsigned", "long",   "short",	"char",	  "size_t", "min",
    "max",   "expf",   "exp",	"sqrtf",    "sqrt",   "fabsf",	"fabs",	  "fmaf",   "fma",
    "fmaxf", "fminf",  "powf",	"pow",	    "logf",   "log",	"sinf",	  "cosf",   "sin",
    "cos",   "tanhf",  "tanh",	"rsqrtf",   "floorf", "ceilf",	"abs",	  "__expf", "__logf",
    "erff",  "sizeof", "floor", "ceil",	    "rintf",  "roundf", "log1pf", NULL};
/* Others that take their arguments by value. */
static const char *const by_value[] = {"__ldg", "__ldcs", "__stcs", "if",     "for",
				       "while", "switch", "return", "sizeof", NULL};
static const char *const handles[] = {"this_thread_block", "tiled_partition", "this_grid",
				      "thread_rank", NULL};

static bool
is_pure(const struct rounds *s, size_t from, size_t to)
{
	for (size_t i = from; i < to; i = next(s, i)) {
		size_t p = i > from ? prev(s, i) : SIZE_MAX;

		if (is(s, i, "[") || is(s, i, "{") || is_assign(s, i) || is_twice(s, i, "+") ||
		    is_twice(s, i, "-") || (is(s, i, "-") && is(s, i + 1, ">")) || is(s, i, "->") ||
		    s->r->t.v[i].kind == TOKEN_STRING)
			return false;
		if ((is(s, i, "*") || is(s, i, "&")) && !is_operand(s, p) && !is(s, p, ">") &&
		    !is(s, p, "&"))
			return false;
		if (is(s, i, "(") && p != SIZE_MAX && rewrite_is_word(s->r, p) &&
		    !is_in(s, p, values) && !is_in(s, p, handles))
			return false;
		if (is(s, i, "new") || is(s, i, "throw") || waits_is_memory(s->r->waits, i))
			return false;
	}
	return true;
}

/* ---- statements */

static size_t statement(const struct rounds *s, size_t i, size_t to);

static size_t
after_bracket(const struct rounds *s, size_t i)
{
	return next(s, token_close(&s->r->t, next(s, i)));
}

/* The token after the statement that begins at i. */
static size_t
statement(const struct rounds *s, size_t i, size_t to)
{
	if (is(s, i, "{"))
		return next(s, token_close(&s->r->t, i));
	if (is(s, i, "if")) {
		size_t end = next(s, i);

		if (is(s, end, "constexpr"))
			i = end;
		end = statement(s, after_bracket(s, i), to);
		return is(s, end, "else") ? statement(s, next(s, end), to) : end;
	}
	if (is(s, i, "for") || is(s, i, "while") || is(s, i, "switch"))
		return statement(s, after_bracket(s, i), to);
	if (is(s, i, "do"))
		return next(s, after_bracket(s, statement(s, next(s, i), to)));
	for (; i < to && !is(s, i, ";"); i = next(s, i))
		if (is(s, i, "(") || is(s, i, "[") || is(s, i, "{"))
			i = token_close(&s->r->t, i);
	return next(s, i);
}

/* The comma at the level of i, or `to`. */
static size_t
comma(const struct rounds *s, size_t i, size_t to)
{
	for (; i < to && !is(s, i, ","); i = next(s, i))
		if (is(s, i, "(") || is(s, i, "[") || is(s, i, "{"))
			i = token_close(&s->r->t, i);
	return i < to ? i : to;
}

/* ---- declarations before the loop */

static void
classify(const struct rounds *s, struct var *v)
{
	static const char *const whole[] = {
	    "int",	 "unsigned", "long",	"short",    "char",	"signed",
	    "size_t",	 "int32_t",  "int64_t", "uint32_t", "uint64_t", "const",
	    "ptrdiff_t", "std",	     "::",	"uint",	    NULL};

	v->whole = true;
	v->number = true;
	for (size_t i = first(s, v->type); i < v->type_end; i = next(s, i)) {
		v->whole = v->whole && is_in(s, i, whole);
		if (is(s, i, "*") || is(s, i, "&") || is(s, i, "auto") || is(s, i, "volatile"))
			v->number = v->whole = false;
	}
}

/* One declarator of [i, to): * name = value. False: something else. */
static bool
declarator(struct rounds *s, size_t type, size_t type_end, size_t i, size_t to)
{
	struct var v = {.type = type, .type_end = type_end};

	if (!rewrite_is_word(s->r, i) || i >= to || s->nvars == VARS || var_of(s, i))
		return false;
	v.name = i;
	v.from = v.to = to;
	i = next(s, i);
	if (i < to && !is(s, i, "="))
		return false;
	if (i < to)
		v.from = next(s, i);
	if (!is_pure(s, v.from, v.to))
		return false;
	classify(s, &v);
	for (size_t k = v.from; k < v.to; k++) {
		const struct var *u = var_of(s, k);

		v.varies = v.varies || is(s, k, "threadIdx") || is(s, k, "thread_rank") ||
			   (u && u->varies);
	}
	s->var[s->nvars++] = v;
	return true;
}

/* A declaration without side effects and loads, the tokens [i, to) before its semicolon. */
static bool
declaration(struct rounds *s, size_t i, size_t to)
{
	struct param p;
	size_t at = comma(s, i, to);

	for (size_t k = i; k < to; k++)
		if (is(s, k, "__gpusim_shared__")) {
			size_t open = k;

			while (open < to && !is(s, open, "["))
				open = next(s, open);
			at = prev(s, open < to ? open : to);
			if (s->nvars == VARS || !rewrite_is_word(s->r, at))
				return false;
			s->var[s->nvars++] = (struct var){.name = at, .shared = true};
			return comma(s, i, to) == to;
		}
	if (!rewrite_is_word(s->r, i) || is(s, i, "static") || is(s, i, "return") ||
	    is(s, i, "using"))
		return false;
	p = rewrite_param(s->r, i, at, false);
	if (p.name == SIZE_MAX || p.name == i || p.pack)
		return false;
	if (!declarator(s, i, p.name, p.name, at))
		return false;
	while (at < to) {
		size_t from = next(s, at);

		for (size_t k = i; k < p.name; k++)
			if (is(s, k, "*") || is(s, k, "&"))
				return false;

		at = comma(s, from, to);
		if (!rewrite_is_word(s->r, from) || !declarator(s, i, p.name, from, at))
			return false;
	}
	return true;
}

/* ---- the loop */

/* name += value */
static bool
increment(const struct rounds *s, size_t i, size_t to, struct loop *l)
{
	size_t plus = next(s, i);

	if (!rewrite_is_word(s->r, i) || !is(s, plus, "+") || !is(s, plus + 1, "=") ||
	    is(s, plus + 2, "="))
		return false;
	l->step = next(s, plus + 1);
	l->step_end = to;
	return l->step < to && is_pure(s, l->step, to) &&
	       (l->name == SIZE_MAX || same(s, l->name, i)) && (l->name = i, true);
}

static bool
for_loop(struct rounds *s, struct loop *l)
{
	size_t semi = l->open, semi2;

	while (semi < l->close && !is(s, semi, ";"))
		semi = next(s, semi);
	for (semi2 = next(s, semi); semi2 < l->close && !is(s, semi2, ";");)
		semi2 = next(s, semi2);
	l->cond = next(s, semi);
	l->cond_end = semi2;
	l->init = l->init_end = semi;
	l->name = SIZE_MAX;
	if (next(s, l->open) != semi) { /* it declares its variable */
		struct param p = rewrite_param(s->r, next(s, l->open), semi, false);
		struct var v = {.type = next(s, l->open), .type_end = p.name};

		if (p.name == SIZE_MAX || p.name == v.type || !is(s, next(s, p.name), "=") ||
		    comma(s, next(s, l->open), semi) != semi || var_of(s, p.name))
			return false;
		classify(s, &v);
		if (!v.whole)
			return false;
		l->name = p.name;
		l->type = v.type;
		l->type_end = v.type_end;
		l->init = next(s, next(s, p.name));
	}
	return increment(s, next(s, semi2), l->close, l);
}

/* while (..) { ..; name += value; } */
static bool
while_loop(struct rounds *s, struct loop *l)
{
	size_t last = 0;

	l->cond = next(s, l->open);
	l->cond_end = l->close;
	l->init = l->init_end = l->close;
	l->name = SIZE_MAX;
	if (!is(s, l->body, "{"))
		return false;
	for (size_t i = next(s, l->body); i < l->body_end && !is(s, i, "}");
	     i = statement(s, i, l->body_end))
		last = i;
	if (!last)
		return false;
	l->body_end = last; /* without it */
	return increment(s, last, prev(s, statement(s, last, l->end)), l);
}

/* Steps of a few elements: the thread walks through its own part of memory. */
static bool
is_wide(const struct rounds *s, const struct loop *l)
{
	const struct token *t = &s->r->t.v[l->step];

	return t->kind != TOKEN_NUMBER || next(s, l->step) < l->step_end || t->len > 2 ||
	       atoi(t->text) >= 16;
}

static bool
varies(struct rounds *s, const struct loop *l)
{
	const struct var *v = l->init == l->init_end ? var_of(s, l->name) : NULL;

	if (l->init == l->init_end)
		return v && v->whole && v->varies && v->from < v->to;
	if (!is_pure(s, l->init, l->init_end))
		return false;
	for (size_t i = l->init; i < l->init_end; i++)
		if (is(s, i, "threadIdx") || (var_of(s, i) && var_of(s, i)->varies))
			return true;
	return false;
}

/* ---- S */

/* Return true if ( at `open` is no call, or one of a function that takes its arguments by value. */
static bool
is_by_value(const struct rounds *s, size_t open)
{
	size_t name = prev(s, open);
	const struct token *t = name == SIZE_MAX ? NULL : &s->r->t.v[name];

	if (!t || t->kind != TOKEN_WORD)
		return true;
	return is_in(s, name, values) || is_in(s, name, by_value) ||
	       (t->len > 6 && memcmp(t->text, "atomic", 6) == 0);
}

/* Return true if a parameter, named at token i, may be changed: by an assignment to a part of it, or by a call of it or
 * of a member. */
static bool
is_changed_object(const struct rounds *s, size_t i)
{
	size_t n = next(s, i);

	while (is(s, n, "."))
		n = next(s, next(s, n));
	if (is(s, n, "(") || (n != next(s, i) && is(s, n, "[")))
		return true;
	return n != next(s, i) && (is_assign(s, n) || is_assign(s, n + 1) || is_twice(s, n, "+") ||
				   is_twice(s, n, "-"));
}

/* Is token i, a variable's name, changed, or may it be? */
static bool
is_changed(const struct rounds *s, size_t i)
{
	size_t n = next(s, i), p = prev(s, i), open = p;

	if (is(s, p, ".") || is(s, p, "->") || (is(s, p, ">") && is(s, p - 1, "-")))
		return false; /* a member of that name */
	if (is(s, p, "&") && !is_operand(s, prev(s, p)) && !is(s, n, "["))
		return true;
	if (is_twice(s, n, "+") || is_twice(s, n, "-") || (is(s, p, "+") && is(s, p - 1, "+")) ||
	    (is(s, p, "-") && is(s, p - 1, "-")))
		return true;
	/* name <<=, name =, name += */
	if ((is(s, n, "<") && is(s, n + 1, "<=")) || (is(s, n, ">") && is(s, n + 1, ">=")))
		return true;
	for (unsigned k = 0; k < 3; k++)
		if (is_assign(s, n + k) && (k == 0 || !is_operand(s, n + k - 1)))
			return true;
		else if (is_operand(s, n + k) || !(s->r->t.v[n + k].kind == TOKEN_PUNCT) ||
			 is(s, n + k, ";") || is(s, n + k, "("))
			break;
	/* Alone as an argument: a function may take it by reference. */
	if ((is(s, n, ",") || is(s, n, ")")) && (is(s, p, ",") || is(s, p, "("))) {
		while (!is(s, open, "(")) {
			open = is(s, open, ")") || is(s, open, "]") ? token_open(&s->r->t, open)
								    : open;
			if (open == SIZE_MAX || is(s, open, ";") || is(s, open, "{"))
				return true;
			open = prev(s, open);
		}
		return !is_by_value(s, open);
	}
	return false;
}

static bool
is_fixed(struct rounds *s, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (var_of(s, i) && (var_of(s, i)->kept || var_of(s, i)->shared))
			return false;
	return true;
}

static bool
body_is_right(struct rounds *s)
{
	static const char *const leaves[] = {"return", "break",	  "goto",   "static",
					     "case",   "default", "throw",  "asm",
					     "__asm",  "class",	  "struct", "__gpusim_shared__",
					     "extern", "__asm__", NULL};
	const struct loop *l = &s->loop;

	if (!s->r->waits || waits_in(s->r->waits, l->at, l->body_end, s->of_types))
		return false;
	for (size_t i = l->body; i < l->body_end; i++) {
		struct var *v;

		if (!rewrite_is_word(s->r, i))
			continue;
		if (is_in(s, i, leaves))
			return false;
		v = var_of(s, i);
		if (mentions(s, s->open, s->close, i) && !is(s, prev(s, i), ".") &&
		    is_changed_object(s, i))
			return false;
		if (!is_changed(s, i))
			continue;
		if (same(s, i, l->name) || mentions(s, s->open, s->close, i))
			return false;
		if (v && (!v->number || v->shared))
			return false;
		if (v)
			v->kept = true;
	}
	if (!is_fixed(s, l->cond, l->cond_end) || !is_fixed(s, l->step, l->step_end) ||
	    mentions(s, l->step, l->step_end, l->name))
		return false;
	for (size_t i = l->body; i < l->body_end; i++)
		if (var_of(s, i) && var_of(s, i)->shared)
			return false;
	return true;
}

/* Note the variables that the range needs, and those that their values need. */
static void
need(struct rounds *s, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		struct var *v = var_of(s, i);

		if (!v || v->needed || v->shared)
			continue;
		v->needed = true;
		need(s, v->from, v->to);
	}
}

/* No variable of another's value, of the condition or of the step is one that S changes. */
static bool
values_stay(struct rounds *s)
{
	for (size_t k = 0; k < s->nvars; k++)
		if (s->var[k].needed && !is_fixed(s, s->var[k].from, s->var[k].to))
			return false;
	return s->loop.init == s->loop.init_end || is_fixed(s, s->loop.init, s->loop.init_end);
}

/* ---- finding it */

static bool
read_loop(struct rounds *s, size_t i, size_t to)
{
	struct loop *l = &s->loop;

	*l = (struct loop){.at = i, .open = next(s, i)};
	l->close = token_close(&s->r->t, l->open);
	l->body = next(s, l->close);
	l->end = l->body_end = statement(s, l->body, to);
	if (!(is(s, i, "for") ? for_loop(s, l) : while_loop(s, l)))
		return false;
	if (!is_pure(s, l->cond, l->cond_end) || l->cond >= l->cond_end || !is_wide(s, l) ||
	    !varies(s, l) || !body_is_right(s))
		return false;
	need(s, l->at, l->end);
	return values_stay(s);
}

static bool
find(struct rounds *s, size_t body)
{
	size_t to = token_close(&s->r->t, body);

	for (size_t i = next(s, body); i < to;) {
		size_t end = statement(s, i, to);

		if (is(s, i, "for") || is(s, i, "while"))
			return read_loop(s, i, to);
		if (is(s, i, ";")) {
			i = end;
			continue;
		}
		if (!declaration(s, i, prev(s, end)))
			return false;
		i = end;
	}
	return false;
}

/* ---- writing */

static void
add_range(const struct rounds *s, struct buf *out, const char *before, size_t from, size_t to,
	  const char *after)
{
	must_addf(out, "%s", before);
	rewrite_copy(s->r, from, to, out);
	must_addf(out, "%s", after);
}

static void
add_name(const struct rounds *s, struct buf *out, const char *before, size_t name,
	 const char *after)
{
	add_range(s, out, before, name, name + 1, after);
}

/* "name = its value after so many rounds" */
static void
add_start(const struct rounds *s, struct buf *out, const char *rounds)
{
	const struct loop *l = &s->loop;

	add_name(s, out, "", l->name, " = ::gpusim_cuda::advance(");
	if (l->init < l->init_end) {
		add_range(s, out, "static_cast<", l->type, l->type_end, ">(");
		add_range(s, out, "", l->init, l->init_end, ")");
	} else {
		add_name(s, out, "", l->name, "");
	}
	must_addf(out, ", %s, (", rounds);
	add_range(s, out, "", l->step, l->step_end, "))");
}

/* The declarations that the loop needs, and the loop's variable at the round. */
static void
add_variables(const struct rounds *s, struct buf *out)
{
	const struct loop *l = &s->loop;

	for (size_t k = 0; k < s->nvars; k++) {
		const struct var *v = &s->var[k];

		if (!v->needed)
			continue;
		add_range(s, out, " ", v->type, v->type_end, " ");
		add_name(s, out, "", v->name, "");
		if (v->from < v->to)
			add_range(s, out, " = ", v->from, v->to, "");
		add_name(s, out, "; (void)", v->name, ";");
	}
	if (l->init < l->init_end) {
		add_range(s, out, " ", l->type, l->type_end, " ");
		add_name(s, out, "", l->name, " = {};");
	}
	must_addf(
	    out,
	    " if constexpr (decltype(__gpusim_how)::value == ::gpusim_cuda::ROUND_STEP_IN_ROW)");
	add_name(s, out, " ", l->name, " = ::gpusim_cuda::in_row<decltype(");
	add_name(s, out, "", l->name, ")>(__gpusim_rounds, threadIdx); else ");
	add_start(s, out, "__gpusim_round");
	must_addf(out, ";");
}

/* For each variable that S changes: f(slots, name, number). */
static void
add_kept(const struct rounds *s, struct buf *out, const char *call)
{
	unsigned n = 0;

	for (size_t k = 0; k < s->nvars; k++)
		if (s->var[k].kept) {
			add_name(s, out, call, s->var[k].name, "");
			must_addf(out, ", %uu);", n++);
		}
}

static unsigned
count_kept(const struct rounds *s)
{
	unsigned n = 0;

	for (size_t k = 0; k < s->nvars; k++)
		n += s->var[k].kept;
	return n;
}

/* name < value, and the value is the same for all threads. */
static bool
is_bound(const struct rounds *s)
{
	const struct loop *l = &s->loop;
	size_t less = next(s, l->cond);

	if (!same(s, l->cond, l->name) || !is(s, less, "<") || is(s, less + 1, "<"))
		return false;
	for (size_t i = less + 1; i < l->cond_end; i++) {
		if (same(s, i, l->name) || is(s, i, "threadIdx") || is_in(s, i, handles) ||
		    is(s, i, "&") || is(s, i, "|") || is(s, i, "=") || is(s, i, "?") ||
		    is(s, i, "<") || is(s, i, ","))
			return false;
		for (size_t k = 0; k < s->nvars; k++)
			if (same(s, i, s->var[k].name) && s->var[k].varies)
				return false;
	}
	return true;
}

static void
add_part(const struct rounds *s, struct buf *out, bool is_whole)
{
	const struct loop *l = &s->loop;

	must_addf(out,
		  " if (__gpusim_inside == 2) { auto __gpusim_part = [=](auto __gpusim_how, "
		  "unsigned long __gpusim_round, ::gpusim_cuda::rounds &__gpusim_rounds, "
		  "unsigned long __gpusim_thread, " REWRITE_INDICES ")%s -> void {",
		  s->r->clang ? REWRITE_INLINE_CLANG : REWRITE_INLINE);
	add_variables(s, out);
	must_addf(out,
		  " if constexpr (decltype(__gpusim_how)::value == ::gpusim_cuda::ROUND_BEGIN) { "
		  "(void)__gpusim_rounds; (void)__gpusim_thread;");
	add_kept(s, out, " ::gpusim_cuda::put_first(__gpusim_rounds, __gpusim_thread, ");
	must_addf(
	    out,
	    " } else if constexpr (decltype(__gpusim_how)::value == ::gpusim_cuda::ROUND_NOTE) {");
	add_range(s, out, " __gpusim_rounds.note(static_cast<bool>(", l->cond, l->cond_end, "), ");
	add_name(s, out, "", l->name, ", __gpusim_thread);");
	must_addf(out, " } else {");
	add_kept(s, out, " ::gpusim_cuda::get(__gpusim_rounds.slots, __gpusim_thread, ");
	add_range(s, out, " do ", l->body, l->body_end,
		  is(s, l->at, "while") ? "} while (0);" : " while (0);");
	add_kept(s, out, " ::gpusim_cuda::put(__gpusim_rounds.slots, __gpusim_thread, ");
	must_addf(out, " } }; ::gpusim_cuda::run_rounds<%u, %s>(__gpusim_part, %s); %s }",
		  count_kept(s), is_bound(s) ? "true" : "false",
		  is(s, l->end, "}") ? "true" : "false",
		  is_whole ? "if (__gpusim_state.done) return;" : "return;");
}

static void
insert(const struct rounds *s, size_t i, struct buf *text)
{
	must_add(text, "", 1);
	rewrite_before(s->r, i, text->data);
	buf_fini(text);
}

/* The thread's own loop begins where the rounds have ended. */
static void
continue_loop(const struct rounds *s)
{
	const struct loop *l = &s->loop;
	struct buf before = {0}, init = {0}, after = {0};

	if (count_kept(s)) {
		must_addf(&before, " if (__gpusim_state.slots) {");
		add_kept(s, &before,
			 " ::gpusim_cuda::get(__gpusim_state.slots, "
			 "::gpusim_cuda::number_of(threadIdx, blockDim), ");
		must_addf(&before, " } ");
	}
	if (l->init < l->init_end) {
		add_range(s, &init, " ::gpusim_cuda::advance(static_cast<", l->type, l->type_end,
			  ">(");
		add_range(s, &after, "), __gpusim_state.rounds, (", l->step, l->step_end, "))");
		insert(s, l->init, &init);
		insert(s, l->init_end, &after);
	} else {
		must_addf(&before, " ");
		add_start(s, &before, "__gpusim_state.rounds");
		must_addf(&before, "; ");
	}
	insert(s, l->at, &before);
}

bool
rewrite_rounds(struct rewrite *r, size_t open, size_t body, bool of_types, bool is_whole,
	       struct buf *part)
{
	struct rounds s = {
	    .r = r, .open = open, .close = token_close(&r->t, open), .of_types = of_types};

	if (!r->waits || !find(&s, body))
		return false;
	add_part(&s, part, is_whole);
	continue_loop(&s);
	return true;
}
