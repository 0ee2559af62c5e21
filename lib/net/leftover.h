/*
 * leftover.h - sockets that nng forgets. Inside lib/net only.
 *
 * nng 1.5.2 never frees connections that had finished their handshake when a deaf listener was
 * closed: nobody had accepted them, so nobody closes them, and an attacker could use up all
 * descriptors. After a listener has been closed, no socket with its address should be left; those
 * that still are after NET_LEFTOVER_MS are closed here. (A few kilobytes of memory a connection
 * stay lost: they are nng's.)
 */
#ifndef NET_LEFTOVER_H
#define NET_LEFTOVER_H

#include <stddef.h>
#include <stdint.h>

struct leftover {
	int fd;
	uint64_t inode; /* tells the socket from a later one of the same number */
	uint64_t due_ns;
};

/* Initialise with {0}. */
struct leftovers {
	struct leftover *v;
	size_t n, cap;
};

/* Note all sockets of this process that are bound to addr. Call it between closing and listening
 * again. */
void leftovers_note(struct leftovers *l, const char *addr, uint64_t now_ns);

/* Close those whose time has come. */
void leftovers_sweep(struct leftovers *l, uint64_t now_ns);

void leftovers_fini(struct leftovers *l);

#endif
