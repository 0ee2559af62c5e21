/*
 * Design notes. nng calls the system as any program does, through the dynamic linker, so ours comes
 * first in three calls. Where nng is linked otherwise they are not reached, and what they are for is
 * missing.
 *
 * accept counts: nng does not tell of a connection that ends in its handshake, which is what makes a
 * listener deaf; the guard of a listener (listener.c) has its slow clock alone then.
 *
 * listen and connect: nng has 128 connections wait to be accepted. A connect to a Unix socket that has
 * no room for one more fails with EAGAIN, which nng takes for one in progress: it writes to it,
 * fails, and asks to be told when it can write again, which is at once, for ten seconds of a processor.
 * So there is room for as many as the system allows, and such a connect is refused, and tried again.
 */
#include "net/accepts.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BACKLOG 4096 /* the kernel has its own limit below it */

static _Atomic uint64_t count;

uint64_t
accepts_count(void)
{
	return atomic_load(&count);
}

int
accept(int fd, __SOCKADDR_ARG addr, socklen_t *restrict len)
{
	int got = (int)syscall(SYS_accept4, fd, addr.__sockaddr__, len, 0);

	if (got >= 0)
		atomic_fetch_add(&count, 1);
	return got;
}

int
listen(int fd, int backlog)
{
	return (int)syscall(SYS_listen, fd, backlog > BACKLOG ? backlog : BACKLOG);
}

int
connect(int fd, __CONST_SOCKADDR_ARG addr, socklen_t len)
{
	int rv = (int)syscall(SYS_connect, fd, addr.__sockaddr__, len);

	if (rv != 0 && errno == EAGAIN && addr.__sockaddr__->sa_family == AF_UNIX)
		errno = ECONNREFUSED;
	return rv;
}
