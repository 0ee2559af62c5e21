/*
 * Design notes. nng 1.5.2 forgets an operation on a byte stream that is posted when its aio has been
 * stopped: no callback runs, ever. Its transports read a message in two operations, and post the
 * second from the callback of the first; so when a connection is closed from our side in between
 * (because sending an answer failed, say), the read of the message never ends. nng's one thread
 * that clears connections away then waits for it for the rest of the process's life, and nng_close
 * with it.
 *
 * nng's transports call nng_stream_recv and nng_stream_send as any program does, through the dynamic
 * linker, so ours come first: they call nng's and end what that forgot. A posted operation shows
 * NNG_ECANCELED there and then only if it was refused: what is cancelled later ends with another
 * code, or, on aios of our own, without a callback.
 */
#include <dlfcn.h>
#include <nng/nng.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef void (*post_fn)(nng_stream *, nng_aio *);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static post_fn recv_fn, send_fn;

static void
find(void)
{
	recv_fn = (post_fn)dlsym(RTLD_NEXT, "nng_stream_recv");
	send_fn = (post_fn)dlsym(RTLD_NEXT, "nng_stream_send");
	if (!recv_fn || !send_fn) {
		fprintf(stderr, "gpusim: nng is not a shared library\n");
		abort();
	}
}

static void
post(post_fn fn, nng_stream *s, nng_aio *aio)
{
	fn(s, aio);
	if (nng_aio_result(aio) == NNG_ECANCELED)
		nng_aio_finish(aio, NNG_ECLOSED);
}

void
nng_stream_recv(nng_stream *s, nng_aio *aio)
{
	pthread_once(&once, find);
	post(recv_fn, s, aio);
}

void
nng_stream_send(nng_stream *s, nng_aio *aio)
{
	pthread_once(&once, find);
	post(send_fn, s, aio);
}
