/* algos.h - gpusim's reading of NCCL_ALGO. Pure. */
#ifndef NCCL_ALGOS_H
#define NCCL_ALGOS_H

#include "base/buf.h"

/*
 * NCCL_ALGO for tuner_select: in lower case, without the algorithms that exist only on GPUs (collnetdirect,
 * collnetchain, nvls, nvlstree, pat), and without lists that are then empty. False: out of memory.
 *
 *	gone	[out] true if a list with only such algorithms was left out
 *	msccl	[out] true if it names "msccl", the algorithms of MSCCL_XML_FILES, which is also left out
 */
bool nccl_algo_text(const char *text, struct buf *out, bool *gone, bool *msccl);

#endif
