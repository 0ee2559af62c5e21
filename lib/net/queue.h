/*
 * queue.h - messages from one to many: each goes to one of the takers that have room. Underneath are nng's
 * PUSH and PULL.
 *
 * The queue promises little. A message may be lost with the taker's process or its connection, and some
 * messages wait at each taker before it asks for them. So the sender must be able to put a message again,
 * and takers must bear one that comes twice or never.
 */
#ifndef NET_QUEUE_H
#define NET_QUEUE_H

#include <stddef.h>

#include "base/rc.h"

#define NET_QUEUE_MAX (1 << 20) /* bytes of a message */

struct net_queue;

/* Listen; takers come and go. RC_BUSY: the address is taken. */
enum rc net_queue_serve(const char *addr, struct net_queue **out, struct err *err);

/* The address with the real port; lives as long as the queue. */
const char *net_queue_address(const struct net_queue *q);

/* Put a message. RC_TIMEOUT: no taker took it, and none will. RC_INVAL: too long. */
enum rc net_queue_put(struct net_queue *q, const void *message, size_t nbytes, int timeout_ms,
		      struct err *err);

/* Take from the queue at an address; connects in the background, again and again. */
enum rc net_queue_join(const char *addr, struct net_queue **out, struct err *err);

/* Take a message of at most `size` bytes. RC_TIMEOUT: there is none. RC_BADDATA: it was longer, and is
 * dropped. */
enum rc net_queue_take(struct net_queue *q, void *message, size_t size, size_t *nbytes,
		       int timeout_ms, struct err *err);

/* Close either end, with no call running. NULL is legal. */
void net_queue_close(struct net_queue *q);

#endif
