/*
 * xport_impl.h - what the files of lib/xport share.
 *
 * Design notes. One lock guards everything of an xport but the sockets; it is given up while a
 * chunk or an acknowledgement is written. The thread that works on an operation does all its
 * sending, also the repeating (send.c). When it waits for a peer it reads the peer's connection
 * itself, or, when another thread does, waits on the operation's condition (op.c). Chunks arrive on
 * whatever thread reads (arrive.c), which only files them and signals their operation. A
 * communicator is freed when it is out of the table and its last operation has ended (comm.c).
 * Connections are shared by the communicators, by address, and live as long as the xport.
 *
 * What keeps chunks whole: a chunk is filed only when it is the next of its flow; the sender keeps
 * it until it is acknowledged, and sends everything not acknowledged again when the connection was
 * made anew, when the receiver says that one came damaged, or nothing was heard for long. An operation that has ended is remembered, so that a
 * repetition is answered and not taken for the beginning of something new.
 */
#ifndef XPORT_IMPL_H
#define XPORT_IMPL_H

#include <pthread.h>
#include <stdbool.h>

#include "net/net.h"
#include "xport/fault_impl.h"
#include "xport/shaper.h"
#include "xport/xport.h"

#define FINISHED_OPS 4096 /* remembered, to tell a late repetition from an early chunk */
#define REASON_MAX   400  /* bytes of a peer's sentence */

struct arrived {
	struct net_frame frame;
	uint64_t visible_ns; /* shaping; 0: at once */
};

struct posted {
	const void *data;
	uint32_t nbytes;
};

/* One operation's traffic with one peer. seq s lives in slot s % XPORT_WINDOW. */
struct flow {
	bool used; /* by this operation; else it is left from another */
	struct arrived rx[XPORT_WINDOW];
	uint32_t rx_next, rx_consumed, rx_acked;
	struct posted tx[XPORT_WINDOW];
	uint32_t tx_next, tx_acked;
	unsigned tx_generation; /* of the connection, when last sent */
	unsigned tx_repeats;	/* since something was acknowledged */
	bool tx_nacked;		/* the peer has asked for them again */
	uint64_t tx_moved_ns;	/* when last sent or acknowledged */
};

struct xport_op {
	struct comm *comm;
	struct xport_op *next;
	uint64_t id;
	bool begun;
	struct recorder *meter;	  /* or NULL */
	uint64_t allow_ns;	  /* added to the communicator's timeout */
	uint64_t poll_ns;	  /* when to look after it next */
	char refused[REASON_MAX]; /* why a peer will not go on, or empty */
	pthread_cond_t changed;
	struct net_conn *taken; /* what its thread, `reader`, reads itself; or NULL */
	pthread_t reader;
	struct net_into expected; /* payload NULL: nothing */
	struct flow **flow;	  /* by peer rank; made when first needed, kept for reuse */
};

struct peer {
	uint64_t device_id;
	char addr[NET_ADDR_MAX];
	struct net_push *push; /* NULL until first needed; the xport's */
};

struct finished {
	uint64_t op;
	uint32_t consumed; /* chunks of the peer that sent most */
	bool gave_up;
};

struct peer_mapping;

struct comm {
	struct xport *x;
	struct comm *next;
	uint64_t id, coordinator;
	uint32_t epoch, rank, nranks;
	uint64_t op_timeout_ns;
	bool attached;		  /* in the table */
	char aborted[REASON_MAX]; /* the reason, or empty */
	char gave_up[REASON_MAX]; /* what the peers were told last when an operation failed here */
	pthread_cond_t any;	  /* something of any operation changed: */
	uint64_t moves;		  /* so often by now */
	struct peer *peer;
	struct xport_op *ops, *spare;
	unsigned nearly;	   /* operations that are not begun here */
	struct finished *finished; /* FINISHED_OPS, a ring */
	uint64_t nfinished;
	struct peer_mapping *lane; /* or NULL */
};

struct push {
	struct push *next;
	char addr[NET_ADDR_MAX];
	struct net_push *push;
};

struct xport {
	pthread_mutex_t lock;
	uint64_t device_id;
	struct devmem *mem; /* or NULL */
	struct shaper shaper;
	struct net_pull *pull;
	struct comm *comms;
	unsigned ncomms;
	struct push *pushes;
	size_t early_bytes;
	uint64_t foreign; /* proper frames that belong to nothing here */
	uint64_t damaged; /* chunks' frames with a wrong checksum */
	bool check_all;
	void (*say)(const char *line);
	struct xport_faults faults;
};

/* All of these want the lock held. */
struct comm *xport_find_comm(struct xport *x, uint64_t id);
/* RC_NOTFOUND with a sentence: none of that number and epoch. */
enum rc xport_find_epoch(struct xport *x, uint64_t id, uint32_t epoch, struct comm **out,
			 struct err *err);
struct xport_op *xport_find_op(struct comm *c, uint64_t id);
struct xport_op *xport_make_op(struct comm *c, uint64_t id); /* not begun. NULL: out of memory */
struct flow *xport_flow(struct xport_op *o, uint32_t peer);  /* NULL: out of memory */
void xport_signal(struct xport_op *o);			     /* something of it changed */
struct net_push *xport_push(struct comm *c, uint32_t peer);  /* NULL: cannot */
const struct finished *xport_finished(const struct comm *c, uint64_t op);

/* Free the chunks that wait in an operation nobody has begun here. */
void xport_drop_early(struct xport_op *o);

enum op_outcome { OP_DONE, OP_GAVE_UP };

/* Forget an operation's chunks, remember its number. */
void xport_drop_op(struct xport_op *o, enum op_outcome how);

/* End what runs and refuse what comes. */
void xport_abort_comm(struct comm *c, const char *reason);

/* Take it out of the table; it is freed when its operations have ended, and by forget if that is
 * so already. */
void xport_unlink_comm(struct xport *x, struct comm *c, const char *reason);
void xport_forget_comm(struct comm *c);

/* Why an operation cannot go on, if it cannot. */
enum rc xport_verdict(struct xport_op *o, struct err *err);

/*
 * A frame without payload about an operation, to a peer; false: no room now. With a timeout the
 * lock is given up meanwhile.
 */
bool xport_ack(struct comm *c, uint32_t peer, uint64_t op, uint32_t seq, int timeout_ms);
bool xport_refuse(struct comm *c, uint32_t peer, uint32_t epoch, uint64_t op, const char *text,
		  int timeout_ms);

/* Ask the peer for its chunks from seq on again. False: no room now. */
bool xport_nack(struct comm *c, uint32_t peer, uint64_t op, uint32_t seq);

/*
 * Wait on a condition until something changes, `until_ns`, or it is time to tend the operation;
 * RC_TIMEOUT at deadline_ns with a sentence about `what` and the peer.
 */
enum rc xport_await(struct xport_op *o, pthread_cond_t *on, uint32_t peer, uint64_t until_ns,
		    uint64_t deadline_ns, const char *what, struct err *err);

/* Wait until all but `most` of the chunks sent to the peer have been consumed. */
enum rc xport_await_acks(struct xport_op *o, uint32_t peer, uint32_t most, struct err *err);

/* When an operation that has moved just now is late. */
uint64_t xport_late_ns(const struct xport_op *o);

/* Repeat what may have been lost and acknowledge what is owed, if it is time to. */
enum rc xport_poll_op(struct xport_op *o, struct err *err);

/* File a frame; takes it over. On the thread that read it. */
void xport_arrive(void *arg, struct net_frame *f);

/* A frame came whose payload is damaged; this is its header. */
void xport_arrive_damaged(void *arg, const struct frame *head);

#endif
