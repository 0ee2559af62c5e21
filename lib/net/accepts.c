/*
 * Design notes. nng calls the system as any program does, through the dynamic linker, so ours comes
 * first in three calls. Where nng is linked otherwise they are not reached, and what they are for is
 * missing.
 *
 * accept counts: nng does not tell of a connection that ends in its handshake, which is what makes a
 * listener deaf; the guard of a listener (listener.c) has its slow clock alone then.
 *
 * listen: nng lets 128 connections wait to be accepted. A thousand devices that start at once are more, and
 * a dial that finds no room fails. So there is room for as many as the system allows.
 *
 * epoll_ctl: nng enters a socket with no events wanted, before it connects. A Unix socket that is not
 * connected has hung up, which epoll tells whatever is wanted: nng's thread for that did nothing else
 * until another got round to connecting, which on a busy machine takes a while. Told once is enough.
 */
#include "net/accepts.h"

#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BACKLOG 4096 /* the kernel has its own limit below it */

/* The thread sanitizer has calls of its own, from which it learns who waits for whom. */
#ifdef __SANITIZE_THREAD__
#include <dlfcn.h>
#define SYSTEM(name, ...)	     ((__typeof__(&name))dlsym(RTLD_NEXT, #name))(__VA_ARGS__)
#define SYSTEM_ACCEPT(fd, addr, len) SYSTEM(accept, fd, addr, len)
#else
#define SYSTEM(name, ...)	     (int)syscall(SYS_##name, __VA_ARGS__)
#define SYSTEM_ACCEPT(fd, addr, len) (int)syscall(SYS_accept4, fd, (addr).__sockaddr__, len, 0)
#endif

static _Atomic uint64_t count;

uint64_t
accepts_count(void)
{
	return atomic_load(&count);
}

int
accept(int fd, __SOCKADDR_ARG addr, socklen_t *restrict len)
{
	int got = SYSTEM_ACCEPT(fd, addr, len);

	if (got >= 0)
		atomic_fetch_add(&count, 1);
	return got;
}

int
listen(int fd, int backlog)
{
	return SYSTEM(listen, fd, backlog > BACKLOG ? backlog : BACKLOG);
}

int
epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct epoll_event once;

	if (op == EPOLL_CTL_ADD && event && event->events == 0) {
		once = *event;
		once.events = EPOLLONESHOT;
		event = &once;
	}
	return SYSTEM(epoll_ctl, epfd, op, fd, event);
}
