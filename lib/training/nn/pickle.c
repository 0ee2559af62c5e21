#include "nn/pickle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/must.h"

enum { MAX_VALUES = 1 << 22, MAX_SHOWN = 40 };

#define PICKLE_NONE UINT32_MAX /* no value, no cell */

enum kind {
	KIND_NONE,
	KIND_BOOL,
	KIND_NUMBER,
	KIND_TEXT,  /* str: UTF-8 */
	KIND_BYTES, /* or Python 2's str */
	KIND_LIST,
	KIND_TUPLE,
	KIND_DICT, /* cells: key, value, key, value */
	KIND_MARK,
	KIND_GLOBAL,
	KIND_DTYPE,
	KIND_ARRAY,
};

/* Functions and classes. */
enum global { GLOBAL_RECONSTRUCT, GLOBAL_NDARRAY, GLOBAL_DTYPE, GLOBAL_ENCODE, GLOBAL_BYTES };

struct pickle_value {
	enum kind kind;
	uint32_t n; /* cells of a list and so on */
	union {
		int64_t number;
		struct {
			const char *p;
			size_t len;
		} text;
		struct {
			uint32_t first, last;
		} cells;
		enum global global;
		uint32_t array; /* of KIND_DTYPE and KIND_ARRAY: in arrays */
	};
};

/* A value in a list; values may be in several. */
struct pickle_cell {
	uint32_t value, next;
};

struct pickle {
	const char *name;
	const uint8_t *bytes, *p, *end, *op; /* op: the current opcode */
	struct pickle_value *value;
	struct pickle_cell *cell;
	uint32_t *stack, *memo; /* of values */
	struct ndarray *array;
	uint32_t nvalues, ncells, nstack, nmemo, narrays;
	uint32_t cvalues, ccells, cstack, cmemo, carrays; /* capacities */
	uint64_t nencoded;  /* bytes of strings that the reader made */
	struct buf strings; /* pointers to them */
	uint32_t result;
};

/* ---- messages */

/* "NAME: pickle, byte N: reason". */
static enum rc
pickle_refuse(const struct pickle *k, const char *reason, struct err *err)
{
	return err_set(err, RC_BADDATA, "%s: pickle, byte %zu: %s", k->name,
		       (size_t)(k->op - k->bytes), reason);
}

static enum rc
pickle_cut_short(const struct pickle *k, struct err *err)
{
	return err_set(err, RC_BADDATA, "%s: the pickle is truncated", k->name);
}

/* ---- values, cells, the stack */

/* Room for one more of n things of `size` bytes each. */
static enum rc
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

#define PICKLE_GROW(k, list, n, cap, err) \
	pickle_grow((k), (void **)&(list), (n), &(cap), sizeof *(list), (err))

static enum rc
push_index(struct pickle *k, uint32_t v, struct err *err)
{
	enum rc rc = PICKLE_GROW(k, k->stack, k->nstack, k->cstack, err);

	if (rc == RC_OK)
		k->stack[k->nstack++] = v;
	return rc;
}

static enum rc
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

/* Value `depth` of the stack, 0 is the topmost; NULL: fewer are above the last mark. */
static struct pickle_value *
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

/* ---- the calls that a pickle may make: numpy's arrays and Python 3's bytes */

static const struct {
	const char *module, *name;
	enum global global;
} globals[] = {
    {"numpy.core.multiarray", "_reconstruct", GLOBAL_RECONSTRUCT},
    {"numpy._core.multiarray", "_reconstruct", GLOBAL_RECONSTRUCT},
    {"numpy", "ndarray", GLOBAL_NDARRAY},
    {"numpy", "dtype", GLOBAL_DTYPE},
    {"_codecs", "encode", GLOBAL_ENCODE},
    {"__builtin__", "bytes", GLOBAL_BYTES},
};

static bool
pickle_is_text(const struct pickle_value *v)
{
	return v && (v->kind == KIND_TEXT || v->kind == KIND_BYTES);
}

static bool
pickle_is_kind(const struct pickle_value *v, enum kind kind)
{
	return v && v->kind == kind;
}

/* Value i of a tuple; NULL: not a tuple, or it has fewer values. */
static const struct pickle_value *
member(const struct pickle *k, const struct pickle_value *v, uint32_t i)
{
	uint32_t cell;

	if (!v || v->kind != KIND_TUPLE || i >= v->n)
		return NULL;
	for (cell = v->cells.first; i > 0; i--)
		cell = k->cell[cell].next;
	return &k->value[k->cell[cell].value];
}

/* A line of the pickle as text for a message. */
static void
show(const uint8_t *p, size_t len, char out[MAX_SHOWN + 1])
{
	size_t n = len < MAX_SHOWN ? len : MAX_SHOWN;

	for (size_t i = 0; i < n; i++)
		out[i] = (char)(p[i] > 0x20 && p[i] < 0x7f ? p[i] : '?');
	out[n] = '\0';
}

/* GLOBAL names a function or a class, REDUCE calls it, BUILD fills the object that REDUCE made. */
static enum rc
pickle_global(struct pickle *k, struct err *err)
{
	const uint8_t *line[2];
	size_t len[2];
	char module[MAX_SHOWN + 1], name[MAX_SHOWN + 1];

	for (int i = 0; i < 2; i++) {
		const uint8_t *nl = memchr(k->p, '\n', (size_t)(k->end - k->p));

		if (!nl)
			return pickle_cut_short(k, err);
		line[i] = k->p;
		len[i] = (size_t)(nl - k->p);
		k->p = nl + 1;
	}
	for (size_t i = 0; i < sizeof globals / sizeof globals[0]; i++)
		if (strlen(globals[i].module) == len[0] && strlen(globals[i].name) == len[1] &&
		    memcmp(globals[i].module, line[0], len[0]) == 0 &&
		    memcmp(globals[i].name, line[1], len[1]) == 0)
			return pickle_push(
			    k,
			    (struct pickle_value){.kind = KIND_GLOBAL, .global = globals[i].global},
			    err);
	show(line[0], len[0], module);
	show(line[1], len[1], name);
	return err_set(err, RC_BADDATA,
		       "%s: the pickle calls %s.%s; only arrays of numpy are supported", k->name,
		       module, name);
}

/* _codecs.encode(text, 'latin1'): bytes, as Python 3 writes them in protocol 2. */
static enum rc
encode(struct pickle *k, const struct pickle_value *args, struct pickle_value *out, struct err *err)
{
	const struct pickle_value *text = member(k, args, 0), *how = member(k, args, 1);
	const uint8_t *p, *end;
	uint8_t *bytes;
	size_t n = 0;

	if (!pickle_is_kind(text, KIND_TEXT) || !pickle_is_text(how) || args->n != 2 ||
	    !((how->text.len == 6 && memcmp(how->text.p, "latin1", 6) == 0) ||
	      (how->text.len == 7 && memcmp(how->text.p, "latin-1", 7) == 0)))
		return pickle_refuse(k, "_codecs.encode of something but text as latin1", err);
	/* A byte of the pickle makes at most one byte here, even if the pickle refers to a text often. */
	k->nencoded += text->text.len;
	if (k->nencoded > (uint64_t)(k->end - k->bytes))
		return pickle_refuse(k, "it encodes more bytes than it has", err);
	bytes = must_alloc(text->text.len + 1, 1);
	must_add(&k->strings, &bytes, sizeof bytes);
	p = (const uint8_t *)text->text.p;
	for (end = p + text->text.len; p < end; p++) {
		uint8_t high = *p;

		if (high >= 0x80 && ((high & 0xfe) != 0xc2 || ++p == end || (*p & 0xc0) != 0x80))
			return pickle_refuse(k, "text that is not latin1", err);
		bytes[n++] = high < 0x80 ? high : (uint8_t)(high << 6 | (*p & 0x3f));
	}
	*out =
	    (struct pickle_value){.kind = KIND_BYTES, .text = {.p = (const char *)bytes, .len = n}};
	return RC_OK;
}

/* An array or a type; a has all that is known of it. */
static enum rc
make_array(struct pickle *k, enum kind kind, struct ndarray a, struct pickle_value *out,
	   struct err *err)
{
	enum rc rc = PICKLE_GROW(k, k->array, k->narrays, k->carrays, err);

	if (rc != RC_OK)
		return rc;
	k->array[k->narrays] = a;
	*out = (struct pickle_value){.kind = kind, .array = k->narrays++};
	return RC_OK;
}

/* numpy.dtype('u1', ...). */
static enum rc
make_dtype(struct pickle *k, const struct pickle_value *args, struct pickle_value *out,
	   struct err *err)
{
	const struct pickle_value *text = member(k, args, 0);
	struct ndarray a = {0};
	char shown[MAX_SHOWN + 1];

	if (!pickle_is_text(text))
		return pickle_refuse(k, "numpy.dtype of something but text", err);
	if (ndarray_type(&a, text->text.p, text->text.len))
		return make_array(k, KIND_DTYPE, a, out, err);
	show((const uint8_t *)text->text.p, text->text.len, shown);
	return err_set(err, RC_BADDATA,
		       "%s: an array of type '%s', not bool, u1 to u8, i1 to i8, f4 or f8", k->name,
		       shown);
}

/* FUNCTION ARGUMENTS R: the result replaces them. */
static enum rc
pickle_reduce(struct pickle *k, struct err *err)
{
	const struct pickle_value *args = pickle_top(k, 0), *function = pickle_top(k, 1), *class;
	struct pickle_value out = {.kind = KIND_BYTES, .text = {.p = "", .len = 0}};
	enum rc rc = RC_OK;

	if (!pickle_is_kind(args, KIND_TUPLE) || !pickle_is_kind(function, KIND_GLOBAL))
		return pickle_refuse(k, "a call of something that is not a function", err);
	switch (function->global) {
	case GLOBAL_RECONSTRUCT:
		class = member(k, args, 0);
		if (!pickle_is_kind(class, KIND_GLOBAL) || class->global != GLOBAL_NDARRAY)
			rc = pickle_refuse(k, "_reconstruct of something but numpy.ndarray", err);
		else
			rc = make_array(k, KIND_ARRAY, (struct ndarray){0}, &out, err);
		break;
	case GLOBAL_DTYPE:
		rc = make_dtype(k, args, &out, err);
		break;
	case GLOBAL_ENCODE:
		rc = encode(k, args, &out, err);
		break;
	case GLOBAL_BYTES:
		if (args->n)
			rc = pickle_refuse(k, "bytes() of something", err);
		break;
	default:
		rc = pickle_refuse(k, "a call of numpy.ndarray", err);
	}
	if (rc != RC_OK)
		return rc;
	k->nstack -= 2;
	return pickle_push(k, out, err);
}

/* (3, '<', None, None, None, -1, -1, 0), the state of a type: its byte order. */
static enum rc
build_dtype(struct pickle *k, struct ndarray *a, const struct pickle_value *state, struct err *err)
{
	const struct pickle_value *order = member(k, state, 1);

	if (!pickle_is_text(order) || order->text.len != 1 || !strchr("<>|=", *order->text.p) ||
	    !*order->text.p)
		return pickle_refuse(k, "a numpy.dtype without a byte order", err);
	for (uint32_t i = 2; i < 5; i++)
		if (!pickle_is_kind(member(k, state, i), KIND_NONE))
			return pickle_refuse(k, "an array of structures", err);
	a->big = *order->text.p == '>';
	return RC_OK;
}

/* (1, shape, type, is Fortran order, bytes), the state of an array. */
static enum rc
build_array(struct pickle *k, struct ndarray *a, const struct pickle_value *state, struct err *err)
{
	const struct pickle_value *shape = member(k, state, 1), *type = member(k, state, 2),
				  *fortran = member(k, state, 3), *data = member(k, state, 4);
	struct ndarray made;
	uint64_t nbytes;

	if (!pickle_is_kind(shape, KIND_TUPLE) || !pickle_is_kind(type, KIND_DTYPE) ||
	    !pickle_is_kind(fortran, KIND_BOOL) || !pickle_is_kind(data, KIND_BYTES))
		return pickle_refuse(k, "an array whose state is not shape, type, order and bytes",
				     err);
	if (shape->n > NDARRAY_MAX_DIMS)
		return pickle_refuse(k, "an array of more than 8 dimensions", err);
	made = k->array[type->array];
	made.fortran = fortran->number;
	made.ndim = shape->n;
	for (uint32_t i = 0; i < shape->n; i++) {
		const struct pickle_value *d = member(k, shape, i);

		if (!pickle_is_kind(d, KIND_NUMBER) || d->number < 0)
			return pickle_refuse(k, "a dimension of an array that is not a number",
					     err);
		made.dim[i] = (uint64_t)d->number;
	}
	if (!ndarray_nbytes(&made, &nbytes) || nbytes != data->text.len)
		return pickle_refuse(k, "an array whose shape does not match its number of bytes",
				     err);
	made.data = (const uint8_t *)data->text.p;
	*a = made;
	return RC_OK;
}

/* OBJECT STATE b: only the object stays on the stack. */
static enum rc
pickle_build(struct pickle *k, struct err *err)
{
	const struct pickle_value *state = pickle_top(k, 0), *object = pickle_top(k, 1);
	enum rc rc;

	if (pickle_is_kind(object, KIND_DTYPE))
		rc = build_dtype(k, &k->array[object->array], state, err);
	else if (pickle_is_kind(object, KIND_ARRAY))
		rc = build_array(k, &k->array[object->array], state, err);
	else
		rc = pickle_refuse(k, "a state of something that is not an array", err);
	k->nstack -= rc == RC_OK;
	return rc;
}

/* ---- opcodes */

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
