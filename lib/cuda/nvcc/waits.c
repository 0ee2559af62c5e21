/*
 * Design notes. One pass finds the definitions at the level of namespaces and classes; each has a name and a range of
 * tokens. Then names become "waiting" until nothing changes: those whose range mentions a waiting name. Functions of
 * the system's headers are known and never wait; functions that are only declared may.
 */
#include "nvcc/waits.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

#define DEPTH 512

enum { WAITS = 1, KNOWN = 2, DECLARED = 4, MEMORY = 8 };

struct name {
	const char *text;
	uint32_t len;
	unsigned char flags;
};

struct definition {
	uint32_t name;
	size_t from, to;
	bool member, waits;
};

struct waits {
	const struct tokens *t;
	uint32_t *id; /* of each word; 0: not a word */
	struct name *name;
	uint32_t nnames, room;
	uint32_t *slot; /* hash table of ids */
	struct definition *def;
	size_t ndefs, def_room;
	bool *ours; /* by file: its definitions count */
	bool members_wait;
	uint32_t thread_idx, operator_;
};

/* ---- names */

static uint32_t
hash(const char *s, size_t n)
{
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)s[i]) * 16777619u;
	return h;
}

static uint32_t *
slot_of(const struct waits *w, const char *s, size_t n)
{
	uint32_t i = hash(s, n);

	for (;; i++) {
		uint32_t *at = &w->slot[i & (w->room - 1)];

		if (*at == 0 || (w->name[*at].len == n && memcmp(w->name[*at].text, s, n) == 0))
			return at;
	}
}

static void
grow(struct waits *w)
{
	w->room = w->room ? 2 * w->room : 4096;
	w->name = must_resize(w->name, w->room, sizeof *w->name);
	free(w->slot);
	w->slot = must_alloc(w->room, sizeof *w->slot);
	for (uint32_t i = 1; i <= w->nnames; i++)
		*slot_of(w, w->name[i].text, w->name[i].len) = i;
}

static uint32_t
intern(struct waits *w, const char *s, size_t n)
{
	uint32_t *at;

	if (2 * (w->nnames + 2) > w->room)
		grow(w);
	at = slot_of(w, s, n);
	if (!*at) {
		*at = ++w->nnames;
		w->name[*at] = (struct name){s, (uint32_t)n, 0};
	}
	return *at;
}

static void
give_names(struct waits *w)
{
	for (size_t i = 0; i < w->t->n; i++)
		if (w->t->v[i].kind == TOKEN_WORD)
			w->id[i] = intern(w, w->t->v[i].text, w->t->v[i].len);
}

static void
flag(struct waits *w, const char *const *v, size_t n, unsigned char flags)
{
	for (size_t i = 0; i < n; i++)
		w->name[intern(w, v[i], strlen(v[i]))].flags |= flags;
}

static void
flag_roots(struct waits *w)
{
	static const char *const waiting[] = {
	    "threadIdx",
	    "__gpusim_thread_idx",
	    "__gpusim_barrier",
	    "__gpusim_warp",
	    "__gpusim_nanosleep",
	    "__gpusim_grid_barrier",
	    "__gpusim_trap",
	    "__gpusim_assert_fail",
	    "__assert_fail",
	    "printf",
	    "vprintf",
	    "asm",
	    "__asm",
	    "__asm__",
	    "setjmp",
	    "try",
	    "goto",
	};
	static const char *const known[] = {
	    "if",	"for",	     "while",	      "switch",	    "return",	"sizeof",
	    "alignof",	"decltype",  "static_cast",   "const_cast", "alignas",	"__attribute__",
	    "noexcept", "constexpr", "static_assert", "bool",	    "char",	"short",
	    "int",	"long",	     "float",	      "double",	    "unsigned", "signed",
	    "void",	"auto",	     "__restrict__",  "__restrict", "else",	"do",
	    "operator", "const",     "typename",      "catch",	    "new",	"reinterpret_cast",
	};

	flag(w, waiting, sizeof waiting / sizeof *waiting, WAITS);
	flag(w, known, sizeof known / sizeof *known, KNOWN);
	w->thread_idx = intern(w, "threadIdx", 9);
	w->operator_ = intern(w, "operator", 8);
}

/* ---- tokens */

static bool
is(const struct waits *w, size_t i, const char *text)
{
	return i < w->t->n && w->t->v[i].kind != TOKEN_STRING && token_is(&w->t->v[i], text);
}

static bool
is_one(const struct waits *w, size_t i, const char *const *v)
{
	for (; *v; v++)
		if (is(w, i, *v))
			return true;
	return false;
}

/* If i begins an attribute, the index after it; else i. */
static size_t
over_attribute(const struct waits *w, size_t i)
{
	static const char *const words[] = {"__attribute__", "__attribute", "alignas",	"decltype",
					    "noexcept",	     "__declspec",  "explicit", NULL};
	size_t next = token_next(w->t, i);

	if (is_one(w, i, words) && is(w, next, "("))
		return token_next(w->t, token_close(w->t, next));
	if (is(w, i, "[") && is(w, next, "["))
		return token_next(w->t, token_close(w->t, i));
	if (is(w, i, "template") && is(w, next, "<"))
		return token_next(w->t, token_close_angle(w->t, next));
	return i;
}

/* The system's own headers; those of libraries of device code count as the program's. */
static bool
is_ours(const struct token_file *f)
{
	static const char *const device[] = {"/cub/", "/thrust/", "/include/cuda/", "/include/nv/"};

	if (!f->system || (!strstr(f->name, "/c++/") && strncmp(f->name, "/usr/", 5) != 0))
		return true;
	for (size_t i = 0; i < sizeof device / sizeof *device; i++)
		if (strstr(f->name, device[i]))
			return true;
	return strstr(f->name, "gpusim") != NULL || strstr(f->name, "nccl") != NULL;
}

/* ---- definitions */

static void
add(struct waits *w, uint32_t name, size_t from, size_t to, bool member)
{
	if (w->ndefs == w->def_room) {
		w->def_room = w->def_room ? 2 * w->def_room : 1024;
		w->def = must_resize(w->def, w->def_room, sizeof *w->def);
	}
	w->def[w->ndefs++] =
	    (struct definition){.name = name, .from = from, .to = to, .member = member};
	w->name[name].flags |= KNOWN;
}

/* What a declaration, the tokens [from, to) before { or ;, declares. */
struct declares {
	enum { OTHER, GROUND, TYPE, FUNCTION, VARIABLE } kind;
	uint32_t name; /* 0: none */
	bool body;     /* of a function: a { at `to` begins it, and not an initialiser */
};

static bool
begins_ground(const struct waits *w, size_t i)
{
	size_t next = token_next(w->t, i);

	return is(w, i, "namespace") ||
	       (is(w, i, "extern") && next < w->t->n && w->t->v[next].kind == TOKEN_STRING);
}

static struct declares
look(const struct waits *w, size_t from, size_t to)
{
	static const char *const types[] = {"class", "struct", "union", "enum", NULL};
	struct declares d = {OTHER, 0, true};
	uint32_t last = 0;
	bool after_type = false, list = false;

	for (size_t i = token_counts(&w->t->v[from]) ? from : token_next(w->t, from); i < to;) {
		size_t past = over_attribute(w, i);

		if (past != i) {
			i = past;
			continue;
		}
		if (d.kind == OTHER && begins_ground(w, i)) {
			d.kind = GROUND;
			/* extern "C" void f() { is a function */
			if (is(w, i, "extern"))
				i = token_next(w->t, i);
		} else if (is_one(w, i, types) && d.kind == OTHER) {
			d.kind = TYPE;
			after_type = true;
		} else if (is(w, i, "operator") && d.kind != FUNCTION) {
			d = (struct declares){FUNCTION, w->operator_, true};
			return d;
		} else if (is(w, i, "(") && d.kind != FUNCTION && d.kind != VARIABLE) {
			d.kind = FUNCTION;
			d.name = last;
		} else if (is(w, i, "=") && d.kind != FUNCTION) {
			d.kind = VARIABLE;
			d.name = last;
		} else if (is(w, i, ":") && d.kind == FUNCTION) {
			list = true;
		}
		if (w->id[i]) {
			last = w->id[i];
			if (after_type && !is_one(w, i, types)) {
				d.name = last;
				after_type = false;
			}
		}
		if (is(w, i, "(") || is(w, i, "[") || is(w, i, "{"))
			i = token_close(w->t, i);
		else if (is(w, i, "<") && d.kind != TYPE) {
			size_t close = token_close_angle(w->t, i);

			i = close < to ? close : i;
		}
		i = token_next(w->t, i);
	}
	/* In a constructor's list, a { after a name initialises it. */
	if (d.kind == FUNCTION && list) {
		size_t prev = token_prev(w->t, to);

		d.body = !(prev != SIZE_MAX && (w->id[prev] || is(w, prev, ">")));
	}
	return d;
}

/* __device__ int a, b[2] = {1, 2}; the names of its variables. Their tokens: [from, to). */
static void
flag_memory(struct waits *w, size_t from, size_t to)
{
	static const char *const marks[] = {"__gpusim_device__", "__gpusim_managed__",
					    "__gpusim_shared__", NULL};
	static const char *const after[] = {",", "=", "[", "{", ";", NULL};
	bool marked = false;

	for (size_t i = from; i < to; i++)
		marked = marked || is_one(w, i, marks);
	for (size_t i = from; marked && i < to; i++)
		if (w->id[i] && is_one(w, token_next(w->t, i), after))
			w->name[w->id[i]].flags |= MEMORY;
}

bool
waits_is_memory(const struct waits *w, size_t i)
{
	return w->id[i] && w->name[w->id[i]].flags & MEMORY;
}

/* A declaration without a body. */
static void
declared(struct waits *w, size_t from, size_t to, bool member)
{
	struct declares d = look(w, from, to);
	size_t first = token_counts(&w->t->v[from]) ? from : token_next(w->t, from);

	if (is(w, first, "typedef") || is(w, first, "using")) {
		size_t prev = token_prev(w->t, to);

		d.name = is(w, first, "typedef") && prev != SIZE_MAX ? w->id[prev] : d.name;
		if (d.name)
			add(w, d.name, from, to, member);
	} else if (d.kind == FUNCTION && d.name) {
		w->name[d.name].flags |= DECLARED;
	} else {
		if (d.kind == VARIABLE && d.name)
			add(w, d.name, from, to, member);
		flag_memory(w, from, to);
	}
}

struct walk {
	size_t begin;
	unsigned depth;
	bool member[DEPTH];
};

/* A { at the level of namespaces or classes. Returns the token to go on after. */
static size_t
opened(struct waits *w, struct walk *k, size_t i)
{
	struct declares d = look(w, k->begin, i);
	size_t close = token_close(w->t, i);
	bool member = k->depth > 0 && k->member[k->depth - 1];

	if (d.kind == GROUND || d.kind == TYPE) {
		if (d.kind == TYPE && d.name)
			add(w, d.name, i, close, member);
		if (k->depth < DEPTH)
			k->member[k->depth] = d.kind == TYPE || member;
		k->depth++;
		k->begin = i + 1;
		return i;
	}
	if (d.kind == FUNCTION && d.body) {
		if (d.name)
			add(w, d.name, k->begin, close, member);
		k->begin = close + 1;
	}
	return close;
}

static void
find_definitions(struct waits *w)
{
	struct walk k = {0};

	for (size_t i = 0; i + 1 < w->t->n; i++) {
		const struct token *t = &w->t->v[i];
		size_t next;

		if (!w->ours[t->file]) {
			/* Its functions are known, and do not wait. */
			next = w->id[i] ? token_next(w->t, i) : i;
			if (w->id[i] && is(w, next, "("))
				w->name[w->id[i]].flags |= KNOWN;
			k.begin = i + 1;
			continue;
		}
		if (t->kind != TOKEN_PUNCT)
			continue;
		if (*t->text == '{') {
			i = opened(w, &k, i);
		} else if (*t->text == '}') {
			k.depth -= k.depth > 0;
			k.begin = i + 1;
		} else if (*t->text == ';') {
			declared(w, k.begin, i,
				 k.depth > 0 && k.depth <= DEPTH && k.member[k.depth - 1]);
			k.begin = i + 1;
		} else if (*t->text == '(' || *t->text == '[') {
			i = token_close(w->t, i);
		}
	}
}

/* ---- what waits */

static bool
mentions(const struct waits *w, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (w->id[i] && w->name[w->id[i]].flags & WAITS)
			return true;
	return false;
}

static void
spread(struct waits *w)
{
	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < w->ndefs; i++) {
			struct definition *d = &w->def[i];

			if (d->waits || !mentions(w, d->from, d->to))
				continue;
			d->waits = more = true;
			w->name[d->name].flags |= WAITS;
			w->members_wait = w->members_wait || d->member || d->name == w->operator_;
		}
	}
	/* An operator is called without its name. */
	if (w->name[w->operator_].flags & WAITS)
		w->members_wait = true;
}

/* [..] __device__ (..) {..} */
static void
look_at_lambdas(struct waits *w)
{
	for (size_t i = 0; i + 1 < w->t->n && !w->members_wait; i++) {
		size_t prev = is(w, i, "__gpusim_device__") ? token_prev(w->t, i) : SIZE_MAX,
		       at = i;

		if (prev != SIZE_MAX && is(w, prev, "__gpusim_host__"))
			prev = token_prev(w->t, prev);
		if (prev == SIZE_MAX || !is(w, prev, "]"))
			continue;
		while (at + 1 < w->t->n && !is(w, at, "{") && !is(w, at, ";"))
			at++;
		w->members_wait = mentions(w, i, token_close(w->t, at));
	}
}

struct waits *
waits_read(const struct tokens *t)
{
	struct waits *w = must_alloc(1, sizeof *w);

	w->t = t;
	w->id = must_alloc(t->n + 1, sizeof *w->id);
	w->ours = must_alloc(t->nfiles + 1, sizeof *w->ours);
	for (size_t i = 0; i < t->nfiles; i++)
		w->ours[i] = is_ours(&t->file[i]);
	give_names(w);
	flag_roots(w);
	find_definitions(w);
	spread(w);
	look_at_lambdas(w);
	return w;
}

void
waits_free(struct waits *w)
{
	if (!w)
		return;
	free(w->id);
	free(w->name);
	free(w->slot);
	free(w->def);
	free(w->ours);
	free(w);
}

/* ---- a kernel */

/* Is name(...) at i a call of something that this source does not show? */
static bool
is_unknown_call(const struct waits *w, size_t i, size_t from, bool of_types)
{
	static const char *const before[] = {"return", "else", "case", "do", NULL};
	const struct name *n = &w->name[w->id[i]];
	size_t prev = token_prev(w->t, i);

	if (n->flags & KNOWN)
		return false;
	if (n->len > 10 && memcmp(n->text, "__builtin_", 10) == 0)
		return false;
	if (n->flags & DECLARED)
		return true;
	/* A member, or a type of the template's */
	if (of_types)
		return false;
	/* T x(1): a variable */
	if (prev != SIZE_MAX && prev > from && w->id[prev] && !is_one(w, prev, before))
		return false;
	/* name = [..]: a lambda of this kernel */
	for (size_t k = from; k < i; k++) {
		size_t next = token_next(w->t, k);

		if (w->id[k] == w->id[i] && is(w, next, "=") && is(w, token_next(w->t, next), "["))
			return false;
	}
	return true;
}

/* (*f)(..), v[i](..), (f)(..): a call through a pointer. */
static bool
is_call_by_pointer(const struct waits *w, size_t i, bool of_types)
{
	static const char *const words[] = {"if",     "while",	  "for",	   "switch",
					    "sizeof", "decltype", "__attribute__", NULL};
	size_t prev = token_prev(w->t, i), open, inside, before;

	if (prev == SIZE_MAX || !(is(w, prev, ")") || is(w, prev, "]")))
		return false;
	open = token_open(w->t, prev);
	if (open == SIZE_MAX)
		return true;
	before = token_prev(w->t, open);
	if (is(w, prev, "]")) /* but not [..](..) {..} */
		return before != SIZE_MAX &&
		       (w->id[before] || is(w, before, ")") || is(w, before, "]"));
	inside = token_next(w->t, open);
	if (before != SIZE_MAX && is_one(w, before, words))
		return false;
	if (before != SIZE_MAX && w->id[before] && !is(w, before, "return"))
		return true;
	/* (type)(..) is a cast: its name is known, or ends with * */
	return is(w, inside, "*") || (!of_types && token_next(w->t, inside) == prev &&
				      w->id[inside] && !(w->name[w->id[inside]].flags & KNOWN));
}

bool
waits_in(const struct waits *w, size_t from, size_t to, bool of_types)
{
	if (w->members_wait && (of_types || w->name[w->operator_].flags & WAITS))
		return true;
	for (size_t i = from; i < to; i++) {
		if (is(w, i, "(") && i > from && is_call_by_pointer(w, i, of_types))
			return true;
		if (!w->id[i] || w->id[i] == w->thread_idx)
			continue;
		if (w->name[w->id[i]].flags & WAITS)
			return true;
		if (is(w, token_next(w->t, i), "(") && is_unknown_call(w, i, from, of_types))
			return true;
	}
	return false;
}
