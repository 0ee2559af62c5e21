/*
 * Design notes
 *
 * One thread. The signals of interest are blocked and taken by sigtimedwait, so none is missed. A child has
 * the mask that this process began with, and gets a SIGTERM when this process is killed.
 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define KILL_MS	     15000 /* time for a child to end after SIGTERM */
#define NO_PROGRAM   127
#define SIGNAL_EXITS 128

static const int endings[] = {SIGINT, SIGTERM, SIGHUP};

/* Block the signals. One that our parent ignores stays ignored. */
void
children_begin(struct children *c)
{
	struct sigaction now;

	*c = (struct children){.caught = 0};
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&c->awake);
	sigaddset(&c->awake, SIGCHLD);
	for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
		if (sigaction(endings[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			sigaddset(&c->awake, endings[i]);
	sigprocmask(SIG_BLOCK, &c->awake, &c->mask);
}

/* In the child. */
static void
become(const struct children *c, pid_t parent, char *const *argv, const char *out, const char *err)
{
	int o = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int e = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int null = open("/dev/null", O_RDONLY);

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent || o < 0 || e < 0 || null < 0)
		_exit(NO_PROGRAM);
	dup2(null, STDIN_FILENO);
	dup2(o, STDOUT_FILENO);
	dup2(e, STDERR_FILENO);
	close(null);
	close(o);
	close(e);
	sigprocmask(SIG_SETMASK, &c->mask, NULL);
	execvp(argv[0], argv);
	_exit(NO_PROGRAM);
}

/* Take a pending signal, or wait for one until the deadline (0: forever). Returns 0 if none came. */
static int
take_signal(const struct children *c, uint64_t deadline)
{
	int32_t ms = deadline ? deadline_left_ms(deadline) : INT32_MAX;
	int sig =
	    sigtimedwait(&c->awake, NULL,
			 &(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L});

	return sig > 0 ? sig : 0;
}

int
children_caught(struct children *c)
{
	int sig;

	while ((sig = take_signal(c, 1)) != 0)
		if (sig != SIGCHLD)
			c->caught = sig;
	return c->caught;
}

int
children_run(struct children *c, char *const *argv, const char *out, const char *err,
	     uint32_t timeout_ms)
{
	uint64_t deadline = timeout_ms ? deadline_in_ms(timeout_ms) : 0;
	pid_t parent = getpid(), pid;
	int status = 0;

	if (children_caught(c))
		return SIGNAL_EXITS + c->caught;
	pid = fork();
	if (pid < 0)
		return NO_PROGRAM;
	if (pid == 0)
		become(c, parent, argv, out, err);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		int sig = take_signal(c, deadline);

		if (sig == 0 && deadline && deadline_left_ms(deadline) == 0) {
			kill(pid, SIGKILL);
			deadline = 0;
		} else if (sig != 0 && sig != SIGCHLD) {
			c->caught = sig;
			kill(pid, SIGTERM);
			deadline = deadline_in_ms(KILL_MS);
		}
	}
	return WIFSIGNALED(status) ? SIGNAL_EXITS + WTERMSIG(status) : WEXITSTATUS(status);
}
