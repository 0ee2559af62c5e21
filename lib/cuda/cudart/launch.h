/* launch.h - limits of launches, as devices report them. */
#ifndef CUDART_LAUNCH_H
#define CUDART_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#define LAUNCH_THREADS	  1024
#define LAUNCH_SHARED	  (48 << 10) /* bytes of dynamic shared memory, unless a kernel requests more */
#define LAUNCH_SHARED_MAX (227 << 10) /* the most that it may request */

#define LAUNCH_SMS	  8 /* few, because each resident block has a system thread */
#define LAUNCH_SM_THREADS 2048
#define LAUNCH_SM_BLOCKS  32

/* Blocks of a kernel that a multiprocessor runs at once; 0: the block is too large. */
int launch_per_sm(uint64_t block, size_t shared);

#endif
