/* Mapping the peers' memory: started when a communicator is attached, joined when all its ranks have
 * offered. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "xport/peermem_impl.h"

static size_t
page_bytes(const struct peer_mapping *m)
{
	return sizeof(struct slot_page) +
	       m->nranks * (sizeof(struct peermem_count) + m->window * sizeof(struct peermem_slot));
}

static size_t
block_bytes(const struct peer_mapping *m)
{
	return sizeof(struct peermem_block) + m->nsets * page_bytes(m) +
	       m->nranks * (sizeof(struct peermem_pair_taken) +
			    m->window * sizeof(struct peermem_pair_slot));
}

static void
find_views(const struct peer_mapping *m, struct peermem_peer *p, struct peermem_block *b)
{
	unsigned char *at = (unsigned char *)(b + 1);

	for (unsigned c = 0; c < m->nsets; c++, at += page_bytes(m)) {
		p->view[c].page = (struct slot_page *)at;
		p->view[c].taken = (struct peermem_count *)(p->view[c].page + 1);
		p->view[c].slot = (struct peermem_slot *)(p->view[c].taken + m->nranks);
	}
	p->pair_taken = (struct peermem_pair_taken *)at;
	p->pair_slot = (struct peermem_pair_slot *)(p->pair_taken + m->nranks);
}

static bool
make_sets(struct peer_mapping *m)
{
	for (unsigned c = 0; c < m->nsets; c++) {
		struct slot_set *set = &m->set[c];

		set->index = c;
		set->ticket = set->begun = c;
		set->sent = alloc_zeroed(m->nranks, 4 * sizeof *set->sent);
		set->at = alloc_zeroed(m->nranks, 2 * sizeof *set->at);
		if (!set->sent || !set->at)
			return false;
		set->received = set->sent + m->nranks;
		set->uncopied = set->received + m->nranks;
		set->told = set->uncopied + m->nranks;
	}
	return true;
}

static bool
make_block(struct peer_mapping *m)
{
	const struct comm *c = m->comm;
	void *p;

	if (devmem_own_alloc(m->mem, block_bytes(m), &p, NULL) != RC_OK)
		return false;
	memset(p, 0, block_bytes(m));
	m->block = p;
	m->block->magic = PEERMEM_MAGIC;
	m->block->comm = c->id;
	m->block->coordinator = c->coordinator;
	m->block->epoch = c->epoch;
	m->block->rank = c->rank;
	m->block->nranks = c->nranks;
	find_views(m, &m->peer[m->rank], m->block);
	m->peer[m->rank].block = m->block;
	m->mapped[m->nmapped++] = m->rank;
	m->comm->moves = &m->block->moves;
	return true;
}

/* Copy the peers, and the paths of their memory, in one piece. */
static bool
copy_peers(struct peer_mapping *m, const struct xport_peer *peers)
{
	size_t n = 1;
	char *at;

	for (uint32_t r = 0; r < m->nranks; r++)
		n += peers[r].mem.path ? strlen(peers[r].mem.path) + 1 : 0;
	m->peer = alloc_zeroed(m->nranks, sizeof *m->peer);
	m->mapped = alloc_zeroed(m->nranks, sizeof *m->mapped);
	m->pair_held = alloc_zeroed(m->nranks, sizeof *m->pair_held);
	m->paths = at = malloc(n);
	if (!m->peer || !m->mapped || !m->pair_held || !m->paths)
		return false;
	for (uint32_t r = 0; r < m->nranks; r++) {
		struct peermem_peer *p = &m->peer[r];

		p->id = peers[r].mem;
		p->id.device_id = peers[r].device_id;
		p->id.path = NULL;
		p->pid = peers[r].pid;
		if (r == m->rank || !peers[r].mem.path)
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

/* Peers can find this rank's memory by its path. */
static bool
is_found(const struct peermem_id *own)
{
	struct stat st;

	return stat(own->path, &st) == 0 && st.st_dev == own->dev && st.st_ino == own->inode;
}

/* Some peer's memory can be mapped. Files not beside this rank's are opened at once to find out. */
static bool
find_peers(struct peer_mapping *m)
{
	struct peermem_id own = {.path = devmem_path(m->mem), .user = (uint32_t)geteuid() + 1};
	bool any = false;

	devmem_inode(m->mem, &own.dev, &own.inode);
	if (!is_found(&own))
		return false;
	for (uint32_t r = 0; r < m->nranks; r++) {
		struct peermem_peer *p = &m->peer[r];

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
	struct peer_mapping *m;

	if (!c->x->mem || c->nranks < 2)
		return NULL;
	m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	pthread_mutex_init(&m->lock, NULL);
	pthread_mutex_init(&m->pair_lock, NULL);
	m->comm = c;
	m->mem = c->x->mem;
	m->rank = c->rank;
	m->nranks = c->nranks;
	m->nsets = many ? 1 : PEERMEM_SLOT_SETS;
	m->window = many ? 2 : PEERMEM_WINDOW;
	if (copy_peers(m, peers) && find_peers(m) && make_sets(m) && make_block(m))
		return m;
	peer_mapping_free(m);
	return NULL;
}

void
peer_mapping_free(struct peer_mapping *m)
{
	if (!m)
		return;
	for (uint32_t r = 0; m->peer && r < m->nranks; r++)
		peermem_close(m->peer[r].mem);
	for (unsigned c = 0; c < PEERMEM_SLOT_SETS; c++) {
		free(m->set[c].sent);
		free(m->set[c].at);
	}
	m->comm->moves = &m->comm->own_moves;
	if (m->block)
		m->block->magic = 0;
	devmem_own_free(m->mem, m->block);
	pthread_mutex_destroy(&m->lock);
	pthread_mutex_destroy(&m->pair_lock);
	free(m->pair_held);
	free(m->mapped);
	free(m->paths);
	free(m->peer);
	free(m);
}

/* The memory is open: find the block in it. */
static enum rc
join_peer(struct peer_mapping *m, uint32_t r, struct err *err)
{
	const struct comm *c = m->comm;
	struct peermem_peer *p = &m->peer[r];
	struct peermem_block *b = NULL;

	if (p->mem && p->offset % PEERMEM_LINE == 0)
		b = peermem_at(p->mem, p->offset, block_bytes(m));
	if (!b || b->magic != PEERMEM_MAGIC || b->comm != c->id ||
	    b->coordinator != c->coordinator || b->epoch != c->epoch || b->rank != r ||
	    b->nranks != c->nranks)
		return err_set(err, RC_BADDATA,
			       "rank %u (device %016" PRIx64 ") has no control block in its memory",
			       r, p->id.device_id);
	find_views(m, p, b);
	m->mapped[m->nmapped] = r;
	atomic_store_explicit(&p->block, b, memory_order_release);
	m->nmapped++;
	return RC_OK;
}

enum rc
peermem_map_peer(struct peer_mapping *m, uint32_t r, struct err *err)
{
	struct peermem_peer *p = &m->peer[r];
	struct err why = {0};
	enum rc rc = RC_OK;

	pthread_mutex_lock(&m->lock);
	if (!p->block) {
		rc = open_peer(p, &why);
		if (rc == RC_OK)
			rc = join_peer(m, r, &why);
	}
	pthread_mutex_unlock(&m->lock);
	if (rc == RC_OK)
		return rc;
	/* Both existed when the communicator was made. */
	return err_set(err, rc == RC_NOMEM ? rc : RC_UNREACHABLE,
		       "rank %u (device %016" PRIx64 ") is gone: %s", r, p->id.device_id, why.text);
}

enum rc
peermem_join(struct peer_mapping *m, const uint64_t *block, struct err *err)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	uint32_t here = 1;
	enum rc rc = RC_OK;

	if (m->joined)
		return RC_OK;
	pthread_mutex_lock(&m->lock);
	m->comm->peer[m->rank].via = &xport_peermem;
	for (uint32_t r = 0; r < m->nranks && rc == RC_OK; r++) {
		struct peermem_peer *p = &m->peer[r];

		if (r == m->rank || !block[r])
			continue;
		p->offset = block[r];
		if (!p->id.path || p->mem)
			rc = join_peer(m, r, err);
		if (rc == RC_OK)
			m->comm->peer[r].via = &xport_peermem;
		here++;
	}
	pthread_mutex_unlock(&m->lock);
	m->whole = here == m->nranks;
	m->spins = cores >= 0 && here > (uint32_t)cores ? 0 : SPINS;
	m->joined = rc == RC_OK && here > 1;
	return rc;
}
