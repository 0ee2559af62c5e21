/*
 * p2p_impl.h - what lies in the page that a rank shares with its peers, and what the files of the
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
#ifndef XPORT_P2P_IMPL_H
#define XPORT_P2P_IMPL_H

#include <stdatomic.h>

#include "mem/devmem.h"
#include "mem/peermem.h"
#include "xport/p2p.h"
#include "xport/xport_impl.h"

#define P2P_CHANNELS 4	 /* at most */
#define P2P_WINDOW   8	 /* at most */
#define P2P_MANY     128 /* ranks, from which on there are fewer */
#define P2P_INLINE   32u /* bytes */
#define P2P_LINE     64	 /* bytes of a cache line */
#define P2P_MAGIC    0x6770753270326c32ull

struct p2p_slot {
	_Alignas(P2P_LINE) _Atomic uint64_t seq;
	uint64_t offset; /* in the sender's file; 0: the bytes are here */
	uint32_t nbytes;
	uint32_t kind;
	unsigned char bytes[P2P_INLINE];
};

struct p2p_arrival {
	_Alignas(P2P_LINE) _Atomic uint64_t seq;
	uint64_t in, out; /* in the rank's file; 0: none */
	uint32_t nbytes;  /* shared */
	uint32_t kind;
	unsigned char bytes[P2P_INLINE];
};

struct p2p_count {
	_Alignas(P2P_LINE) _Atomic uint64_t n;
};

/* One channel in the block; the rings follow the struct. */
struct p2p_page {
	struct p2p_arrival arrival[2];
	_Alignas(P2P_LINE) unsigned char share[2][P2P_SHARE_MAX];
	/* struct p2p_count taken[nranks]; struct p2p_slot slot[nranks][window]; */
};

/* P2P_GAVE_UP: the reason is complete. */
enum p2p_end_state { P2P_GOES_ON, P2P_WRITES, P2P_GAVE_UP };

struct p2p_block {
	_Alignas(P2P_LINE) uint64_t magic, comm, coordinator;
	uint32_t epoch, rank, nranks;
	_Alignas(P2P_LINE) atomic_uint sleepers; /* the one thing that peers write */
	_Alignas(P2P_LINE) atomic_uint gave_up;	 /* enum p2p_end_state */
	char reason[REASON_MAX];
	/* struct p2p_page and its rings, for each channel */
};

/* A rank's channel, as seen from here. */
struct p2p_view {
	struct p2p_page *page;
	struct p2p_count *taken; /* by the peer that sent */
	struct p2p_slot *slot;	 /* by the peer it goes to, `window` each */
};

struct p2p_peer {
	struct peermem_id id; /* path NULL: this rank's own, or not to be mapped; in `paths` */
	int pid;	      /* as its device says */
	bool reached;
	uint64_t offset; /* of its block in its file */
	/* When it is mapped: */
	struct peermem *mem;
	int seen;			 /* pid; 0: not seen from here */
	struct p2p_block *_Atomic block; /* its own block too; what is above is set before */
	struct p2p_view view[P2P_CHANNELS];
};

/* What this rank knows of one channel; one thread at a time works on it. */
struct p2p_channel {
	_Atomic uint64_t turn; /* that may begin */
	uint64_t arrivals;
	uint64_t *sent, *received; /* messages by peer */
	uint64_t *lent;		   /* the last that was not copied, + 1; by peer */
	void **at;		   /* by rank, for p2p_shared and its like */
};

struct p2p_lane {
	struct comm *comm;
	struct devmem *mem;
	struct p2p_block *block;
	uint32_t rank, nranks;
	unsigned channels, window;
	bool joined, whole;
	unsigned spins;
	atomic_bool aborted;
	uint64_t turns; /* given away; under the xport's lock */
	unsigned holds; /* the same */
	struct p2p_peer *peer;
	char *paths;
	struct p2p_channel channel[P2P_CHANNELS];
	pthread_mutex_t mapping;
	uint32_t *mapped; /* peers, in order of mapping */
	_Atomic uint32_t nmapped;
};

/* Make the lane of a communicator that is being attached: its block, and the peers' memory as far
 * as it can be mapped. NULL: no lane, for whatever reason, or out of memory. */
struct p2p_lane *p2p_lane_new(struct comm *c, const struct xport_peer *peers);
void p2p_lane_free(struct p2p_lane *l);

/* The peers' blocks, by rank; 0: not reached. RC_BADDATA when one is mapped already and is not what it
 * should be. */
enum rc p2p_lane_join(struct p2p_lane *l, const uint64_t *block, struct err *err);

/* Map a peer that is reached, unless it is. RC_UNREACHABLE: it is not there any more. RC_NOMEM. */
enum rc p2p_map_peer(struct p2p_lane *l, uint32_t r, struct err *err);

static inline enum rc
p2p_map(struct p2p_lane *l, uint32_t r, struct err *err)
{
	return atomic_load_explicit(&l->peer[r].block, memory_order_acquire)
		   ? RC_OK
		   : p2p_map_peer(l, r, err);
}

/* A chunk of a send or receive, whose frame says where it lies: the offset in this rank's file, 0 when
 * the peer cannot read there; and at the peer, NULL when it is not in the sender's file. lane may be
 * NULL. */
uint64_t p2p_lend(const struct p2p_lane *lane, uint32_t peer, const void *data);
const void *p2p_borrow(struct p2p_lane *lane, uint32_t peer, uint64_t offset, uint64_t nbytes);

/*
 * Wait until a counter of a peer's block is at least n. what: "nothing from".
 */
enum rc p2p_await(const struct p2p_op *o, uint32_t peer, _Atomic uint64_t *word, uint64_t n,
		  const char *what, struct err *err);

/* Whether the communicator is aborted: then with the reason. */
enum rc p2p_aborted(const struct p2p_lane *lane, struct err *err);

/* Publish: the counter of the own block is n now. */
void p2p_publish(struct p2p_lane *l, _Atomic uint64_t *word, uint64_t n);

#endif
