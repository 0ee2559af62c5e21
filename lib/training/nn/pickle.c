#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "nn/pickle_impl.h"

enum { MAX_VALUES = 1 << 22 };

/* ---- messages */

enum rc
pickle_refuse(const struct pickle *k, const char *reason, struct err *err)
{
	return err_set(err, RC_BADDATA, "%s: pickle, byte %zu: %s", k->name,
		       (size_t)(k->op - k->bytes), reason);
}

enum rc
pickle_cut_short(const struct pickle *k, struct err *err)
{
	return err_set(err, RC_BADDATA, "%s: the pickle is truncated", k->name);
}

/* ---- values, cells, the stack */

enum rc
pickle_grow(const struct pickle *k, void **list, uint32_t n, uint32_t *cap, size_t size,
	    struct err *err)
{
	if (n < *cap)
		return RC_OK;
	if (n >= MAX_VALUES)
		return pickle_refuse(k, "too many values", err);
	*cap = *cap ? *cap * 2 : 64;
	*list = must_resize(*list, *cap, size);
	return RC_OK;
}

static enum rc
push_index(struct pickle *k, uint32_t v, struct err *err)
{
	enum rc rc = PICKLE_GROW(k, k->stack, k->nstack, k->cstack, err);

	if (rc == RC_OK)
		k->stack[k->nstack++] = v;
	return rc;
}

enum rc
pickle_push(struct pickle *k, struct pickle_value v, struct err *err)
{
	enum rc rc = PICKLE_GROW(k, k->value, k->nvalues, k->cvalues, err);

	if (rc == RC_OK) {
		k->value[k->nvalues] = v;
		rc = push_index(k, k->nvalues, err);
	}
	k->nvalues += rc == RC_OK;
	return rc;
}

static enum rc
push_number(struct pickle *k, enum kind kind, int64_t v, struct err *err)
{
	return pickle_push(k, (struct pickle_value){.kind = kind, .number = v}, err);
}

struct pickle_value *
pickle_top(const struct pickle *k, uint32_t depth)
{
	for (uint32_t i = 0; i <= depth; i++)
		if (i >= k->nstack || k->value[k->stack[k->nstack - 1 - i]].kind == KIND_MARK)
			return NULL;
	return &k->value[k->stack[k->nstack - 1 - depth]];
}

/* The position of the last mark on the stack; PICKLE_NONE: no mark. */
static uint32_t
last_mark(const struct pickle *k)
{
	for (uint32_t i = k->nstack; i > 0; i--)
		if (k->value[k->stack[i - 1]].kind == KIND_MARK)
			return i - 1;
	return PICKLE_NONE;
}

/* Append values of the stack, from `first` on, to the cells of value `to`. */
static enum rc
append(struct pickle *k, uint32_t to, uint32_t first, struct err *err)
{
	enum rc rc = RC_OK;

	for (uint32_t i = first; rc == RC_OK && i < k->nstack; i++) {
		struct pickle_value *v = &k->value[to];

		rc = PICKLE_GROW(k, k->cell, k->ncells, k->ccells, err);
		if (rc != RC_OK)
			return rc;
		k->cell[k->ncells] = (struct pickle_cell){k->stack[i], PICKLE_NONE};
		if (v->n)
			k->cell[v->cells.last].next = k->ncells;
		else
			v->cells.first = k->ncells;
		v->cells.last = k->ncells++;
		v->n++;
	}
	return rc;
}

/* ---- opcodes */

/* n bytes that follow the opcode, little-endian. */
static enum rc
take_uint(struct pickle *k, uint32_t n, uint32_t *out, struct err *err)
{
	*out = 0;
	if ((size_t)(k->end - k->p) < n)
		return pickle_cut_short(k, err);
	for (uint32_t i = 0; i < n; i++)
		*out |= (uint32_t)k->p[i] << 8 * i;
	k->p += n;
	return RC_OK;
}

/* A string, with its length in n bytes before it. */
static enum rc
take_string(struct pickle *k, uint32_t n, enum kind kind, struct err *err)
{
	uint32_t len;
	enum rc rc = take_uint(k, n, &len, err);

	if (rc != RC_OK)
		return rc;
	if ((size_t)(k->end - k->p) < len)
		return pickle_cut_short(k, err);
	k->p += len;
	return pickle_push(k,
			   (struct pickle_value){
			       .kind = kind, .text = {.p = (const char *)k->p - len, .len = len}},
			   err);
}

/* A whole number of up to 8 bytes, with its length before it. */
static enum rc
take_long(struct pickle *k, struct err *err)
{
	uint32_t len, i;
	uint64_t v = 0;
	enum rc rc = take_uint(k, 1, &len, err);

	if (rc != RC_OK)
		return rc;
	if (len > 8)
		return pickle_refuse(k, "a number of more than 64 bits", err);
	if ((size_t)(k->end - k->p) < len)
		return pickle_cut_short(k, err);
	for (i = 0; i < len; i++)
		v |= (uint64_t)k->p[i] << 8 * i;
	if (len && len < 8 && k->p[len - 1] & 0x80)
		v |= UINT64_MAX << 8 * len;
	k->p += len;
	return push_number(k, KIND_NUMBER, (int64_t)v, err);
}

/* Store the topmost value in the memo under the next number. */
static enum rc
put_memo(struct pickle *k, uint32_t n, struct err *err)
{
	enum rc rc = take_uint(k, n, &n, err);

	if (rc != RC_OK)
		return rc;
	if (!pickle_top(k, 0))
		return pickle_refuse(k, "nothing to store in the memo", err);
	if (n > k->nmemo + 1)
		return pickle_refuse(k, "memo indices are out of order", err);
	while (rc == RC_OK && n >= k->nmemo) {
		rc = PICKLE_GROW(k, k->memo, k->nmemo, k->cmemo, err);
		if (rc == RC_OK)
			k->memo[k->nmemo++] = PICKLE_NONE;
	}
	if (rc == RC_OK)
		k->memo[n] = k->stack[k->nstack - 1];
	return rc;
}

static enum rc
get_memo(struct pickle *k, uint32_t n, struct err *err)
{
	enum rc rc = take_uint(k, n, &n, err);

	if (rc != RC_OK)
		return rc;
	if (n >= k->nmemo || k->memo[n] == PICKLE_NONE)
		return pickle_refuse(k, "a memo index without a value", err);
	return push_index(k, k->memo[n], err);
}

/* The n topmost values, or with PICKLE_NONE those above the last mark, become a tuple. */
static enum rc
make_tuple(struct pickle *k, uint32_t n, struct err *err)
{
	uint32_t first = n == PICKLE_NONE ? last_mark(k) : k->nstack - n;
	uint32_t made = k->nvalues, floor = first;
	enum rc rc;

	if (n == PICKLE_NONE ? first == PICKLE_NONE : n > 0 && !pickle_top(k, n - 1))
		return pickle_refuse(k, "too few values for a tuple", err);
	rc = pickle_push(k, (struct pickle_value){.kind = KIND_TUPLE}, err);
	if (rc != RC_OK)
		return rc;
	k->nstack--;
	rc = append(k, made, first + (n == PICKLE_NONE), err);
	k->nstack = floor;
	return rc == RC_OK ? push_index(k, made, err) : rc;
}

/* Put values of the stack, from `first` on, into the list or dictionary before `below`. */
static enum rc
extend(struct pickle *k, enum kind kind, uint32_t first, uint32_t below, struct err *err)
{
	uint32_t n = k->nstack - first;
	enum rc rc;

	if (below == 0 || k->value[k->stack[below - 1]].kind != kind ||
	    (kind == KIND_DICT && n % 2 != 0))
		return pickle_refuse(k, "values for something that is not a list or dictionary",
				     err);
	rc = append(k, k->stack[below - 1], first, err);
	k->nstack = below;
	return rc;
}

static enum rc
extend_marked(struct pickle *k, enum kind kind, struct err *err)
{
	uint32_t mark = last_mark(k);

	if (mark == PICKLE_NONE)
		return pickle_refuse(k, "no mark", err);
	return extend(k, kind, mark + 1, mark, err);
}

static enum rc
extend_by(struct pickle *k, enum kind kind, uint32_t n, struct err *err)
{
	if (!pickle_top(k, n))
		return pickle_refuse(k, "too few values", err);
	return extend(k, kind, k->nstack - n, k->nstack - n, err);
}

/* One opcode but the first and the last. */
static enum rc
step(struct pickle *k, uint8_t op, struct err *err)
{
	char what[48];
	uint32_t v = 0;
	enum rc rc;

	switch (op) {
	case 'N':
		return push_number(k, KIND_NONE, 0, err);
	case 0x88:
	case 0x89:
		return push_number(k, KIND_BOOL, op == 0x88, err);
	case 'K':
	case 'M':
	case 'J':
		rc = take_uint(k, op == 'K' ? 1 : op == 'M' ? 2 : 4, &v, err);
		return rc == RC_OK ? push_number(k, KIND_NUMBER,
						 op == 'J' ? (int64_t)(int32_t)v : (int64_t)v, err)
				   : rc;
	case 0x8a:
		return take_long(k, err);
	case 'U':
		return take_string(k, 1, KIND_BYTES, err);
	case 'T':
		return take_string(k, 4, KIND_BYTES, err);
	case 'X':
		return take_string(k, 4, KIND_TEXT, err);
	case '}':
		return pickle_push(k, (struct pickle_value){.kind = KIND_DICT}, err);
	case ']':
		return pickle_push(k, (struct pickle_value){.kind = KIND_LIST}, err);
	case '(':
		return pickle_push(k, (struct pickle_value){.kind = KIND_MARK}, err);
	case ')':
		return make_tuple(k, 0, err);
	case 't':
		return make_tuple(k, PICKLE_NONE, err);
	case 0x85:
	case 0x86:
	case 0x87:
		return make_tuple(k, op - 0x84u, err);
	case 'e':
		return extend_marked(k, KIND_LIST, err);
	case 'u':
		return extend_marked(k, KIND_DICT, err);
	case 'a':
		return extend_by(k, KIND_LIST, 1, err);
	case 's':
		return extend_by(k, KIND_DICT, 2, err);
	case 'q':
	case 'r':
		return put_memo(k, op == 'q' ? 1 : 4, err);
	case 'h':
	case 'j':
		return get_memo(k, op == 'h' ? 1 : 4, err);
	case 'c':
		return pickle_global(k, err);
	case 'R':
		return pickle_reduce(k, err);
	case 'b':
		return pickle_build(k, err);
	default:
		snprintf(what, sizeof what, "opcode 0x%02x is not supported", op);
		return pickle_refuse(k, what, err);
	}
}

bool
pickle_is(const void *bytes, size_t nbytes)
{
	return nbytes >= 2 && memcmp(bytes, "\x80\x02", 2) == 0;
}

static enum rc
run(struct pickle *k, struct err *err)
{
	enum rc rc = RC_OK;

	for (k->p += 2; rc == RC_OK; rc = step(k, *k->op, err)) {
		if (k->p == k->end)
			return pickle_cut_short(k, err);
		k->op = k->p++;
		if (*k->op == '.')
			break;
	}
	if (rc != RC_OK)
		return rc;
	if (k->nstack != 1 || !pickle_top(k, 0))
		return pickle_refuse(k, "the stack does not hold exactly one value at the end",
				     err);
	if (k->p != k->end)
		return pickle_refuse(k, "trailing bytes", err);
	k->result = k->stack[0];
	return RC_OK;
}

enum rc
pickle_parse(const void *bytes, size_t nbytes, const char *name, struct pickle **out,
	     struct err *err)
{
	struct pickle *k;
	enum rc rc;

	if (nbytes >= 2 && *(const uint8_t *)bytes == 0x80 && !pickle_is(bytes, nbytes))
		return err_set(err, RC_BADDATA, "%s: a pickle of protocol %u; only 2 is supported",
			       name, ((const uint8_t *)bytes)[1]);
	if (!pickle_is(bytes, nbytes))
		return err_set(err, RC_BADDATA, "%s: not a pickle of protocol 2", name);
	k = must_alloc(1, sizeof *k);
	k->name = name;
	k->bytes = k->p = k->op = bytes;
	k->end = k->bytes + nbytes;
	rc = run(k, err);
	if (rc == RC_OK)
		*out = k;
	else
		pickle_free(k);
	return rc;
}

void
pickle_free(struct pickle *p)
{
	char *string;

	if (!p)
		return;
	for (size_t at = 0; at < p->strings.len; at += sizeof string) {
		memcpy(&string, p->strings.data + at, sizeof string);
		free(string);
	}
	buf_fini(&p->strings);
	free(p->value);
	free(p->cell);
	free(p->stack);
	free(p->memo);
	free(p->array);
	free(p);
}

/* ---- access to the values */

const struct pickle_value *
pickle_get(const struct pickle *p, const char *key)
{
	const struct pickle_value *dict = &p->value[p->result], *found = NULL;
	const struct pickle_cell *c = pickle_first(p, dict), *value;

	if (dict->kind != KIND_DICT)
		return NULL;
	for (; c; c = pickle_next(p, value)) {
		const struct pickle_value *k = pickle_item(p, c);

		value = pickle_next(p, c);
		/* As in Python, the last of two equal keys counts. */
		if (pickle_is_text(k) && k->text.len == strlen(key) &&
		    memcmp(k->text.p, key, k->text.len) == 0)
			found = pickle_item(p, value);
	}
	return found;
}

bool
pickle_array(const struct pickle *p, const struct pickle_value *v, struct ndarray *out)
{
	if (!pickle_is_kind(v, KIND_ARRAY) || !p->array[v->array].data)
		return false;
	*out = p->array[v->array];
	return true;
}

uint32_t
pickle_length(const struct pickle_value *v)
{
	return pickle_is_kind(v, KIND_LIST) || pickle_is_kind(v, KIND_TUPLE) ? v->n : UINT32_MAX;
}

const struct pickle_cell *
pickle_first(const struct pickle *p, const struct pickle_value *v)
{
	return v->n ? &p->cell[v->cells.first] : NULL;
}

const struct pickle_cell *
pickle_next(const struct pickle *p, const struct pickle_cell *cell)
{
	return cell->next == PICKLE_NONE ? NULL : &p->cell[cell->next];
}

const struct pickle_value *
pickle_item(const struct pickle *p, const struct pickle_cell *cell)
{
	return &p->value[cell->value];
}

bool
pickle_number(const struct pickle_value *v, int64_t *out)
{
	if (!pickle_is_kind(v, KIND_NUMBER))
		return false;
	*out = v->number;
	return true;
}

bool
pickle_text(const struct pickle_value *v, const char **text, size_t *len)
{
	if (!pickle_is_text(v))
		return false;
	*text = v->text.p;
	*len = v->text.len;
	return true;
}
