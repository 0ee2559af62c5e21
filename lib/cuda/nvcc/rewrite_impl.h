/* rewrite_impl.h - shared by the files of the rewriter. */
#ifndef NVCC_REWRITE_IMPL_H
#define NVCC_REWRITE_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "nvcc/rewrite.h"
#include "nvcc/token.h"
#include "nvcc/waits.h"

#define REWRITE_DEPTH 512 /* of braces */

/* callee<<<config>>>(args), by indices of tokens. */
struct launch {
	size_t callee, config, config_end, args, args_end;
};

/* Changes of one token. */
struct edit {
	char *before;	       /* NULL: nothing */
	const char *instead;   /* NULL: the token's own text */
	struct launch *launch; /* begins at this token */
};

struct scope {
	bool device;	/* code that runs only on a device */
	bool marked;	/* code that may run on a device */
	bool is_ground; /* a namespace, or extern "C" */
};

struct rewrite {
	struct tokens t;
	struct edit *edit; /* one a token */
	struct scope scope[REWRITE_DEPTH];
	unsigned depth;
	size_t begin;	     /* of the declaration or statement */
	bool device, host;   /* marked __device__, __host__ */
	bool own;	     /* the declaration has become static */
	bool separate;	     /* -rdc=true */
	struct waits *waits; /* NULL: no kernel becomes a loop */
	bool clang;	     /* the compiler that the source is for */
	struct err *err;
};

/* "FILE:LINE: error: ..." at a token. RC_BADDATA. */
enum rc rewrite_refuse(struct rewrite *r, size_t i, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Insert text before a token, after earlier insertions. */
void rewrite_before(struct rewrite *r, size_t i, const char *text);

/* Return true if token i is this word or punctuation. */
bool rewrite_is(const struct rewrite *r, size_t i, const char *text);
bool rewrite_is_word(const struct rewrite *r, size_t i);

/* If i begins __attribute__((..)), alignas(..) or similar, the index after it; else i. */
size_t rewrite_skip_attribute(const struct rewrite *r, size_t i);

/* Append the tokens of [from, to) without their edits, in one line. */
void rewrite_copy(struct rewrite *r, size_t from, size_t to, struct buf *out);

/* Return true if only namespaces enclose the token. */
bool rewrite_at_ground(const struct rewrite *r);

/* Handle the token at i. */
enum rc rewrite_kernel(struct rewrite *r, size_t i);
enum rc rewrite_device(struct rewrite *r, size_t i); /* __device__, __constant__ */
enum rc rewrite_shared(struct rewrite *r, size_t i);
enum rc rewrite_managed(struct rewrite *r, size_t i);

/* An asm statement. In code of a device what is not known is refused where it is used; else it stays. */
enum rc rewrite_ptx(struct rewrite *r, size_t i);

/* The function gpusim_cuda::cub_... of a whole statement that cub or thrust has, for its operands in order.
 * NULL: none. */
const char *rewrite_cub(const char *text);

/* Parameters of a lambda that shadow the indices of a thread. */
#define REWRITE_INDICES                                                                       \
	"[[maybe_unused]] const ::uint3 threadIdx, [[maybe_unused]] const ::uint3 blockIdx, " \
	"[[maybe_unused]] const ::dim3 blockDim, [[maybe_unused]] const ::dim3 gridDim"

/* ) .. -> void {: compilers disagree about the place of an attribute. */
#define REWRITE_INLINE	     " mutable __attribute__((always_inline))"
#define REWRITE_INLINE_CLANG " __attribute__((always_inline)) mutable"

/*
 * Change a kernel's body, so that as much as possible runs once a block, for all its threads.
 *
 *	open	the ( of its parameters
 *	body	its {
 *	of_types	it is a template with parameters that are types
 *	head	appended to: the text after {, and after the launch
 *	tail	appended to: the text before }, with its NUL; nothing: none
 *
 * True: it has a part that runs once a block.
 */
bool rewrite_body(struct rewrite *r, size_t open, size_t body, bool of_types, struct buf *head,
		  struct buf *tail);

/*
 * If the body begins with a strided loop, let the part for all threads run it in rounds, and each thread's loop
 * continue after them.
 *
 *	is_whole	no thread of the kernel waits for another
 *	part	appended to: that part
 *
 * False: it has no such loop, and nothing is changed. Checked by: tests/unit/nvcc/t_rounds.c
 */
bool rewrite_rounds(struct rewrite *r, size_t open, size_t body, bool of_types, bool is_whole,
		    struct buf *part);

/*
 * A parameter of a template or function: [from, to).
 *
 *	name	[out] index of its name; SIZE_MAX: no name
 *	at	[out] the token before which a name belongs
 *	pack	[out]
 */
struct param {
	size_t name, at;
	bool pack;
};
struct param rewrite_param(const struct rewrite *r, size_t from, size_t to, bool of_template);

#endif
