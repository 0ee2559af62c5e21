/* launch.h - limits of launches, as devices report them. */
#ifndef CUDART_LAUNCH_H
#define CUDART_LAUNCH_H

#define LAUNCH_THREADS	  1024
#define LAUNCH_SHARED	  (48 << 10) /* bytes of dynamic shared memory, unless a kernel requests more */
#define LAUNCH_SHARED_MAX (227 << 10) /* the most that it may request */

#endif
