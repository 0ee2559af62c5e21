/* Lanes: made when a communicator is attached, joined when all its ranks have offered. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "xport/p2p_impl.h"

/* Pauses, 1 us or so, when each rank has a core to itself: yielding costs less than that when nobody
 * else wants the core, and spinning everything when somebody does. */
#define SPINS 30

static size_t
page_bytes(uint32_t nranks)
{
	return sizeof(struct p2p_page) +
	       nranks * (sizeof(struct p2p_count) + P2P_WINDOW * sizeof(struct p2p_slot));
}

static size_t
block_bytes(uint32_t nranks)
{
	return sizeof(struct p2p_block) + P2P_CHANNELS * page_bytes(nranks);
}

static void
find_views(struct p2p_peer *p, uint32_t nranks)
{
	unsigned char *at = (unsigned char *)(p->block + 1);

	for (int c = 0; c < P2P_CHANNELS; c++, at += page_bytes(nranks)) {
		p->view[c].page = (struct p2p_page *)at;
		p->view[c].taken = (struct p2p_count *)(p->view[c].page + 1);
		p->view[c].slot = (struct p2p_slot *)(p->view[c].taken + nranks);
	}
}

static bool
make_channels(struct p2p_lane *l)
{
	for (unsigned c = 0; c < P2P_CHANNELS; c++) {
		struct p2p_channel *ch = &l->channel[c];

		ch->turn = c;
		ch->sent = alloc_zeroed(l->nranks, 3 * sizeof *ch->sent);
		ch->at = alloc_zeroed(l->nranks, 2 * sizeof *ch->at);
		if (!ch->sent || !ch->at)
			return false;
		ch->received = ch->sent + l->nranks;
		ch->lent = ch->received + l->nranks;
	}
	return true;
}

static bool
make_block(struct p2p_lane *l)
{
	const struct comm *c = l->comm;
	void *p;

	if (devmem_own_alloc(l->mem, block_bytes(l->nranks), &p, NULL) != RC_OK)
		return false;
	memset(p, 0, block_bytes(l->nranks));
	l->block = p;
	l->block->magic = P2P_MAGIC;
	l->block->comm = c->id;
	l->block->coordinator = c->coordinator;
	l->block->epoch = c->epoch;
	l->block->rank = c->rank;
	l->block->nranks = c->nranks;
	l->peer[l->rank].block = l->block;
	find_views(&l->peer[l->rank], l->nranks);
	return true;
}

struct p2p_lane *
p2p_lane_new(struct comm *c, const struct xport_peer *peers)
{
	struct p2p_lane *l;
	bool any = false;

	if (!c->x->mem || c->nranks < 2)
		return NULL;
	l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	l->comm = c;
	l->mem = c->x->mem;
	l->rank = c->rank;
	l->nranks = c->nranks;
	l->peer = alloc_zeroed(c->nranks, sizeof *l->peer);
	for (uint32_t r = 0; l->peer && r < c->nranks; r++) {
		struct p2p_peer *p = &l->peer[r];

		p->device_id = peers[r].device_id;
		if (r == c->rank || !peers[r].mem.path ||
		    peermem_open(&peers[r].mem, &p->mem, NULL) != RC_OK)
			continue;
		any = true;
		if (peers[r].pid > 0 && kill(peers[r].pid, 0) == 0)
			p->pid = peers[r].pid;
	}
	if (any && make_channels(l) && make_block(l))
		return l;
	p2p_lane_free(l);
	return NULL;
}

void
p2p_lane_free(struct p2p_lane *l)
{
	if (!l)
		return;
	for (uint32_t r = 0; l->peer && r < l->nranks; r++)
		peermem_close(l->peer[r].mem);
	for (int c = 0; c < P2P_CHANNELS; c++) {
		free(l->channel[c].sent);
		free(l->channel[c].at);
	}
	if (l->block)
		l->block->magic = 0;
	devmem_own_free(l->mem, l->block);
	free(l->peer);
	free(l);
}

static enum rc
join_peer(struct p2p_lane *l, uint32_t r, uint64_t offset, struct err *err)
{
	const struct comm *c = l->comm;
	struct p2p_peer *p = &l->peer[r];
	struct p2p_block *b = NULL;

	if (p->mem && offset % P2P_LINE == 0)
		b = peermem_at(p->mem, offset, block_bytes(l->nranks));
	if (!b || b->magic != P2P_MAGIC || b->comm != c->id || b->coordinator != c->coordinator ||
	    b->epoch != c->epoch || b->rank != r || b->nranks != c->nranks)
		return err_set(err, RC_BADDATA,
			       "rank %u (device %016" PRIx64 ") shows no control block", r,
			       p->device_id);
	p->block = b;
	find_views(p, l->nranks);
	p->reached = true;
	return RC_OK;
}

enum rc
p2p_lane_join(struct p2p_lane *l, const uint64_t *block, struct err *err)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t here = 1;
	enum rc rc = RC_OK;

	if (l->joined)
		return RC_OK;
	for (uint32_t r = 0; r < l->nranks && rc == RC_OK; r++)
		if (r != l->rank && block[r]) {
			rc = join_peer(l, r, block[r], err);
			here++;
		}
	l->whole = here == l->nranks;
	l->spins = cores >= 0 && here > (uint32_t)cores ? 0 : SPINS;
	l->joined = rc == RC_OK && here > 1;
	return rc;
}

/* ---- what the device asks */

enum rc
xport_offer(struct xport *x, uint64_t comm, uint32_t epoch, uint64_t *block, bool *mapped,
	    struct err *err)
{
	struct comm *c;
	enum rc rc;

	pthread_mutex_lock(&x->lock);
	rc = xport_find_epoch(x, comm, epoch, &c, err);
	if (rc == RC_OK) {
		*block = c->lane ? devmem_offset(c->lane->mem, c->lane->block) : 0;
		for (uint32_t r = 0; r < c->nranks; r++)
			mapped[r] = c->lane && c->lane->peer[r].mem;
	}
	pthread_mutex_unlock(&x->lock);
	return rc;
}

enum rc
xport_join(struct xport *x, uint64_t comm, uint32_t epoch, const uint64_t *block, uint32_t nblocks,
	   struct err *err)
{
	struct comm *c;
	enum rc rc;

	pthread_mutex_lock(&x->lock);
	rc = xport_find_epoch(x, comm, epoch, &c, err);
	if (rc == RC_OK && (nblocks != c->nranks || !c->lane))
		rc = err_set(err, RC_INVAL, "communicator %" PRIu64 " shares no memory here", comm);
	if (rc == RC_OK)
		rc = p2p_lane_join(c->lane, block, err);
	pthread_mutex_unlock(&x->lock);
	return rc;
}

enum rc
p2p_hold(struct xport *x, uint64_t comm, uint32_t epoch, uint64_t n, struct p2p_lane **lane,
	 uint64_t *first, struct err *err)
{
	struct comm *c;
	enum rc rc;

	*lane = NULL;
	pthread_mutex_lock(&x->lock);
	rc = xport_find_epoch(x, comm, epoch, &c, err);
	if (rc == RC_OK && c->lane && c->lane->joined) {
		*lane = c->lane;
		*first = c->lane->turns;
		c->lane->turns += n;
		c->lane->holds++;
	}
	pthread_mutex_unlock(&x->lock);
	return rc;
}

void
p2p_let_go(struct p2p_lane *l)
{
	struct xport *x;

	if (!l)
		return;
	x = l->comm->x;
	pthread_mutex_lock(&x->lock);
	l->holds--;
	xport_forget_comm(l->comm);
	pthread_mutex_unlock(&x->lock);
}

bool
p2p_whole(const struct p2p_lane *l)
{
	return l && l->whole;
}

bool
p2p_reaches(const struct p2p_lane *l, uint32_t peer)
{
	return l && l->peer[peer].reached;
}

uint64_t
p2p_lend(const struct p2p_lane *l, uint32_t peer, const void *data)
{
	return p2p_reaches(l, peer) ? devmem_offset(l->mem, data) : 0;
}

const void *
p2p_borrow(const struct p2p_lane *l, uint32_t peer, uint64_t offset, uint64_t nbytes)
{
	return p2p_reaches(l, peer) ? peermem_at(l->peer[peer].mem, offset, nbytes) : NULL;
}
