/*
 * accepts.h - the system's calls as nng makes them, and how many connections nng has let in. Inside
 * lib/net only.
 */
#ifndef NET_ACCEPTS_H
#define NET_ACCEPTS_H

#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* Connections that nng has accepted, at all listeners of the process, since it began. */
uint64_t accepts_count(void);

int net_nng_accept(int fd, struct sockaddr *addr, socklen_t *len);
int net_nng_listen(int fd, int backlog);
int net_nng_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event);

#endif
