/*
 * Design notes. nng does not tell of a connection that ends in its handshake, which is what makes a
 * listener deaf. It calls accept() as any program does, through the dynamic linker, so ours comes
 * first and counts. Where nng is linked otherwise nothing is counted, and the guard of a listener
 * (listener.c) has its slow clock alone.
 */
#include "net/accepts.h"

#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

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
