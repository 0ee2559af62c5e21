/*
 * Design notes. Workarounds for five defects of nng (1.5.2 to 1.10), in functions that nng calls (nng.syms).
 *
 * An operation on a byte stream that is posted after its aio was stopped is forgotten: its callback never
 * runs. nng's transports read a message in two operations and post the second from the callback of the
 * first. If we close the connection in between, the read of the message never ends; nng's one thread
 * that reaps connections then waits for it until the process ends, and nng_close with it. So an
 * operation that was refused ends here. Right after the call only a refused one shows NNG_ECANCELED.
 *
 * A peer that drops in the handshake stops a listener permanently: the transport passes NNG_ECLOSED on,
 * which the listener takes for its own end (nng's issue 1518). Transports get NNG_ECONNSHUT instead.
 *
 * A listener's queue holds 128 connections. A thousand devices that start at once are more, and a dial that
 * finds no room fails.
 *
 * nng adds a socket to epoll, with no events, before it connects. epoll reports an unconnected Unix
 * socket as hung up regardless of events, and nng's poller spins until another thread connects it.
 * EPOLLONESHOT reports it once.
 *
 * mbedtls since 3.6.3 refuses every server if the client has not set a name, and nng cannot say that
 * there is no name to check. Here the authority decides, and names are not checked.
 */
#include "net/private.h"

#include <sys/socket.h>

#define BACKLOG 4096 /* the kernel has its own limit below it */

/* Weak, because an nng without TLS is linked without mbedtls. */
__attribute__((weak)) int mbedtls_ssl_setup(struct mbedtls_ssl_context *ssl,
					    const struct mbedtls_ssl_config *conf);
__attribute__((weak)) int mbedtls_ssl_set_hostname(struct mbedtls_ssl_context *ssl,
						   const char *name);

/* nng prints to these: in our shared library its objects cannot refer to the C library's. */
FILE *net_nng_stdout, *net_nng_stderr;

__attribute__((constructor)) static void
set_streams(void)
{
	net_nng_stdout = stdout;
	net_nng_stderr = stderr;
}

/* The descriptor that nng read last on this thread. */
static _Thread_local int last_fd = -1;

ssize_t
net_nng_readv(int fd, const struct iovec *iov, int n)
{
	last_fd = fd;
	return readv(fd, iov, n);
}

static void
end_refused(nng_aio *aio)
{
	if (nng_aio_result(aio) == NNG_ECANCELED)
		nng_aio_finish(aio, NNG_ECLOSED);
}

void
net_nng_stream_recv(nng_stream *s, nng_aio *aio)
{
	nng_stream_recv(s, aio);
	end_refused(aio);
}

void
net_nng_stream_send(nng_stream *s, nng_aio *aio)
{
	nng_stream_send(s, aio);
	end_refused(aio);
}

int
net_recv_fd(nng_stream *s, nng_aio *aio)
{
	last_fd = -1;
	net_nng_stream_recv(s, aio);
	return last_fd;
}

int
net_nng_aio_result(nng_aio *aio)
{
	int rv = nng_aio_result(aio);

	return rv == NNG_ECLOSED ? NNG_ECONNSHUT : rv;
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

int
net_nng_ssl_setup(struct mbedtls_ssl_context *ssl, const struct mbedtls_ssl_config *conf)
{
	int rv = mbedtls_ssl_setup(ssl, conf);

	return rv ? rv : mbedtls_ssl_set_hostname(ssl, NULL);
}
