/*
 * The draining process.
 *
 * Design notes. The process uses two pipes. The guardian writes the coordinator's address to the first,
 * once; that pipe stays open as long as the front, the keeper or the guardian lives, and its end means that
 * the cluster has ended. The process writes one byte to the second after the first drain, for which the
 * guardian waits before it starts the command. The process has neither stdin nor stdout of the user, and
 * ignores the terminal's signals: it ends after the others.
 */
#include "tracing.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "drain/drain.h"
#include "gpusim.h"
#include "launch/launch.h"

#define READY_MS 10000 /* for the first drain */

static void
ignore_signals(void)
{
	static const int ignored[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE, SIGTTOU};

	for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
		signal(ignored[i], SIG_IGN);
}

/* Read the address, one line. False: no cluster was started. */
static bool
read_address(int fd, char *out, size_t room)
{
	size_t n = 0;
	ssize_t k;

	while (n + 1 < room) {
		k = read(fd, out + n, 1);
		if (k < 0 && errno == EINTR)
			continue;
		if (k != 1)
			return false;
		if (out[n] == '\n')
			break;
		n++;
	}
	out[n] = '\0';
	return true;
}

static bool
has_ended(int fd, uint32_t idle_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, (int)idle_ms) > 0;
}

static enum rc
drain_cluster(const char *address, int from, int answer, int fd, struct timeline_sum *sum,
	      struct err *err)
{
	struct err ended = {0};
	struct drain *d;
	uint32_t idle_ms = 0;
	enum rc rc = drain_new(address, drain_file_write, &fd, &d, err);
	bool told = write(answer, "\n", 1) == 1;

	if (rc != RC_OK)
		return rc;
	while (rc == RC_OK && told && !has_ended(from, idle_ms))
		rc = drain_turn(d, &idle_ms, err);
	drain_end(d, sum, &ended);
	return rc == RC_OK && ended.rc != RC_OK ? err_set(err, ended.rc, "%s", ended.text) : rc;
}

static int
run(const char *path, int from, int answer, int fd)
{
	struct timeline_sum sum = {0};
	char address[256], told[512];
	struct err err = {0};

	ignore_signals();
	launch_release_stdio();
	if (!read_address(from, address, sizeof address))
		return write(fd, "[]\n", 3) == 3 ? EXIT_OK : EXIT_FAILED;
	drain_cluster(address, from, answer, fd, &sum, &err);
	if (close(fd) != 0 && err.rc == RC_OK)
		err_set(&err, RC_FAILED, "%s: %s", path, strerror(errno));
	if (err.rc == RC_OK)
		drain_tell(&sum, path, told, sizeof told);
	else
		snprintf(told, sizeof told, "--trace: %s", err.text);
	fprintf(stderr, "gpuctl: run: %s\n", told);
	return rc_exit(err.rc);
}

enum rc
tracing_begin(const char *path, struct tracing *t, struct err *err)
{
	int down[2] = {-1, -1}, up[2] = {-1, -1}, fd;
	enum rc rc;

	*t = (struct tracing){0};
	if (!path)
		return RC_OK;
	if (strcmp(path, "-") == 0)
		return err_set(err, RC_INVAL,
			       "--trace: needs a file; stdout belongs to the command");
	rc = drain_file_open(path, &fd, err);
	if (rc != RC_OK)
		return err_prefix(err, "--trace");
	if (pipe2(down, O_CLOEXEC) == 0 && pipe2(up, O_CLOEXEC) == 0)
		t->pid = fork();
	else
		t->pid = -1;
	if (t->pid == 0) {
		close(down[1]);
		close(up[0]);
		_exit(run(path, down[0], up[1], fd));
	}
	if (t->pid < 0)
		rc =
		    err_set(err, RC_FAILED, "--trace: cannot start a process: %s", strerror(errno));
	close(fd);
	close(down[0]);
	close(up[1]);
	t->to = down[1];
	t->answer = up[0];
	return rc;
}

void
tracing_ready(const struct tracing *t, const char *coordinator)
{
	struct pollfd p = {.fd = t->answer, .events = POLLIN};
	uint64_t deadline = deadline_in_ms(READY_MS);

	if (t->pid <= 0 || dprintf(t->to, "%s\n", coordinator) < 0)
		return;
	while (poll(&p, 1, deadline_left_ms(deadline)) < 0 && errno == EINTR)
		continue;
}

int
tracing_end(struct tracing *t)
{
	int status = 0;

	if (t->pid <= 0)
		return EXIT_OK;
	close(t->to);
	close(t->answer);
	while (waitpid(t->pid, &status, 0) < 0 && errno == EINTR)
		continue;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
}
