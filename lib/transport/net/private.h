/*
 * private.h - the functions that the nng we link calls in place of its own and the system's (nng.syms).
 * Inside lib/transport/net only.
 */
#ifndef NET_PRIVATE_H
#define NET_PRIVATE_H

#include <nng/nng.h>
#include <stdio.h>
#include <sys/epoll.h>

struct mbedtls_ssl_context;
struct mbedtls_ssl_config;

extern FILE *net_nng_stdout, *net_nng_stderr;

void net_nng_stream_recv(nng_stream *s, nng_aio *aio);
void net_nng_stream_send(nng_stream *s, nng_aio *aio);
int net_nng_aio_result(nng_aio *aio);
int net_nng_listen(int fd, int backlog);
int net_nng_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int net_nng_ssl_setup(struct mbedtls_ssl_context *ssl, const struct mbedtls_ssl_config *conf);

#endif
