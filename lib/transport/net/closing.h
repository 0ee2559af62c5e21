/*
 * closing.h - close an nng socket without hanging. Inside lib/transport/net only.
 *
 * nng_close may block for reasons that are not all known. So a separate thread calls it, and no thread
 * has to wait for that one.
 */
#ifndef NET_CLOSING_H
#define NET_CLOSING_H

#include <nng/nng.h>
#include <stdbool.h>

/*
 * closing_start - close a socket on a thread of its own.
 *
 *	before	that thread runs it first; NULL: nothing. False: leave the socket open
 *	after	that thread runs it last, when nng has released the socket, or never
 *	wait_ms	longest wait for all of it
 *
 * True: the socket is closed.
 */
bool closing_start(nng_socket sock, bool (*before)(void *), void (*after)(void *), void *arg,
		   int wait_ms);

#endif
