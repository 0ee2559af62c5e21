/*
 * peermem_impl.h - the control block that a rank shares with its peers in its memory file, and
 * declarations shared by the files of the transport by peer memory. README.md draws the block.
 *
 * Design notes. Each rank has one block in its memory file for each communicator, which only it writes,
 * except `sleepers`. The block holds counters that only grow: a rank waits for a peer's counter to reach
 * a number, so nothing is ever reset and no message is lost. A counter is also the futex word of its
 * waiters: its writer wakes them when `sleepers` is not 0.
 *
 * A block has slot sets, which tickets use in rotation, so that several collectives on different streams
 * may run concurrently. A ticket begins on a rank when the previous one in its slot set has ended there.
 * With many ranks there is one set with a shorter window, by their number alone, because a block is to be
 * a small part of device memory.
 *
 * A peer's memory is mapped at first use: most algorithms use few peers, and mapping all would cost each
 * rank in proportion to the ranks. Whether it can be mapped must be known before. It is known for memory
 * files beside this rank's own; others are mapped at once. `lock` guards the mapping; the block's address
 * is published last.
 *
 * Messages. From each rank to each other goes a ring of `window` slots; slot s % window holds
 * message s, published by its number, seq = s + 1. The slot says where in the sender's file the
 * bytes are, or holds them if they are few. The receiver counts what it has `taken` in its own block.
 *
 * Syncs. A rank's n-th arrival in a slot set is published in arrival[n % 2], seq = n, with the offsets of
 * its buffers, or the data that it shares. No rank can be more than one arrival ahead of any other, so
 * two entries suffice: a rank that writes n + 2 has seen all ranks' n + 1, so all are done with n.
 *
 * Sends and receives outside of collectives meet by number, in any order (peermem_pair.c). From each rank to
 * each other go `window` pair slots of the sender's block. A slot has the operation's number; it is free again
 * when the receiver's `taken` of that slot has reached its seq. `moves` of a block counts what may interest
 * its owner in any operation: the one counter that its peers write, so that it can wait for all of them at once.
 *
 * Nothing here allocates or locks, except at the first use of a peer, and for a free pair slot.
 */
#ifndef XPORT_PEERMEM_IMPL_H
#define XPORT_PEERMEM_IMPL_H

#include <stdatomic.h>

#include "mem/devmem.h"
#include "mem/peermem.h"
#include "xport/xport_impl.h"

#define PEERMEM_SLOT_SETS   4	/* at most */
#define PEERMEM_WINDOW	    8	/* at most */
#define PEERMEM_MANY	    128 /* ranks, from which on there are fewer */
#define PEERMEM_INLINE	    32u /* bytes */
#define PEERMEM_PAIR_INLINE 24u
#define PEERMEM_LINE	    64 /* bytes of a cache line */
#define PEERMEM_PAIR_MOST   2  /* slots that one send holds at a time */
#define PEERMEM_MAGIC	    0x6770753270326c35ull

struct peermem_slot {
	_Alignas(PEERMEM_LINE) _Atomic uint64_t seq;
	uint64_t offset; /* in the sender's file; 0: the bytes are here */
	uint32_t nbytes;
	uint32_t kind;
	unsigned char bytes[PEERMEM_INLINE];
};

/* A chunk of a send outside of collectives. */
struct peermem_pair_slot {
	_Alignas(PEERMEM_LINE) _Atomic uint64_t seq; /* of the slot; written last */
	uint64_t op;
	uint64_t mark;	 /* of the operation: the receiver compares it */
	uint64_t offset; /* in the sender's file; 0: the bytes are here */
	uint32_t nbytes;
	uint32_t chunk; /* its number in the operation */
	unsigned char bytes[PEERMEM_PAIR_INLINE];
};

/* By slot, the last seq that its receiver has consumed; in the receiver's block. */
struct peermem_pair_taken {
	_Alignas(PEERMEM_LINE) _Atomic uint64_t seq[PEERMEM_WINDOW];
};

struct peermem_arrival {
	_Alignas(PEERMEM_LINE) _Atomic uint64_t seq;
	uint64_t in, out; /* in the rank's file; 0: none */
	uint32_t nbytes;  /* shared */
	uint32_t kind;
	unsigned char bytes[PEERMEM_INLINE];
};

struct peermem_count {
	_Alignas(PEERMEM_LINE) _Atomic uint64_t n;
};

/* The rank's operation under its current ticket, for peers that run another one under it. */
struct peermem_call {
	_Alignas(PEERMEM_LINE) _Atomic uint64_t ticket; /* + 1; written last */
	uint32_t kind;
	char text[XPORT_CALL_MAX];
};

/* One slot set in the block; the rings follow the struct. */
struct slot_page {
	struct peermem_arrival arrival[2];
	struct peermem_call call;
	_Alignas(PEERMEM_LINE) unsigned char share[2][XPORT_SHARE_MAX];
	/* struct peermem_count taken[nranks]; struct peermem_slot slot[nranks][window]; */
};

/* PEERMEM_GAVE_UP: the reason is complete. */
enum peermem_end_state { PEERMEM_GOES_ON, PEERMEM_WRITES, PEERMEM_GAVE_UP };

struct peermem_block {
	_Alignas(PEERMEM_LINE) uint64_t magic;
	uint64_t comm, coordinator;
	uint32_t epoch, rank, nranks;
	_Alignas(PEERMEM_LINE)
	    atomic_uint sleepers; /* this and the next are all that peers write */
	_Alignas(PEERMEM_LINE) _Atomic uint64_t moves;
	_Alignas(PEERMEM_LINE) atomic_uint gave_up; /* enum peermem_end_state */
	char reason[REASON_MAX];
	/* struct slot_page and its rings, for each slot set;
	 * struct peermem_pair_taken[nranks]; struct peermem_pair_slot[nranks][window] */
};

/* A rank's slot set, mapped here. */
struct slot_view {
	struct slot_page *page;
	struct peermem_count *taken; /* by the peer that sent */
	struct peermem_slot *slot;   /* by the peer it goes to, `window` each */
};

struct peermem_peer {
	struct peermem_id id; /* path NULL: this rank's own, or not mappable; in `paths` */
	int pid;	      /* from its device */
	uint64_t offset;      /* of its block in its file */
	/* When it is mapped: */
	struct peermem *mem;
	int seen;			     /* pid; 0: not visible here */
	struct peermem_block *_Atomic block; /* its own block too; what is above is set before */
	struct slot_view view[PEERMEM_SLOT_SETS];
	struct peermem_pair_taken *pair_taken; /* by the peer that sent */
	struct peermem_pair_slot *pair_slot;   /* by the peer it goes to, `window` each */
};

/* This rank's side of one slot set; one thread at a time works on it. */
struct slot_set {
	unsigned index;
	_Atomic uint64_t ticket; /* that may begin */
	_Atomic uint64_t begun;	 /* of tickets numbered by callers: the next that has not begun */
	uint64_t arrivals;
	uint64_t *sent, *received; /* messages by peer */
	uint64_t *uncopied;	   /* the last message in this rank's memory, + 1; by peer */
	uint64_t *told;		   /* the last ticket with a message to it, + 1; by peer */
	void **at;		   /* by rank, for xport_shared and similar calls */
};

struct peer_mapping {
	struct comm *comm;
	struct devmem *mem;
	struct peermem_block *block;
	uint32_t rank, nranks;
	unsigned nsets, window;
	bool joined, whole;
	unsigned spins;
	uint64_t tickets; /* reserved; under the xport's lock */
	unsigned holds;	  /* the same */
	struct peermem_peer *peer;
	char *paths;
	struct slot_set set[PEERMEM_SLOT_SETS];
	pthread_mutex_t lock;
	uint8_t *pair_held; /* by peer, a bit for each slot that a send holds; under: */
	pthread_mutex_t pair_lock;
	uint32_t *mapped; /* ranks in order of mapping, this one first */
	_Atomic uint32_t nmapped;
};

/* Make the mapping of a communicator that is being attached: this rank's block, and the peers' memory as
 * far as possible. NULL: no peer's memory can be mapped, or out of memory. */
struct peer_mapping *peer_mapping_new(struct comm *c, const struct xport_peer *peers);
void peer_mapping_free(struct peer_mapping *m);

/* The blocks by rank, 0: by frames. RC_BADDATA when a mapped peer has no block there. */
enum rc peermem_join(struct peer_mapping *m, const uint64_t *block, struct err *err);

/* Map a joined peer, unless it is mapped. RC_UNREACHABLE: its memory is gone. RC_NOMEM. */
enum rc peermem_map_peer(struct peer_mapping *m, uint32_t r, struct err *err);

static inline enum rc
peermem_map(struct peer_mapping *m, uint32_t r, struct err *err)
{
	return atomic_load_explicit(&m->peer[r].block, memory_order_acquire)
		   ? RC_OK
		   : peermem_map_peer(m, r, err);
}

/* The parts of xport_begin and xport_end; reason NULL: success. */
enum rc peermem_begin(struct xport_op *o, struct err *err);
enum rc peermem_settle(struct xport_op *o, struct err *err);
void peermem_end(struct xport_op *o, const char *reason);

/* This rank gives up: tell its peers the reason. The first reason counts. */
void peermem_give_up(struct peer_mapping *m, const char reason[REASON_MAX]);

/* Set a counter, of this rank's block or private, to n and wake its waiters. */
void peermem_publish(struct peer_mapping *m, _Atomic uint64_t *word, uint64_t n);

/* Wait until a counter of a peer's block is at least n. what: "nothing from". */
enum rc peermem_await(struct xport_op *o, uint32_t peer, _Atomic uint64_t *word, uint64_t n,
		      const char *what, struct err *err);

/* Spin, then yield for a while. False: it is time to sleep. */
bool peermem_yield(struct wait *w, unsigned spins);

/* Sleep until a counter of block b changes; it is the one that is waited for, or changes with it. */
void peermem_sleep(struct wait *w, struct peermem_block *b, _Atomic uint64_t *counter);

/* Something of a communicator's operations has moved here, or for a mapped peer: it looks again. */
void peermem_moved(struct comm *c);
void peermem_moved_at(struct comm *c, uint32_t peer);

/* Wait until the peers have taken what a collective sent to them. */
enum rc peermem_pair_settle(struct xport_op *o, struct err *err);

/* xport_sync of members, who may show a copy of what they share. */
enum rc peermem_pair_meet(struct xport_op *o, const void *shared, struct err *err);

/* Give back the slots of a pair that ends; what is still in them is withdrawn. */
void peermem_pair_end(struct xport_op *o);

#endif
