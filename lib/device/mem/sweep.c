/*
 * Design notes. A device takes the lock of its file before it reads it, and starts over if the path then
 * names another file (devmem_open.c). So the holder of the lock may unlink the file. The lock is tried
 * last, after all other checks: a device that finds it held by a sweeper would fail.
 */
#include "mem/sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mem/devmem_impl.h"

/* The header of a scratch file of this user. */
static bool
read_scratch(int fd, uint64_t device_id, struct devmem_header *h)
{
	struct stat st;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    pread(fd, h, sizeof *h, 0) != (ssize_t)sizeof *h)
		return false;
	h->coordinator[sizeof h->coordinator - 1] = '\0';
	return memcmp(h->magic, DEVMEM_MAGIC, sizeof h->magic) == 0 && h->scratch == 1 &&
	       (device_id == 0 || h->device_id == device_id);
}

static bool
remove_locked(const char *path, int fd, uint64_t incarnation)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	struct devmem_header h;

	return fcntl(fd, F_OFD_SETLK, &lock) == 0 && devmem_same_file(path, fd) &&
	       read_scratch(fd, 0, &h) && h.incarnation == incarnation && unlink(path) == 0;
}

bool
sweep_file(const char *path, uint64_t device_id, sweep_waits_fn waits)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
	struct devmem_header h;
	bool removed = false;

	if (fd < 0)
		return false;
	if (!devmem_file_lives(fd) && read_scratch(fd, device_id, &h) &&
	    (!*h.coordinator || !waits || !waits(h.coordinator)))
		removed = remove_locked(path, fd, h.incarnation);
	close(fd);
	return removed;
}

unsigned
sweep_folder(const char *folder, sweep_waits_fn waits)
{
	char prefix[32], path[512];
	struct dirent *e;
	unsigned n = 0;
	DIR *d = opendir(folder);

	snprintf(prefix, sizeof prefix, "gpusim-%u-", (unsigned)geteuid());
	while (d && (e = readdir(d)))
		if (strncmp(e->d_name, prefix, strlen(prefix)) == 0 &&
		    snprintf(path, sizeof path, "%s/%s", folder, e->d_name) < (int)sizeof path)
			n += sweep_file(path, 0, waits);
	if (d)
		closedir(d);
	return n;
}
