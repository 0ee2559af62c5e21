/* eventually.h - wait for a condition in a test. */
#ifndef EVENTUALLY_H
#define EVENTUALLY_H

#include <sched.h>

#include "base/clock.h"

#define PATIENCE_S 20 /* a condition that is false by then stays false */

/* Spin and yield until cond holds; false: it never did. */
#define EVENTUALLY(cond)                                                    \
	({                                                                  \
		uint64_t until_ = clock_now_ns() + PATIENCE_S * NS_PER_SEC; \
		bool good_;                                                 \
		while (!(good_ = (cond)) && clock_now_ns() < until_)        \
			sched_yield();                                      \
		good_;                                                      \
	})

#endif
