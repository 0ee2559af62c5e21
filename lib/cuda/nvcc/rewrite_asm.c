/*
 * PTX by name: lines that programs are known to use become calls to functions of the run-time's
 * header. All other PTX is rejected.
 */
#include "nvcc/rewrite_impl.h"

#include <ctype.h>
#include <string.h>

#include "base/must.h"

/* Text without blanks; the function takes outputs, then inputs, in order. */
static const struct ptx {
	const char *text, *function;
} known[] = {
    {"red.global.add.u64[%0],%1;", "ptx_add_u64"},
    {"red.global.add.u32[%0],%1;", "ptx_add_u32"},
    {"red.global.add.s32[%0],%1;", "ptx_add_u32"},
    {"membar.gl;", "ptx_fence"},
    {"membar.sys;", "ptx_fence"},
    {"membar.cta;", "ptx_fence"},
    {"fence.acq_rel.gpu;", "ptx_fence"},
    {"fence.acq_rel.sys;", "ptx_fence"},
    {"fence.sc.gpu;", "ptx_fence"},
    {"fence.sc.sys;", "ptx_fence"},
    {"mov.u32%0,%%laneid;", "ptx_laneid"},
    {"mov.u32%0,%laneid;", "ptx_laneid"},
    {"mov.u32%0,%%smid;", "ptx_smid"},
    {"mov.u32%0,%smid;", "ptx_smid"},
    {"mov.u64%0,%%globaltimer;", "ptx_globaltimer"},
    {"mov.u64%0,%globaltimer;", "ptx_globaltimer"},
    {"trap;", "ptx_trap"},
    {"", "ptx_fence"},
};

/* Concatenate the strings at i, without blanks. Returns the index after them. */
static size_t
read_text(const struct rewrite *r, size_t i, char *out, size_t room)
{
	size_t n = 0;

	for (; r->t.v[i].kind == TOKEN_STRING; i = token_next(&r->t, i)) {
		const struct token *t = &r->t.v[i];

		for (size_t k = 1; k + 1 < t->len && n + 1 < room; k++) {
			if (t->text[k] == '\\' && k + 2 < t->len && strchr("nt", t->text[k + 1]))
				k++;
			else if (!isspace((unsigned char)t->text[k]))
				out[n++] = t->text[k];
		}
	}
	out[n] = '\0';
	return i;
}

/* "constraint"(expression), ...: the expressions, one after the other. */
static void
add_operands(struct rewrite *r, size_t i, size_t close, struct buf *out)
{
	unsigned n = 0;

	for (; i < close; i = token_next(&r->t, i)) {
		if (!rewrite_is(r, i, "("))
			continue;
		must_addf(out, "%s", n++ ? ", " : "");
		rewrite_copy(r, i, token_close(&r->t, i) + 1, out);
		i = token_close(&r->t, i);
	}
}

static void
replace(struct rewrite *r, size_t from, size_t close, size_t operands, const struct ptx *p)
{
	struct buf call = {0};

	must_addf(&call, "::gpusim_cuda::%s(", p->function);
	add_operands(r, operands, close, &call);
	must_add(&call, ")", 2);
	rewrite_before(r, from, call.data);
	for (size_t i = from; i <= close; i++)
		if (token_counts(&r->t.v[i]))
			r->edit[i].instead = "";
	buf_fini(&call);
}

enum rc
rewrite_asm(struct rewrite *r, size_t i)
{
	size_t open = token_next(&r->t, i), at;
	char text[200];

	while (rewrite_is(r, open, "volatile") || rewrite_is(r, open, "__volatile__"))
		open = token_next(&r->t, open);
	if (!rewrite_is(r, open, "("))
		return RC_OK;
	at = read_text(r, token_next(&r->t, open), text, sizeof text);
	for (size_t k = 0; k < sizeof known / sizeof *known; k++)
		if (strcmp(known[k].text, text) == 0) {
			replace(r, i, token_close(&r->t, open), at, &known[k]);
			return RC_OK;
		}
	return rewrite_refuse(r, i, "PTX is not simulated: \"%s\"", text);
}
