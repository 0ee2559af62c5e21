/*
 * rewrite.h - CUDA's additions to C++, turned into C++ that g++ compiles: kernels, launches, marks
 * of functions and variables, a few lines of PTX. Pure: text in, text out.
 */
#ifndef NVCC_REWRITE_H
#define NVCC_REWRITE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/rc.h"

/*
 * The marks, as the driver defines them for the preprocessor (-D__global__=__gpusim_global__), so that
 * #ifdef sees a macro and the rewriter sees a word, whatever a program's own macros do with it.
 */
#define NVCC_MARKS     \
	MARK(global)   \
	MARK(device)   \
	MARK(host)     \
	MARK(shared)   \
	MARK(constant) \
	MARK(managed)  \
	MARK(noinline)

struct rewrite_how {
	/* -rdc=true: functions and variables of a device are found between files; else they are their file's own */
	bool separate;
	bool loops; /* kernels whose threads never wait become loops over the threads of a block */
};

/*
 * rewrite - a preprocessed .cu source as C++.
 *
 *	name	of the source, for errors before its first line marker
 *	out	appended to; line breaks stay, so that a compiler's messages name the user's file and line
 *
 * RC_BADDATA: "FILE:LINE: error: reason". Checked by: tests/unit/nvcc/t_nvcc.c
 */
enum rc rewrite(const char *text, size_t nbytes, const char *name, const struct rewrite_how *how,
		struct buf *out, struct err *err);

/* Where a line stands: in a function of the program, or of program and device; outside of functions; in a kernel or a
 * function of a device alone. */
enum rewrite_place { REWRITE_HOST, REWRITE_GROUND, REWRITE_DEVICE };

/* Call fn for the first token of each line of the user's files, by the preprocessed text; again if a later token is a
 * device's. Ends at an error in the text. */
void rewrite_places(const char *text, size_t nbytes, const char *name,
		    void (*fn)(void *arg, const char *file, unsigned line,
			       enum rewrite_place place),
		    void *arg);

#endif
