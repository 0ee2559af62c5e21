/*
 * PTX in asm statements. Instructions of a table become calls of functions of the run-time's header
 * (gpusim_cuda_ptx.h), with operands in the instruction's order. A statement with any other becomes a call of a
 * function that must not be called: the compiler refuses it, with our sentence, where the code is really used, and not
 * in a header's function that nobody calls.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "nvcc/rewrite_impl.h"

#define MAX_OPERANDS 30

/*
 * An instruction is OP.PART.PART; each part is a type, one of `kinds`, which becomes part of the function's name, or
 * one of `ignored`.
 * Kinds with a ! must be there.
 */
static const struct ptx {
	const char *op;
	unsigned least, most; /* operands */
	const char *kinds, *ignored;
} table[] = {
    {"add", 3, 3, "", "rn ftz"},
    {"sub", 3, 3, "", "rn ftz"},
    {"mul", 3, 3, "hi wide", "lo rn ftz"},
    {"mad", 4, 4, "wide", "lo"},
    {"fma", 4, 4, "", "rn ftz"},
    {"div", 3, 3, "", "rn ftz approx full"},
    {"rem", 3, 3, "", ""},
    {"min", 3, 3, "", "ftz"},
    {"max", 3, 3, "", "ftz"},
    {"and", 3, 3, "", ""},
    {"or", 3, 3, "", ""},
    {"xor", 3, 3, "", ""},
    {"not", 2, 2, "", ""},
    {"neg", 2, 2, "", "ftz"},
    {"abs", 2, 2, "", "ftz"},
    {"shl", 3, 3, "", ""},
    {"shr", 3, 3, "", ""},
    {"mov", 2, 2, "", ""},
    {"popc", 2, 2, "", ""},
    {"clz", 2, 2, "", ""},
    {"brev", 2, 2, "", ""},
    {"bfind", 2, 2, "", ""},
    {"bfe", 4, 4, "", ""},
    {"bfi", 5, 5, "", ""},
    {"prmt", 4, 4, "", ""},
    {"lop3", 5, 5, "", ""},
    {"vabsdiff4", 4, 4, "! add", ""},
    {"cvta", 2, 2, "", "to global shared"},
    {"ld", 2, 5, "",
     "global shared const volatile ca cg cs cv lu nc relaxed acquire weak cta gpu sys v2 v4"},
    {"ldu", 2, 2, "", "global"},
    {"st", 2, 5, "", "global shared volatile wb cg cs wt relaxed release weak cta gpu sys v2 v4"},
    {"atom", 3, 4, "! add min max and or xor exch cas",
     "global shared relaxed acquire release acq_rel cta gpu sys"},
    {"red", 2, 2, "! add min max and or xor", "global shared relaxed release cta gpu sys"},
    {"shfl", 5, 5, "! idx up down bfly", "sync"},
    {"vote", 3, 3, "! ballot", "sync"},
    {"bar", 1, 2, "! sync warp", ""},
    {"barrier", 1, 1, "! sync", "cta"},
    {"membar", 0, 0, "", "gl sys cta"},
    {"fence", 0, 0, "", "acq_rel sc cta gpu sys"},
    {"activemask", 1, 1, "", ""},
    {"nanosleep", 1, 1, "", ""},
    {"trap", 0, 0, "", ""},
};

static const struct {
	const char *name, *type;
} types[] = {
    {"u8", "unsigned char"},
    {"b8", "unsigned char"},
    {"s8", "signed char"},
    {"u16", "unsigned short"},
    {"b16", "unsigned short"},
    {"s16", "short"},
    {"u32", "unsigned"},
    {"b32", "unsigned"},
    {"s32", "int"},
    {"u64", "unsigned long long"},
    {"b64", "unsigned long long"},
    {"s64", "long long"},
    {"f32", "float"},
    {"f64", "double"},
};

static const char registers[] =
    " tid.x tid.y tid.z ntid.x ntid.y ntid.z ctaid.x ctaid.y ctaid.z nctaid.x nctaid.y nctaid.z "
    "laneid warpid smid "
    "nsmid clock clock64 globaltimer lanemask_eq lanemask_lt lanemask_le lanemask_gt lanemask_ge ";

/* One of the words of a list with blanks between. */
static bool
in_list(const char *list, const char *word, size_t n)
{
	for (const char *s = list; n && (s = memmem(s, strlen(s), word, n)); s++)
		if ((s == list || s[-1] == ' ') && (s[n] == ' ' || !s[n]))
			return true;
	return false;
}

/* ---- one instruction */

/* The expressions of an asm statement. */
struct operands {
	struct {
		size_t open, close;
	} v[MAX_OPERANDS];
	size_t n;
};

/* "mul.wide.u32" with 3 operands as "ptx_mul_wide<unsigned>(". False: not in the table. */
static bool
add_function(const char *s, size_t n, unsigned noperands, struct buf *out)
{
	size_t len = 0;
	struct buf type = {0};
	bool known = false, has_kind = false;

	while (len < n && s[len] != '.')
		len++;
	for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
		const struct ptx *p = &table[k];

		if (strlen(p->op) != len || memcmp(p->op, s, len) != 0)
			continue;
		known = noperands >= p->least && noperands <= p->most;
		must_addf(out, "::gpusim_cuda::ptx_%s", p->op);
		for (size_t i = len; i < n; i += len + 1) {
			const char *part = s + i + 1;
			bool is_type = false;

			for (len = 0; i + 1 + len < n && part[len] != '.';)
				len++;
			for (size_t t = 0; t < sizeof types / sizeof *types; t++)
				if (strlen(types[t].name) == len &&
				    memcmp(types[t].name, part, len) == 0) {
					is_type = true;
					if (!type.len)
						must_addf(&type, "<%s>", types[t].type);
				}
			if (in_list(p->kinds, part, len)) {
				must_addf(out, "_%.*s", (int)len, part);
				has_kind = true;
			} else if (!is_type && !in_list(p->ignored, part, len)) {
				known = false;
			}
		}
		/* All but barriers and fences have a type. */
		known = known && (has_kind || *p->kinds != '!') &&
			(type.len > 0) == (p->most > 0 && strncmp(p->op, "bar", 3) != 0);
		break;
	}
	must_addf(out, "%.*s(", (int)type.len, type.len ? type.data : "");
	buf_fini(&type);
	return known;
}

/* %2, [%2], [%2+8], a number, or a special register, as an expression. */
static bool
add_operand(struct rewrite *r, const char *s, size_t n, const struct operands *o, struct buf *out)
{
	char *end;

	if (n > 2 && *s == '[' && s[n - 1] == ']') {
		const char *plus = memchr(s, '+', n);

		must_addf(out, "(unsigned long long)");
		if (!add_operand(r, s + 1, plus ? (size_t)(plus - s) - 1 : n - 2, o, out))
			return false;
		if (plus)
			must_addf(out, " + %.*s", (int)(s + n - 1 - plus - 1), plus + 1);
		return !plus || isdigit((unsigned char)plus[1]);
	}
	if (n > 1 && *s == '%' && isdigit((unsigned char)s[1])) {
		size_t at = strtoul(s + 1, &end, 10);

		if (end != s + n || at >= o->n)
			return false;
		rewrite_copy(r, o->v[at].open, o->v[at].close + 1, out);
		return true;
	}
	if (n > 1 && *s == '%' && in_list(registers, s + 1, n - 1)) {
		must_addf(out, "::gpusim_cuda::ptx_reg_");
		for (size_t i = 1; i < n; i++)
			must_addf(out, "%c", s[i] == '.' ? '_' : s[i]);
		must_addf(out, "()");
		return true;
	}
	if (n == 0 || !(isdigit((unsigned char)*s) || *s == '-') || memchr(s, 'f', n > 1 ? 2 : 1))
		return false;
	strtoll(s, &end, 0);
	must_addf(out, "%.*s", (int)n, s);
	return end == s + n || (end == s + n - 1 && *end == 'U');
}

/* The operands at s, without { } of vectors; memory comes first. n: [out] how many. */
static bool
add_operands(struct rewrite *r, const char *s, const char *end, const struct operands *o,
	     unsigned *n, struct buf *out)
{
	struct buf rest = {0}, memory = {0};
	bool good = true;

	while (good && s < end) {
		struct buf *to;
		const char *begin;

		while (s < end && strchr(" {", *s))
			s++;
		begin = s;
		to = s < end && *s == '[' ? &memory : &rest;
		while (s < end && !strchr(",}", *s))
			s++;
		must_addf(to, to->len ? ", " : "");
		++*n;
		while (begin < s && s[-1] == ' ')
			s--;
		good = add_operand(r, begin, (size_t)(s - begin), o, to);
		while (s < end && strchr(",} ", *s))
			s++;
	}
	must_addf(out, "%.*s%s%.*s", (int)memory.len, memory.len ? memory.data : "",
		  memory.len && rest.len ? ", " : "", (int)rest.len, rest.len ? rest.data : "");
	buf_fini(&rest);
	buf_fini(&memory);
	return good;
}

/* ---- a statement */

/* Concatenate the strings at i; blanks become one, %% becomes %. Returns the index after them. */
static size_t
read_text(const struct rewrite *r, size_t i, char *out, size_t room)
{
	size_t n = 0;

	for (; r->t.v[i].kind == TOKEN_STRING; i = token_next(&r->t, i)) {
		const struct token *t = &r->t.v[i];

		for (size_t k = 1; k + 1 < t->len && n + 2 < room; k++) {
			char c = t->text[k];

			if (c == '\\' && k + 2 < t->len) {
				c = ' ';
				k++;
			}
			if (c == '%' && t->text[k + 1] == '%')
				k++;
			if (!isspace((unsigned char)c))
				out[n++] = c;
			else if (n && out[n - 1] != ' ' && out[n - 1] != ';')
				out[n++] = ' ';
		}
	}
	out[n] = '\0';
	return i;
}

/* "constraint"(expression), ...: up to the clobbers. */
static void
read_operands(const struct rewrite *r, size_t i, size_t close, struct operands *o)
{
	for (; i < close && o->n < MAX_OPERANDS; i = token_next(&r->t, i))
		if (rewrite_is(r, i, "(")) {
			o->v[o->n].open = i;
			o->v[o->n++].close = token_close(&r->t, i);
			i = token_close(&r->t, i);
		}
}

/* All instructions of the text. False: one is not known. */
static bool
add_calls(struct rewrite *r, const char *s, const struct operands *o, struct buf *out)
{
	struct buf list = {0};
	unsigned n = 0;

	while (*s) {
		const char *end = strchr(s, ';'), *name = s, *name_end;
		unsigned noperands = 0;
		bool good;

		end = end ? end : s + strlen(s);
		while (s < end && *s != ' ')
			s++;
		name_end = s;
		list.len = 0;
		must_addf(out, "%s", n++ ? ", " : "");
		good = add_operands(r, s, end, o, &noperands, &list) &&
		       add_function(name, (size_t)(name_end - name), noperands, out);
		must_addf(out, "%.*s)", (int)list.len, list.len ? list.data : "");
		if (!good) {
			buf_fini(&list);
			return false;
		}
		s = *end ? end + 1 : end;
		while (*s == ' ' || *s == ';')
			s++;
	}
	buf_fini(&list);
	if (!n)
		must_addf(out, "::gpusim_cuda::ptx_fence()"); /* asm("" ::: "memory") */
	return true;
}

static void
add_refusal(size_t i, const char *text, struct buf *out)
{
	out->len = 0;
	must_addf(out,
		  "do { void __gpusim_ptx_%zu() __attribute__((error(\"PTX is not simulated: '", i);
	for (; *text; text++)
		if (*text != '"' && *text != '\\')
			must_addf(out, "%c", *text);
	must_addf(out, "'\"))); __gpusim_ptx_%zu(); } while (0)", i);
}

static void
add_whole(struct rewrite *r, const char *function, const struct operands *o, struct buf *out)
{
	out->len = 0;
	must_addf(out, "::gpusim_cuda::cub_%s(", function);
	for (size_t i = 0; i < o->n; i++) {
		must_addf(out, "%s", i ? ", " : "");
		rewrite_copy(r, o->v[i].open, o->v[i].close + 1, out);
	}
	must_addf(out, ")");
}

enum rc
rewrite_ptx(struct rewrite *r, size_t i)
{
	const struct scope *scope = r->depth > 0 ? &r->scope[r->depth - 1] : NULL;
	size_t open = token_next(&r->t, i), close, at;
	struct operands o = {.n = 0};
	struct buf calls = {0};
	char text[600];

	while (rewrite_is(r, open, "volatile") || rewrite_is(r, open, "__volatile__"))
		open = token_next(&r->t, open);
	if (!scope || !scope->marked || !rewrite_is(r, open, "("))
		return RC_OK;
	close = token_close(&r->t, open);
	at = read_text(r, token_next(&r->t, open), text, sizeof text);
	read_operands(r, at, close, &o);
	if (!add_calls(r, text, &o, &calls)) {
		const char *whole = rewrite_cub(text);

		if (!whole && !scope->device)
			goto out;
		if (whole)
			add_whole(r, whole, &o, &calls);
		else
			add_refusal(i, text, &calls);
	}
	must_add(&calls, "", 1);
	rewrite_before(r, i, calls.data);
	for (size_t k = i; k <= close; k++)
		if (token_counts(&r->t.v[k]))
			r->edit[k].instead = "";
out:
	buf_fini(&calls);
	return RC_OK;
}
