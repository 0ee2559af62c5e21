/*
 * compile.h - the steps of a command line: preprocess, rewrite, compile, link; each by the host compiler.
 */
#ifndef NVCC_COMPILE_H
#define NVCC_COMPILE_H

#include "nvcc/options.h"

/* Run the steps of a command line. * home the folder with include and lib * RC_INVAL: the command
 * line is invalid. RC_BADDATA: a source is rejected, "FILE:LINE: error: ...". RC_FAILED: the host
 * compiler has failed and printed the reason, and the message is empty; or it cannot be started. */
enum rc nvcc_run(const struct nvcc *n, const char *home, struct err *err);

#endif
