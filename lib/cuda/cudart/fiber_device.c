/* Functions that kernels call, except those of warps: barriers, shared memory, the ways to end a kernel. */
#include "cudart/helper_impl.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cudart/fiber_impl.h"
#include "gpusim_cuda.h"

__thread int __gpusim_inside;
static fiber_fail_fn *fail_fn;

void
fiber_on_fail(fiber_fail_fn *fn)
{
	fail_fn = fn;
}

unsigned
__gpusim_barrier(int predicate, unsigned *trues)
{
	struct fiber_gang *g = fiber_gang_here;
	unsigned all = 1;

	if (g) {
		g->trues += predicate != 0;
		g->at_barrier++;
		fiber_add(&g->barrier, g->current);
		fiber_arrived(g);
		fiber_wait(g);
		all = g->passed;
	}
	if (trues)
		*trues = g ? g->passed_trues : predicate != 0;
	return all;
}

void *
__gpusim_dynamic_shared(void)
{
	return fiber_gang_here ? fiber_gang_here->shared : NULL;
}

/* Let other threads run; without others, sleep. */
void
__gpusim_nanosleep(unsigned ns)
{
	struct timespec ts = {.tv_nsec = ns < 1000000 ? (long)ns : 1000000};

	if (!fiber_yield())
		nanosleep(&ts, NULL);
}

static _Noreturn void
fail(enum fiber_failure why, const char *text)
{
	if (fiber_gang_here && fail_fn)
		fail_fn(why, text);
	fprintf(stderr, "%s\n", text);
	abort();
}

void
__gpusim_trap(void)
{
	fail(FIBER_TRAP, "__trap()");
}

void
__gpusim_assert_fail(const char *text, const char *file, unsigned line, const char *function)
{
	char sentence[300];

	if (!fiber_gang_here)
		__assert_fail(text, file, line, function);
	snprintf(sentence, sizeof sentence, "%s:%u: %s: assertion `%s' failed", file, line,
		 function, text);
	fail(FIBER_ASSERT, sentence);
}
