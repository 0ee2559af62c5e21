/* launch.h - limits of launches, as devices report them. */
#ifndef CUDART_LAUNCH_H
#define CUDART_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#define LAUNCH_THREADS	  1024
#define LAUNCH_SHARED	  (48 << 10) /* bytes of dynamic shared memory, unless a kernel requests more */
#define LAUNCH_SHARED_MAX (227 << 10) /* the most that it may request */

#define LAUNCH_SMS	   48 /* with 2048 threads each, a grid that fills the device has 98,304 */
#define LAUNCH_SM_THREADS  2048
#define LAUNCH_SM_BLOCKS   32
#define LAUNCH_SM_RESIDENT 1024 /* threads that may wait for each other: each has a stack */
#define LAUNCH_SM_WAITING  8	/* blocks: each has a system thread */

/* Blocks of a kernel that a multiprocessor runs at once; 0: the block is too large. */
int launch_per_sm(uint64_t block, size_t shared);

#endif
