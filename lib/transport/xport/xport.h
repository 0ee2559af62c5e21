/*
 * xport.h - chunks between the ranks of a communicator: a device's end of every link.
 *
 * An operation (one collective, one send, one receive) is opened on each of its ranks under the same
 * number. Chunks from one rank to another within an operation arrive once, in order and undamaged, or the
 * operation fails with a reason. A window bounds the chunks in flight, so a fast rank cannot flood a slow
 * one.
 *
 * Only the transport knows how a peer is reached: by its mapped memory, where chunks are read in place,
 * or by frames over a byte stream, which are acknowledged and repeated. README.md draws both.
 *
 * Every wait ends: with success, when nothing has moved for the communicator's timeout, when the
 * communicator is aborted, when a peer gave up, or when a peer's process has ended.
 */
#ifndef XPORT_XPORT_H
#define XPORT_XPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "mem/devmem.h"
#include "mem/peermem.h"
#include "net/connection.h"
#include "xport/progress.h"

#define XPORT_WINDOW	8	    /* chunks */
#define XPORT_SHARE_MAX 16384u	    /* bytes */
#define XPORT_CALL_MAX	52	    /* bytes of an operation's description */
#define XPORT_EARLY_OPS 256	    /* operations by which the peers may be ahead */
#define XPORT_EARLY_MAX (64u << 20) /* bytes of chunks held for operations not yet opened here */

struct xport;
struct comm;

struct xport_config {
	uint64_t device_id;
	const char *data_addr; /* where to listen */
	uint64_t latency_ns;   /* shaping of this device's link, see shaper.h */
	uint64_t bits_per_s;
	struct devmem *mem;	       /* the device's; NULL: peers are reached by sockets alone */
	bool check_all;		       /* checksums cover every byte sent, see wire/frame.h */
	void (*say)(const char *line); /* a line for the log, on any thread; or NULL */
};

struct xport_peer {
	uint64_t device_id;
	const char *data_addr;
	struct peermem_id mem; /* path NULL: not to be mapped */
	int pid;	       /* of a visible process, or 0 */
};

enum rc xport_new(const struct xport_config *cfg, struct xport **out, struct err *err);

/* All operations must have ended. NULL is legal. */
void xport_free(struct xport *x);

/* The data address with its real port; and damaged or foreign messages seen so far. */
const char *xport_address(const struct xport *x);
uint64_t xport_refused(struct xport *x);

/* The number of frames that arrived damaged and were requested again. */
uint64_t xport_damaged(struct xport *x);

/* A device's part of a communicator. */
struct xport_membership {
	uint64_t comm;
	uint64_t coordinator; /* the coordinator's instance */
	uint32_t epoch, rank, nranks;
	uint32_t op_timeout_ms; /* longest wait without progress, or: */
#define XPORT_FOR_EVER UINT32_MAX
};

/*
 * Take part in a communicator. It replaces one of that number, whose operations end with RC_ABORTED. The
 * caller has checked that this is allowed, and that this device has the rank.
 *
 *	peers	m->nranks of them, by rank; copied
 *
 * RC_INVAL: a bad address; RC_NOMEM. The old one stays then.
 */
enum rc xport_attach(struct xport *x, const struct xport_membership *m,
		     const struct xport_peer *peers, struct err *err);

/*
 * Ranks that have mapped each other's memory use it. Each rank offers its block, and when all have, each
 * joins with the others that it is to reach so.
 *
 *	block	offset of the control block in the rank's memory file; 0: none
 *	mapped	[out] by rank: its memory is mapped here
 *
 * RC_NOTFOUND: no such communicator and epoch.
 */
enum rc xport_offer(struct xport *x, uint64_t comm, uint32_t epoch, uint64_t *block, bool *mapped,
		    struct err *err);

/* block: by rank, 0: use sockets. Idempotent. RC_NOTFOUND; RC_INVAL: nothing was offered here;
 * RC_BADDATA: a peer has no block there. */
enum rc xport_join(struct xport *x, uint64_t comm, uint32_t epoch, const uint64_t *block,
		   uint32_t nblocks, struct err *err);

/* Leave; running operations end with RC_ABORTED. RC_NOTFOUND. */
enum rc xport_detach(struct xport *x, uint64_t comm, struct err *err);

/* End its operations and refuse new ones, with a reason. RC_NOTFOUND: no such communicator and epoch. */
enum rc xport_abort(struct xport *x, uint64_t comm, uint32_t epoch, const char *reason,
		    struct err *err);

/* The same, and tell the peers that wait for this rank that it is lost. */
enum rc xport_give_up(struct xport *x, uint64_t comm, uint32_t epoch, const char *reason,
		      struct err *err);

/* xport_abort for every communicator. */
void xport_abort_all(struct xport *x, const char *reason);

/* The communicator exists and is not aborted. */
bool xport_is_live(struct xport *x, uint64_t comm, uint32_t epoch);

/* This device's part of a communicator; comm 0 means its only one. */
enum rc xport_member(struct xport *x, uint64_t comm, struct xport_membership *out, struct err *err);

/*
 * The collectives of a communicator use the peers' memory by tickets, in the same order on each
 * rank: ticket t is the t-th collective. A run reserves [first, first + n) when it is queued.
 * comm NULL: every peer is reached by frames, and no tickets are needed. RC_NOTFOUND.
 *
 * Where the ranks count for themselves nothing is reserved: with n = 0 the communicator is only held, and
 * operations bring their own tickets (xport_opening.numbered).
 */
struct xport_tickets {
	struct comm *comm;
	uint64_t first;
};

enum rc xport_reserve(struct xport *x, uint64_t comm, uint32_t epoch, uint64_t n,
		      struct xport_tickets *out, struct err *err);
void xport_unreserve(struct xport_tickets *t);

/* This rank reaches every other by peer memory. */
bool xport_by_memory(const struct xport_tickets *t);

struct xport_pair;

/* What a member shows to the others at a sync: offsets in its memory file; 0: none. */
struct xport_shown {
	uint64_t in, out, shared;
};

/* The ranks that take part in a collective, by place, and room for one operation of theirs. The caller's. */
struct xport_members {
	const uint32_t *rank;
	uint32_t n;
	struct xport_pair *pairs; /* 2 * rank: to that rank, and one on: from it */
	/* If it shares: n of them; 2 n pointers; 2 * XPORT_SHARE_MAX bytes of the device's memory. */
	struct xport_shown *shown;
	void **at;
	unsigned char *share;
};

/* The parameters of xport_begin. */
struct xport_opening {
	uint64_t comm,
	    op; /* number: used once in an epoch, or late chunks could not be told apart */
	uint32_t epoch;
	/* At most this many go through one link: a queue on a shaped link is not a failure */
	uint64_t nbytes;
	struct recorder *recorder; /* records each wait, or NULL; outlives the operation */
	/* A collective's; the others are sends and receives, which frames order. */
	const struct xport_tickets *tickets; /* or NULL */
	uint64_t ticket;
	bool numbered;	  /* the ticket was not reserved: refuse a used one */
	uint32_t kind;	  /* hash of the operation; differs if the ranks disagree */
	const char *call; /* the same as text, XPORT_CALL_MAX bytes, NUL-terminated; or NULL */
	const void *in;	  /* published by xport_sync */
	void *out;
	bool shares; /* it syncs or shares, so every peer's memory is needed */
	/* A send or receive, or a collective of some ranks. It has no ticket: its chunks meet by number, in any
	 * order beside others. */
	bool pair;
	uint64_t pair_mark; /* equal on its ranks: the bytes of a send or receive */
	/* Of a collective: the ranks that take part, and room for its state. NULL: it has one peer and one
	 * direction. */
	const struct xport_members *members;
};

/* Chunks to or from one peer by its memory, outside of tickets. */
struct xport_pair {
	uint64_t since_ns; /* waits for a slot; 0: it does not */
	uint64_t seq[2];   /* of the slots that it holds, or of the received one, */
	uint8_t slot[2];   /* and their numbers: the first `held` are with the peer, */
	uint8_t held;
	bool claimed;	/* and the next one is to be filled */
	uint32_t peer;	/* whose slots they are, or go to */
	bool framed;	/* its chunks go by frames, from this one on */
	bool got_frame; /* the received chunk came by a frame */
	uint32_t chunk; /* number of the next one, as of frames */
};

/* One operation as it runs, in the caller's storage. Its fields are the transport's. */
struct xport_op {
	struct comm *comm;
	struct recorder *recorder;
	struct exchange *frames; /* NULL: every peer is reached by its memory */
	struct slot_set *slots;	 /* NULL: none is */
	uint64_t ticket, allow_ns;
	uint64_t sent, received; /* bytes by frames, so far */
	bool numbered;
	uint32_t kind;
	const char *call;
	const void *in;
	void *out;
	bool by_pair; /* by the memory of peers that are mapped: */
	uint64_t mark;
	const struct xport_members *members; /* or NULL: */
	struct xport_pair pair;
	struct xport_shown own[2]; /* of the last two syncs, */
	unsigned meets;		   /* of so many */
};

/*
 * Open an operation; end it with xport_end. One thread works on it.
 *
 * Errors, which leave nothing to end: RC_NOTFOUND no such communicator and epoch, RC_ABORTED, RC_INVAL
 * the number is or was in use, or it shares and a peer is reached by frames, RC_TIMEOUT the previous
 * ticket does not end, RC_NOMEM.
 */
enum rc xport_begin(struct xport *x, const struct xport_opening *how, struct xport_op *o,
		    struct err *err);

/* No chunk of a collective goes by frames: those of members may, but so far none has. */
static inline bool
xport_in_memory(const struct xport_op *o)
{
	return o->slots ? !o->frames : o->members && o->by_pair && o->sent + o->received == 0;
}

/* The peer's link is shaped: chunks are in flight for longer than it takes to wake a thread. */
bool xport_is_slow(const struct xport_op *o, uint32_t peer);

/* If this operation is given up, tell the peer, even if no chunk has been exchanged with it yet. Other
 * peers are told in any case. */
void xport_involve(struct xport_op *o, uint32_t peer);

/*
 * Post nbytes (at most FRAME_PAYLOAD_MAX) to a peer. They may be read until the chunk has been consumed:
 * a schedule does not overwrite them before that is certain, and xport_end waits for it.
 */
enum rc xport_send(struct xport_op *o, uint32_t peer, const void *data, size_t nbytes,
		   struct err *err);

/* The next chunk from a peer, in place; return it with xport_release before asking for another. */
enum rc xport_recv(struct xport_op *o, uint32_t peer, const void **data, size_t *nbytes,
		   struct err *err);
void xport_release(struct xport_op *o, uint32_t peer);

/* The next requested chunk, if it has nbytes bytes, may be put into room; xport_recv returns its address. */
void xport_expect(struct xport_op *o, uint32_t peer, void *room, size_t nbytes);

/*
 * Algorithms that use the memory of all ranks at once (xport_opening.shares).
 *
 * xport_sync publishes each rank's in and out, xport_share up to XPORT_SHARE_MAX bytes; both end when
 * every rank has reached it. Then the arrays by rank, or by place among members, have each rank's shared
 * data, and its buffers from an offset on; they are valid until the next request. RC_BADDATA: a peer runs
 * another operation, or names an address outside its memory.
 */
enum rc xport_sync(struct xport_op *o, struct err *err);
enum rc xport_share(struct xport_op *o, const void *data, size_t nbytes, struct err *err);
enum rc xport_shared(struct xport_op *o, uint64_t nbytes, const void *const **by_rank,
		     struct err *err);
enum rc xport_ins(struct xport_op *o, uint64_t from, uint64_t nbytes, const void *const **by_rank,
		  struct err *err);
enum rc xport_outs(struct xport_op *o, uint64_t from, uint64_t nbytes, void *const **by_rank,
		   struct err *err);

/* The next call for this peer will not wait (also: to report a failure). */
enum xport_way {
	XPORT_SEND,
	XPORT_RECV,
	XPORT_TAKEN, /* the peer has consumed all that was sent: xport_end will not wait */
};
bool xport_ready(struct xport_op *o, uint32_t peer, enum xport_way way);

/* One thread may drive several operations whose chunks are frames. Wait until anything of the
 * communicator has moved since xport_moves returned `seen`, or for a moment; RC_TIMEOUT past the
 * deadline, naming this operation and peer. */
uint64_t xport_moves(struct xport_op *o);
enum rc xport_wait(struct xport_op *o, uint32_t peer, enum xport_way way, uint64_t seen,
		   uint64_t deadline_ns, struct err *err);

/* Repeat frames that may have been lost; call regularly for each operation of a set. */
enum rc xport_poll(struct xport_op *o, struct err *err);

/* The deadline for an operation that has moved just now. */
uint64_t xport_deadline(struct xport_op *o);

enum xport_ending {
	XPORT_COMPLETE, /* wait until the peers have consumed everything */
	XPORT_GIVE_UP,	/* tell the peers that this rank gives up because of err->text */
};

/*
 * End an operation, successful or not; o is invalid afterwards. XPORT_COMPLETE fails with
 * RC_BADDATA when a peer has sent more than was received: the ranks disagree on the operation.
 */
enum rc xport_end(struct xport_op *o, enum xport_ending how, struct err *err);

/* Inject a chunk (of the lab's StreamSend) as if received from rank `src`. */
enum rc xport_inject(struct xport *x, uint64_t comm, uint64_t op, uint32_t src, uint32_t seq,
		     const void *data, size_t nbytes, struct err *err);

/* No more injected chunks: the operation fails with RC_ABORTED and the reason. RC_NOTFOUND: not open. */
enum rc xport_inject_end(struct xport *x, uint64_t comm, uint64_t op, const char *reason,
			 struct err *err);

#endif
