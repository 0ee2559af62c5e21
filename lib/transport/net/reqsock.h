/*
 * reqsock.h - nng's REQ protocol on one Unix socket, without nng, for a program that calls and waits.
 *
 * It needs no thread, so a one-call program ends before nng would have started. On any trouble the caller
 * closes it and uses nng.
 */
#ifndef NET_REQSOCK_H
#define NET_REQSOCK_H

#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"

/* Connect to an ipc address and shake hands, before the deadline. The caller closes the descriptor. -1:
 * another kind of address, or any failure. */
int reqsock_open(const char *addr, uint64_t deadline_ns);

/*
 * Send a request and wait for its answer.
 *
 *	answer	[out] initialised; the answer's bytes
 *
 * Errors, after which the socket is unusable: RC_TIMEOUT, RC_UNREACHABLE the connection broke, or a
 * protocol error of the server; RC_NOMEM.
 */
enum rc reqsock_call(int fd, const void *request, size_t nbytes, uint64_t deadline_ns,
		     struct buf *answer);

#endif
