/*
 * peermem.h - the way between ranks that have mapped each other's memory: chunks are read where they
 * lie, and one-sided steps read and write the peers' memory.
 *
 * A communicator has a lane when its rank has mapped some peer's memory and that peer this rank's
 * (xport_join). The collectives of a communicator take turns, the same on each rank: turn t is its
 * t-th collective. Send and receive are those of xport.h, for peers that peermem_reaches; sync, share
 * and what follows from them want every rank to be reached (peermem_whole).
 *
 * Every wait spins, then yields, then sleeps; it ends with success, when nothing has moved for the
 * communicator's timeout, when the communicator is aborted, when the peer gave up, and when its
 * process is gone. Nothing here allocates or locks, but where a peer is met for the first time.
 */
#ifndef XPORT_PEERMEM_H
#define XPORT_PEERMEM_H

#include "xport/xport.h"

struct peer_mapping;
struct slot_set;

/* One collective as it runs, on the caller's stack. */
struct peermem_op {
	struct peer_mapping *lane;
	struct slot_set *channel;
	uint64_t turn;
	uint32_t kind;	/* the same on every rank, or the ranks disagree */
	const void *in; /* what STEP_SYNC shows to the peers */
	void *out;
	struct recorder *meter; /* what waits is told, or NULL */
	void (*idle)(void *);	/* called now and then while waiting, or NULL */
	void *idle_arg;
};

/* The turns [*first, *first + n) of a communicator are the caller's, until it lets go. *lane is
 * NULL when all its peers are reached by sockets. RC_NOTFOUND, RC_ABORTED. */
enum rc peermem_hold(struct xport *x, uint64_t comm, uint32_t epoch, uint64_t n,
		     struct peer_mapping **lane, uint64_t *first, struct err *err);
void peermem_let_go(struct peer_mapping *lane); /* NULL is legal */

bool peermem_whole(const struct peer_mapping *lane); /* false for NULL */
bool peermem_reaches(const struct peer_mapping *lane, uint32_t peer);

/* The caller has set lane, turn, kind, in, out. */
enum rc peermem_begin(struct peermem_op *o, struct err *err);

enum rc peermem_send(struct peermem_op *o, uint32_t peer, const void *data, size_t nbytes,
		     struct err *err);
bool peermem_room(const struct peermem_op *o, uint32_t peer); /* peermem_send will not wait */
enum rc peermem_recv(struct peermem_op *o, uint32_t peer, const void **data, size_t *nbytes,
		     struct err *err);
void peermem_release(struct peermem_op *o, uint32_t peer);

enum rc peermem_sync(struct peermem_op *o, struct err *err);
enum rc peermem_share(struct peermem_op *o, const void *data, size_t nbytes, struct err *err);

#define PEERMEM_SHARE_MAX 16384u /* bytes */

/* After peermem_share: what each rank left. After peermem_sync: each rank's in and out, from so many bytes
 * on. Arrays by rank, good until asked again. RC_BADDATA: a peer's is not in its memory. */
const void *const *peermem_shared(struct peermem_op *o);
enum rc peermem_ins(struct peermem_op *o, uint64_t from, uint64_t nbytes,
		    const void *const **by_rank, struct err *err);
enum rc peermem_outs(struct peermem_op *o, uint64_t from, uint64_t nbytes, void *const **by_rank,
		     struct err *err);

/* As xport_end. */
enum rc peermem_end(struct peermem_op *o, enum xport_ending how, struct err *err);

#endif
