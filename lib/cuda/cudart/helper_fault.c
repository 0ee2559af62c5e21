/* Faults of kernels: signals, and the ways in which a kernel ends itself. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudart/fiber.h"
#include "cudart/helper_impl.h"
#include "cudart/memcheck.h"
#include "cudart/registry.h"
#include "cudart/space.h"

#define ALT_STACK (64u << 10)

_Thread_local struct helper_fault *helper_fault_here;

static void
on_fault(int sig, siginfo_t *info, void *context)
{
	struct helper_fault *f = helper_fault_here;

	if (f && sig == SIGFPE && helper_divide(context))
		return;
	if (!f && sig == HELPER_STUCK_SIGNAL) /* the kernel has just ended */
		return;
	if (!f) { /* not a kernel's fault: let it kill the process */
		signal(sig, SIG_DFL);
		return;
	}
	if (sig == SIGSEGV && space_fault(info->si_addr))
		return;
	f->signal = sig;
	f->address = info->si_addr;
	siglongjmp(f->back, 1);
}

static void
on_own_end(enum fiber_failure why, const char *text)
{
	struct helper_fault *f = helper_fault_here;

	f->signal = 0;
	f->own = why;
	snprintf(f->why, sizeof f->why, "%s", text);
	siglongjmp(f->back, 1);
}

void
helper_fault_take(void)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, HELPER_STUCK_SIGNAL};
	struct sigaction a = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		sigaction(faults[i], &a, NULL);
	fiber_on_fail(on_own_end);
}

bool
helper_fault_stack(void)
{
	stack_t alt = {.ss_sp = malloc(ALT_STACK), .ss_size = ALT_STACK};

	return alt.ss_sp && sigaltstack(&alt, NULL) == 0;
}

uint32_t
helper_fault_explain(struct helper_fault *f)
{
	char nearby[112];

	switch (f->signal) {
	case 0:
		return f->own == FIBER_ASSERT ? cudaErrorAssert : cudaErrorLaunchFailure;
	case SIGFPE:
		snprintf(f->why, sizeof f->why, "an arithmetic fault (a division by zero?)");
		return cudaErrorLaunchFailure;
	case SIGILL:
		snprintf(f->why, sizeof f->why, "an illegal instruction");
		return cudaErrorIllegalInstruction;
	case SIGABRT:
		snprintf(f->why, sizeof f->why, "abort()");
		return cudaErrorLaunchFailure;
	default:
		if (fiber_is_guard(f->gang, f->address))
			snprintf(f->why, sizeof f->why, "its stack of %u KiB overflowed",
				 FIBER_STACK >> 10);
		else {
			space_describe(f->address, nearby, sizeof nearby);
			snprintf(f->why, sizeof f->why, "an illegal address, %p%s%s", f->address,
				 nearby, f->signal == SIGBUS ? " (no memory there)" : "");
		}
		return cudaErrorIllegalAddress;
	}
}

void
helper_fault_note(const struct helper_fault *f, struct helper_shared *all, struct cmdq_extern *x,
		  const struct helper_work *work, uint32_t code)
{
	uint32_t block[3], thread[3], none = 0;
	char name[40], text[400];

	fiber_where(block, thread);
	registry_name(work->kernel, name, sizeof name);
	snprintf(text, sizeof text, "kernel %s, block (%u,%u,%u) thread (%u,%u,%u): %s", name,
		 block[0], block[1], block[2], thread[0], thread[1], thread[2], f->why);
	memcpy(x->text, text, sizeof x->text - 1);
	x->text[sizeof x->text - 1] = '\0';
	memcheck_report("kernel", work, NULL, "%s", text);
	atomic_store(&x->rc, GPUSIM_FAILED);
	atomic_compare_exchange_strong(&all->error, &none, code);
}
