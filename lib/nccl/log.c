/*
 * NCCL's log.
 *
 * Design notes. The level and the file are set once, by the first line or nccl_log_reset, under the lock; a line is
 * one write, so that lines of processes that share a file do not mix. The file is never closed: another thread may
 * be writing.
 */
#include "nccl/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nccl.h"

#define LINE_MAX_BYTES 2048
#define UNREAD	       -1

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int level_now = UNREAD;
static atomic_int fd_now = STDOUT_FILENO;
static char host[64];

enum nccl_level
nccl_log_parse(const char *text)
{
	static const char *const names[] = {"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"};

	for (int i = 0; text && i < (int)(sizeof names / sizeof *names); i++)
		if (strcasecmp(text, names[i]) == 0)
			return (enum nccl_level)i;
	return NCCL_LOG_NONE;
}

void
nccl_log_path(char *out, size_t nbytes, const char *pattern, const char *hostname, int pid)
{
	size_t n = 0;

	for (const char *p = pattern; *p && n < nbytes; p++) {
		int wrote = 1;

		if (p[0] == '%' && p[1] == 'h')
			wrote = snprintf(out + n, nbytes - n, "%s", hostname);
		else if (p[0] == '%' && p[1] == 'p')
			wrote = snprintf(out + n, nbytes - n, "%d", pid);
		else
			out[n] = *p;
		p += p[0] == '%' && p[1] && strchr("hp%", p[1]);
		n += (size_t)wrote;
	}
	out[n < nbytes ? n : nbytes - 1] = '\0';
}

/* Lock held. */
static void
read_environment(void)
{
	const char *pattern = getenv("NCCL_DEBUG_FILE");
	enum nccl_level level = nccl_log_parse(getenv("NCCL_DEBUG"));
	char path[4096];
	int fd = -1;

	if (gethostname(host, sizeof host - 1) != 0)
		snprintf(host, sizeof host, "localhost");
	host[strcspn(host, ".")] = '\0';
	if (level > NCCL_LOG_VERSION && pattern && *pattern) {
		nccl_log_path(path, sizeof path, pattern, host, (int)getpid());
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
	}
	atomic_store(&fd_now, fd >= 0 ? fd : STDOUT_FILENO);
	atomic_store(&level_now, (int)level);
}

void
nccl_log_reset(void)
{
	pthread_mutex_lock(&lock);
	read_environment();
	pthread_mutex_unlock(&lock);
}

bool
nccl_log_has(enum nccl_level level)
{
	if (atomic_load_explicit(&level_now, memory_order_acquire) == UNREAD) {
		pthread_mutex_lock(&lock);
		if (atomic_load(&level_now) == UNREAD)
			read_environment();
		pthread_mutex_unlock(&lock);
	}
	return (int)level <= atomic_load_explicit(&level_now, memory_order_relaxed);
}

/* What has been printed and not written yet comes first, as a program's own lines do in a terminal. */
static void
put(int fd, const char *line, size_t n)
{
	if (fd == STDOUT_FILENO)
		fflush(stdout);
	while (n) {
		ssize_t wrote = write(fd, line, n);

		if (wrote <= 0)
			return;
		line += wrote;
		n -= (size_t)wrote;
	}
}

static void
print(int fd, enum nccl_level level, int device, const char *fmt, va_list ap)
{
	static const char *const words[] = {"", "", "WARN", "INFO", "ABORT", "TRACE"};
	char line[LINE_MAX_BYTES];
	size_t n;

	n = (size_t)snprintf(line, sizeof line, "%s%s:%d:%ld [%d] NCCL %s ",
			     level == NCCL_LOG_WARN ? "\n" : "", host, (int)getpid(),
			     (long)syscall(SYS_gettid), device, words[level]);
	vsnprintf(line + n, sizeof line - n - 1, fmt, ap);
	n = strlen(line);
	line[n] = '\n';
	put(fd, line, n + 1);
}

void
nccl_log(enum nccl_level level, int device, const char *fmt, ...)
{
	va_list ap;

	if (!nccl_log_has(level))
		return;
	va_start(ap, fmt);
	print(atomic_load(&fd_now), level, device, fmt, ap);
	va_end(ap);
}

void
nccl_log_waiting(int device, const char *fmt, ...)
{
	bool asked = nccl_log_has(NCCL_LOG_WARN);
	va_list ap;

	if (!asked && getenv("NCCL_DEBUG"))
		return;
	va_start(ap, fmt);
	print(asked ? atomic_load(&fd_now) : STDERR_FILENO, NCCL_LOG_WARN, device, fmt, ap);
	va_end(ap);
}

void
nccl_log_version(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	char line[128];

	if (!nccl_log_has(NCCL_LOG_VERSION) || atomic_flag_test_and_set(&said))
		return;
	snprintf(line, sizeof line, "NCCL version %d.%d.%d+cuda%d.%d\n", NCCL_MAJOR, NCCL_MINOR,
		 NCCL_PATCH, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
	put(atomic_load(&fd_now), line, strlen(line));
}
