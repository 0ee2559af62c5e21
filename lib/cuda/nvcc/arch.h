/*
 * arch.h - code that depends on __CUDA_ARCH__. The macro is not defined for functions of the program, as in nvcc;
 * kernels and functions of a device alone are compiled as if it were.
 */
#ifndef NVCC_ARCH_H
#define NVCC_ARCH_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/rc.h"

/* Return true if a file of the user's that the preprocessed source includes names __CUDA_ARCH__. */
bool arch_matters(const struct buf *host);

/*
 * arch_merge - the preprocessed source, with lines of a second pass where only a device runs them.
 *
 *	host	preprocessed without __CUDA_ARCH__
 *	device	with it
 *	name	of the source
 *	out	appended to
 *
 * Lines that differ come from `device` in kernels and in functions of a device alone, and at the level of namespaces
 * where `host` has none. Only the user's own files are merged. Checked by: tests/bats/nccl_kernels.bats
 */
void arch_merge(const struct buf *host, const struct buf *device, const char *name,
		struct buf *out);

#endif
