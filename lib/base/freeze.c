#include "base/freeze.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

void
freeze_kill(void)
{
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

/* The helper: it holds nothing of its parent's, and continues no other process. */
static void __attribute__((noreturn)) wake_parent(pid_t parent, uint64_t ns)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close_range(0, ~0u, 0);
	clock_sleep(ns);
	if (getppid() == parent)
		kill(parent, SIGCONT);
	_exit(0);
}

void
freeze_stop(uint64_t ns)
{
	pid_t self = getpid(), helper = -1;
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (ns)
		helper = _Fork(); /* no handlers of libraries run: they have threads and locks */
	if (helper == 0)
		wake_parent(self, ns);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	raise(SIGSTOP); /* to this thread: it does not get further before it has stopped */
	if (helper > 0) {
		/* Another process may have continued it first. */
		kill(helper, SIGKILL);
		while (waitpid(helper, NULL, 0) < 0 && errno == EINTR)
			;
	}
}
