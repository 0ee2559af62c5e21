/*
 * Design notes
 *
 * Four kinds of process, each with one thread:
 *
 *	front      the user's pid. Sends the signals it gets down a pipe, waits, exits.
 *	keeper     its child. Waits for the guardian; finishes its work if it is killed.
 *	guardian   the keeper's child, in the front's process group. Parent of everything else.
 *	command    the guardian's child, in the front's process group: ^C and ^Z reach it directly.
 *	daemons    the guardian's children, each in a process group of its own.
 *
 * Who notices whose death, even by SIGKILL, without polling:
 *
 *	front      the guardian reads EOF from the pipe, kills the command and its descendants.
 *	keeper     the guardian gets PDEATHSIG and does the same; the front waits for it, then
 *		   removes the files once more.
 *	guardian   the kernel ends the command (PDEATHSIG) and the daemons (PDEATHSIG, and EOF of
 *		   the lifeline only the guardian could write); all orphans become the keeper's
 *		   children, which ends what is left and removes the files.
 *	any two    of the three: the third cleans up. All three: the daemons and the command still
 *		   end.
 *
 * The guardian and the keeper are subreapers, so no descendant of the command escapes by double
 * forking. Devices that the coordinator starts again are its children, in their own process groups
 * like the others; with its end they become the guardian's, who knows them by their sockets in the
 * private folder, and waits for them too. They have the same lifeline. Both block every signal and take what they need by signalfd and sigtimedwait. The keeper
 * has another process name, so that `killall -9 gpuctl` leaves it alive to clean up.
 */
#include "cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host.h"
#include "base/log.h"
#include "base/rundir.h"
#include "cluster_impl.h"

#define ORPHANS_TERM_MS 1000  /* the keeper's patience after SIGTERM */
#define ORPHANS_KILL_MS 2000  /* and after SIGKILL */
#define FRONT_DONE_MS	10000 /* the front's, for a guardian that has lost its keeper */

int
status_exit(int wait_status)
{
	return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

static void
find_bindir(struct cluster *c)
{
	if (c->cfg->bindir)
		snprintf(c->bindir, sizeof c->bindir, "%s", c->cfg->bindir);
	else
		host_own_folder(c->bindir, sizeof c->bindir);
}

/* The first of $XDG_RUNTIME_DIR, $TMPDIR, /tmp that is fit for sockets, short enough and writable. */
static enum rc
make_dir(struct cluster *c, struct err *err)
{
	const char *bases[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp"};

	for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
		if (!bases[i] || !rundir_for_sockets(bases[i]) ||
		    snprintf(c->dir, sizeof c->dir, "%s/gpusim.XXXXXX", bases[i]) >=
			(int)sizeof c->dir)
			continue;
		if (mkdtemp(c->dir))
			return RC_OK;
	}
	return err_set(err, RC_FAILED, "cannot make a private directory in /tmp: %s",
		       strerror(errno));
}

static void
name_mem_files(struct cluster *c)
{
	if (c->cfg->mem_file)
		c->mem_base[0] = '\0';
	else if (access("/dev/shm", W_OK | X_OK) == 0)
		snprintf(c->mem_base, sizeof c->mem_base, "/dev/shm/gpusim-%u-%d-",
			 (unsigned)getuid(), (int)c->keeper);
	else
		snprintf(c->mem_base, sizeof c->mem_base, "%s/mem-", c->dir);
}

static void
reap_any(void *unused)
{
	(void)unused;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		continue;
}

/* After the guardian's sudden death: the orphans are ours now. */
static void
bury_orphans(const struct cluster *c)
{
	sweep_children(NULL, 0, SIGTERM, reap_any, NULL, deadline_in_ms(ORPHANS_TERM_MS));
	sweep_children(NULL, 0, SIGKILL, reap_any, NULL, deadline_in_ms(ORPHANS_KILL_MS));
	sweep_files(c);
}

static int
keeper_main(struct cluster *c)
{
	int status = 0;
	sigset_t all;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_NAME, "gpusim-keeper");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	c->keeper = getpid();
	name_mem_files(c);
	sweep_mem_files(c); /* a stale file of an earlier process with this pid */
	pid = fork();
	if (pid == 0)
		_exit(guardian_main(c));
	setpgid(0, 0);
	release_stdio();
	close(c->front_fd);
	if (pid < 0) {
		log_line(LOG_ERROR, "run: fork: %s", strerror(errno));
		sweep_files(c);
		return EXIT_FAILED;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (WIFSIGNALED(status)) {
		log_line(LOG_ERROR, "run: the guardian (pid %d) was killed by signal %d", (int)pid,
			 WTERMSIG(status));
		bury_orphans(c);
	}
	return status_exit(status);
}

/* Block what the front waits for; *forward gets the ending signals the caller does not ignore. */
static void
front_signals(sigset_t *forward, sigset_t *caller)
{
	static const int ending[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT};
	struct sigaction sa;
	sigset_t block;

	signal(SIGCHLD, SIG_DFL); /* an inherited SIG_IGN would lose the exit status */
	sigemptyset(forward);
	sigemptyset(&block);
	sigaddset(&block, SIGPIPE);
	sigaddset(&block, SIGTTOU);
	sigaddset(&block, SIGCHLD);
	sigaddset(forward, SIGCHLD);
	for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
		sigaddset(&block, ending[i]);
		if (sigaction(ending[i], NULL, &sa) == 0 && sa.sa_handler != SIG_IGN)
			sigaddset(forward, ending[i]);
	}
	sigprocmask(SIG_BLOCK, &block, caller);
}

/* Forward signals until the keeper ends; its wait status. ^C of a terminal needs no forwarding. */
static int
front_wait(pid_t keeper, int signal_fd, int guardian_fd)
{
	struct signalfd_siginfo si;
	unsigned char byte;
	int status = 0;

	while (waitpid(keeper, &status, WNOHANG) == 0) {
		if (read(signal_fd, &si, sizeof si) != (ssize_t)sizeof si ||
		    si.ssi_signo == SIGCHLD)
			continue;
		if ((si.ssi_signo == SIGINT || si.ssi_signo == SIGQUIT) && si.ssi_code == SI_KERNEL)
			continue;
		byte = (unsigned char)si.ssi_signo;
		if (write(guardian_fd, &byte, 1) < 0)
			continue; /* the guardian is ending already */
	}
	return status;
}

/* The keeper was killed: the guardian is cleaning up. Its end closes done_fd. */
static void
front_clean(struct cluster *c, int done_fd)
{
	struct pollfd p = {.fd = done_fd, .events = POLLIN};
	uint64_t deadline = deadline_in_ms(FRONT_DONE_MS);

	while (poll(&p, 1, deadline_left_ms(deadline)) < 0 && errno == EINTR)
		continue;
	name_mem_files(c);
	sweep_files(c);
}

/* Descriptors 0, 1, 2 that the caller closed must not become one of our pipes. */
static bool
fill_standard(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR | O_CLOEXEC) != fd)
			return false;
	return true;
}

static int
front_main(struct cluster *c, const int to_guardian[2], const int done[2], int signal_fd,
	   struct err *err)
{
	int status;

	c->keeper = fork();
	if (c->keeper < 0) {
		rmdir(c->dir);
		return rc_exit(err_set(err, RC_FAILED, "fork: %s", strerror(errno)));
	}
	if (c->keeper == 0) {
		close(to_guardian[1]);
		close(done[0]);
		close(signal_fd);
		c->front_fd = to_guardian[0];
		c->done_fd = done[1];
		_exit(keeper_main(c));
	}
	close(to_guardian[0]);
	close(done[1]);
	release_stdio();
	status = front_wait(c->keeper, signal_fd, to_guardian[1]);
	close(to_guardian[1]);
	if (WIFSIGNALED(status)) {
		log_line(LOG_ERROR, "run: the keeper (pid %d) was killed by signal %d",
			 (int)c->keeper, WTERMSIG(status));
		front_clean(c, done[0]);
	}
	close(done[0]);
	return status_exit(status);
}

int
cluster_run(const struct cluster_config *cfg, struct err *err)
{
	static struct cluster c;
	int to_guardian[2] = {-1, -1}, done[2] = {-1, -1}, signal_fd = -1;
	sigset_t forward;
	int status;

	if (cfg->ndevices < 1 || cfg->nspares < 0 ||
	    cfg->ndevices > CLUSTER_MAX_DEVICES - cfg->nspares)
		return rc_exit(err_set(err, RC_INVAL, "%d devices and %d spares: must be 1 to %d",
				       cfg->ndevices, cfg->nspares, CLUSTER_MAX_DEVICES));
	c = (struct cluster){.cfg = cfg};
	if (!fill_standard() || getrlimit(RLIMIT_NOFILE, &c.nofile) < 0)
		return rc_exit(err_set(err, RC_FAILED, "%s", strerror(errno)));
	find_bindir(&c);
	front_signals(&forward, &c.mask);
	if (pipe2(to_guardian, O_CLOEXEC) < 0 || pipe2(done, O_CLOEXEC) < 0 ||
	    fcntl(to_guardian[1], F_SETFL, O_NONBLOCK) < 0 ||
	    (signal_fd = signalfd(-1, &forward, SFD_CLOEXEC)) < 0)
		return rc_exit(err_set(err, RC_FAILED, "pipe: %s", strerror(errno)));
	if (make_dir(&c, err))
		return rc_exit(err->rc);
	status = front_main(&c, to_guardian, done, signal_fd, err);
	close(signal_fd);
	return status;
}
