/*
 * NCCL's log.
 *
 * Design notes. The level and the file are set once, by the first line or nccl_log_reset, under the
 * lock; a line is one write, so that lines of processes that share a file do not mix. The file is
 * never closed: another thread may be writing.
 */
#include "nccl/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nccl.h"

#define LINE_MAX_BYTES 2048
#define UNREAD	       -1
#define BY_DEFAULT     (LOG_INIT | LOG_BOOTSTRAP | LOG_ENV) /* as in NCCL */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int level_now = UNREAD;
static atomic_uint subsys_now;
static atomic_int fd_now = STDOUT_FILENO;
static char host[LOG_HOST];

/* Lock held. A word that NCCL does not know is ignored, as in NCCL. */
static void
read_environment(void)
{
	const char *word = getenv("NCCL_DEBUG"), *subsys = getenv("NCCL_DEBUG_SUBSYS");
	const char *pattern = getenv("NCCL_DEBUG_FILE");
	enum log_level level = LOG_ERROR;
	uint32_t mask = BY_DEFAULT;
	struct err err = {0};
	int fd = STDOUT_FILENO;

	if (word)
		log_parse_level(word, &level, NULL);
	if (subsys)
		log_parse_subsys(subsys, &mask, NULL);
	log_host(host);
	if (level > LOG_VERSION && pattern && *pattern)
		log_open_file(pattern, LOG_TRUNCATE, &fd, &err);
	atomic_store(&fd_now, fd);
	atomic_store(&subsys_now, mask);
	atomic_store(&level_now, (int)level);
	if (err.rc != RC_OK)
		nccl_log_waiting(-1, "NCCL_DEBUG_FILE : %s; lines go to standard output", err.text);
}

void
nccl_log_reset(void)
{
	pthread_mutex_lock(&lock);
	read_environment();
	pthread_mutex_unlock(&lock);
}

static bool
has(enum log_level level, enum log_subsys subsys)
{
	if (atomic_load_explicit(&level_now, memory_order_acquire) == UNREAD) {
		pthread_mutex_lock(&lock);
		if (atomic_load(&level_now) == UNREAD)
			read_environment();
		pthread_mutex_unlock(&lock);
	}
	if ((int)level > atomic_load_explicit(&level_now, memory_order_relaxed))
		return false;
	return level <= LOG_WARN ||
	       (atomic_load_explicit(&subsys_now, memory_order_relaxed) & subsys);
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
print(int fd, enum log_level level, int device, const char *fmt, va_list ap)
{
	static const char *const words[] = {"", "", "WARN", "INFO", "ABORT", "TRACE"};
	char line[LINE_MAX_BYTES];
	size_t n;

	n = (size_t)snprintf(line, sizeof line, "%s%s:%d:%ld [%d] NCCL %s ",
			     level == LOG_WARN ? "\n" : "", host, (int)getpid(),
			     (long)syscall(SYS_gettid), device, words[level]);
	vsnprintf(line + n, sizeof line - n - 1, fmt, ap);
	n = strlen(line);
	line[n] = '\n';
	put(fd, line, n + 1);
}

void
nccl_log(enum log_level level, enum log_subsys subsys, int device, const char *fmt, ...)
{
	va_list ap;

	if (!has(level, subsys))
		return;
	va_start(ap, fmt);
	print(atomic_load(&fd_now), level, device, fmt, ap);
	va_end(ap);
}

void
nccl_log_waiting(int device, const char *fmt, ...)
{
	bool asked = has(LOG_WARN, LOG_NONE);
	va_list ap;

	if (!asked && getenv("NCCL_DEBUG"))
		return;
	va_start(ap, fmt);
	print(asked ? atomic_load(&fd_now) : STDERR_FILENO, LOG_WARN, device, fmt, ap);
	va_end(ap);
}

void
nccl_log_version(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	char line[128];

	if (!has(LOG_VERSION, LOG_NONE) || atomic_flag_test_and_set(&said))
		return;
	snprintf(line, sizeof line, "NCCL version %d.%d.%d+cuda%d.%d\n", NCCL_MAJOR, NCCL_MINOR,
		 NCCL_PATCH, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
	put(atomic_load(&fd_now), line, strlen(line));
}
