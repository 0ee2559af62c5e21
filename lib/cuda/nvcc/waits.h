/*
 * waits.h - which functions need threads of their own: they wait for other threads, or ask which thread they are, or
 * print. A kernel that calls none of them can run as a loop over the threads of its block.
 *
 * Names stand for what they name: all functions of one name, and all words that a function or a class contains, are
 * taken together. So the answer may be true without need, but never false wrongly.
 */
#ifndef NVCC_WAITS_H
#define NVCC_WAITS_H

#include <stdbool.h>
#include <stddef.h>

#include "nvcc/token.h"

struct waits;

/* Read a whole source; borrows the tokens. */
struct waits *waits_read(const struct tokens *t);
void waits_free(struct waits *w);

/*
 * Return true if a kernel, the tokens [from, to) from its parameters to the end of its body, needs threads of its own.
 * Its own threadIdx does not count.
 *
 *	of_types	it is a template with parameters that are types: their members may be called
 *
 * Checked by: tests/unit/nvcc/t_waits.c
 */
bool waits_in(const struct waits *w, size_t from, size_t to, bool of_types);

/* Return true if token i may name a variable of a device, which kernels write to. */
bool waits_is_memory(const struct waits *w, size_t i);

#endif
