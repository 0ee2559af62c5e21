#include "launch/launch_impl.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define SWEEP_MAX_DEPTH 8 /* of folders inside the private directory */

void
wait_child(uint64_t deadline_ns)
{
	uint64_t now = clock_now_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
	struct timespec ts = {(time_t)(left / NS_PER_SEC), (long)(left % NS_PER_SEC)};
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigtimedwait(&chld, NULL, &ts);
}

/* Read a file of /proc/PID, or its beginning, NUL-terminated; returns its length, 0: cannot be read. */
static size_t
read_proc(const char *pid, const char *name, char *text, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/proc/%s/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, text, size - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

/* The parent of pid, or -1. The name in /proc/PID/stat may hold any byte: count from its last ')'. */
static pid_t
parent_of(const char *pid)
{
	char text[512], *p;

	if (read_proc(pid, "stat", text, sizeof text) == 0)
		return -1;
	p = strrchr(text, ')');
	return p && p[1] == ' ' && p[2] ? (pid_t)strtol(p + 3, NULL, 10) : -1;
}

static bool
is_spared(pid_t pid, const pid_t *spare, size_t nspare)
{
	for (size_t i = 0; i < nspare; i++)
		if (spare[i] == pid)
			return true;
	return false;
}

/* Return true if pid is a daemon of this launch, or one that the coordinator started: its socket is
 * in the private folder. */
static bool
is_daemon(const struct launch *l, const char *pid)
{
	char args[4096], dir[LAUNCH_DIR_MAX + 2];
	const char *name, *slash;
	size_t n = read_proc(pid, "cmdline", args, sizeof args);

	if (n == 0)
		return false;
	slash = strrchr(args, '/');
	name = slash ? slash + 1 : args;
	snprintf(dir, sizeof dir, "%s/", l->dir);
	return (strcmp(name, "gpudev") == 0 || strcmp(name, "gpucoord") == 0) &&
	       memmem(args, n, dir, strlen(dir));
}

/* Signal all children except the spared ones, or, with l, the daemons; returns their number. A pid
 * cannot be reused: none of the children is reaped yet. */
static size_t
signal_children(const struct launch *l, const pid_t *spare, size_t nspare, int sig)
{
	pid_t self = getpid(), pid;
	struct dirent *e;
	size_t n = 0;
	DIR *proc = opendir("/proc");

	while (proc && (e = readdir(proc))) {
		if (!isdigit((unsigned char)e->d_name[0]) || parent_of(e->d_name) != self)
			continue;
		pid = (pid_t)strtol(e->d_name, NULL, 10);
		if (l ? !is_daemon(l, e->d_name) : is_spared(pid, spare, nspare))
			continue;
		kill(pid, sig);
		n++;
	}
	if (proc)
		closedir(proc);
	return n;
}

/* A child's own children become this process's before its SIGCHLD arrives, so the last search sees all. */
static void
sweep(const struct launch *l, const pid_t *spare, size_t nspare, int sig, void (*reap)(void *),
      void *arg, uint64_t deadline_ns)
{
	for (;;) {
		reap(arg);
		if (signal_children(l, spare, nspare, sig) == 0 || clock_now_ns() >= deadline_ns)
			break;
		wait_child(deadline_ns);
	}
}

void
sweep_children(const pid_t *spare, size_t nspare, int sig, void (*reap)(void *), void *arg,
	       uint64_t deadline_ns)
{
	sweep(NULL, spare, nspare, sig, reap, arg, deadline_ns);
}

void
sweep_devices(const struct launch *l, int sig, void (*reap)(void *), void *arg,
	      uint64_t deadline_ns)
{
	sweep(l, NULL, 0, sig, reap, arg, deadline_ns);
}

/* Empty the folder `name` of `at` without following a link. */
static void
empty_folder(int at, const char *name, int depth)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	struct stat st;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (!S_ISDIR(st.st_mode)) {
			unlinkat(fd, e->d_name, 0);
		} else if (depth < SWEEP_MAX_DEPTH) {
			empty_folder(fd, e->d_name, depth + 1);
			unlinkat(fd, e->d_name, AT_REMOVEDIR);
		}
	}
	closedir(d);
}

void
sweep_stale(const char *base)
{
	DIR *d = opendir(base);
	char path[PATH_MAX];
	struct dirent *e;
	struct stat st;
	int fd;

	while (d && (e = readdir(d))) {
		if (strncmp(e->d_name, "gpusim.", 7) != 0 || strlen(e->d_name) != 13 ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
		    !S_ISDIR(st.st_mode) || st.st_uid != geteuid())
			continue;
		snprintf(path, sizeof path, "%s/" LAUNCH_OWNER, e->d_name);
		fd = openat(dirfd(d), path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
			empty_folder(dirfd(d), e->d_name, 0);
			unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
		}
		if (fd >= 0)
			close(fd);
	}
	if (d)
		closedir(d);
}

void
sweep_mem_files(const struct launch *l)
{
	char path[LAUNCH_DIR_MAX + 32];

	for (int k = 0; l->mem_base[0] && k < l->cfg.ndevices + l->cfg.nspares; k++) {
		snprintf(path, sizeof path, "%s%d", l->mem_base, k);
		unlink(path);
	}
}

void
sweep_files(const struct launch *l)
{
	sweep_mem_files(l);
	empty_folder(AT_FDCWD, l->dir, 0);
	rmdir(l->dir);
}
