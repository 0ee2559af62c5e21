/* Lanes: made when a communicator is attached, joined when all its ranks have offered. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "xport/peermem_impl.h"

/* Pauses, 1 us or so, when each rank has a core to itself: yielding costs less than that when nobody
 * else wants the core, and spinning everything when somebody does. */
#define SPINS 30

static size_t
page_bytes(const struct peer_mapping *l)
{
	return sizeof(struct slot_page) +
	       l->nranks * (sizeof(struct peermem_count) + l->window * sizeof(struct peermem_slot));
}

static size_t
block_bytes(const struct peer_mapping *l)
{
	return sizeof(struct peermem_block) + l->channels * page_bytes(l);
}

static void
find_views(const struct peer_mapping *l, struct peermem_peer *p, struct peermem_block *b)
{
	unsigned char *at = (unsigned char *)(b + 1);

	for (unsigned c = 0; c < l->channels; c++, at += page_bytes(l)) {
		p->view[c].page = (struct slot_page *)at;
		p->view[c].taken = (struct peermem_count *)(p->view[c].page + 1);
		p->view[c].slot = (struct peermem_slot *)(p->view[c].taken + l->nranks);
	}
}

static bool
make_channels(struct peer_mapping *l)
{
	for (unsigned c = 0; c < l->channels; c++) {
		struct slot_set *ch = &l->channel[c];

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
make_block(struct peer_mapping *l)
{
	const struct comm *c = l->comm;
	void *p;

	if (devmem_own_alloc(l->mem, block_bytes(l), &p, NULL) != RC_OK)
		return false;
	memset(p, 0, block_bytes(l));
	l->block = p;
	l->block->magic = PEERMEM_MAGIC;
	l->block->comm = c->id;
	l->block->coordinator = c->coordinator;
	l->block->epoch = c->epoch;
	l->block->rank = c->rank;
	l->block->nranks = c->nranks;
	find_views(l, &l->peer[l->rank], l->block);
	l->peer[l->rank].block = l->block;
	return true;
}

/* The peers as they are said to be, and the paths of their memory in one piece. */
static bool
copy_peers(struct peer_mapping *l, const struct xport_peer *peers)
{
	size_t n = 1;
	char *at;

	for (uint32_t r = 0; r < l->nranks; r++)
		n += peers[r].mem.path ? strlen(peers[r].mem.path) + 1 : 0;
	l->peer = alloc_zeroed(l->nranks, sizeof *l->peer);
	l->mapped = alloc_zeroed(l->nranks, sizeof *l->mapped);
	l->paths = at = malloc(n);
	if (!l->peer || !l->mapped || !l->paths)
		return false;
	for (uint32_t r = 0; r < l->nranks; r++) {
		struct peermem_peer *p = &l->peer[r];

		p->id = peers[r].mem;
		p->id.device_id = peers[r].device_id;
		p->id.path = NULL;
		p->pid = peers[r].pid;
		if (r == l->rank || !peers[r].mem.path)
			continue;
		p->id.path = strcpy(at, peers[r].mem.path);
		at += strlen(at) + 1;
	}
	return true;
}

static enum rc
open_peer(struct peermem_peer *p, struct err *err)
{
	enum rc rc = p->mem ? RC_OK : peermem_open(&p->id, &p->mem, err);

	if (rc == RC_OK && p->pid > 0 && kill(p->pid, 0) == 0)
		p->seen = p->pid;
	return rc;
}

/* Do peers find this rank's memory by its path? */
static bool
is_found(const struct peermem_id *own)
{
	struct stat st;

	return stat(own->path, &st) == 0 && st.st_dev == own->dev && st.st_ino == own->inode;
}

/* Is any peer's memory within reach? What is not near is opened at once, to know. */
static bool
find_peers(struct peer_mapping *l)
{
	struct peermem_id own = {.path = devmem_path(l->mem), .user = (uint32_t)geteuid() + 1};
	bool any = false;

	devmem_inode(l->mem, &own.dev, &own.inode);
	if (!is_found(&own))
		return false;
	for (uint32_t r = 0; r < l->nranks; r++) {
		struct peermem_peer *p = &l->peer[r];

		if (p->id.path && !peermem_is_near(&own, &p->id) && open_peer(p, NULL) != RC_OK)
			p->id.path = NULL;
		any |= p->id.path != NULL;
	}
	return any;
}

struct peer_mapping *
peer_mapping_new(struct comm *c, const struct xport_peer *peers)
{
	bool many = c->nranks > PEERMEM_MANY;
	struct peer_mapping *l;

	if (!c->x->mem || c->nranks < 2)
		return NULL;
	l = calloc(1, sizeof *l);
	if (!l)
		return NULL;
	pthread_mutex_init(&l->mapping, NULL);
	l->comm = c;
	l->mem = c->x->mem;
	l->rank = c->rank;
	l->nranks = c->nranks;
	l->channels = many ? 1 : PEERMEM_SLOT_SETS;
	l->window = many ? 2 : PEERMEM_WINDOW;
	if (copy_peers(l, peers) && find_peers(l) && make_channels(l) && make_block(l))
		return l;
	peer_mapping_free(l);
	return NULL;
}

void
peer_mapping_free(struct peer_mapping *l)
{
	if (!l)
		return;
	for (uint32_t r = 0; l->peer && r < l->nranks; r++)
		peermem_close(l->peer[r].mem);
	for (unsigned c = 0; c < PEERMEM_SLOT_SETS; c++) {
		free(l->channel[c].sent);
		free(l->channel[c].at);
	}
	if (l->block)
		l->block->magic = 0;
	devmem_own_free(l->mem, l->block);
	pthread_mutex_destroy(&l->mapping);
	free(l->mapped);
	free(l->paths);
	free(l->peer);
	free(l);
}

/* Its memory is open: find its block there. */
static enum rc
join_peer(struct peer_mapping *l, uint32_t r, struct err *err)
{
	const struct comm *c = l->comm;
	struct peermem_peer *p = &l->peer[r];
	struct peermem_block *b = NULL;

	if (p->mem && p->offset % PEERMEM_LINE == 0)
		b = peermem_at(p->mem, p->offset, block_bytes(l));
	if (!b || b->magic != PEERMEM_MAGIC || b->comm != c->id ||
	    b->coordinator != c->coordinator || b->epoch != c->epoch || b->rank != r ||
	    b->nranks != c->nranks)
		return err_set(err, RC_BADDATA,
			       "rank %u (device %016" PRIx64 ") shows no control block", r,
			       p->id.device_id);
	find_views(l, p, b);
	l->mapped[l->nmapped] = r;
	atomic_store_explicit(&p->block, b, memory_order_release);
	l->nmapped++;
	return RC_OK;
}

enum rc
peermem_map_peer(struct peer_mapping *l, uint32_t r, struct err *err)
{
	struct peermem_peer *p = &l->peer[r];
	struct err why = {0};
	enum rc rc = RC_OK;

	pthread_mutex_lock(&l->mapping);
	if (!p->block) {
		rc = open_peer(p, &why);
		if (rc == RC_OK)
			rc = join_peer(l, r, &why);
	}
	pthread_mutex_unlock(&l->mapping);
	if (rc == RC_OK)
		return rc;
	/* Both were there when the communicator was made. */
	return err_set(err, rc == RC_NOMEM ? rc : RC_UNREACHABLE,
		       "rank %u (device %016" PRIx64 ") is gone: %s", r, p->id.device_id, why.text);
}

enum rc
peer_mapping_join(struct peer_mapping *l, const uint64_t *block, struct err *err)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t here = 1;
	enum rc rc = RC_OK;

	if (l->joined)
		return RC_OK;
	pthread_mutex_lock(&l->mapping);
	for (uint32_t r = 0; r < l->nranks && rc == RC_OK; r++) {
		struct peermem_peer *p = &l->peer[r];

		if (r == l->rank || !block[r])
			continue;
		p->offset = block[r];
		if (!p->id.path || p->mem)
			rc = join_peer(l, r, err);
		p->reached = rc == RC_OK;
		here++;
	}
	pthread_mutex_unlock(&l->mapping);
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
			mapped[r] = c->lane && c->lane->peer[r].id.path;
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
		rc = peer_mapping_join(c->lane, block, err);
	pthread_mutex_unlock(&x->lock);
	return rc;
}

enum rc
peermem_hold(struct xport *x, uint64_t comm, uint32_t epoch, uint64_t n, struct peer_mapping **lane,
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
peermem_let_go(struct peer_mapping *l)
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
peermem_whole(const struct peer_mapping *l)
{
	return l && l->whole;
}

bool
peermem_reaches(const struct peer_mapping *l, uint32_t peer)
{
	return l && l->peer[peer].reached;
}

uint64_t
peermem_lend(const struct peer_mapping *l, uint32_t peer, const void *data)
{
	return peermem_reaches(l, peer) ? devmem_offset(l->mem, data) : 0;
}

const void *
peermem_borrow(struct peer_mapping *l, uint32_t peer, uint64_t offset, uint64_t nbytes)
{
	return peermem_reaches(l, peer) && peermem_map(l, peer, NULL) == RC_OK
		   ? peermem_at(l->peer[peer].mem, offset, nbytes)
		   : NULL;
}
