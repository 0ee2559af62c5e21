/*
 * pickle_numpy.c - the calls that a pickle may make: numpy's arrays and Python 3's bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "nn/pickle_impl.h"

enum { MAX_SHOWN = 40 };

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

enum rc
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
enum rc
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
enum rc
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
