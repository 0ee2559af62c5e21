/*
 * pickle_impl.h - a pickle while it is read.
 */
#ifndef NN_PICKLE_IMPL_H
#define NN_PICKLE_IMPL_H

#include "base/buf.h"
#include "nn/pickle.h"

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

/* "NAME: pickle, byte N: reason". */
enum rc pickle_refuse(const struct pickle *k, const char *reason, struct err *err);
enum rc pickle_cut_short(const struct pickle *k, struct err *err);

/* Room for one more of n things of `size` bytes each. */
enum rc pickle_grow(const struct pickle *k, void **list, uint32_t n, uint32_t *cap, size_t size,
		    struct err *err);
#define PICKLE_GROW(k, list, n, cap, err) \
	pickle_grow((k), (void **)&(list), (n), &(cap), sizeof *(list), (err))

enum rc pickle_push(struct pickle *k, struct pickle_value v, struct err *err);

/* Value `depth` of the stack, 0 is the topmost; NULL: fewer are above the last mark. */
struct pickle_value *pickle_top(const struct pickle *k, uint32_t depth);

/* GLOBAL names a function or a class, REDUCE calls it, BUILD fills the object that REDUCE made. */
enum rc pickle_global(struct pickle *k, struct err *err);
enum rc pickle_reduce(struct pickle *k, struct err *err);
enum rc pickle_build(struct pickle *k, struct err *err);

static inline bool
pickle_is_text(const struct pickle_value *v)
{
	return v && (v->kind == KIND_TEXT || v->kind == KIND_BYTES);
}

static inline bool
pickle_is_kind(const struct pickle_value *v, enum kind kind)
{
	return v && v->kind == kind;
}

#endif
