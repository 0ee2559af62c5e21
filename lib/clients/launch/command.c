/*
 * The command under the guardian (launch.c); of `gpuctl run --each`, one process for each rank. Then this process
 * takes the command's place and is the ranks' parent.
 *
 * One thread, one poll over a signalfd and, with labels, two pipes a rank. The ranks stay in the caller's process
 * group, so ^C and ^Z of a terminal reach them directly; signals that somebody sends are forwarded to each. The
 * first rank that fails ends the others; or it, or all are started again. When this process is killed, the kernel
 * kills the ranks (PDEATHSIG); what they started becomes the guardian's or the keeper's.
 */
#include "launch/launch_impl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"

#define LINE_MOST  (64 << 10) /* bytes; a longer line is printed in pieces, each with its label */
#define SPARE_FDS  32
#define PIPE_READS 8 /* of 16 KiB: more than a pipe holds */

enum { FD_SIGNAL, FD_EXEC, FD_STREAM };

/* A rank's output: whole lines go to our descriptor of the same number. */
struct stream {
	int fd; /* read end, or -1 */
	struct buf line;
};

struct ranks {
	const struct launch *l;
	int n, nalive;
	pid_t *pids;		/* 0: has ended */
	struct stream *streams; /* 2 a rank: standard output, standard error */
	struct pollfd *fds;	/* FD_SIGNAL, FD_EXEC, then the streams */
	int exec[2]; /* a rank that cannot execute the command writes its errno; EOF: all could */
	int exec_errno;
	int status;	   /* exit status of the first failure; 0: none so far */
	uint32_t restarts; /* of all */
	uint32_t *starts;  /* of each rank: how often it was started again */
	bool again;	   /* a rank has failed: all end, to be started again */
	bool interrupted;  /* a signal has reached all ranks: failures need no sentence */
	uint64_t kill_at;  /* the ranks were asked to end; 0: they were not */
};

static void
signal_ranks(struct ranks *r, int sig)
{
	for (int i = 0; i < r->n; i++)
		if (r->pids[i])
			kill(r->pids[i], sig);
}

/* End all ranks, with an exit status unless an earlier failure has set it. Those that a signal has reached get the time
 * to end by themselves. */
static void
end_all(struct ranks *r, int status)
{
	if (!r->status)
		r->status = status;
	if (r->kill_at)
		return;
	r->kill_at = deadline_in_ms(LAUNCH_COMMAND_TERM_MS);
	if (!r->interrupted)
		signal_ranks(r, SIGTERM);
}

/* A program of MPI finds no mpirun here, and each process would take itself for the only rank. */
static void
warn_of_mpi(const struct ranks *r)
{
	char path[32];
	struct stat st;
	void *text = MAP_FAILED;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/exe", (int)r->pids[0]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st) == 0)
		text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text != MAP_FAILED && (memmem(text, (size_t)st.st_size, "libmpi.so", 9) ||
				   memmem(text, (size_t)st.st_size, "libmpich.so", 11)))
		launch_say(r->l, LOG_WARN,
			   "%s uses MPI: start it as gpuctl run -n %d -- mpirun -n %d %s, or each "
			   "rank is alone in MPI_COMM_WORLD",
			   r->l->argv[0], r->n, r->n, r->l->argv[0]);
	if (text != MAP_FAILED)
		munmap(text, (size_t)st.st_size);
	if (fd >= 0)
		close(fd);
}

static void
on_exec(struct ranks *r)
{
	ssize_t n = read(r->exec[0], &r->exec_errno, sizeof r->exec_errno);

	if (n < 0)
		return;
	if (n == 0 && r->n > 1 && r->pids[0])
		warn_of_mpi(r);
	close(r->exec[0]);
	r->fds[FD_EXEC].fd = -1;
}

/* "rank 2 (pid 4711) killed by signal 9 (Killed)" */
static void
how_failed(int rank, pid_t pid, int wait_status, char *text, size_t size)
{
	if (WIFSIGNALED(wait_status))
		snprintf(text, size, "rank %d (pid %d) killed by signal %d (%s)", rank, (int)pid,
			 WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
	else
		snprintf(text, size, "rank %d (pid %d) ended with exit status %d", rank, (int)pid,
			 status_exit(wait_status));
}

static bool start_again(struct ranks *r, int rank);

/* Start ranks again, if that is allowed. False: they end. */
static bool
restart(struct ranks *r, int rank, const char *how)
{
	const struct launch_config *cfg = &r->l->cfg;

	if (r->again)
		return true; /* they are ending for an earlier failure */
	if (r->status || r->interrupted || r->restarts == cfg->max_restarts)
		return false;
	r->restarts++;
	launch_say(r->l, LOG_ERROR, "%s: starting %s again (%u of %u)", how,
		   cfg->restart_rank ? "it" : "all ranks", r->restarts, cfg->max_restarts);
	if (cfg->restart_rank)
		return start_again(r, rank);
	r->again = true;
	r->kill_at = deadline_in_ms(LAUNCH_COMMAND_TERM_MS);
	signal_ranks(r, SIGTERM);
	return true;
}

static void
rank_failed(struct ranks *r, int rank, pid_t pid, int wait_status)
{
	int status = status_exit(wait_status);
	char how[128];

	if (r->fds[FD_EXEC].fd >= 0)
		on_exec(r);
	how_failed(rank, pid, wait_status, how, sizeof how);
	if (!r->status && r->exec_errno) {
		errno = r->exec_errno;
		status = exec_failed(r->l, r->l->argv[0], r->l->cfg.not_found);
	} else if (restart(r, rank, how)) {
		return;
	} else if (!r->status && !r->interrupted && r->restarts) {
		launch_say(r->l, LOG_ERROR, "%s, after %u restart%s", how, r->restarts,
			   r->restarts == 1 ? "" : "s");
	} else if (!r->status && !r->interrupted) {
		launch_say(r->l, LOG_ERROR, "%s", how);
	}
	end_all(r, status);
}

/* A rank has succeeded: those that are started again need not wait for it (gpusim/_rejoin.py). */
static void
rank_succeeded(const struct ranks *r, int rank)
{
	char path[LAUNCH_DIR_MAX + 32];

	if (!r->l->cfg.restart_rank)
		return;
	snprintf(path, sizeof path, "%s/ended.%d", r->l->dir, rank);
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

static void
reap(void *arg)
{
	struct ranks *r = arg;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		int i = 0;

		while (i < r->n && r->pids[i] != pid)
			i++;
		if (i == r->n)
			continue; /* an orphan of a rank */
		r->pids[i] = 0;
		r->nalive--;
		if (status)
			rank_failed(r, i, pid, status);
		else
			rank_succeeded(r, i);
	}
}

static void
on_signal(struct ranks *r)
{
	struct signalfd_siginfo si;
	bool terminal;

	if (read(r->fds[FD_SIGNAL].fd, &si, sizeof si) != (ssize_t)sizeof si)
		return;
	if (si.ssi_signo == SIGCHLD) {
		reap(r);
		return;
	}
	terminal = si.ssi_code == SI_KERNEL; /* the ranks have it, too */
	r->interrupted = true;
	if (r->again) /* they are ending already */
		r->status = 128 + (int)si.ssi_signo;
	r->again = false;
	if (!terminal)
		signal_ranks(r, (int)si.ssi_signo);
}

/* ---- output with labels */

/* Print the whole lines of stream i, and with `all` the rest. False: nobody can read them, or no memory. */
static bool
print_lines(struct stream *s, int i, bool all)
{
	char *at = s->line.data, *end;
	struct buf out = {0};
	bool ok = true;

	if (s->line.len == 0)
		return true;
	end = at + s->line.len;
	while (ok && at < end) {
		char *nl = memchr(at, '\n', (size_t)(end - at));
		char *stop = nl ? nl : end;

		if (!nl && !all && end - at < LINE_MOST)
			break;
		ok = buf_addf(&out, "%d: ", i / 2) && buf_add(&out, at, (size_t)(stop - at)) &&
		     buf_add(&out, "\n", 1);
		at = nl ? nl + 1 : end;
	}
	ok = ok && file_write(STDOUT_FILENO + i % 2, out.data, out.len);
	buf_fini(&out);
	if (at < end)
		memmove(s->line.data, at, (size_t)(end - at));
	s->line.len = (size_t)(end - at);
	return ok;
}

static void
on_output(struct ranks *r, int i)
{
	struct stream *s = &r->streams[i];
	char bytes[16 << 10];
	ssize_t n = read(s->fd, bytes, sizeof bytes);
	bool ok;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	ok = (n <= 0 || buf_add(&s->line, bytes, (size_t)n)) && print_lines(s, i, n <= 0);
	if (!ok && errno == EPIPE) {
		end_all(r, 128 + SIGPIPE);
	} else if (!ok && !r->status) {
		launch_say(r->l, LOG_ERROR, "%s: %s", i % 2 ? "standard error" : "standard output",
			   strerror(errno));
		end_all(r, EXIT_FAILED);
	}
	if (n > 0 && ok)
		return;
	close(s->fd);
	buf_fini(&s->line);
	*s = (struct stream){.fd = -1};
	r->fds[FD_STREAM + i].fd = -1;
}

/* Print what is in the pipes of a rank, and no more: processes that it left in the background may write for ever. */
static void
drain(struct ranks *r, int rank)
{
	for (int i = 2 * rank; i < 2 * rank + 2; i++) {
		struct pollfd p = {.fd = r->streams[i].fd, .events = POLLIN};

		for (int k = 0; k < PIPE_READS && r->streams[i].fd >= 0 && poll(&p, 1, 0) > 0; k++)
			on_output(r, i);
		if (r->streams[i].fd < 0)
			continue;
		print_lines(&r->streams[i], i, true);
		close(r->streams[i].fd);
		buf_fini(&r->streams[i].line);
		r->streams[i].fd = r->fds[FD_STREAM + i].fd = -1;
	}
}

/* ---- the beginning */

/* A port of loopback that nobody uses now. */
static int
free_port(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = 29500; /* torchrun's */

	if (fd >= 0 && bind(fd, (struct sockaddr *)&a, size) == 0 &&
	    getsockname(fd, (struct sockaddr *)&a, &size) == 0)
		port = ntohs(a.sin_port);
	if (fd >= 0)
		close(fd);
	return port;
}

static bool
set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof text, "%d", value);
	return setenv(name, text, 1) == 0;
}

/* The same for all ranks; a user's MASTER_ADDR and MASTER_PORT stay. */
static bool
set_world(const struct launch *l)
{
	static const char *const sizes[] = {"WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE",
					    "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"};
	bool ok = setenv("MASTER_ADDR", "127.0.0.1", 0) == 0 && set_number("NODE_RANK", 0) &&
		  set_number("GROUP_RANK", 0) && set_number("GROUP_WORLD_SIZE", 1) &&
		  setenv("ROLE_NAME", "default", 1) == 0 &&
		  set_number("TORCHELASTIC_MAX_RESTARTS", (int)l->cfg.max_restarts) &&
		  set_number("TORCHELASTIC_RUN_ID", (int)l->keeper);

	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		ok = ok && set_number(sizes[i], l->cfg.ndevices);
	return ok && (getenv("MASTER_PORT") || set_number("MASTER_PORT", free_port()));
}

static bool
set_rank(int rank, uint32_t starts)
{
	static const char *const names[] = {"RANK",
					    "LOCAL_RANK",
					    "ROLE_RANK",
					    "OMPI_COMM_WORLD_RANK",
					    "OMPI_COMM_WORLD_LOCAL_RANK",
					    "GPUSIM_DEVICE"};
	bool ok = set_number("TORCHELASTIC_RESTART_COUNT", (int)starts);

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		ok = ok && set_number(names[i], rank);
	return ok;
}

static void __attribute__((noreturn))
rank_child(const struct ranks *r, int rank, pid_t parent, const int out[2])
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(EXIT_INTERNAL);
	if (rank > 0)
		dup2(null, STDIN_FILENO);
	for (int k = 0; r->l->cfg.label && k < 2; k++)
		dup2(out[k], STDOUT_FILENO + k);
	setrlimit(RLIMIT_NOFILE, &r->l->nofile);
	sigprocmask(SIG_SETMASK, &r->l->mask, NULL);
	if (set_rank(rank, r->starts[rank]))
		execvp(r->l->argv[0], r->l->argv);
	if (write(r->exec[1], &errno, sizeof errno) < 0)
		_exit(EXIT_INTERNAL);
	_exit(EXIT_FAILED); /* the parent says why */
}

static bool
start_rank(struct ranks *r, int rank)
{
	int pipes[2][2] = {{-1, -1}, {-1, -1}}, out[2];
	pid_t parent = getpid(), pid = -1;

	drain(r, rank); /* of the process that it replaces */
	if (!r->l->cfg.label ||
	    (pipe2(pipes[0], O_CLOEXEC) == 0 && pipe2(pipes[1], O_CLOEXEC) == 0))
		pid = fork();
	out[0] = pipes[0][1];
	out[1] = pipes[1][1];
	if (pid == 0)
		rank_child(r, rank, parent, out);
	for (int k = 0; k < 2; k++) {
		struct stream *s = &r->streams[2 * rank + k];

		close(pipes[k][1]);
		s->fd = pipes[k][0];
		r->fds[FD_STREAM + 2 * rank + k] = (struct pollfd){.fd = s->fd, .events = POLLIN};
	}
	if (pid < 0)
		return false;
	r->pids[rank] = pid;
	r->nalive++;
	return true;
}

/* Start the ranks from `rank` on, up to `end`. False: one could not be, and all end. */
static bool
start_ranks(struct ranks *r, int rank, int end)
{
	bool ok;

	if (r->fds[FD_EXEC].fd >= 0)
		close(r->exec[0]);
	ok = pipe2(r->exec, O_CLOEXEC | O_NONBLOCK) == 0;
	r->fds[FD_EXEC] = (struct pollfd){ok ? r->exec[0] : -1, POLLIN, 0};
	while (ok && rank < end && !r->status) {
		ok = start_rank(r, rank);
		rank += ok;
	}
	if (!ok) {
		launch_say(r->l, LOG_ERROR, "rank %d: cannot start a process: %s", rank,
			   strerror(errno));
		end_all(r, EXIT_FAILED);
	}
	close(r->exec[1]);
	return ok;
}

static bool
start_again(struct ranks *r, int rank)
{
	r->starts[rank]++;
	return start_ranks(r, rank, rank + 1);
}

static bool
ranks_init(struct ranks *r, const struct launch *l)
{
	struct rlimit files = l->nofile;
	int n = l->cfg.ndevices;
	rlim_t need = (rlim_t)n * 2 + SPARE_FDS;
	sigset_t set;

	*r = (struct ranks){.l = l,
			    .n = n,
			    .pids = alloc_zeroed((size_t)n, sizeof *r->pids),
			    .starts = alloc_zeroed((size_t)n, sizeof *r->starts),
			    .streams = alloc_zeroed((size_t)n * 2, sizeof *r->streams),
			    .fds = alloc_zeroed((size_t)n * 2 + FD_STREAM, sizeof *r->fds)};
	if (!r->pids || !r->starts || !r->streams || !r->fds)
		return false;
	for (int i = 0; i < 2 * n; i++)
		r->streams[i].fd = r->fds[FD_STREAM + i].fd = -1;
	if (l->cfg.label && files.rlim_cur < need) {
		files.rlim_cur = need < files.rlim_max ? need : files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGQUIT);
	r->fds[FD_SIGNAL] = (struct pollfd){signalfd(-1, &set, SFD_CLOEXEC), POLLIN, 0};
	sigaddset(&set, SIGPIPE); /* a write reports it */
	sigprocmask(SIG_BLOCK, &set, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	r->fds[FD_EXEC].fd = -1;
	return r->fds[FD_SIGNAL].fd >= 0 && set_world(l);
}

/* Until all ranks have ended, or the time is over that they had for it. */
static void
watch_ranks(struct ranks *r)
{
	while (r->nalive > 0) {
		int left = r->kill_at ? deadline_left_ms(r->kill_at) : -1;

		if (left == 0)
			return; /* they ignore SIGTERM: sweep_children kills them */
		if (poll(r->fds, (nfds_t)r->n * 2 + FD_STREAM, left) <= 0)
			continue;
		for (int i = 0; i < 2 * r->n; i++)
			if (r->fds[FD_STREAM + i].revents)
				on_output(r, i);
		if (r->fds[FD_EXEC].revents && r->fds[FD_EXEC].fd >= 0)
			on_exec(r);
		if (r->fds[FD_SIGNAL].revents)
			on_signal(r);
	}
}

/* End the ranks, and what they started. */
static void
sweep(struct ranks *r)
{
	if (r->nalive == 0)
		sweep_children(NULL, 0, SIGTERM, reap, r, deadline_in_ms(LAUNCH_ORPHAN_TERM_MS));
	sweep_children(NULL, 0, SIGKILL, reap, r, deadline_in_ms(LAUNCH_KILL_MS));
}

/* True: all have ended to be started again. */
static bool
is_again(struct ranks *r)
{
	if (!r->again)
		return false;
	sweep(r);
	while (poll(&r->fds[FD_SIGNAL], 1, 0) > 0)
		on_signal(r); /* ^C meanwhile */
	if (!r->again || r->status || r->nalive)
		return false;
	r->again = false;
	r->kill_at = 0;
	for (int i = 0; i < r->n; i++)
		r->starts[i]++;
	return true;
}

/* Run the command once for each device, in this process's children. Returns the exit status. */
static int
ranks_main(const struct launch *l)
{
	struct ranks r;

	if (!ranks_init(&r, l)) {
		launch_say(l, LOG_ERROR, "ranks: %s", strerror(errno));
		return EXIT_FAILED;
	}
	do {
		start_ranks(&r, 0, r.n);
		watch_ranks(&r);
	} while (is_again(&r));
	if (r.status)
		sweep(&r);
	for (int i = 0; i < r.n; i++)
		drain(&r, i);
	return r.status;
}

/* ---- the command */

static bool
set_environment(const struct launch *l)
{
	const char *path = getenv("PATH");
	char text[16];
	struct buf b = {0};
	bool ok;

	if (!path || !*path)
		path = "/usr/bin:/bin";
	ok = setenv("GPUSIM_COORD", l->url, 1) == 0 && setenv("GPUSIM_DIR", l->dir, 1) == 0;
	snprintf(text, sizeof text, "%d", l->cfg.ndevices);
	ok = ok && setenv("GPUSIM_NDEVICES", text, 1) == 0;
	if (ok && l->bindir[0])
		ok = buf_addf(&b, "%s:%s", l->bindir, path) && setenv("PATH", b.data, 1) == 0;
	buf_fini(&b);
	return ok;
}

static void __attribute__((noreturn)) command_child(const struct launch *l, int go)
{
	ssize_t n;
	char byte;

	die_with_guardian(l, SIGKILL);
	close(l->front_fd);
	close(l->done_fd);
	sigprocmask(SIG_SETMASK, &l->mask, NULL);
	do {
		n = read(go, &byte, 1);
	} while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(EXIT_FAILED);
	if (!set_environment(l)) {
		launch_say(l, LOG_ERROR, "environment: %s", strerror(ENOMEM));
		_exit(EXIT_NOT_EXECUTABLE);
	}
	if (l->cfg.each)
		_exit(ranks_main(l));
	execvp(l->argv[0], l->argv);
	_exit(exec_failed(l, l->argv[0], l->cfg.not_found));
}

pid_t
exec_command(const struct launch *l, int *go_fd)
{
	int go[2];
	pid_t pid;

	if (pipe2(go, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		close(go[1]);
		command_child(l, go[0]);
	}
	close(go[0]);
	if (pid < 0)
		close(go[1]);
	else
		*go_fd = go[1];
	return pid;
}
