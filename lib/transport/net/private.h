/*
 * private.h - the functions that the nng we link calls in place of its own and the system's (nng.syms).
 * Inside lib/transport/net only.
 */
#ifndef NET_PRIVATE_H
#define NET_PRIVATE_H

#include <nng/nng.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/uio.h>

struct mbedtls_ssl_context;
struct mbedtls_ssl_config;

extern FILE *net_nng_stdout, *net_nng_stderr;

void net_nng_stream_recv(nng_stream *s, nng_aio *aio);
void net_nng_stream_send(nng_stream *s, nng_aio *aio);
int net_nng_aio_result(nng_aio *aio);
int net_nng_listen(int fd, int backlog);
int net_nng_epoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
ssize_t net_nng_readv(int fd, const struct iovec *iov, int n);
int net_nng_ssl_setup(struct mbedtls_ssl_context *ssl, const struct mbedtls_ssl_config *conf);

/*
 * Post a read of a byte stream, and return its descriptor; -1: unknown. nng tries the read at once, and so
 * says which it is. The descriptor is the stream's until nng_stream_free; after nng_stream_close it reads as ended.
 * Who uses it has no operation of nng's of that direction under way.
 */
int net_recv_fd(nng_stream *s, nng_aio *aio);

#endif
