#include "launch/launch_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"

enum {
	DAEMON_READY_FD = 3,
	DAEMON_LIFELINE_FD = 4,
	DAEMON_EXITS_FD = 5, /* gpucoord's */
	DAEMON_FIRST_CLOSED_FD = 6
};

void
launch_say(const struct launch *l, enum log_level level, const char *fmt, ...)
{
	char text[sizeof(struct err)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (l->cfg.say)
		l->cfg.say(level, text);
	if (level == LOG_ERROR && l->ready_fd >= 0 && write(l->ready_fd, text, strlen(text)) < 0)
		return; /* the front has ended: no one waits for it */
}

int
status_exit(int wait_status)
{
	return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

void
launch_release_stdio(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return;
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	close(null);
}

int
exec_failed(const struct launch *l, const char *name, const char *not_found)
{
	bool missing = errno == ENOENT;

	launch_say(l, LOG_ERROR, "%s: %s", name,
		   missing && not_found ? not_found : strerror(errno));
	return missing ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

void
die_with_guardian(const struct launch *l, int sig)
{
	if (prctl(PR_SET_PDEATHSIG, sig) < 0 || getppid() != l->guardian)
		_exit(EXIT_INTERNAL);
}

/* Set up descriptors: stdin empty, stdout to stderr, the pipes at their numbers, and no others. */
static bool
arrange_descriptors(int ready_fd, int lifeline_fd, int exits_fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int ready = fcntl(ready_fd, F_DUPFD_CLOEXEC, DAEMON_FIRST_CLOSED_FD);
	int lifeline = fcntl(lifeline_fd, F_DUPFD_CLOEXEC, DAEMON_FIRST_CLOSED_FD);
	int exits = fcntl(exits_fd, F_DUPFD_CLOEXEC, DAEMON_FIRST_CLOSED_FD);

	return null >= 0 && ready >= 0 && lifeline >= 0 && exits >= 0 && dup2(null, 0) == 0 &&
	       dup2(2, 1) == 1 && fcntl(2, F_SETFD, 0) == 0 && dup2(ready, DAEMON_READY_FD) >= 0 &&
	       dup2(lifeline, DAEMON_LIFELINE_FD) >= 0 && dup2(exits, DAEMON_EXITS_FD) >= 0 &&
	       close_range(DAEMON_FIRST_CLOSED_FD, ~0u, 0) == 0;
}

/* Ignore and block no signal, except that `stty tostop` must not stop a daemon that logs. */
static void
reset_signals(void)
{
	sigset_t none;

	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	signal(SIGTTOU, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* A command line, and room for the texts in it. */
struct words {
	const char **v;
	size_t n;
	char listen[LAUNCH_URL_MAX], mem[PATH_MAX], number[16], grpc[PATH_MAX];
};

static void
add(struct words *w, const char *option, const char *value)
{
	w->v[w->n++] = option;
	if (value)
		w->v[w->n++] = value;
}

static void
add_device(struct words *w, const struct launch *l, int ordinal)
{
	const char *base = l->cfg.mem_file ? l->cfg.mem_file : l->mem_base;

	snprintf(w->listen, sizeof w->listen, "ipc://%s/dev%d.sock", l->dir, ordinal);
	snprintf(w->number, sizeof w->number, "%d", ordinal);
	snprintf(w->mem, sizeof w->mem, l->cfg.mem_file ? "%s.%d" : "%s%d", base, ordinal);
	add(w, "--listen", w->listen);
	add(w, "--coordinator", l->url);
	add(w, "--ordinal", w->number);
	add(w, l->cfg.mem_file ? "--mem-file" : "--mem-scratch", w->mem);
	if (l->cfg.mem)
		add(w, "-m", l->cfg.mem);
	if (ordinal >= l->cfg.ndevices)
		add(w, "--spare", NULL);
}

/* "host:port" of the coordinator (ordinal -1) or a device. */
static void
grpc_address(const struct launch_config *cfg, int ordinal, char *out, size_t size)
{
	const char *colon = strrchr(cfg->grpc, ':');
	int port = atoi(colon ? colon + 1 : cfg->grpc);

	if (ordinal < 0 || port == 0)
		snprintf(out, size, "%s", cfg->grpc);
	else
		snprintf(out, size, "%.*s:%d", colon ? (int)(colon - cfg->grpc) : 0, cfg->grpc,
			 port + 1 + ordinal);
}

static int
exec_program(const struct launch *l, int ordinal)
{
	const struct launch_config *cfg = &l->cfg;
	const char *name = ordinal < 0 ? "gpucoord" : "gpudev";
	const char *const *extra = ordinal < 0 ? cfg->coord_args : cfg->dev_args;
	size_t nextra = ordinal < 0 ? cfg->ncoord_args : cfg->ndev_args;
	struct words w = {.v = alloc_zeroed(nextra + 24, sizeof *w.v)};
	char path[PATH_MAX + 16];

	if (!w.v)
		return exec_failed(l, name, NULL);
	add(&w, name, NULL);
	if (ordinal < 0)
		add(&w, "--listen", l->url);
	else
		add_device(&w, l, ordinal);
	if (cfg->grpc) {
		grpc_address(cfg, ordinal, w.grpc, sizeof w.grpc);
		add(&w, "--grpc", w.grpc);
	}
	/* At load time, OpenBLAS would start a thread per processor, and each spins for a while.
	 * --threads sets the number later. */
	setenv("OPENBLAS_NUM_THREADS", "1", 1);
	add(&w, "-N", "3");
	add(&w, "--lifeline", "4");
	if (ordinal < 0)
		add(&w, "--exits", "5");
	else
		close(DAEMON_EXITS_FD);
	for (size_t i = 0; i < nextra; i++)
		add(&w, extra[i], NULL);
	snprintf(path, sizeof path, "%s/%s", l->bindir, name);
	if (l->bindir[0])
		execv(path, (char *const *)w.v);
	if (!l->bindir[0] || errno == ENOENT)
		execvp(name, (char *const *)w.v);
	return exec_failed(l, name, NULL);
}

static void __attribute__((noreturn))
daemon_child(const struct launch *l, int ordinal, int ready_fd, int lifeline_fd, int exits_fd)
{
	die_with_guardian(l, SIGTERM);
	setpgid(0, 0);
	if (!arrange_descriptors(ready_fd, lifeline_fd, exits_fd)) {
		launch_say(l, LOG_ERROR, "descriptors of a daemon: %s", strerror(errno));
		_exit(EXIT_INTERNAL);
	}
	setrlimit(RLIMIT_NOFILE, &l->nofile);
	reset_signals();
	_exit(exec_program(l, ordinal));
}

pid_t
exec_daemon(const struct launch *l, int ordinal, int lifeline_fd, int exits_fd, int *ready_fd)
{
	int ready[2];
	pid_t pid;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0)
		daemon_child(l, ordinal, ready[1], lifeline_fd, exits_fd);
	close(ready[1]);
	if (pid < 0)
		close(ready[0]);
	else
		*ready_fd = ready[0];
	return pid;
}
