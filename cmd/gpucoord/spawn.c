#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/host.h"
#include "flight/read.h"
#include "mem/devmem_file.h"

#define MAX_ARGS    64
#define MAX_KERNELS 16 /* files of kernels */
#define AWAIT_MS    10
#define AWAIT_TRIES 500

struct command {
	char *argv[MAX_ARGS];
	int n;
	char text[MAX_ARGS][24]; /* numbers */
	int ntext;
	char kernels[WIRE_NAME_MAX]; /* paths, cut apart */
};

/* Return true if the process has mapped the file: it is the device, not another process with the same pid. */
static bool
has_mapped(uint32_t pid, const char *path)
{
	char maps[64], *line = NULL;
	size_t cap = 0;
	bool found = false;
	FILE *f;

	snprintf(maps, sizeof maps, "/proc/%" PRIu32 "/maps", pid);
	f = fopen(maps, "re");
	while (f && !found && getline(&line, &cap, f) > 0)
		found = strstr(line, path) != NULL;
	free(line);
	if (f)
		fclose(f);
	return found;
}

static void
add(struct command *c, const char *option, const char *value)
{
	c->argv[c->n++] = (char *)option;
	if (value)
		c->argv[c->n++] = (char *)value;
	c->argv[c->n] = NULL;
}

static void
add_number(struct command *c, const char *option, uint64_t value, const char *unit)
{
	char *text = c->text[c->ntext++];

	snprintf(text, sizeof c->text[0], "%" PRIu64 "%s", value, unit);
	add(c, option, text);
}

/* The number of records per stream in the device's recorder, so that it continues there; 0: unknown. */
static uint32_t
recorder_of(const GpuSim__DeviceMetadata *m)
{
	int fd = open(m->mempath, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct flight_file file = {.fd = fd};
	struct flight_source source = flight_file_source(&file);
	struct flight_header h = {0};

	if (fd < 0)
		return 0;
	if (devmem_file_recorder(m->mempath, fd, m->deviceid->value, &file.offset, &file.nbytes,
				 NULL) != RC_OK ||
	    flight_read_header(&source, &h, NULL) != RC_OK)
		h.nrecords = 0;
	close(fd);
	return h.nrecords;
}

static void
make_command(const GpuSim__DeviceMetadata *m, const char *coordinator, int lifeline,
	     struct command *c)
{
	add(c, "gpudev", NULL);
	add(c, "--listen", m->address);
	if (*m->dataaddress)
		add(c, "--data", m->dataaddress);
	add(c, "--coordinator", coordinator);
	add_number(c, "--id", m->deviceid->value, "");
	add_number(c, "--ordinal", m->ordinal, "");
	add_number(c, "--mem", m->maxmemaddr->value - m->minmemaddr->value, "");
	add(c, m->memkept ? "--mem-file" : "--mem-scratch", m->mempath);
	if (recorder_of(m))
		add_number(c, "--recorder", recorder_of(m), "");
	if (m->threads)
		add_number(c, "--threads", m->threads, "");
	if (m->latencyns)
		add_number(c, "--latency", m->latencyns, "ns");
	if (m->bitspers)
		add_number(c, "--bandwidth", m->bitspers, "b");
	if (m->spare)
		add(c, "--spare", NULL);
	if (m->join)
		add(c, "--join", NULL);
	if (*m->grpcaddress)
		add(c, "--grpc", m->grpcaddress);
	if (lifeline >= 0)
		add_number(c, "--lifeline", (uint64_t)lifeline, "");
}

/* Wait until a killed process has released its memory file, which is when all its threads have ended. */
static void
await_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	for (int i = 0; fd >= 0 && i < AWAIT_TRIES; i++) {
		struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

		if (fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK)
			break;
		poll(NULL, 0, AWAIT_MS);
	}
	if (fd >= 0)
		close(fd);
}

/* Return true if only this user and root can write to the path. */
static bool
is_ours(const char *path)
{
	struct stat st;

	if (stat(path, &st) != 0 || (st.st_uid != 0 && st.st_uid != geteuid()))
		return false;
	if (S_ISDIR(st.st_mode) && st.st_mode & S_ISVTX)
		return true; /* as in /tmp: only the owner can rename or remove a file */
	return !(st.st_mode & S_IWOTH) &&
	       (!(st.st_mode & S_IWGRP) || st.st_gid == getegid() || st.st_gid == 0);
}

/* Return true if is_ours holds for the file and all folders above it, and none is a symbolic link. */
static bool
is_ours_all_the_way(const char *path)
{
	char real[PATH_MAX], *slash;

	if (*path != '/' || realpath(path, real) == NULL || strcmp(real, path) != 0)
		return false;
	while (is_ours(real)) {
		slash = strrchr(real, '/');
		if (slash == real)
			return is_ours("/");
		*slash = '\0';
	}
	return false;
}

/* Add the device's kernels, which are code. Any client that can register a device could name any file, so
 * only this user and root may be able to write to it. */
static enum rc
add_kernels(struct command *c, const char *list, struct err *err)
{
	char *path, *rest = NULL;
	size_t n = 0;

	snprintf(c->kernels, sizeof c->kernels, "%s", list);
	for (path = strtok_r(c->kernels, ":", &rest); path; path = strtok_r(NULL, ":", &rest)) {
		if (n++ == MAX_KERNELS)
			return err_set(err, RC_FAILED, "more than %d kernel files", MAX_KERNELS);
		if (!is_ours_all_the_way(path))
			return err_set(
			    err, RC_FAILED,
			    "%s: the kernel file is missing, or other users can write to it", path);
		add(c, "--kernels", path);
	}
	return RC_OK;
}

/* In the child. */
static void
become(const char *path, const struct command *c, const GpuSim__DeviceMetadata *m, int lifeline)
{
	static char disable[] = "GPUSIM_P2P_DISABLE=1", local[] = "GPUSIM_P2P_LEVEL=LOC";
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	/* Do not create a session: the scheduler would weigh it against all other devices together. */
	setpgid(0, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
	}
	if (strcmp(m->memprivate, disable) == 0)
		putenv(disable);
	else if (strcmp(m->memprivate, local) == 0)
		putenv(local);
	if (lifeline >= 0)
		fcntl(lifeline, F_SETFD, 0);
	await_file(m->mempath);
	execv(path, c->argv);
	_exit(127);
}

static enum rc
check_memory(const GpuSim__DeviceMetadata *m, struct err *err)
{
	struct stat st;

	if (stat(m->mempath, &st) != 0)
		return err_set(err, RC_FAILED, "its memory file %s: %s", m->mempath,
			       strerror(errno));
	if (m->meminode && (st.st_ino != m->meminode || st.st_dev != m->memdev))
		return err_set(err, RC_FAILED, "its memory file %s was replaced by another file",
			       m->mempath);
	return RC_OK;
}

enum rc
spawn_device(const GpuSim__DeviceMetadata *m, const char *coordinator, int lifeline,
	     bool allow_inject, const struct decisions *record, pid_t *pid, struct err *err)
{
	struct command c = {.n = 0};
	char own[PATH_MAX], path[PATH_MAX + sizeof "/gpudev"];
	bool told = host_own_folder(own, sizeof own);

	snprintf(path, sizeof path, "%s/gpudev", own);
	if (!m->supervised && (!told || access(path, X_OK) != 0))
		return err_set(err, RC_FAILED, "no gpudev next to this program");
	if (check_memory(m, err) != RC_OK)
		return err->rc;
	if (m->pid > 1 && m->pid <= INT_MAX && *m->mempath && has_mapped(m->pid, m->mempath))
		kill((pid_t)m->pid, SIGKILL);
	if (m->supervised)
		return RC_OK; /* the supervisor restarts it */
	make_command(m, coordinator, lifeline, &c);
	if (add_kernels(&c, m->kernels, err) != RC_OK)
		return err->rc;
	if (allow_inject)
		add(&c, "--allow-inject", NULL);
	if (record->dir)
		add(&c, "--record", record->dir);
	if (record->with_data)
		add(&c, "--record-data", NULL);
	*pid = fork();
	if (*pid < 0)
		return err_set(err, RC_FAILED, "cannot fork: %s", strerror(errno));
	if (*pid == 0)
		become(path, &c, m, lifeline);
	return RC_OK;
}
