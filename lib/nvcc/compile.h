/*
 * compile.h - the steps of a command line: preprocess, rewrite, compile, link; each by the host compiler.
 */
#ifndef NVCC_COMPILE_H
#define NVCC_COMPILE_H

#include "nvcc/options.h"

/*
 * Do it.
 *
 *	home	the folder with include and lib
 *
 * RC_INVAL: the command line cannot be done. RC_BADDATA: a source is refused, "FILE:LINE: error: ...". RC_FAILED: the
 * host compiler has said why, and the sentence is empty, or it cannot be started.
 */
enum rc nvcc_run(const struct nvcc *n, const char *home, struct err *err);

#endif
