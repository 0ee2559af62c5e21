/*
 * closing.h - close an nng socket without being caught in it. Inside lib/net only.
 *
 * nng 1.5.2 waits for ever in nng_close, and its one thread that clears connections away with it,
 * when a connection is closed from our side in the moments in which a message is half read or half
 * written. So: connections are closed when they are quiet, and by a thread that nobody has to wait
 * for.
 */
#ifndef NET_CLOSING_H
#define NET_CLOSING_H

#include <nng/nng.h>
#include <stdbool.h>

#define CLOSING_WAIT_MS 1000 /* longer than any close that does not hang */

/*
 * closing_start - close a socket on a thread of its own.
 *
 *	quiet	run first there, or NULL: makes the connections quiet. False: leave the socket open
 *		for ever
 *	after	run last, when nng has let go of the socket; never, if it does not
 *	wait_ms	how long to wait for all that
 *
 * True: it is done.
 */
bool closing_start(nng_socket sock, bool (*quiet)(void *), void (*after)(void *), void *arg,
		   int wait_ms);

#endif
