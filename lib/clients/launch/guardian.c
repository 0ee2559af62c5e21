/*
 * The guardian: starts the daemons and the command, watches them, ends them. The design notes of
 * the process tree are in launch.c.
 *
 * One thread, one poll over a signalfd (SIGCHLD, SIGTERM), the pipe from the front and, during the
 * start, one readiness pipe a daemon. Each event is only recorded; the phases decide.
 */
#include "launch/launch_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

#define SPARE_FDS     32 /* descriptors besides the readiness pipes */
#define STARTING_MOST 64 /* daemons that start at a time */

enum { FD_SIGNAL, FD_FRONT, FD_READY }; /* places in guardian.fds; daemon i's is FD_READY + i */
enum phase { PHASE_START, PHASE_RUN, PHASE_END };

struct guardian {
	const struct launch *l;
	enum phase phase;
	uint64_t begun;	    /* when the start began */
	int ndaemons;	    /* daemon 0 is gpucoord, daemon k + 1 is gpudev k */
	pid_t *pids;	    /* 0: never started, or already reaped */
	int *statuses;	    /* wait status of the ended */
	struct pollfd *fds; /* FD_READY + ndaemons */
	int nready;
	int failed;	     /* the first daemon that did not start, or -1 */
	pid_t command;	     /* 0: has ended */
	int command_status;  /* wait status */
	int go_fd, lifeline; /* write ends */
	int exits;	     /* a write end: how processes have ended, for gpucoord */
	bool front_gone;
	uint64_t kill_at; /* when the command got a signal to end; 0: not yet */
};

static const char *
daemon_name(int i, char *text, size_t size)
{
	if (i == 0)
		return "gpucoord";
	snprintf(text, size, "gpudev %d", i - 1);
	return text;
}

/* "exit 3" or "signal 9" */
static const char *
how_ended(int wait_status, char *text, size_t size)
{
	if (WIFSIGNALED(wait_status))
		snprintf(text, size, "signal %d", WTERMSIG(wait_status));
	else
		snprintf(text, size, "exit %d", WEXITSTATUS(wait_status));
	return text;
}

static void
daemon_ended(struct guardian *g, int i, int status)
{
	char name[32];

	if (g->phase == PHASE_START && g->failed < 0)
		g->failed = i;
	else if (g->phase == PHASE_RUN && WIFSIGNALED(status))
		launch_say(g->l, LOG_ERROR, "%s (pid %d) killed by signal %d",
			   daemon_name(i, name, sizeof name), (int)g->pids[i], WTERMSIG(status));
	else if (g->phase == PHASE_RUN)
		launch_say(g->l, LOG_ERROR, "%s (pid %d) ended with exit status %d",
			   daemon_name(i, name, sizeof name), (int)g->pids[i], WEXITSTATUS(status));
	g->pids[i] = 0;
	g->statuses[i] = status;
}

/* Report the end of a process to the coordinator, which knows the device. If it does not read in
 * time, the line is lost. */
static void
tell_exit(const struct guardian *g, pid_t pid, int status)
{
	char line[32];
	int n = snprintf(line, sizeof line, "%d %d\n", (int)pid, status);

	if (g->phase == PHASE_RUN && write(g->exits, line, (size_t)n) != n)
		return;
}

/* Reap all that have ended: daemons, the command, orphans of the command. */
static void
reap(void *arg)
{
	struct guardian *g = arg;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		tell_exit(g, pid, status);
		if (pid == g->command) {
			g->command = 0;
			g->command_status = status;
		}
		for (int i = 0; i < g->ndaemons; i++)
			if (g->pids[i] == pid)
				daemon_ended(g, i, status);
	}
}

static void
forward(struct guardian *g, int sig)
{
	if (g->command)
		kill(g->command, sig);
	if ((sig == SIGTERM || sig == SIGHUP) && !g->kill_at)
		g->kill_at = deadline_in_ms(LAUNCH_COMMAND_TERM_MS);
}

static void
on_signal(struct guardian *g)
{
	struct signalfd_siginfo si;

	if (read(g->fds[FD_SIGNAL].fd, &si, sizeof si) != (ssize_t)sizeof si)
		return;
	if (si.ssi_signo == SIGCHLD)
		reap(g);
	else if (getppid() != g->l->keeper)
		g->front_gone = true;
	else
		forward(g, SIGTERM);
}

static void
on_ready(struct guardian *g, int i)
{
	struct pollfd *p = &g->fds[FD_READY + i];
	char text[64];
	ssize_t n = read(p->fd, text, sizeof text);

	if (n > 0 && !memchr(text, '\n', (size_t)n))
		return;
	if (n > 0)
		g->nready++;
	else if (g->failed < 0)
		g->failed = i;
	close(p->fd);
	p->fd = -1;
}

/* Handle pending events, or wait for one; deadline 0: no deadline. */
static void
turn(struct guardian *g, uint64_t deadline)
{
	int nfds = FD_READY + (g->phase == PHASE_START ? g->ndaemons : 0);

	if (poll(g->fds, (nfds_t)nfds, deadline ? deadline_left_ms(deadline) : -1) <= 0)
		return;
	for (int i = 0; i < nfds - FD_READY; i++)
		if (g->fds[FD_READY + i].revents)
			on_ready(g, i);
	if (g->fds[FD_FRONT].revents) {
		unsigned char sigs[64];
		ssize_t n = read(g->fds[FD_FRONT].fd, sigs, sizeof sigs);

		g->front_gone = g->front_gone || n == 0;
		for (ssize_t i = 0; i < n; i++)
			forward(g, sigs[i]);
	}
	if (g->fds[FD_SIGNAL].revents)
		on_signal(g);
}

static uint64_t
earlier(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

/* Return true if the command has ended, its time is up, or the front has ended. Without a command
 * only the front counts. */
static bool
is_over(const struct guardian *g)
{
	return g->front_gone || (!g->command && g->l->argv) ||
	       (g->kill_at && clock_now_ns() >= g->kill_at);
}

/* Raise the soft limit of descriptors: the readiness pipes may be more. */
static void
raise_nofile(const struct guardian *g)
{
	struct rlimit r = g->l->nofile;
	rlim_t want = (rlim_t)g->ndaemons + SPARE_FDS;

	if (r.rlim_cur >= want)
		return;
	r.rlim_cur = want < r.rlim_max ? want : r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
}

static uint64_t
start_deadline(const struct guardian *g)
{
	uint64_t ms = g->l->cfg.start_timeout_ms;

	return g->begun + (ms ? ms : LAUNCH_START_MS) * NS_PER_MS;
}

/* Hundreds of daemons that start at once keep the coordinator from answering any of them: wait
 * until few enough of the first n are still starting. False: a daemon or the command ended;
 * phase_start reports it. */
static bool
make_way(struct guardian *g, int n)
{
	uint64_t deadline = start_deadline(g);

	while (n - g->nready >= STARTING_MOST) {
		turn(g, earlier(deadline, g->kill_at));
		if (g->failed >= 0 || is_over(g) || clock_now_ns() >= deadline)
			return false;
	}
	return true;
}

static bool
start_daemons(struct guardian *g)
{
	int life[2] = {-1, -1}, exits[2] = {-1, -1};
	char name[32];
	bool good = false;

	if (pipe2(life, O_CLOEXEC) < 0 || pipe2(exits, O_CLOEXEC) < 0) {
		launch_say(g->l, LOG_ERROR, "pipe: %s", strerror(errno));
		goto out;
	}
	g->lifeline = life[1];
	g->exits = exits[1];
	fcntl(g->exits, F_SETFL, O_NONBLOCK);
	for (int i = 0; i < g->ndaemons && make_way(g, i); i++) {
		pid_t pid = exec_daemon(g->l, i - 1, life[0], exits[0], &g->fds[FD_READY + i].fd);

		if (pid < 0) {
			launch_say(g->l, LOG_ERROR, "%s: cannot start a process: %s",
				   daemon_name(i, name, sizeof name), strerror(errno));
			goto out;
		}
		g->pids[i] = pid;
		g->fds[FD_READY + i].events = POLLIN;
	}
	good = true;
out:
	if (life[0] >= 0)
		close(life[0]);
	if (exits[0] >= 0)
		close(exits[0]);
	return good;
}

/* Report the first daemon that failed, and how it ended. */
static int
report_failed(struct guardian *g)
{
	uint64_t deadline = deadline_in_ms(LAUNCH_KILL_MS);
	char name[32], how[32];
	int i = g->failed;

	reap(g);
	while (g->pids[i] && clock_now_ns() < deadline) {
		wait_child(deadline);
		reap(g);
	}
	launch_say(g->l, LOG_ERROR, "%s did not start (%s)", daemon_name(i, name, sizeof name),
		   g->pids[i] ? "still running, but not ready"
			      : how_ended(g->statuses[i], how, sizeof how));
	return EXIT_FAILED;
}

static int
report_late(const struct guardian *g, uint64_t timeout_ms)
{
	int late = g->ndaemons - g->nready, i = 0;
	char name[32], more[32] = "";

	while (i < g->ndaemons - 1 && g->fds[FD_READY + i].fd < 0)
		i++;
	if (late > 1)
		snprintf(more, sizeof more, " and %d more", late - 1);
	launch_say(g->l, LOG_ERROR, "%s%s: not ready within %.1f s",
		   daemon_name(i, name, sizeof name), more, (double)timeout_ms / 1000);
	return EXIT_TIMEOUT;
}

/* Wait until every daemon is ready. EXIT_OK, or the exit status; also ends if the command was killed. */
static int
phase_start(struct guardian *g)
{
	uint64_t deadline = start_deadline(g);

	while (g->nready < g->ndaemons) {
		turn(g, earlier(deadline, g->kill_at));
		if (is_over(g))
			return EXIT_OK;
		if (g->failed >= 0)
			return report_failed(g);
		if (clock_now_ns() >= deadline && g->nready < g->ndaemons)
			return report_late(g, (deadline - g->begun) / NS_PER_MS);
	}
	launch_say(g->l, LOG_INFO, "%d devices ready in %.1f ms at %s", g->ndaemons - 1,
		   (double)(clock_now_ns() - g->begun) / (double)NS_PER_MS, g->l->url);
	return EXIT_OK;
}

/* Returns EXIT_OK, or why the command was not started. */
static int
phase_run(struct guardian *g)
{
	int status = EXIT_OK;

	g->phase = PHASE_RUN;
	if (g->l->argv && g->l->cfg.ready && !is_over(g))
		status = g->l->cfg.ready(g->l->cfg.ready_arg, g->l->url);
	if (status != EXIT_OK)
		return status;
	if (!is_over(g) && write(g->l->argv ? g->go_fd : g->l->ready_fd, "\n", 1) != 1)
		return EXIT_OK;
	while (!is_over(g))
		turn(g, g->kill_at);
	return EXIT_OK;
}

static bool
any_daemon(struct guardian *g)
{
	for (int i = 0; i < g->ndaemons; i++)
		if (g->pids[i])
			return true;
	return false;
}

static void
signal_daemons(struct guardian *g, int sig)
{
	reap(g);
	for (int i = 0; i < g->ndaemons; i++)
		if (g->pids[i])
			kill(g->pids[i], sig);
}

static void
wait_daemons(struct guardian *g, uint64_t deadline)
{
	while (any_daemon(g) && clock_now_ns() < deadline) {
		wait_child(deadline);
		reap(g);
	}
}

/* Processes that the command left in the background stay, unless the job was ended early. */
static void
phase_end(struct guardian *g, int status)
{
	g->phase = PHASE_END;
	if (status || g->front_gone || g->kill_at)
		sweep_children(g->pids, (size_t)g->ndaemons, SIGKILL, reap, g,
			       deadline_in_ms(LAUNCH_KILL_MS));
	signal_daemons(g, SIGTERM);
	/* For a daemon that ignores signals; closed after the signals, so that they come first. */
	close(g->lifeline);
	wait_daemons(g, deadline_in_ms(LAUNCH_DAEMON_TERM_MS));
	signal_daemons(g, SIGKILL);
	wait_daemons(g, deadline_in_ms(LAUNCH_KILL_MS));
	/* The coordinator has ended, so its children are now this process's: devices that it restarted. */
	sweep_devices(g->l, SIGTERM, reap, g, deadline_in_ms(LAUNCH_DAEMON_TERM_MS));
	sweep_devices(g->l, SIGKILL, reap, g, deadline_in_ms(LAUNCH_KILL_MS));
	sweep_files(g->l);
}

static bool
guardian_init(struct guardian *g, const struct launch *l)
{
	int n = l->cfg.ndevices + l->cfg.nspares + 1;
	sigset_t set;

	*g = (struct guardian){.l = l,
			       .begun = clock_now_ns(),
			       .ndaemons = n,
			       .failed = -1,
			       .go_fd = -1,
			       .lifeline = -1,
			       .exits = -1};
	g->pids = alloc_zeroed((size_t)n, sizeof *g->pids);
	g->statuses = alloc_zeroed((size_t)n, sizeof *g->statuses);
	g->fds = alloc_zeroed((size_t)n + FD_READY, sizeof *g->fds);
	if (!g->pids || !g->statuses || !g->fds)
		return false;
	for (int i = 0; i < n + FD_READY; i++)
		g->fds[i].fd = -1;
	g->command = l->argv ? exec_command(l, &g->go_fd) : 0;
	if (g->command < 0)
		return false;
	launch_release_stdio();
	raise_nofile(g);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	g->fds[FD_SIGNAL] = (struct pollfd){signalfd(-1, &set, SFD_CLOEXEC), POLLIN, 0};
	g->fds[FD_FRONT] = (struct pollfd){l->front_fd, POLLIN, 0};
	return g->fds[FD_SIGNAL].fd >= 0;
}

/* The process's end frees its memory and descriptors. */
int
guardian_main(struct launch *l)
{
	int status = EXIT_OK;
	struct guardian g;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_NAME, l->name);
	l->guardian = getpid();
	if (!guardian_init(&g, l)) {
		launch_say(l, LOG_ERROR, "cannot start a process: %s", strerror(errno));
		sweep_files(l);
		return EXIT_FAILED;
	}
	g.front_gone = getppid() != l->keeper;
	status = start_daemons(&g) ? phase_start(&g) : EXIT_FAILED;
	if (status == EXIT_OK)
		status = phase_run(&g);
	phase_end(&g, status);
	return status ? status : status_exit(g.command_status);
}
