/*
 * queue.h - messages from one to many: each goes to one taker that has room. Built on nng's
 * PUSH and PULL.
 *
 * The guarantees are weak. A message may be lost with the taker's process or its connection, and each
 * taker prefetches some. So the sender must be able to put a message again, and takers must handle one
 * that comes twice or never.
 */
#ifndef NET_QUEUE_H
#define NET_QUEUE_H

#include <stddef.h>

#include "base/rc.h"

#define NET_QUEUE_MAX (1 << 20) /* bytes of a message */

struct net_queue;

/* Listen; takers connect and disconnect. RC_BUSY: the address is taken. */
enum rc net_queue_serve(const char *addr, struct net_queue **out, struct err *err);

/* The address with the real port; lives as long as the queue. */
const char *net_queue_address(const struct net_queue *q);

/* Put a message. RC_TIMEOUT: no taker took it; it is dropped. RC_INVAL: too long. */
enum rc net_queue_put(struct net_queue *q, const void *message, size_t nbytes, int timeout_ms,
		      struct err *err);

/* Take from the queue at an address; connects in the background, and again when the connection breaks. */
enum rc net_queue_join(const char *addr, struct net_queue **out, struct err *err);

/* Take a message of at most `size` bytes. RC_TIMEOUT: none. RC_BADDATA: it was longer, and is dropped. */
enum rc net_queue_take(struct net_queue *q, void *message, size_t size, size_t *nbytes,
		       int timeout_ms, struct err *err);

/* Close either end, with no call running. NULL is legal. */
void net_queue_close(struct net_queue *q);

#endif
