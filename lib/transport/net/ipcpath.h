/*
 * ipcpath.h - the owner of the path of an ipc address. Inside lib/transport/net only.
 *
 * nng lets a second process take over a path. So a server holds a lock file beside it while it listens,
 * and removes a dead process's socket under the lock.
 */
#ifndef NET_IPCPATH_H
#define NET_IPCPATH_H

#include <stdbool.h>

#include "base/rc.h"
#include "net/net.h"

struct ipcpath {
	char lockpath[NET_ADDR_MAX];
	int fd; /* of the lock; -1: not held, or not an ipc address */
};

/* Take the path of addr. RC_BUSY: another process has it. Other addresses have no path: RC_OK. */
enum rc ipcpath_lock(struct ipcpath *p, const char *addr, struct err *err);

/* A process that is visible here holds the lock of addr. Does not lock. */
bool ipcpath_held(const char *addr);

/* Remove our socket and release the path. */
void ipcpath_unlock(struct ipcpath *p, const char *addr);

#endif
