#include "base/rundir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool
is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool
rundir_for_sockets(const char *path)
{
	for (const char *p = path; *p; p++)
		if ((unsigned char)*p <= ' ' || *p == 0x7f)
			return false;
	return path[0] == '/';
}

/* Links are not followed: another user could have put one into /tmp. */
static enum rc
check_private(const char *path, struct err *err)
{
	struct stat st;

	if (lstat(path, &st) != 0)
		return err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return err_set(err, RC_INVAL, "%s: not a directory: cannot put sockets there",
			       path);
	if (st.st_uid != geteuid())
		return err_set(err, RC_INVAL, "%s: belongs to user %u: cannot put sockets there",
			       path, (unsigned)st.st_uid);
	if (st.st_mode & 077)
		return err_set(
		    err, RC_INVAL,
		    "%s: open to others (mode %04o): cannot put sockets there: chmod 700", path,
		    (unsigned)st.st_mode & 07777);
	return RC_OK;
}

static void
find(char path[RUNDIR_MAX])
{
	const char *base = getenv("XDG_RUNTIME_DIR");

	if (!base || !rundir_for_sockets(base) || !is_directory(base) ||
	    snprintf(path, RUNDIR_MAX, "%s/gpusim", base) >= RUNDIR_MAX)
		snprintf(path, RUNDIR_MAX, "/tmp/gpusim-%u", (unsigned)geteuid());
}

enum rc
rundir_make(char out[RUNDIR_MAX], struct err *err)
{
	char path[RUNDIR_MAX];
	enum rc rc;

	find(path);
	/* The mode is less than 0700 under an odd umask, never more. */
	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return err_set(err, RC_FAILED, "%s: %s", path, strerror(errno));
	rc = check_private(path, err);
	if (rc == RC_OK)
		memcpy(out, path, sizeof path);
	return rc;
}

const char *
rundir_coordinator(char room[RUNDIR_ADDRESS_MAX], struct err *err)
{
	const char *named = getenv("GPUSIM_COORD");
	char path[RUNDIR_MAX];

	if (named && *named)
		return named;
	find(path);
	if (access(path, F_OK) == 0 && check_private(path, err) != RC_OK)
		return NULL;
	snprintf(room, RUNDIR_ADDRESS_MAX, "ipc://%s/gpucoord.sock", path);
	return room;
}
