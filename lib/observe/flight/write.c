/*
 * Design notes. Nothing that controls this process is read back from the area, because other processes of
 * the user can write to it: what it needs later from rings and header is kept in struct flight. Only
 * trace_until is read there, because others may set it. An earlier process's data are read once, when the
 * area is opened. One lock guards the choice of rings and the header's changing part; only the owner of a
 * ring writes to it. The header and rings of an earlier process are kept: a device that is started again
 * continues after its old records.
 *
 * A ring is accessed only when its blocks are reserved: on a full disk the first access would be a SIGBUS.
 */
#include "flight/write.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/host.h"

#define ENOUGH_RINGS 16 /* from this number on, ended rings are reused before new ones */

/* A ring as this process left it. */
struct kept {
	uint32_t kind, pid;
	uint64_t id, head, first;
	uint64_t ended; /* when, of all that ended; */
	bool used;	/* if not this */
};

struct flight {
	struct flight_header *h;
	uint32_t nrings, nrecords, pid, turn;
	uint64_t backed;
	flight_reserve_fn *reserve;
	void *arg;
	pthread_mutex_t lock;
	uint64_t ns_mult;
	struct kept ring[FLIGHT_RINGS_MAX];
	uint64_t ended;
	uint32_t ngroups;
};

static struct flight_ring *
ring_at(const struct flight *f, uint32_t i)
{
	return (struct flight_ring *)(void *)((char *)f->h + FLIGHT_RING_AT(i, f->nrecords));
}

static union flight_record *
records_of(struct flight_ring *r)
{
	return (union flight_record *)(void *)((char *)r + FLIGHT_HEAD_BYTES);
}

static bool
reserve_ring(const struct flight *f, uint32_t i)
{
	return !f->reserve ||
	       f->reserve(f->arg, FLIGHT_RING_AT(i, f->nrecords), FLIGHT_RING_BYTES(f->nrecords));
}

/* ---- opening */

static bool
continues(const struct flight_header *h, const struct flight_header *want)
{
	return memcmp(h->magic, want->magic, sizeof h->magic) == 0 && h->version == want->version &&
	       h->nrings == want->nrings && h->nrecords == want->nrecords &&
	       h->ring_bytes == want->ring_bytes && h->nbytes == want->nbytes;
}

static void
append(struct flight_ring *r, uint64_t mask, const union flight_record *rec)
{
	uint64_t head = atomic_load(&r->head);

	records_of(r)[head & mask] = *rec;
	atomic_store(&r->head, head + 1);
}

/* The process that had the ring was killed. Its operation at hand becomes a record without an end. */
static void
bury(struct flight_ring *r, uint64_t mask)
{
	uint32_t turn = atomic_load(&r->live.turn);
	union flight_record rec = {.op = r->live.op};

	if (atomic_load(&r->state) != FLIGHT_RING_USED)
		return;
	if (turn & 1) {
		rec.op.kind = FLIGHT_OP;
		rec.op.result = (uint8_t)RC_ABORTED;
		rec.op.end = 0;
		append(r, mask, &rec);
		atomic_store(&r->live.turn, turn + 1);
	}
	atomic_store(&r->state, FLIGHT_RING_ENDED);
}

/* Continue after the records of an earlier process. */
static void
go_on(struct flight *f)
{
	uint64_t backed = atomic_load(&f->h->backed);

	for (uint32_t i = 0; i < f->nrings; i++)
		if (backed >> i & 1 && reserve_ring(f, i)) {
			struct flight_ring *r = ring_at(f, i);

			bury(r, f->nrecords - 1);
			f->ring[i] = (struct kept){.kind = r->kind,
						   .pid = r->pid,
						   .id = r->id,
						   .head = atomic_load(&r->head),
						   .first = atomic_load(&r->first)};
			f->backed |= UINT64_C(1) << i;
		}
}

static void
set_identity(struct flight_header *h, const struct flight_identity *who, uint64_t hz)
{
	h->device_id = who->device_id;
	h->incarnation = who->incarnation;
	h->ordinal = who->ordinal;
	h->pid = (uint32_t)getpid();
	h->hz = hz;
	host_id(h->host);
	snprintf(h->name, sizeof h->name, "%s", who->name);
	ticks_moment(&h->first);
	h->last = h->first;
	h->offset_ns = 0;
	h->error_ns = UINT64_MAX;
	atomic_store(&h->trace_until, 0);
	atomic_store(&h->turn, 0);
}

static uint32_t
rings_in(uint64_t nbytes, uint32_t nrecords)
{
	uint64_t n =
	    nbytes > FLIGHT_PAGE ? (nbytes - FLIGHT_PAGE) / FLIGHT_RING_BYTES(nrecords) : 0;

	return n < FLIGHT_RINGS_MAX ? (uint32_t)n : FLIGHT_RINGS_MAX;
}

enum rc
flight_open(void *area, uint64_t nbytes, uint32_t nrecords, const struct flight_identity *who,
	    flight_reserve_fn *reserve, void *arg, struct flight **out, struct err *err)
{
	struct flight_header *h = area,
			     want = {.version = FLIGHT_VERSION,
				     .nrings = rings_in(nbytes, nrecords),
				     .nrecords = nrecords,
				     .ring_bytes = (uint32_t)FLIGHT_RING_BYTES(nrecords)};
	uint64_t hz = ticks_hz();
	struct flight *f;

	memcpy(want.magic, FLIGHT_MAGIC, sizeof want.magic);
	want.nbytes = FLIGHT_AREA_BYTES(want.nrings, nrecords);
	if (nrecords < FLIGHT_RECORDS_MIN || nrecords > FLIGHT_RECORDS_MAX ||
	    nrecords & (nrecords - 1) || want.nrings == 0)
		return err_set(err, RC_INVAL,
			       "a recorder with %" PRIu32
			       " records per ring does not fit in %" PRIu64 " bytes",
			       nrecords, nbytes);
	if (reserve && !reserve(arg, 0, FLIGHT_PAGE))
		return err_set(err, RC_NOMEM, "no room for the recorder");
	f = calloc(1, sizeof *f);
	if (!f)
		return err_set(err, RC_NOMEM, "out of memory");
	f->h = h;
	f->reserve = reserve;
	f->arg = arg;
	pthread_mutex_init(&f->lock, NULL);
	f->nrings = want.nrings;
	f->nrecords = nrecords;
	f->pid = (uint32_t)getpid();
	if (continues(h, &want))
		go_on(f);
	else
		*h = want;
	f->ngroups = atomic_load(&h->ngroups);
	if (f->ngroups > FLIGHT_GROUPS)
		f->ngroups = FLIGHT_GROUPS;
	atomic_store(&h->backed, f->backed);
	set_identity(h, who, hz);
	f->ns_mult = (uint64_t)(((unsigned __int128)NS_PER_SEC << 32) / hz);
	*out = f;
	return RC_OK;
}

void
flight_close(struct flight *f)
{
	if (!f)
		return;
	pthread_mutex_destroy(&f->lock);
	free(f);
}

/* ---- the header's changing part */

static void
header_begin(struct flight *f)
{
	pthread_mutex_lock(&f->lock);
	atomic_store(&f->h->turn, ++f->turn);
	atomic_thread_fence(memory_order_seq_cst);
}

static void
header_end(struct flight *f)
{
	atomic_thread_fence(memory_order_seq_cst);
	atomic_store(&f->h->turn, ++f->turn);
	pthread_mutex_unlock(&f->lock);
}

void
flight_beat(struct flight *f, uint64_t mem_used, uint64_t mem_bytes)
{
	struct flight_moment now;

	if (!f)
		return;
	ticks_moment(&now);
	header_begin(f);
	f->h->last = now;
	f->h->mem_used = mem_used;
	f->h->mem_bytes = mem_bytes;
	header_end(f);
}

void
flight_offset(struct flight *f, int64_t offset_ns, uint64_t error_ns)
{
	if (!f)
		return;
	header_begin(f);
	f->h->offset_ns = offset_ns;
	f->h->error_ns = error_ns;
	header_end(f);
}

void
flight_trace_until(struct flight *f, uint64_t ticks)
{
	uint64_t was;

	if (!f)
		return;
	was = atomic_load(&f->h->trace_until);
	while (was < ticks && !atomic_compare_exchange_weak(&f->h->trace_until, &was, ticks))
		;
}

uint8_t
flight_group(struct flight *f, const char *name, const uint32_t *rank, uint32_t n)
{
	struct flight_group g = {.n = (uint16_t)n, .ascending = 1};
	uint32_t i = 0;

	if (!f)
		return 0;
	snprintf(g.name, sizeof g.name, "%s", name);
	for (uint32_t k = 0; k < n; k++) {
		g.ascending &= k == 0 || rank[k - 1] < rank[k];
		if (rank[k] < FLIGHT_GROUP_RANKS)
			g.rank[rank[k] / 8] |= (uint8_t)(1u << rank[k] % 8);
	}
	pthread_mutex_lock(&f->lock);
	while (i < f->ngroups && memcmp(&f->h->group[i], &g, sizeof g) != 0)
		i++;
	if (i == f->ngroups && i < FLIGHT_GROUPS) {
		f->h->group[i] = g;
		atomic_store(&f->h->ngroups, ++f->ngroups);
	}
	pthread_mutex_unlock(&f->lock);
	return (uint8_t)(i + 1);
}

/* ---- rings */

/* Find an ended ring: of the same stream, else the one that ended first. nrings: none. */
static uint32_t
find_ended(const struct flight *f, enum flight_ring_kind kind, uint64_t id, uint32_t pid,
	   bool *same)
{
	uint32_t found = f->nrings;

	for (uint32_t i = 0; i < f->nrings; i++) {
		const struct kept *k = &f->ring[i];

		if (!(f->backed >> i & 1) || k->used)
			continue;
		*same = k->kind == kind && k->id == id && k->pid == pid;
		if (*same)
			return i;
		if (found == f->nrings || k->ended < f->ring[found].ended)
			found = i;
	}
	return found;
}

/* Find an unused ring, and reserve its blocks; nrings: none. */
static uint32_t
find_new(struct flight *f)
{
	uint32_t i = ~f->backed ? (uint32_t)__builtin_ctzll(~f->backed) : FLIGHT_RINGS_MAX;

	if (i >= f->nrings || !reserve_ring(f, i))
		return f->nrings;
	memset((void *)ring_at(f, i), 0, sizeof(struct flight_ring));
	f->backed |= UINT64_C(1) << i;
	atomic_store(&f->h->backed, f->backed);
	return i;
}

static uint32_t
choose_ring(struct flight *f, enum flight_ring_kind kind, uint64_t id, uint32_t pid, bool *same)
{
	uint32_t none = f->nrings, ended = find_ended(f, kind, id, pid, same), fresh;

	if (ended != none && (*same || __builtin_popcountll(f->backed) >= ENOUGH_RINGS))
		return ended;
	fresh = find_new(f);
	return fresh != none ? fresh : ended;
}

bool
flight_take(struct flight *f, enum flight_ring_kind kind, uint64_t id, uint64_t stream,
	    uint32_t pid, const char *name, struct flight_writer *w)
{
	struct flight_ring *r;
	struct kept *k;
	bool same = false;
	uint32_t i;

	*w = (struct flight_writer){0};
	if (!f)
		return false;
	if (pid == 0)
		pid = f->pid;
	pthread_mutex_lock(&f->lock);
	i = choose_ring(f, kind, id, pid, &same);
	if (i == f->nrings) {
		atomic_fetch_add(&f->h->unrecorded, 1);
		pthread_mutex_unlock(&f->lock);
		return false;
	}
	r = ring_at(f, i);
	k = &f->ring[i];
	*k = (struct kept){.kind = kind,
			   .pid = pid,
			   .id = id,
			   .head = k->head,
			   .first = same ? k->first : k->head,
			   .used = true};
	atomic_store(&r->head, k->head);
	atomic_store(&r->first, k->first);
	r->kind = kind;
	r->id = id;
	r->stream = stream;
	r->pid = pid;
	r->tid = (uint32_t)syscall(SYS_gettid);
	r->opened = ticks_now();
	snprintf(r->name, sizeof r->name, "%s", name);
	atomic_store(&r->state, FLIGHT_RING_USED);
	pthread_mutex_unlock(&f->lock);
	*w = (struct flight_writer){.ring = r,
				    .at = records_of(r),
				    .mask = f->nrecords - 1,
				    .head = k->head,
				    .trace_until = &f->h->trace_until,
				    .ns_mult = f->ns_mult,
				    .of = f};
	return true;
}

void
flight_give(struct flight_writer *w)
{
	struct flight *f;
	struct kept *k;

	if (!flight_on(w))
		return;
	f = w->of;
	k = &f->ring[((uint64_t)((char *)w->ring - (char *)f->h) - FLIGHT_PAGE) /
		     FLIGHT_RING_BYTES(f->nrecords)];
	pthread_mutex_lock(&f->lock);
	k->head = w->head;
	k->ended = ++f->ended;
	k->used = false;
	atomic_store(&w->ring->state, FLIGHT_RING_ENDED);
	pthread_mutex_unlock(&f->lock);
	*w = (struct flight_writer){0};
}

/* ---- counters, marks */

void
flight_count_op(struct flight_writer *w, unsigned coll, uint64_t nbytes, uint64_t ns)
{
	unsigned class = 0, b = ns < 1000 ? 0 : 64 - (unsigned)__builtin_clzll(ns / 1000);
	struct flight_count *c;

	if (!flight_on(w) || coll >= FLIGHT_COLLS)
		return;
	while (nbytes > flight_class_most(class))
		class ++;
	c = &w->ring->counts.op[coll][class];
	flight_add(&c->n, 1);
	flight_add(&c->bytes, nbytes);
	flight_add(&c->ns, ns);
	flight_add(&c->bucket[b < FLIGHT_BUCKETS ? b : FLIGHT_BUCKETS - 1], 1);
}

void
flight_mark(struct flight_writer *w, const struct flight_mark *m, const char *text)
{
	size_t left = text ? strlen(text) : 0, n;
	union flight_record *r;
	uint64_t at;

	if (!flight_on(w))
		return;
	at = w->head;
	r = &w->at[at++ & w->mask];
	r->mark = *m;
	r->mark.kind = FLIGHT_MARK;
	if (!m->at)
		r->mark.at = ticks_now();
	r->mark.ntext = 0;
	for (uint8_t i = 0; left && i < FLIGHT_TEXTS_MAX; i++, text += n, left -= n) {
		union flight_record *t = &w->at[at++ & w->mask];

		n = left < FLIGHT_TEXT_BYTES ? left : FLIGHT_TEXT_BYTES;
		*t = (union flight_record){.text = {.kind = FLIGHT_TEXT, .n = (uint8_t)n}};
		memcpy(t->text.text, text, n);
		r->mark.ntext++;
	}
	w->head = at;
	atomic_store_explicit(&w->ring->head, at, memory_order_release);
}
