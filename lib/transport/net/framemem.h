/*
 * framemem.h - memory for the payloads of received frames. Inside lib/transport/net only.
 *
 * Chunks come and go by the thousand, and fresh memory costs a page fault every 4 KiB. So returned memory
 * is kept for the next frame, last in, first out: it is still in the cache.
 */
#ifndef NET_FRAMEMEM_H
#define NET_FRAMEMEM_H

#include <stddef.h>

#define FRAMEMEM_KEPT (16u << 20) /* bytes kept for later, in the whole process */

/* Room for nbytes, at most FRAME_PAYLOAD_MAX. NULL: out of memory. */
void *framemem_take(size_t nbytes);

/* Give it back. NULL is legal. */
void framemem_give(void *mem);

#endif
