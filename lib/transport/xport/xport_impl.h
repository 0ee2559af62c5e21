/*
 * xport_impl.h - shared by the files of lib/transport/xport.
 *
 * Design notes. op.c opens and ends operations and passes each call to the transport of its peer:
 * frames.c or peermem_*.c. wait.c is the one wait of both.
 *
 * One lock guards everything of an xport except the sockets, the counters that are waited for, and the
 * memory that ranks share. A thread releases it while it writes a chunk or an acknowledgement. The thread
 * of an operation does all its sending, also retransmission (frames.c). When it waits for a peer it
 * reads the peer's connection itself, or, if another thread does, waits on the exchange's condition
 * (the same). Chunks arrive on any reading thread (frames_arrive.c), which only files them and
 * signals their exchange. A communicator is freed when it has left the table, its last operation has
 * ended and no ticket is reserved (comm.c). Connections are shared by the communicators, by address, and
 * live as long as the xport.
 *
 * Reliability: a chunk is filed only when it is the next of its flow. The sender keeps it until it is
 * acknowledged, and sends everything unacknowledged again on a new connection, when the receiver reports
 * a damaged one, or at the retransmit timeout. An ended operation is remembered, so that a repetition is
 * answered and not taken for a new operation.
 */
#ifndef XPORT_IMPL_H
#define XPORT_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "net/net.h"
#include "xport/fault_impl.h"
#include "xport/shaper.h"
#include "xport/times.h"
#include "xport/xport.h"

#define FINISHED_OPS 4096 /* remembered, to distinguish a late repetition from an early chunk */
#define COPY_MAX \
	(32u     \
	 << 10) /* bytes of a collective's chunk that is copied, so that its end need not wait */
#define LINGER_MAX   16	 /* exchanges of a communicator */
#define FINISHED_SET 8	 /* of them, in which an operation is sought by its number */
#define REASON_MAX   400 /* bytes of a peer's message */

struct arrived {
	struct net_frame frame;
	uint64_t visible_ns; /* shaping; 0: at once */
};

struct posted {
	const void *data;
	uint32_t nbytes;
	bool copied; /* data is the exchange's own */
};

/* One operation's traffic with one peer. seq s lives in slot s % XPORT_WINDOW. */
struct flow {
	bool used; /* by this operation; else stale */
	struct arrived rx[XPORT_WINDOW];
	_Atomic uint64_t rx_next; /* chunks received; written under the lock */
	uint32_t rx_consumed, rx_acked;
	struct posted tx[XPORT_WINDOW];
	uint32_t tx_next;
	_Atomic uint64_t tx_acked; /* written under the lock */
	unsigned tx_generation;	   /* of the connection, when last sent */
	unsigned tx_repeats;	   /* since the last acknowledgement */
	bool tx_nacked;		   /* the peer has requested them again */
	bool rx_large;		   /* the peer waits for the next acknowledgement */
	uint64_t tx_moved_ns;	   /* time of the last send or acknowledgement */
	unsigned char *copy;	   /* XPORT_WINDOW x COPY_MAX; NULL until needed, kept */
};

/* The frames of one operation with all peers; created by xport_begin, or by the first frame. */
struct exchange {
	struct comm *comm;
	struct exchange *next;
	uint64_t id;
	uint32_t mark; /* xport_opening.kind */
	uint32_t odd;  /* 1 + a rank whose frames have another mark; 0: none known */
	bool begun;
	bool lingers;	  /* its operation has ended here; its copies are not acknowledged */
	uint64_t poll_ns; /* time of the next poll */
	char refused[REASON_MAX]; /* a peer's reason to give up, or empty; complete when: */
	atomic_bool is_refused;
	pthread_cond_t changed;
	struct net_conn *taken; /* read by its thread `reader`; or NULL */
	pthread_t reader;
	struct net_into expected; /* payload NULL: nothing */
	struct flow **flow;	  /* by peer rank; created when needed, reused */
};

struct peer {
	uint64_t device_id;
	const struct transport *via; /* transport of collectives */
	char addr[NET_ADDR_MAX];
	struct net_push *push; /* NULL until needed; owned by the xport */
};

struct finished {
	uint64_t op;
	uint32_t consumed; /* chunks of the peer that sent most */
	bool ended;	   /* the entry is in use */
	bool gave_up;
};

struct comm {
	struct xport *x;
	struct comm *next;
	uint64_t id, coordinator;
	uint32_t epoch, rank, nranks;
	uint64_t op_timeout_ns;
	bool attached;		  /* in the table */
	char aborted[REASON_MAX]; /* the reason, or empty */
	char gave_up[REASON_MAX]; /* last reason sent to the peers */
	atomic_bool stopped;	  /* the reason is complete */
	pthread_cond_t any;	  /* something of any operation changed: */
	_Atomic uint64_t *moves;  /* number of changes; of the control block, or: */
	_Atomic uint64_t own_moves;
	struct peer *peer;
	struct exchange *exchanges, *spare;
	unsigned nearly;  /* exchanges of operations that have not begun here */
	unsigned nlinger; /* exchanges that linger */
	/* FINISHED_OPS, in sets; by set the next, which replaces its oldest. */
	struct finished *finished;
	uint8_t *finished_next;
	struct peer_mapping *mapping; /* or NULL */
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
	_Atomic uint64_t foreign; /* valid frames that belong to nothing here */
	_Atomic uint64_t damaged; /* chunks' frames with a wrong checksum */
	bool check_all;
	void (*say)(const char *line);
	struct xport_faults faults;
	bool acks_wait; /* acknowledgements wait in the queues for frames to leave with */
	bool stopping, tends;
	pthread_t tender; /* sends what waits too long; sleeps while there is nothing */
	pthread_cond_t tend;
};

/*
 * A wait until a counter, which only grows, is at least n, or until a time. xport_await is the loop of
 * every wait; how a thread pauses in it depends on the transport.
 */
struct wait {
	struct xport_op *op;
	uint32_t peer;
	const char *what; /* for the message: "nothing from"; NULL: only for the time */
	_Atomic uint64_t *counter;
	uint64_t n, until_ns;
	uint64_t deadline_ns; /* 0: the communicator's timeout after the counter's last move */
	uint64_t now_ns;      /* a recent reading of the clock */
	unsigned pauses;
};

/* How a peer is reached. */
struct transport {
	enum rc (*send)(struct xport_op *o, uint32_t peer, const void *data, size_t nbytes,
			struct err *err);
	enum rc (*recv)(struct xport_op *o, uint32_t peer, const void **data, size_t *nbytes,
			struct err *err);
	void (*release)(struct xport_op *o, uint32_t peer);
	bool (*room)(struct xport_op *o, uint32_t peer, enum xport_way way); /* xport_ready */
	/* Wait until the peer has reached this rank's sync or share. */
	enum rc (*share)(struct xport_op *o, uint32_t peer, struct err *err);
	/* Wait for a while, or until the wait may be over. */
	enum rc (*pause)(struct wait *w, struct err *err);
};

extern const struct transport xport_frames, xport_peermem, xport_pairs;

static inline const struct transport *
xport_via(const struct xport_op *o, uint32_t peer)
{
	return o->slots							? o->comm->peer[peer].via
	       : o->by_pair && o->comm->peer[peer].via != &xport_frames ? &xport_pairs
									: &xport_frames;
}

static inline bool
xport_wait_is_over(const struct wait *w)
{
	return atomic_load_explicit(w->counter, memory_order_acquire) >= w->n;
}

/* Without the lock. RC_OK: the counter or the time is reached. RC_TIMEOUT past the deadline, with a
 * message about `what` and the peer; or the verdict. */
enum rc xport_await(struct wait *w, struct err *err);

/* Why an operation cannot continue, if so: aborted here, refused or given up by a peer. Needs no lock. */
enum rc xport_verdict(const struct xport_op *o, struct err *err);

/* ---- frames: with the lock unless stated */

struct comm *xport_find_comm(struct xport *x, uint64_t id);
/* RC_NOTFOUND: no communicator of that number and epoch. */
enum rc xport_find_epoch(struct xport *x, uint64_t id, uint32_t epoch, struct comm **out,
			 struct err *err);
struct exchange *exchange_find(struct comm *c, uint64_t id);
struct exchange *exchange_make(struct comm *c, uint64_t id);   /* not begun. NULL: out of memory */
struct flow *exchange_flow(struct exchange *e, uint32_t peer); /* NULL: out of memory */
bool exchange_unacked(const struct exchange *e);	       /* a chunk is not acknowledged */
void exchange_signal(struct exchange *e);		       /* something of it changed */
void exchange_compare(struct exchange *e, const struct frame *h); /* note a frame's mark */
void exchange_refuse(struct exchange *e);			  /* its `refused` is complete */
/* What is remembered of an ended operation; NULL: it has not ended here, or long ago. */
const struct finished *xport_finished(const struct comm *c, uint64_t op);

enum op_outcome { OP_DONE, OP_GAVE_UP };

/* Free an operation's chunks, remember its number. */
void exchange_drop(struct exchange *e, enum op_outcome how);

/* Free a communicator that is not attached, when its operations have ended. */
void xport_forget_comm(struct comm *c);

/*
 * Send a frame without payload about an operation to a peer; false: no room now. With a timeout the lock
 * is released meanwhile.
 */
bool xport_ack(struct comm *c, uint32_t peer, uint64_t op, uint32_t seq, int timeout_ms);
bool xport_refuse(struct comm *c, uint32_t peer, uint32_t epoch, uint64_t op, const char *text,
		  int timeout_ms);

#define ACK_LATER NET_LATER /* it leaves with the next frame to that peer, or by xport_flush_acks */
void xport_flush_acks(struct xport *x);

/* Request the peer's chunks from seq on again. False: no room now. */
bool xport_nack(struct comm *c, uint32_t peer, uint64_t op, uint32_t seq);

/* Repeat frames that may have been lost and send due acknowledgements, if it is time. RC_NOMEM. */
enum rc exchange_poll(struct exchange *e, struct err *err);

/* Without the lock. The parts of xport_begin and xport_end; reason NULL: success. */
enum rc frames_begin(struct xport *x, const struct xport_opening *how, struct xport_op *o,
		     struct err *err);
enum rc frames_settle(struct xport_op *o, struct err *err);
void frames_end(struct xport_op *o, const char *reason);

/* Without the lock. File a frame; takes it over. On the thread that read it. */
void xport_arrive(void *arg, struct net_frame *f);

/* Without the lock. A frame with a damaged payload arrived; this is its header. */
void xport_arrive_damaged(void *arg, const struct frame *head);

#endif
