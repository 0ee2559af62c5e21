/*
 * xport_impl.h - what the files of lib/xport share.
 *
 * Design notes. op.c opens and ends operations and passes each call on to the transport of its peer:
 * frames_*.c or peermem_*.c. wait.c is the one wait of both.
 *
 * One lock guards everything of an xport but the sockets, the counters that waits are for, and the
 * memory that ranks share. A thread gives it up while it writes a chunk or an acknowledgement. The
 * thread that works on an operation does all its sending, also the repeating (frames_send.c). When
 * it waits for a peer it reads the peer's connection itself, or, when another thread does, waits on
 * the exchange's condition (frames_recv.c). Chunks arrive on whatever thread reads
 * (frames_arrive.c), which only files them and signals their exchange. A communicator is freed when
 * it is out of the table, its last operation has ended and no ticket of it is reserved (comm.c).
 * Connections are shared by the communicators, by address, and live as long as the xport.
 *
 * How chunks stay whole: a chunk is filed only when it is the next of its flow. The sender keeps it
 * until it is acknowledged, and sends everything not acknowledged again when the connection was made
 * anew, when the receiver says that one came damaged, or when the retransmit timeout ends. An
 * operation that has ended is remembered, so that a repetition is answered and not taken for the
 * beginning of something new.
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
	_Atomic uint64_t rx_next; /* chunks that have come; written under the lock */
	uint32_t rx_consumed, rx_acked;
	struct posted tx[XPORT_WINDOW];
	uint32_t tx_next;
	_Atomic uint64_t tx_acked; /* written under the lock */
	unsigned tx_generation;	   /* of the connection, when last sent */
	unsigned tx_repeats;	   /* since something was acknowledged */
	bool tx_nacked;		   /* the peer has asked for them again */
	uint64_t tx_moved_ns;	   /* when last sent or acknowledged */
};

/* The frames of one operation with all peers; made by xport_begin, or by the first frame to come. */
struct exchange {
	struct comm *comm;
	struct exchange *next;
	uint64_t id;
	uint32_t mark; /* xport_opening.kind */
	bool begun;
	uint64_t poll_ns;	  /* when to look after it next */
	char refused[REASON_MAX]; /* why a peer will not go on, or empty; complete when: */
	atomic_bool is_refused;
	pthread_cond_t changed;
	struct net_conn *taken; /* what its thread, `reader`, reads itself; or NULL */
	pthread_t reader;
	struct net_into expected; /* payload NULL: nothing */
	struct flow **flow;	  /* by peer rank; made when first needed, kept for reuse */
};

struct peer {
	uint64_t device_id;
	const struct transport *via; /* how collectives reach it */
	char addr[NET_ADDR_MAX];
	struct net_push *push; /* NULL until first needed; the xport's */
};

struct finished {
	uint64_t op;
	uint32_t consumed; /* chunks of the peer that sent most */
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
	char gave_up[REASON_MAX]; /* what the peers were told last when an operation failed here */
	atomic_bool stopped;	  /* the reason is complete */
	pthread_cond_t any;	  /* something of any operation changed: */
	_Atomic uint64_t moves;	  /* so often by now */
	struct peer *peer;
	struct exchange *exchanges, *spare;
	unsigned nearly;	   /* exchanges of operations that are not begun here */
	struct finished *finished; /* FINISHED_OPS, a ring */
	uint64_t nfinished;
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
	_Atomic uint64_t foreign; /* proper frames that belong to nothing here */
	_Atomic uint64_t damaged; /* chunks' frames with a wrong checksum */
	bool check_all;
	void (*say)(const char *line);
	struct xport_faults faults;
};

/*
 * A wait for a counter, which only grows, to be at least n, but not beyond a moment. The one loop of
 * every wait is xport_await; how a thread pauses in it is the transport's.
 */
struct wait {
	struct xport_op *op;
	uint32_t peer;
	const char *what; /* of the sentence: "nothing from"; NULL: it is for the moment alone */
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
	/* Wait until the peer has come to this rank's sync or share. */
	enum rc (*share)(struct xport_op *o, uint32_t peer, struct err *err);
	/* Wait for a while, or until the wait may be over. */
	enum rc (*pause)(struct wait *w, struct err *err);
};

extern const struct transport xport_frames, xport_peermem;

static inline const struct transport *
xport_via(const struct xport_op *o, uint32_t peer)
{
	return o->slots ? o->comm->peer[peer].via : &xport_frames;
}

static inline bool
xport_wait_is_over(const struct wait *w)
{
	return atomic_load_explicit(w->counter, memory_order_acquire) >= w->n;
}

/* Without the lock. RC_OK: the counter is there, or the moment has come. RC_TIMEOUT past the deadline,
 * with a sentence about `what` and the peer; or the verdict. */
enum rc xport_await(struct wait *w, struct err *err);

/* Why an operation cannot go on, if it cannot: aborted here, refused by a peer, given up by one.
 * Needs no lock. */
enum rc xport_verdict(const struct xport_op *o, struct err *err);

/* ---- frames: the lock is held but where it is said */

struct comm *xport_find_comm(struct xport *x, uint64_t id);
/* RC_NOTFOUND with a sentence: none of that number and epoch. */
enum rc xport_find_epoch(struct xport *x, uint64_t id, uint32_t epoch, struct comm **out,
			 struct err *err);
struct exchange *exchange_find(struct comm *c, uint64_t id);
struct exchange *exchange_make(struct comm *c, uint64_t id);   /* not begun. NULL: out of memory */
struct flow *exchange_flow(struct exchange *e, uint32_t peer); /* NULL: out of memory */
void exchange_signal(struct exchange *e);		       /* something of it changed */
void exchange_refuse(struct exchange *e);		       /* its `refused` is complete */
struct net_push *xport_push(struct comm *c, uint32_t peer);    /* NULL: cannot */
const struct finished *xport_finished(const struct comm *c, uint64_t op);

/* Free the chunks that wait in an operation nobody has begun here. */
void exchange_drop_early(struct exchange *e);

enum op_outcome { OP_DONE, OP_GAVE_UP };

/* Forget an operation's chunks, remember its number. */
void exchange_drop(struct exchange *e, enum op_outcome how);

/* Take it out of the table; it is freed when its operations have ended, and by forget if that is
 * so already. */
void xport_unlink_comm(struct xport *x, struct comm *c, const char *reason);
void xport_forget_comm(struct comm *c);

/*
 * A frame without payload about an operation, to a peer; false: no room now. With a timeout the
 * lock is given up meanwhile.
 */
bool xport_ack(struct comm *c, uint32_t peer, uint64_t op, uint32_t seq, int timeout_ms);
bool xport_refuse(struct comm *c, uint32_t peer, uint32_t epoch, uint64_t op, const char *text,
		  int timeout_ms);

/* Ask the peer for its chunks from seq on again. False: no room now. */
bool xport_nack(struct comm *c, uint32_t peer, uint64_t op, uint32_t seq);

/* Wait until the peer has consumed all but `most` of the chunks sent to it; gives the lock up. */
enum rc frames_await_acks(struct xport_op *o, uint32_t peer, uint32_t most, struct err *err);

/* Wait for a moment; gives the lock up. */
enum rc frames_await_time(struct xport_op *o, uint32_t peer, uint64_t until_ns, struct err *err);

/* Repeat frames that may have been lost and send acknowledgements that are owed, if it is time to.
 * RC_NOMEM. */
enum rc exchange_poll(struct exchange *e, struct err *err);

/* Without the lock. The parts of xport_begin and xport_end; reason NULL: all went well. */
enum rc frames_begin(struct xport *x, const struct xport_opening *how, struct xport_op *o,
		     struct err *err);
enum rc frames_settle(struct xport_op *o, struct err *err);
void frames_end(struct xport_op *o, const char *reason);
enum rc frames_send(struct xport_op *o, uint32_t peer, const void *data, size_t nbytes,
		    struct err *err);

/* Without the lock. File a frame; takes it over. On the thread that read it. */
void xport_arrive(void *arg, struct net_frame *f);

/* Without the lock. A frame came whose payload is damaged; this is its header. */
void xport_arrive_damaged(void *arg, const struct frame *head);

#endif
