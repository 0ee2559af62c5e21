/*
 * Design notes. The nng that we link calls these three in place of the system's (nng.syms). Nothing else
 * in the process does.
 *
 * accept counts. nng does not tell of a connection that ends in its handshake, which makes a listener
 * deaf. The guard of a listener (listener.c) compares this count with nng's.
 *
 * listen asks for a longer queue. nng lets 128 connections wait to be accepted. A thousand devices that start
 * at once are more, and a dial that finds no room fails.
 *
 * epoll_ctl asks for one event, not for all. nng enters a socket with no events wanted before it connects.
 * epoll reports a Unix socket that is not connected as hung up, whatever is wanted. nng's poller then
 * spins until another thread connects the socket.
 */
#include "net/accepts.h"

#include <stdatomic.h>

#define BACKLOG 4096 /* the kernel has its own limit below it */

static _Atomic uint64_t count;

uint64_t
accepts_count(void)
{
	return atomic_load(&count);
}

int
net_nng_accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	int got = accept(fd, addr, len);

	if (got >= 0)
		atomic_fetch_add(&count, 1);
	return got;
}

int
net_nng_listen(int fd, int backlog)
{
	return listen(fd, backlog > BACKLOG ? backlog : BACKLOG);
}

int
net_nng_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	struct epoll_event once;

	if (op == EPOLL_CTL_ADD && event && event->events == 0) {
		once = *event;
		once.events = EPOLLONESHOT;
		event = &once;
	}
	return epoll_ctl(epfd, op, fd, event);
}
