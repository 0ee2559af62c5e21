/*
 * repost.h - what the nng that we link calls instead of its own or the system's (nng.syms names them).
 * Inside lib/net only.
 */
#ifndef NET_REPOST_H
#define NET_REPOST_H

#include <nng/nng.h>
#include <stdio.h>

extern FILE *net_nng_stdout, *net_nng_stderr;

/* As nng_stream_recv and nng_stream_send, but each operation ends: with NNG_ECLOSED if nng refused it. */
void net_nng_stream_recv(nng_stream *s, nng_aio *aio);
void net_nng_stream_send(nng_stream *s, nng_aio *aio);

#endif
