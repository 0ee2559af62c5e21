/*
 * The core of a queue's thread, where ranks and their clients share cores.
 *
 * Ranks that wait for each other must not share a core: each step would cost two scheduler turns, ten
 * times the step itself. A rank and its client share one well, since one of the two mostly waits. The
 * scheduler does not know this, so a thread that idles on another core moves to its rank's core. It is
 * not bound to it.
 */
#include <sched.h>

#include "base/clock.h"
#include "dev/cmdq_impl.h"

#define AGAIN_MS 5 /* between two moves: the scheduler may move it back */

void
queue_settle_near(struct queue *q, const struct queue_comm *k)
{
	uint32_t n = (uint32_t)CPU_COUNT(&q->cores), at = n ? k->bound->rank % n : 0;

	q->home = -1;
	if (k->bound->nranks < 2 || k->bound->nranks * 2 <= n ||
	    !xport_by_memory(&k->bound->tickets))
		return;
	for (int cpu = 0; cpu < CPU_SETSIZE && n > 1; cpu++)
		if (CPU_ISSET(cpu, &q->cores) && at-- == 0) {
			q->home = cpu;
			return;
		}
}

void
queue_move_home(struct queue *q)
{
	uint64_t now = clock_now_ns();
	cpu_set_t one;

	if (now - q->moved_ns < AGAIN_MS * NS_PER_MS)
		return;
	q->moved_ns = now;
	CPU_ZERO(&one);
	CPU_SET(q->home, &one);
	if (sched_setaffinity(0, sizeof one, &one) == 0)
		sched_setaffinity(0, sizeof q->cores, &q->cores);
}
