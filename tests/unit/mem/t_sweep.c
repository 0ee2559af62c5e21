/* Memory files of devices that were killed: removed, unless somebody has them or waits for them. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mem/devmem.h"
#include "mem/sweep.h"
#include "tap.h"

static char folder[] = "/tmp/gs.sweep.XXXXXX";

static bool
nobody(const char *coordinator)
{
	(void)coordinator;
	return false;
}

static bool
waits(const char *coordinator)
{
	return strcmp(coordinator, "ipc:///c") == 0;
}

static const char *
path_of(const char *name, char out[128])
{
	snprintf(out, 128, "%s/gpusim-%u-%s", folder, (unsigned)geteuid(), name);
	return out;
}

/* A device that was killed: a process that leaves its file, marked if `mark`. */
static void
killed(const char *name, bool mark, const char *coordinator)
{
	char path[128];
	struct devmem *m;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (devmem_open(path_of(name, path), 7, 4096, &m, NULL) != RC_OK ||
		    (mark && devmem_mark(m, coordinator, NULL) != RC_OK))
			_exit(1);
		_exit(0);
	}
	ok(waitpid(pid, &status, 0) == pid && status == 0, "%s is there", name);
}

static bool
exists(const char *name)
{
	char path[128];

	return access(path_of(name, path), F_OK) == 0;
}

int
main(void)
{
	struct devmem *m = NULL;
	char path[128];
	int fd;

	if (!mkdtemp(folder))
		return 1;
	killed("alone", true, NULL);
	killed("waited", true, "ipc:///c");
	killed("unwaited", true, "ipc:///d");
	killed("kept", false, NULL);
	ok(devmem_open(path_of("lives", path), 8, 4096, &m, NULL) == RC_OK &&
	       devmem_mark(m, NULL, NULL) == RC_OK,
	   "one lives");
	fd = open(path_of("other", path), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	ok(fd >= 0 && write(fd, "gpusimM3 not", 12) == 12, "one is no memory file");
	close(fd);
	ok(symlink("/etc/passwd", path_of("link", path)) == 0, "one is a link");

	ok(sweep_folder(folder, waits) == 2, "two are removed");
	ok(!exists("alone") && !exists("unwaited"), "those that nobody waits for");
	ok(exists("waited") && exists("kept") && exists("lives") && exists("other") &&
	       access("/etc/passwd", F_OK) == 0,
	   "and no other");
	ok(!sweep_file(path_of("waited", path), 8, nobody), "another device's is not removed");
	ok(sweep_file(path_of("waited", path), 7, NULL) && !exists("waited"),
	   "nobody waits any more");
	devmem_close(m, DEVMEM_PERSIST_FILE);
	ok(sweep_folder(folder, nobody) == 1 && !exists("lives"), "it lives no more");
	ok(sweep_folder("/nowhere", nobody) == 0, "no such folder: nothing to do");
	killed("again", true, NULL);
	ok(devmem_open(path_of("again", path), 7, 4096, &m, NULL) == RC_OK &&
	       sweep_folder(folder, nobody) == 0 && exists("again"),
	   "who has taken it over has it");
	devmem_close(m, DEVMEM_UNLINK_FILE);
	unlink(path_of("kept", path));
	unlink(path_of("other", path));
	unlink(path_of("link", path));
	ok(rmdir(folder) == 0, "nothing is left");
	return tap_done();
}
