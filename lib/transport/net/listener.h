/*
 * listener.h - a listening nng socket with limits, its address and its lock file. Inside lib/transport/net only.
 */
#ifndef NET_LISTENER_H
#define NET_LISTENER_H

#include <nng/nng.h>
#include <stdbool.h>

#include "base/rc.h"

enum listener_event {
	LISTENER_CAME, /* before the first message of the connection */
	LISTENER_GONE, /* after this the number is invalid */
};

struct listener;

/* Called for each connection, on a thread of nng: do not block. */
typedef void (*listener_fn)(void *arg, int pipe, enum listener_event event);

/*
 * listener_open - set limits on sock, listen on addr.
 *
 *	sock	REP, open; the caller closes it, also after a failure
 *	max	bytes of the largest message taken
 *	fn	or NULL
 *
 * RC_BUSY: another process listens there. RC_FAILED: the system's or nng's reason.
 */
enum rc listener_open(nng_socket sock, const char *addr, size_t max, listener_fn fn, void *arg,
		      struct listener **out, struct err *err);

/* The address with the real port. */
const char *listener_address(const struct listener *l);

/* The address by which this process reaches it: a dialable host for a wildcard. */
const char *listener_self(const struct listener *l);

/* Close in this order: listener_stop (removes socket and lock file), nng_close(sock) (until then fn may run),
 * listener_free. */
void listener_stop(struct listener *l);
void listener_free(struct listener *l);

#endif
