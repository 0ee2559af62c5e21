/*
 * PTX in asm statements. Instructions of a table become calls of functions of the run-time's header (gpusim_cuda_ptx.h), with
 * operands in the instruction's order. A statement with any other becomes a call of a function that must not be called: the
 * compiler refuses it, with our sentence, where the code is really used, and not in a header's function that nobody calls.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "nvcc/rewrite_impl.h"

#define MAX_OPERANDS 30

/*
 * An instruction is OP.PART.PART; each part is a type, one of `kinds`, which becomes part of the function's name, or one of `ignored`.
 */
static const struct ptx {
	const char *op, *kinds, *ignored;
} table[] = {
    {"add", "", "rn ftz"},
    {"sub", "", "rn ftz"},
    {"mul", "hi wide", "lo rn ftz"},
    {"mad", "wide", "lo"},
    {"fma", "", "rn ftz"},
    {"div", "", "rn ftz approx full"},
    {"rem", "", ""},
    {"min", "", "ftz"},
    {"max", "", "ftz"},
    {"and", "", ""},
    {"or", "", ""},
    {"xor", "", ""},
    {"not", "", ""},
    {"neg", "", "ftz"},
    {"abs", "", "ftz"},
    {"shl", "", ""},
    {"shr", "", ""},
    {"mov", "", ""},
    {"popc", "", ""},
    {"clz", "", ""},
    {"brev", "", ""},
    {"bfind", "", ""},
    {"bfe", "", ""},
    {"bfi", "", ""},
    {"prmt", "", ""},
    {"lop3", "", ""},
    {"vabsdiff4", "add", ""},
    {"cvta", "", "to global shared"},
    {"ld", "",
     "global shared const volatile ca cg cs cv lu nc relaxed acquire weak cta gpu sys v2 v4"},
    {"ldu", "", "global"},
    {"st", "", "global shared volatile wb cg cs wt relaxed release weak cta gpu sys v2 v4"},
    {"atom", "add min max and or xor exch cas",
     "global shared relaxed acquire release acq_rel cta gpu sys"},
    {"red", "add min max and or xor", "global shared relaxed release cta gpu sys"},
    {"shfl", "idx up down bfly", "sync"},
    {"vote", "ballot", "sync"},
    {"bar", "sync warp", ""},
    {"barrier", "sync", "cta"},
    {"membar", "", "gl sys cta"},
    {"fence", "", "acq_rel sc cta gpu sys"},
    {"activemask", "", ""},
    {"nanosleep", "", ""},
    {"trap", "", ""},
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

/* "mul.wide.u32" as "ptx_mul_wide<unsigned>(". False: not in the table. */
static bool
add_function(const char *s, size_t n, struct buf *out)
{
	size_t len = 0;
	struct buf type = {0};
	bool known = false;

	while (len < n && s[len] != '.')
		len++;
	for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
		const struct ptx *p = &table[k];

		if (strlen(p->op) != len || memcmp(p->op, s, len) != 0)
			continue;
		known = true;
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
			if (in_list(p->kinds, part, len))
				must_addf(out, "_%.*s", (int)len, part);
			else if (!is_type && !in_list(p->ignored, part, len))
				known = false;
		}
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

/* The operands at s, without { } of vectors; memory comes first. */
static bool
add_operands(struct rewrite *r, const char *s, const char *end, const struct operands *o,
	     struct buf *out)
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
	unsigned n = 0;

	while (*s) {
		const char *end = strchr(s, ';'), *name = s;

		end = end ? end : s + strlen(s);
		while (s < end && *s != ' ')
			s++;
		must_addf(out, "%s", n++ ? ", " : "");
		if (!add_function(name, (size_t)(s - name), out) ||
		    !add_operands(r, s, end, o, out))
			return false;
		must_addf(out, ")");
		s = *end ? end + 1 : end;
		while (*s == ' ' || *s == ';')
			s++;
	}
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

void
rewrite_ptx(struct rewrite *r, size_t i, bool device)
{
	size_t open = token_next(&r->t, i), close, at;
	struct operands o = {.n = 0};
	struct buf calls = {0};
	char text[400];

	while (rewrite_is(r, open, "volatile") || rewrite_is(r, open, "__volatile__"))
		open = token_next(&r->t, open);
	if (!rewrite_is(r, open, "("))
		return;
	close = token_close(&r->t, open);
	at = read_text(r, token_next(&r->t, open), text, sizeof text);
	read_operands(r, at, close, &o);
	if (!add_calls(r, text, &o, &calls)) {
		if (!device)
			goto out;
		add_refusal(i, text, &calls);
	}
	must_add(&calls, "", 1);
	rewrite_before(r, i, calls.data);
	for (size_t k = i; k <= close; k++)
		if (token_counts(&r->t.v[k]))
			r->edit[k].instead = "";
out:
	buf_fini(&calls);
}
