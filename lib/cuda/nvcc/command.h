/* command.h - running the host compiler. */
#ifndef NVCC_COMMAND_H
#define NVCC_COMMAND_H

#include "nvcc/options.h"

/* The host compiler's name: -ccbin, or g++; -ccbin may name a folder. out: its first word, appended. */
void command_begin(const struct nvcc *n, struct words *out);

/* Run a command to its end. RC_FAILED with an empty message: the command has printed the reason. */
enum rc command_run(const struct nvcc *n, const struct words *w, struct err *err);

#endif
