#include "shell_impl.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void
exits_init(struct exits *e, int fd)
{
	*e = (struct exits){.fd = fd};
	signal(SIGCHLD, SIG_DFL); /* if SIGCHLD were ignored, wait would not report a child's end */
	if (fd < 0)
		return;
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* Parse a line; one that is not two numbers is skipped. */
static bool
take_line(struct exits *e, uint32_t *pid, int *status)
{
	char *end = memchr(e->line, '\n', e->len);
	bool good;

	if (!end)
		return false;
	*end++ = '\0';
	good = sscanf(e->line, "%" SCNu32 " %d", pid, status) == 2;
	e->len -= (size_t)(end - e->line);
	memmove(e->line, end, e->len);
	return good || take_line(e, pid, status);
}

bool
exits_next(struct exits *e, uint32_t *pid, int *status)
{
	pid_t child = waitpid(-1, status, WNOHANG);

	if (child > 0) {
		*pid = (uint32_t)child;
		return true;
	}
	while (e->fd >= 0 && !take_line(e, pid, status)) {
		ssize_t n;

		if (e->len == sizeof e->line)
			e->len = 0;
		n = read(e->fd, e->line + e->len, sizeof e->line - e->len);
		if (n == 0)
			e->fd = -1;
		if (n <= 0)
			return false;
		e->len += (size_t)n;
	}
	return e->fd >= 0;
}
