/*
 * ipcpath.h - who owns the path of an ipc address. Inside lib/net only.
 *
 * nng lets a second process take a path from the first. So a lock file beside it is held as long as
 * we listen, and the socket of a process that is no more is removed under the lock.
 */
#ifndef NET_IPCPATH_H
#define NET_IPCPATH_H

#include <stdbool.h>

#include "base/rc.h"
#include "net/net.h"

struct ipcpath {
	char lockpath[NET_ADDR_MAX];
	int fd; /* of the lock; -1: not held, or no ipc address */
};

/* Take the path of addr. RC_BUSY: another process has it. Other addresses have none: RC_OK. */
enum rc ipcpath_lock(struct ipcpath *p, const char *addr, struct err *err);

/* Does a process that is seen from here hold the lock of addr? Looks, and takes nothing. */
bool ipcpath_held(const char *addr);

/* Remove the socket of a process that is no more, and nothing else that may be there. The path is
 * ours. RC_INVAL: there is a file. */
enum rc ipcpath_clear(const char *addr, struct err *err);

/* Remove our socket and let go of the path. */
void ipcpath_unlock(struct ipcpath *p, const char *addr);

#endif
