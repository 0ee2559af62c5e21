/*
 * The walk over a source. Words with a meaning are passed to the function for them, which notes
 * edits; then the tokens are written with their edits.
 */
#include "nvcc/rewrite_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

enum rc
rewrite_refuse(struct rewrite *r, size_t i, const char *fmt, ...)
{
	const struct token *t = &r->t.v[i];
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return err_set(r->err, RC_BADDATA, "%s:%u: error: %s", r->t.file[t->file].name, t->line,
		       text);
}

void
rewrite_before(struct rewrite *r, size_t i, const char *text)
{
	struct edit *e = &r->edit[i];
	size_t old = e->before ? strlen(e->before) : 0, n = strlen(text);
	char *grown = must_resize(e->before, old + n + 1, 1);

	memcpy(grown + old, text, n + 1);
	e->before = grown;
}

bool
rewrite_is(const struct rewrite *r, size_t i, const char *text)
{
	return i < r->t.n && r->t.v[i].kind != TOKEN_STRING && token_is(&r->t.v[i], text);
}

bool
rewrite_is_word(const struct rewrite *r, size_t i)
{
	return i < r->t.n && r->t.v[i].kind == TOKEN_WORD;
}

size_t
rewrite_skip_attribute(const struct rewrite *r, size_t i)
{
	static const char *const words[] = {"__attribute__", "__attribute", "alignas",
					    "__declspec"};
	size_t next = token_next(&r->t, i);

	for (size_t k = 0; k < sizeof words / sizeof *words; k++)
		if (rewrite_is(r, i, words[k]) && rewrite_is(r, next, "("))
			return token_next(&r->t, token_close(&r->t, next));
	if (rewrite_is(r, i, "[") && rewrite_is(r, next, "["))
		return token_next(&r->t, token_close(&r->t, i));
	return i;
}

void
rewrite_copy(struct rewrite *r, size_t from, size_t to, struct buf *out)
{
	for (size_t i = from; i < to; i++)
		if (token_counts(&r->t.v[i]))
			must_add(out, r->t.v[i].text, r->t.v[i].len);
		else
			must_add(out, " ", 1);
}

bool
rewrite_at_ground(const struct rewrite *r)
{
	for (unsigned i = 0; i < r->depth; i++)
		if (!r->scope[i].is_ground)
			return false;
	return true;
}

/* ---- scopes */

/* Does the brace at i open a namespace, or extern "C"? */
static bool
opens_ground(const struct rewrite *r, size_t i)
{
	for (size_t k = r->begin; k < i; k++)
		if (rewrite_is(r, k, "namespace") ||
		    (rewrite_is(r, k, "extern") &&
		     r->t.v[token_next(&r->t, k)].kind == TOKEN_STRING &&
		     token_next(&r->t, token_next(&r->t, k)) == i))
			return true;
	return false;
}

static void
begin_declaration(struct rewrite *r, size_t i)
{
	r->begin = i + 1;
	r->device = r->host = r->own = false;
}

static enum rc
brace(struct rewrite *r, size_t i)
{
	if (rewrite_is(r, i, "}")) {
		r->depth -= r->depth > 0;
	} else {
		bool inside = r->depth > 0 && r->scope[r->depth - 1].device;
		bool marked = r->depth > 0 && r->scope[r->depth - 1].marked;

		if (r->depth == REWRITE_DEPTH)
			return rewrite_refuse(r, i, "more than %d nested braces", REWRITE_DEPTH);
		r->scope[r->depth++] = (struct scope){inside || (r->device && !r->host),
						      marked || r->device, opens_ground(r, i)};
	}
	begin_declaration(r, i);
	return RC_OK;
}

/* ---- launches: kernel<<<grid, block, shared, stream>>>(args) */

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

static enum rc
rewrite_launch(struct rewrite *r, size_t i)
{
	struct launch l = {.callee = callee(r, token_prev(&r->t, i)), .config = i + 3};

	if (l.callee == SIZE_MAX)
		return rewrite_refuse(r, i, "<<< has no kernel before it");
	if (r->depth > 0 && r->scope[r->depth - 1].device && !r->t.file[r->t.v[i].file].system)
		return rewrite_refuse(
		    r, i, "launches from kernels (dynamic parallelism) are not simulated");
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

/* ---- words */

static enum rc
host(struct rewrite *r, size_t i)
{
	r->host = true;
	r->edit[i].instead = "";
	return RC_OK;
}

/* In __attribute__((__noinline__)) the word belongs to the compiler. */
static enum rc
noinline_(struct rewrite *r, size_t i)
{
	size_t prev = token_prev(&r->t, i);
	bool own = prev != SIZE_MAX && (rewrite_is(r, prev, "(") || rewrite_is(r, prev, ","));

	r->edit[i].instead = own ? "__noinline__" : "__attribute__((__noinline__))";
	return RC_OK;
}

/* assert() in a function: in a kernel it ends the kernel. */
static enum rc
assert_(struct rewrite *r, size_t i)
{
	if (!rewrite_at_ground(r) && !r->t.file[r->t.v[i].file].system)
		r->edit[i].instead = "__gpusim_assert_fail";
	return RC_OK;
}

/* Threads of a block that wait in libcu++'s loops let each other run. */
static enum rc
wait(struct rewrite *r, size_t i)
{
	if (strstr(r->t.file[r->t.v[i].file].name, "/cuda/std/"))
		r->edit[i].instead = rewrite_is(r, i, "nanosleep") ? "::gpusim_cuda::thread_sleep"
								   : "::gpusim_cuda::thread_yield";
	return RC_OK;
}

static enum rc
conditional(struct rewrite *r, size_t i)
{
	return rewrite_refuse(r, i, "conditional nodes of graphs are not simulated");
}

static enum rc
texture(struct rewrite *r, size_t i)
{
	if (r->t.file[r->t.v[i].file].system)
		return RC_OK;
	return rewrite_refuse(r, i, "textures and surfaces are not simulated");
}

/* clock() in a function of a device: the C library's counts microseconds of the processor. */
static enum rc
clock_(struct rewrite *r, size_t i)
{
	size_t open = token_next(&r->t, i), prev = token_prev(&r->t, i);

	if (r->depth > 0 && r->scope[r->depth - 1].marked && rewrite_is(r, open, "(") &&
	    rewrite_is(r, token_next(&r->t, open), ")") && !rewrite_is(r, prev, ".") &&
	    !rewrite_is(r, prev, "->") && !rewrite_is(r, prev, "::"))
		r->edit[i].instead = "::gpusim_cuda::clock";
	return RC_OK;
}

static const struct word {
	const char *text;
	enum rc (*rewrite)(struct rewrite *r, size_t i);
} words[] = {
    {"__gpusim_global__", rewrite_kernel},
    {"__gpusim_device__", rewrite_device},
    {"__gpusim_constant__", rewrite_device},
    {"__gpusim_shared__", rewrite_shared},
    {"__gpusim_managed__", rewrite_managed},
    {"__gpusim_host__", host},
    {"__gpusim_noinline__", noinline_},
    {"__assert_fail", assert_},
    {"sched_yield", wait},
    {"nanosleep", wait},
    {"cudaGraphSetConditional", conditional},
    {"CUtexObject", texture},
    {"cudaTextureObject_t", texture},
    {"cudaSurfaceObject_t", texture},
    {"cudaResourceDesc", texture},
    {"cudaTextureDesc", texture},
    {"clock", clock_},
    {"asm", rewrite_ptx},
    {"__asm", rewrite_ptx},
    {"__asm__", rewrite_ptx},
};

/* Remove hints that only NVIDIA's compiler knows. */
static void
pragma(struct rewrite *r, size_t i)
{
	static const char *const theirs[] = {"unroll", "nounroll", "nv_", "diag_",
					     "hd_warning_disable"};
	const struct token *t = &r->t.v[i];
	const char *s = memmem(t->text, t->len, "pragma", 6);

	if (!s)
		return;
	for (s += 6; s < t->text + t->len && (*s == ' ' || *s == '\t');)
		s++;
	for (size_t k = 0; k < sizeof theirs / sizeof *theirs; k++)
		if ((size_t)(t->text + t->len - s) >= strlen(theirs[k]) &&
		    memcmp(s, theirs[k], strlen(theirs[k])) == 0)
			r->edit[i].instead = "";
}

/* Three adjacent < begin a launch, except in operator<<<T>. */
static bool
begins_launch(const struct rewrite *r, size_t i)
{
	size_t prev = token_prev(&r->t, i);

	return rewrite_is(r, i + 1, "<") && rewrite_is(r, i + 2, "<") && prev != SIZE_MAX &&
	       !rewrite_is(r, prev, "operator") && !rewrite_is(r, prev, "<");
}

static enum rc
token(struct rewrite *r, size_t i)
{
	const struct token *t = &r->t.v[i];

	if (t->kind == TOKEN_LINE)
		pragma(r, i);
	if (t->kind == TOKEN_WORD) {
		for (size_t k = 0; k < sizeof words / sizeof *words; k++)
			if (token_is(t, words[k].text))
				return words[k].rewrite(r, i);
		return RC_OK;
	}
	if (t->kind != TOKEN_PUNCT)
		return RC_OK;
	if (*t->text == '{' || *t->text == '}')
		return brace(r, i);
	if (*t->text == ';')
		begin_declaration(r, i);
	return *t->text == '<' && t->len == 1 && begins_launch(r, i) ? rewrite_launch(r, i) : RC_OK;
}

/* ---- writing */

static void
add_text(struct buf *out, const char *text)
{
	must_add(out, text, strlen(text));
}

static void write_tokens(struct rewrite *r, size_t from, size_t to, struct buf *out);

static void
write_tokens(struct rewrite *r, size_t from, size_t to, struct buf *out)
{
	for (size_t i = from; i < to; i++) {
		struct edit *e = &r->edit[i];
		struct launch *l = e->launch;

		if (l) {
			e->launch = NULL;
			/* (configure(config), callee(args)): one expression, so that it is valid
			 * wherever the launch is. */
			add_text(out, "(::gpusim_cuda::configure(");
			write_tokens(r, l->config, l->config_end, out);
			add_text(out, "), ");
			write_tokens(r, l->callee, l->config - 3, out);
			write_tokens(r, l->args, l->args_end + 1, out);
			add_text(out, ")");
			i = l->args_end;
			free(l);
			continue;
		}
		if (e->before)
			add_text(out, e->before);
		if (e->instead)
			add_text(out, e->instead);
		else
			must_add(out, r->t.v[i].text, r->t.v[i].len);
	}
}

static void
fini(struct rewrite *r)
{
	for (size_t i = 0; i < r->t.n; i++) {
		free(r->edit[i].before);
		free(r->edit[i].launch);
	}
	free(r->edit);
	waits_free(r->waits);
	tokens_fini(&r->t);
}

/* Does the source have this word? */
static bool
has_word(const struct rewrite *r, const char *text)
{
	for (size_t i = 0; i < r->t.n; i++)
		if (rewrite_is_word(r, i) && token_is(&r->t.v[i], text))
			return true;
	return false;
}

enum rc
rewrite(const char *text, size_t nbytes, const char *name, const struct rewrite_how *how,
	struct buf *out, struct err *err)
{
	struct rewrite r = {.separate = how->separate, .err = err};
	enum rc rc = tokens_read(text, nbytes, name, &r.t, err);

	r.edit = must_alloc(r.t.n, sizeof *r.edit);
	if (rc == RC_OK && how->loops && has_word(&r, "__gpusim_global__"))
		r.waits = waits_read(&r.t);
	r.clang = has_word(&r, "__gpusim_clang__");
	for (size_t i = 0; rc == RC_OK && i + 1 < r.t.n; i++)
		rc = token(&r, i);
	if (rc == RC_OK)
		write_tokens(&r, 0, r.t.n, out);
	fini(&r);
	return rc;
}

void
rewrite_places(const char *text, size_t nbytes, const char *name,
	       void (*fn)(void *arg, const char *file, unsigned line, enum rewrite_place place),
	       void *arg)
{
	struct err err;
	struct rewrite r = {.err = &err};
	enum rc rc = tokens_read(text, nbytes, name, &r.t, &err);
	unsigned file = 0, line = 0;
	enum rewrite_place last = REWRITE_GROUND;

	r.edit = must_alloc(r.t.n, sizeof *r.edit);
	for (size_t i = 0; rc == RC_OK && i + 1 < r.t.n; i++) {
		const struct token *t = &r.t.v[i];
		enum rewrite_place place = rewrite_at_ground(&r)	 ? REWRITE_GROUND
					   : r.scope[r.depth - 1].device ? REWRITE_DEVICE
									 : REWRITE_HOST;

		if (token_counts(t) && !r.t.file[t->file].system &&
		    (t->file != file || t->line != line ||
		     (place == REWRITE_DEVICE && last != place))) {
			file = t->file;
			line = t->line;
			last = place;
			fn(arg, r.t.file[file].name, line, place);
		}
		rc = token(&r, i);
	}
	fini(&r);
}
