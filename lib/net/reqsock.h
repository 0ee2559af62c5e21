/*
 * reqsock.h - nng's REQ on one Unix socket, without nng: for a program that calls and waits.
 *
 * It needs no thread, so a program of one call ends before nng would have started. Who has trouble with it closes
 * it and goes by nng.
 */
#ifndef NET_REQSOCK_H
#define NET_REQSOCK_H

#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"

/* Connect to an address of ipc and shake hands, before the deadline. The caller closes the descriptor. -1: another
 * address, or not now, whatever the reason. */
int reqsock_open(const char *addr, uint64_t deadline_ns);

/*
 * Send a request and wait for its answer.
 *
 *	answer	[out] initialised; the answer's bytes
 *
 * Errors, after which the socket is of no more use: RC_TIMEOUT, RC_UNREACHABLE the connection has broken, or the
 * server does not keep to the protocol; RC_NOMEM.
 */
enum rc reqsock_call(int fd, const void *request, size_t nbytes, uint64_t deadline_ns,
		     struct buf *answer);

#endif
