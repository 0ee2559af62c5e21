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
 *
 * A program that is linked with a static nng has nng's own by these names, and ours, which are weak, give
 * way. There the linker's --wrap, which pkg-config --static asks for, makes every call of them one of
 * __wrap_*, and nng's own are __real_*.
 */
#include <dlfcn.h>
#include <nng/nng.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef void post_fn(nng_stream *, nng_aio *);

post_fn __real_nng_stream_recv __attribute__((weak));
post_fn __real_nng_stream_send __attribute__((weak));
post_fn __wrap_nng_stream_recv, __wrap_nng_stream_send;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static post_fn *recv_fn, *send_fn;

/* nng's own: the linker's, unless that knows no other than ours; else the dynamic linker's next. */
static post_fn *
find(post_fn *linked, post_fn *ours, const char *name)
{
	return linked && linked != ours ? linked : (post_fn *)dlsym(RTLD_NEXT, name);
}

static void
find_both(void)
{
	recv_fn = find(__real_nng_stream_recv, __wrap_nng_stream_recv, "nng_stream_recv");
	send_fn = find(__real_nng_stream_send, __wrap_nng_stream_send, "nng_stream_send");
	if (!recv_fn || !send_fn) {
		fprintf(stderr,
			"gpusim: nng's nng_stream_recv is not there: it is linked statically, "
			"but not as pkg-config --static --libs gpusim says\n");
		abort();
	}
}

static void
post(post_fn *fn, nng_stream *s, nng_aio *aio)
{
	fn(s, aio);
	if (nng_aio_result(aio) == NNG_ECANCELED)
		nng_aio_finish(aio, NNG_ECLOSED);
}

void
__wrap_nng_stream_recv(nng_stream *s, nng_aio *aio)
{
	pthread_once(&once, find_both);
	post(recv_fn, s, aio);
}

void
__wrap_nng_stream_send(nng_stream *s, nng_aio *aio)
{
	pthread_once(&once, find_both);
	post(send_fn, s, aio);
}

post_fn nng_stream_recv __attribute__((weak, alias("__wrap_nng_stream_recv")));
post_fn nng_stream_send __attribute__((weak, alias("__wrap_nng_stream_send")));
