/*
 * p2p.h - the way between ranks that have mapped each other's memory: chunks are read where they
 * lie, and one-sided steps read and write the peers' memory.
 *
 * A communicator has a lane when its rank has mapped some peer's memory and that peer this rank's
 * (xport_join). The collectives of a communicator take turns, the same on each rank: turn t is its
 * t-th collective. Send and receive are those of xport.h, for peers that p2p_reaches; sync, share
 * and what follows from them want every rank to be reached (p2p_whole).
 *
 * Every wait spins, then yields, then sleeps; it ends with success, when nothing has moved for the
 * communicator's timeout, when the communicator is aborted, when the peer gave up, and when its
 * process is gone. Nothing here allocates or locks, but where a peer is met for the first time.
 */
#ifndef XPORT_P2P_H
#define XPORT_P2P_H

#include "xport/xport.h"

struct p2p_lane;
struct p2p_channel;

/* One collective as it runs, on the caller's stack. */
struct p2p_op {
	struct p2p_lane *lane;
	struct p2p_channel *channel;
	uint64_t turn;
	uint32_t kind;	/* the same on every rank, or the ranks disagree */
	const void *in; /* what STEP_SYNC shows to the peers */
	void *out;
	struct meter *meter;  /* what waits is told, or NULL */
	void (*idle)(void *); /* called now and then while waiting, or NULL */
	void *idle_arg;
};

/* The turns [*first, *first + n) of a communicator are the caller's, until it lets go. *lane is
 * NULL when all its peers are reached by sockets. RC_NOTFOUND, RC_ABORTED. */
enum rc p2p_hold(struct xport *x, uint64_t comm, uint32_t epoch, uint64_t n, struct p2p_lane **lane,
		 uint64_t *first, struct err *err);
void p2p_let_go(struct p2p_lane *lane); /* NULL is legal */

bool p2p_whole(const struct p2p_lane *lane); /* false for NULL */
bool p2p_reaches(const struct p2p_lane *lane, uint32_t peer);

/* The caller has set lane, turn, kind, in, out. */
enum rc p2p_begin(struct p2p_op *o, struct err *err);

enum rc p2p_send(struct p2p_op *o, uint32_t peer, const void *data, size_t nbytes, struct err *err);
bool p2p_room(const struct p2p_op *o, uint32_t peer); /* p2p_send will not wait */
enum rc p2p_recv(struct p2p_op *o, uint32_t peer, const void **data, size_t *nbytes,
		 struct err *err);
void p2p_release(struct p2p_op *o, uint32_t peer);

enum rc p2p_sync(struct p2p_op *o, struct err *err);
enum rc p2p_share(struct p2p_op *o, const void *data, size_t nbytes, struct err *err);

#define P2P_SHARE_MAX 16384u /* bytes */

/* After p2p_share: what each rank left. After p2p_sync: each rank's in and out, from so many bytes
 * on. Arrays by rank, good until asked again. RC_BADDATA: a peer's is not in its memory. */
const void *const *p2p_shared(struct p2p_op *o);
enum rc p2p_ins(struct p2p_op *o, uint64_t from, uint64_t nbytes, const void *const **by_rank,
		struct err *err);
enum rc p2p_outs(struct p2p_op *o, uint64_t from, uint64_t nbytes, void *const **by_rank,
		 struct err *err);

/* As xport_end. */
enum rc p2p_end(struct p2p_op *o, enum xport_ending how, struct err *err);

#endif
