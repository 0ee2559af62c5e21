/*
 * closing.h - close an nng socket without being caught in it. Inside lib/net only.
 *
 * What else nng waits for in nng_close is not known; so a thread closes that nobody has to wait for.
 */
#ifndef NET_CLOSING_H
#define NET_CLOSING_H

#include <nng/nng.h>
#include <stdbool.h>

/*
 * closing_start - close a socket on a thread of its own.
 *
 *	before	run first there, or NULL. False: leave the socket open for ever
 *	after	run last, when nng has let go of the socket; never, if it does not
 *	wait_ms	how long to wait for all that
 *
 * True: it is done.
 */
bool closing_start(nng_socket sock, bool (*before)(void *), void (*after)(void *), void *arg,
		   int wait_ms);

#endif
