#include "net/ipcpath.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Remove the socket of a dead process, and no other kind of file. We hold the path. RC_INVAL: not a
 * socket. */
static enum rc
ipcpath_clear(const char *addr, struct err *err)
{
	struct stat st;

	if (lstat(addr + 6, &st) != 0)
		return RC_OK;
	if (!S_ISSOCK(st.st_mode))
		return err_set(err, RC_INVAL, "%s: a file that is not a socket exists", addr);
	unlink(addr + 6);
	return RC_OK;
}

/* The lock's inode in a line such as "3: FLOCK  ADVISORY  WRITE 4711 08:02:131090 0 EOF". */
static bool
names_inode(const char *line, ino_t inode)
{
	const char *at = strstr(line, " FLOCK ");
	unsigned major, minor;
	unsigned long long number;

	return at && sscanf(at, " FLOCK %*s %*s %*d %x:%x:%llu", &major, &minor, &number) == 3 &&
	       number == inode;
}

bool
ipcpath_held(const char *addr)
{
	char lockpath[NET_ADDR_MAX + 8], line[256];
	struct stat st;
	bool held = false;
	FILE *f;

	if (strncmp(addr, "ipc://", 6) != 0)
		return false;
	snprintf(lockpath, sizeof lockpath, "%s.lock", addr + 6);
	if (lstat(lockpath, &st) != 0 || !(f = fopen("/proc/locks", "re")))
		return false;
	while (!held && fgets(line, sizeof line, f))
		held = names_inode(line, st.st_ino);
	fclose(f);
	return held;
}

enum rc
ipcpath_lock(struct ipcpath *p, const char *addr, struct err *err)
{
	struct stat mine, there;

	p->fd = -1;
	if (strncmp(addr, "ipc://", 6) != 0)
		return RC_OK;
	snprintf(p->lockpath, sizeof p->lockpath, "%s.lock", addr + 6);
	for (;;) {
		p->fd = open(p->lockpath, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (p->fd < 0)
			return err_set(err, RC_FAILED, "%s: %s", p->lockpath, strerror(errno));
		if (flock(p->fd, LOCK_EX | LOCK_NB) != 0) {
			close(p->fd);
			p->fd = -1;
			return err_set(err, RC_BUSY, "%s: another process listens there", addr);
		}
		/* The last owner may have removed the file between our open and our lock. */
		if (fstat(p->fd, &mine) == 0 && lstat(p->lockpath, &there) == 0 &&
		    mine.st_ino == there.st_ino && mine.st_dev == there.st_dev)
			break;
		close(p->fd);
	}
	return ipcpath_clear(addr, err);
}

void
ipcpath_unlock(struct ipcpath *p, const char *addr)
{
	if (p->fd < 0)
		return;
	ipcpath_clear(addr, NULL);
	unlink(p->lockpath);
	close(p->fd);
	p->fd = -1;
}
