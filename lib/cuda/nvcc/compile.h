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

/* ---- running the host compiler */

/* The host compiler's name: -ccbin, or g++; -ccbin may name a folder. out: its first word, appended. */
void command_begin(const struct nvcc *n, struct words *out);

/* Run a command to its end. RC_FAILED with an empty message: the command has printed the reason. */
enum rc command_run(const struct nvcc *n, const struct words *w, struct err *err);

#endif
