/*
 * Design notes
 *
 * Four kinds of process, each with one thread:
 *
 *	front      the caller's process. launch_run: sends the signals it gets down a pipe, waits, returns.
 *		   launch_start: returns when the daemons are ready; launch_end closes the pipe.
 *	keeper     its child. Waits for the guardian; finishes the guardian's work if that is killed.
 *	guardian   the keeper's child, in the front's process group. Parent of everything else.
 *	command    the guardian's child, in the front's process group: ^C and ^Z reach it directly.
 *	daemons    the guardian's children, each in a process group of its own.
 *
 * Each notices the death of another at once, even by SIGKILL:
 *
 *	front      the guardian reads EOF from the pipe, kills the command and its descendants.
 *	keeper     the guardian gets PDEATHSIG and does the same; the front waits for it, then
 *		   removes the files once more.
 *	guardian   the kernel ends the command (PDEATHSIG) and the daemons (PDEATHSIG, and EOF of
 *		   the lifeline, which only the guardian could write); all orphans become the keeper's
 *		   children. The keeper ends them and removes the files.
 *	any two    of the three: the third cleans up. All three: the daemons and the command still
 *		   end.
 *
 * The guardian and the keeper are subreapers, so no descendant of the command escapes by double
 * forking. Devices that the coordinator restarts are its children, in their own process groups like
 * the others, with the same lifeline. When it ends, the guardian inherits them, recognises them by
 * their sockets in the private folder, and also waits for them. Guardian and keeper block every
 * signal and take what they need by signalfd and sigtimedwait. The keeper has a different process
 * name, so that `killall -9 gpuctl` leaves it alive to clean up. If all three are killed, the next
 * launch of this user removes the folder, whose lock is then free.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/daemon.h"
#include "base/host.h"
#include "base/parse.h"
#include "base/rundir.h"
#include "launch/launch_impl.h"

/* Lock a file in the new folder, for as long as front, keeper or guardian lives. The file gets its
 * name only after it is locked, so that another launch's sweep_stale never finds it unlocked. A
 * folder without it is never swept. */
static void
own_dir(struct launch *l)
{
	char new[LAUNCH_DIR_MAX + 16], name[LAUNCH_DIR_MAX + 16];

	snprintf(new, sizeof new, "%s/.owner", l->dir);
	snprintf(name, sizeof name, "%s/" LAUNCH_OWNER, l->dir);
	l->owner = open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (l->owner >= 0 && flock(l->owner, LOCK_EX | LOCK_NB) == 0 && rename(new, name) != 0)
		unlink(new);
}

/* The first of $XDG_RUNTIME_DIR, $TMPDIR, /tmp that is short enough for sockets and writable. */
static enum rc
make_dir(struct launch *l, struct err *err)
{
	const char *bases[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"), "/tmp"};

	for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
		if (!bases[i] || !rundir_for_sockets(bases[i]) ||
		    snprintf(l->dir, sizeof l->dir, "%s/gpusim.XXXXXX", bases[i]) >=
			(int)sizeof l->dir)
			continue;
		sweep_stale(bases[i]);
		if (mkdtemp(l->dir)) {
			own_dir(l);
			return RC_OK;
		}
	}
	return err_set(err, RC_FAILED, "cannot make a private directory in /tmp: %s",
		       strerror(errno));
}

static void
name_mem_files(struct launch *l)
{
	if (l->cfg.mem_file)
		l->mem_base[0] = '\0';
	else if (access("/dev/shm", W_OK | X_OK) == 0)
		snprintf(l->mem_base, sizeof l->mem_base, "/dev/shm/gpusim-%u-%d-",
			 (unsigned)getuid(), (int)l->keeper);
	else
		snprintf(l->mem_base, sizeof l->mem_base, "%s/mem-", l->dir);
}

static void
reap_any(void *unused)
{
	(void)unused;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		continue;
}

static int
wait_process(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	return status;
}

static int
keeper_main(struct launch *l)
{
	sigset_t all;
	int status;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	signal(SIGCHLD, SIG_DFL); /* with an inherited SIG_IGN the exit statuses would be lost */
	prctl(PR_SET_NAME, "gpusim-keeper");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	l->keeper = getpid();
	name_mem_files(l);
	sweep_mem_files(l); /* a stale file of an earlier process with this pid */
	pid = fork();
	if (pid == 0)
		_exit(guardian_main(l));
	setpgid(0, 0);
	launch_release_stdio();
	close(l->front_fd);
	if (pid < 0) {
		launch_say(l, LOG_ERROR, "fork: %s", strerror(errno));
		sweep_files(l);
		return EXIT_FAILED;
	}
	status = wait_process(pid);
	if (WIFSIGNALED(status)) {
		launch_say(l, LOG_ERROR, "the guardian (pid %d) was killed by signal %d", (int)pid,
			   WTERMSIG(status));
		/* The guardian was killed: this process has inherited its children. */
		sweep_children(NULL, 0, SIGTERM, reap_any, NULL,
			       deadline_in_ms(LAUNCH_ORPHAN_TERM_MS));
		sweep_children(NULL, 0, SIGKILL, reap_any, NULL, deadline_in_ms(LAUNCH_KILL_MS));
		sweep_files(l);
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

	signal(SIGCHLD, SIG_DFL); /* with an inherited SIG_IGN the exit status would be lost */
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

/* Forward signals until the keeper ends; returns its wait status. ^C of a terminal needs no forwarding. */
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
			continue; /* the guardian is already ending */
	}
	return status;
}

/* The keeper was killed, and the guardian cleans up: wait for its end, which closes done_fd. */
static void
front_clean(struct launch *l, int status)
{
	struct pollfd p = {.fd = l->done, .events = POLLIN};
	uint64_t deadline = deadline_in_ms(LAUNCH_DONE_MS);

	launch_say(l, LOG_ERROR, "the keeper (pid %d) was killed by signal %d", (int)l->keeper,
		   WTERMSIG(status));
	while (poll(&p, 1, deadline_left_ms(deadline)) < 0 && errno == EINTR)
		continue;
	name_mem_files(l);
	sweep_files(l);
}

/* Descriptors 0, 1, 2 that the caller closed must not become pipes of the supervisor. */
static bool
fill_standard(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR | O_CLOEXEC) != fd)
			return false;
	return true;
}

/* Check that each device has a port. */
static enum rc
check_grpc(const struct launch_config *cfg, struct err *err)
{
	const char *colon = cfg->grpc ? strrchr(cfg->grpc, ':') : NULL;
	uint64_t port = 0, last;

	if (!cfg->grpc)
		return RC_OK;
	if (parse_u64(colon ? colon + 1 : cfg->grpc, 0, 65535, &port, NULL) != RC_OK)
		return err_set(err, RC_INVAL, "--grpc: '%s' has no port", cfg->grpc);
	last = port + (uint64_t)(cfg->ndevices + cfg->nspares);
	if (port && last > 65535)
		return err_set(err, RC_INVAL, "--grpc: the last device would have port %" PRIu64,
			       last);
	return RC_OK;
}

static enum rc
prepare(struct launch *l, const struct launch_config *cfg, char *const *argv, struct err *err)
{
	*l = (struct launch){.cfg = *cfg, .argv = argv, .ready_fd = -1};
	if (cfg->ndevices < 1 || cfg->nspares < 0 ||
	    cfg->ndevices > LAUNCH_MAX_DEVICES - cfg->nspares)
		return err_set(err, RC_INVAL, "%d devices and %d spares: must be 1 to %d",
			       cfg->ndevices, cfg->nspares, LAUNCH_MAX_DEVICES);
	if (check_grpc(cfg, err) != RC_OK)
		return err->rc;
	if (!fill_standard() || getrlimit(RLIMIT_NOFILE, &l->nofile) < 0)
		return err_set(err, RC_FAILED, "%s", strerror(errno));
	if (daemon_check_files(l->nofile.rlim_max, (uint64_t)cfg->ndevices + (uint64_t)cfg->nspares,
			       err) != RC_OK)
		return err->rc;
	prctl(PR_GET_NAME, l->name);
	if (l->cfg.bindir)
		snprintf(l->bindir, sizeof l->bindir, "%s", l->cfg.bindir);
	else
		host_own_folder(l->bindir, sizeof l->bindir);
	if (make_dir(l, err) == RC_OK)
		snprintf(l->url, sizeof l->url, "ipc://%s/coord.sock", l->dir);
	return err->rc;
}

/* Fork the keeper, which forks the rest, and give each side its ends of the pipes. */
static enum rc
begin(struct launch *l, struct err *err)
{
	int front[2] = {-1, -1}, done[2] = {-1, -1}, ready[2] = {-1, -1};

	l->keeper = -1;
	if (pipe2(front, O_CLOEXEC) == 0 && pipe2(done, O_CLOEXEC) == 0 &&
	    (l->argv || pipe2(ready, O_CLOEXEC) == 0) && fcntl(front[1], F_SETFL, O_NONBLOCK) == 0)
		l->keeper = fork();
	if (l->keeper == 0) {
		close(front[1]);
		close(done[0]);
		l->front_fd = front[0];
		l->done_fd = done[1];
		l->ready_fd = ready[1];
		_exit(keeper_main(l));
	}
	if (l->keeper < 0)
		err_set(err, RC_FAILED, "cannot start a process: %s", strerror(errno));
	close(front[0]);
	close(done[1]);
	close(ready[1]);
	l->to_guardian = front[1];
	l->done = done[0];
	l->ready = ready[0];
	return l->keeper < 0 ? err->rc : RC_OK;
}

/* Close open descriptors, and clean up if no other process has; returns the exit status. */
static int
finish(struct launch *l, int status)
{
	if (l->keeper < 0)
		sweep_files(l);
	else if (WIFSIGNALED(status))
		front_clean(l, status);
	close(l->done);
	close(l->ready);
	close(l->owner);
	return status_exit(status);
}

int
launch_run(const struct launch_config *cfg, char *const *argv, struct err *err)
{
	struct launch l;
	sigset_t forward;
	int status = 0, signal_fd;

	if (prepare(&l, cfg, argv, err) != RC_OK)
		return rc_exit(err->rc);
	front_signals(&forward, &l.mask);
	signal_fd = signalfd(-1, &forward, SFD_CLOEXEC);
	if (begin(&l, err) == RC_OK) {
		launch_release_stdio();
		status = front_wait(l.keeper, signal_fd, l.to_guardian);
	}
	close(l.to_guardian);
	close(signal_fd);
	status = finish(&l, status);
	return l.keeper < 0 ? rc_exit(err->rc) : status;
}

/* Wait until the guardian reports that all daemons are ready, or the reason why not. */
static enum rc
wait_ready(struct launch *l, struct err *err)
{
	char text[sizeof err->text];
	ssize_t n;

	do
		n = read(l->ready, text, sizeof text - 1);
	while (n < 0 && errno == EINTR);
	if (n == 1 && text[0] == '\n')
		return RC_OK;
	text[n > 0 ? n : 0] = '\0';
	return err_set(err, RC_FAILED, "%s", n > 0 ? text : "the supervisor was killed");
}

/* The exit status that gpuctl run would have. */
static int
end(struct launch *l)
{
	close(l->to_guardian);
	return finish(l, l->keeper < 0 ? 0 : wait_process(l->keeper));
}

enum rc
launch_start(const struct launch_config *cfg, struct launch **out, struct err *err)
{
	struct launch *l = alloc_zeroed(1, sizeof *l);
	sigset_t all;

	if (!l)
		return err_set(err, RC_NOMEM, "out of memory");
	if (prepare(l, cfg, NULL, err) != RC_OK) {
		free(l);
		return err->rc;
	}
	sigfillset(&all); /* no signal handler of the caller runs in a child */
	pthread_sigmask(SIG_SETMASK, &all, &l->mask);
	if (begin(l, err) == RC_OK)
		wait_ready(l, err);
	pthread_sigmask(SIG_SETMASK, &l->mask, NULL);
	if (err->rc != RC_OK) {
		err->rc = end(l) == EXIT_TIMEOUT ? RC_TIMEOUT : RC_FAILED;
		free(l);
		return err->rc;
	}
	*out = l;
	return RC_OK;
}

const char *
launch_coordinator(const struct launch *l)
{
	return l->url;
}

const char *
launch_folder(const struct launch *l)
{
	return l->dir;
}

void
launch_end(struct launch *l)
{
	if (l)
		end(l);
	free(l);
}
