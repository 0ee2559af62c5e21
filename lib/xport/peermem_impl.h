/*
 * peermem_impl.h - what lies in the page that a rank shares with its peers, and what the files of the
 * lane share.
 *
 * Design notes. Each rank has one block in its memory file for each communicator, which it alone
 * writes, but for `sleepers`. In it are counters that only grow: whoever waits, waits for a counter
 * of a peer to reach a number, so nothing has to be taken back and no message is lost. A counter is
 * also the futex word of those who wait for it: its writer wakes them when `sleepers` says that
 * there are any.
 *
 * A block has channels, used by turns in rotation, so that so many collectives on different streams may
 * run at a time; a turn of a channel begins on a rank when the one before has ended there. With many
 * ranks there are fewer and shorter ones, by what their number says: a block is to be a small part of a
 * device's memory.
 *
 * A peer's memory is mapped when its block is first looked at. Most algorithms meet few peers, and
 * else making a communicator would take as much of each rank as there are ranks. What must be known
 * before, whether it can be mapped, is known of memory files that lie beside this rank's own; others
 * are mapped at once. `mapping` guards what is done then; the block's address is published last.
 *
 * Messages. From each rank to each other goes a ring of `window` slots; slot s % window holds
 * message s, published by its number, seq = s + 1. It says where in the sender's file the bytes
 * are, or has them if they are few. The receiver counts what it has `taken` in its own block.
 *
 * Syncs. A rank's n-th arrival in a channel is published in arrival[n % 2], seq = n, with where its
 * buffers are, or with what it shares. No rank can be more than one arrival ahead of any other, so
 * two places suffice: whoever writes n + 2 has seen everybody's n + 1, so all are through with n.
 */
#ifndef XPORT_PEERMEM_IMPL_H
#define XPORT_PEERMEM_IMPL_H

#include <stdatomic.h>

#include "mem/devmem.h"
#include "mem/peermem.h"
#include "xport/peermem.h"
#include "xport/xport_impl.h"

#define PEERMEM_SLOT_SETS 4   /* at most */
#define PEERMEM_WINDOW	  8   /* at most */
#define PEERMEM_MANY	  128 /* ranks, from which on there are fewer */
#define PEERMEM_INLINE	  32u /* bytes */
#define PEERMEM_LINE	  64  /* bytes of a cache line */
#define PEERMEM_MAGIC	  0x6770753270326c32ull

struct peermem_slot {
	_Alignas(PEERMEM_LINE) _Atomic uint64_t seq;
	uint64_t offset; /* in the sender's file; 0: the bytes are here */
	uint32_t nbytes;
	uint32_t kind;
	unsigned char bytes[PEERMEM_INLINE];
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

/* One channel in the block; the rings follow the struct. */
struct slot_page {
	struct peermem_arrival arrival[2];
	_Alignas(PEERMEM_LINE) unsigned char share[2][PEERMEM_SHARE_MAX];
	/* struct peermem_count taken[nranks]; struct peermem_slot slot[nranks][window]; */
};

/* PEERMEM_GAVE_UP: the reason is complete. */
enum peermem_end_state { PEERMEM_GOES_ON, PEERMEM_WRITES, PEERMEM_GAVE_UP };

struct peermem_block {
	_Alignas(PEERMEM_LINE) uint64_t magic, comm, coordinator;
	uint32_t epoch, rank, nranks;
	_Alignas(PEERMEM_LINE) atomic_uint sleepers; /* the one thing that peers write */
	_Alignas(PEERMEM_LINE) atomic_uint gave_up;  /* enum peermem_end_state */
	char reason[REASON_MAX];
	/* struct slot_page and its rings, for each channel */
};

/* A rank's channel, as seen from here. */
struct slot_view {
	struct slot_page *page;
	struct peermem_count *taken; /* by the peer that sent */
	struct peermem_slot *slot;   /* by the peer it goes to, `window` each */
};

struct peermem_peer {
	struct peermem_id id; /* path NULL: this rank's own, or not to be mapped; in `paths` */
	int pid;	      /* as its device says */
	bool reached;
	uint64_t offset; /* of its block in its file */
	/* When it is mapped: */
	struct peermem *mem;
	int seen;			     /* pid; 0: not seen from here */
	struct peermem_block *_Atomic block; /* its own block too; what is above is set before */
	struct slot_view view[PEERMEM_SLOT_SETS];
};

/* What this rank knows of one channel; one thread at a time works on it. */
struct slot_set {
	_Atomic uint64_t turn; /* that may begin */
	uint64_t arrivals;
	uint64_t *sent, *received; /* messages by peer */
	uint64_t *lent;		   /* the last that was not copied, + 1; by peer */
	void **at;		   /* by rank, for peermem_shared and its like */
};

struct peer_mapping {
	struct comm *comm;
	struct devmem *mem;
	struct peermem_block *block;
	uint32_t rank, nranks;
	unsigned channels, window;
	bool joined, whole;
	unsigned spins;
	atomic_bool aborted;
	uint64_t turns; /* given away; under the xport's lock */
	unsigned holds; /* the same */
	struct peermem_peer *peer;
	char *paths;
	struct slot_set channel[PEERMEM_SLOT_SETS];
	pthread_mutex_t mapping;
	uint32_t *mapped; /* peers, in order of mapping */
	_Atomic uint32_t nmapped;
};

/* Make the lane of a communicator that is being attached: its block, and the peers' memory as far
 * as it can be mapped. NULL: no lane, for whatever reason, or out of memory. */
struct peer_mapping *peer_mapping_new(struct comm *c, const struct xport_peer *peers);
void peer_mapping_free(struct peer_mapping *l);

/* The peers' blocks, by rank; 0: not reached. RC_BADDATA when one is mapped already and is not what it
 * should be. */
enum rc peer_mapping_join(struct peer_mapping *l, const uint64_t *block, struct err *err);

/* Map a peer that is reached, unless it is. RC_UNREACHABLE: it is not there any more. RC_NOMEM. */
enum rc peermem_map_peer(struct peer_mapping *l, uint32_t r, struct err *err);

static inline enum rc
peermem_map(struct peer_mapping *l, uint32_t r, struct err *err)
{
	return atomic_load_explicit(&l->peer[r].block, memory_order_acquire)
		   ? RC_OK
		   : peermem_map_peer(l, r, err);
}

/* A chunk of a send or receive, whose frame says where it lies: the offset in this rank's file, 0 when
 * the peer cannot read there; and at the peer, NULL when it is not in the sender's file. lane may be
 * NULL. */
uint64_t peermem_lend(const struct peer_mapping *lane, uint32_t peer, const void *data);
const void *peermem_borrow(struct peer_mapping *lane, uint32_t peer, uint64_t offset,
			   uint64_t nbytes);

/*
 * Wait until a counter of a peer's block is at least n. what: "nothing from".
 */
enum rc peermem_await(const struct peermem_op *o, uint32_t peer, _Atomic uint64_t *word, uint64_t n,
		      const char *what, struct err *err);

/* Whether the communicator is aborted: then with the reason. */
enum rc peermem_aborted(const struct peer_mapping *lane, struct err *err);

/* Publish: the counter of the own block is n now. */
void peermem_publish(struct peer_mapping *l, _Atomic uint64_t *word, uint64_t n);

#endif
