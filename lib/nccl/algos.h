/* algos.h - NCCL_ALGO as gpusim understands it. Pure. */
#ifndef NCCL_ALGOS_H
#define NCCL_ALGOS_H

#include "base/buf.h"

/*
 * NCCL_ALGO for tuner_select: in lower case, without the algorithms that only GPUs have (collnetdirect,
 * collnetchain, nvls, nvlstree, pat), without lists that are empty then. False: out of memory.
 *
 *	gone	[out] whether a list was left out that asked for such algorithms alone
 *	msccl	[out] whether it names "msccl", which is left out too: the algorithms of MSCCL_XML_FILES
 */
bool nccl_algo_text(const char *text, struct buf *out, bool *gone, bool *msccl);

#endif
