/*
 * Design notes. nng 1.5.2 forgets an operation on a byte stream that is posted after its aio was stopped:
 * its callback never runs. nng's transports read a message in two operations and post the second from
 * the callback of the first. If we close the connection in between (an answer could not be sent, say),
 * the read of the message never ends. nng's one thread that reaps connections then waits for it until
 * the process ends, and nng_close with it.
 *
 * The nng that we link (nng.o, see the Makefile) calls these two functions where it would call its own.
 * They call nng's, and end the operation if nng forgot it. A posted operation shows NNG_ECANCELED
 * right after the call only if it was refused: one that is cancelled later ends with another code.
 */
#include "net/repost.h"

/* nng prints to these. The C library's cannot be named from nng's objects in a shared library. */
FILE *net_nng_stdout, *net_nng_stderr;

__attribute__((constructor)) static void
set_streams(void)
{
	net_nng_stdout = stdout;
	net_nng_stderr = stderr;
}

static void
end_forgotten(nng_aio *aio)
{
	if (nng_aio_result(aio) == NNG_ECANCELED)
		nng_aio_finish(aio, NNG_ECLOSED);
}

void
net_nng_stream_recv(nng_stream *s, nng_aio *aio)
{
	nng_stream_recv(s, aio);
	end_forgotten(aio);
}

void
net_nng_stream_send(nng_stream *s, nng_aio *aio)
{
	nng_stream_send(s, aio);
	end_forgotten(aio);
}
