/*
 * Design notes. A record is one persistent area of the memory (devmem.h): a head, the ranges, and from
 * DATA on the bytes, range after range. `complete` is set last, and cleared before anything else of the
 * record changes; a checksum covers the rest.
 *
 * Threads of streams copy bytes without the lock: the record is `busy` meanwhile, and another stream
 * waits for the copy. The server's thread, which drops records, never waits: it marks a busy one as
 * doomed, and the busy thread drops it.
 */
#include "dev/snapshot.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define MAGIC	   UINT64_C(0x314b6d6973757067) /* "gpusimK1" */
#define RANGES_MAX 65536u

struct range {
	uint64_t addr, nbytes; /* of the device */
};

/* In the file. */
struct record {
	uint64_t magic, coordinator, comm, run;
	uint64_t nranges, nbytes; /* nbytes of all ranges together */
	uint64_t check;		  /* of the above and the ranges */
	_Atomic uint64_t complete;
	struct range range[];
};

/* Sorted by address and apart once merged. */
struct ranges {
	struct range *v;
	size_t n, cap;
};

struct snapshot {
	struct snapshot *next;
	uint64_t comm;
	struct record *rec; /* NULL: none yet */
	uint64_t room;	    /* bytes of its area */
	bool busy, doomed;
	struct ranges in, out, both; /* kept for their memory */
};

struct snapshots {
	struct devmem *mem;
	pthread_mutex_t lock;
	pthread_cond_t idle;
	struct snapshot *list;
};

/* ---- ranges */

static bool
ranges_add(struct ranges *s, uint64_t addr, uint64_t nbytes)
{
	if (!alloc_room(&s->v, s->n, &s->cap, sizeof *s->v))
		return false;
	s->v[s->n++] = (struct range){addr, nbytes};
	return true;
}

static int
by_addr(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* Sort, and merge ranges that touch. */
static void
ranges_merge(struct ranges *s)
{
	size_t n = 0;

	if (s->n > 1)
		qsort(s->v, s->n, sizeof *s->v, by_addr);
	for (size_t i = 0; i < s->n; i++) {
		struct range *last = n ? &s->v[n - 1] : NULL, r = s->v[i];

		if (last && r.addr <= last->addr + last->nbytes) {
			if (r.addr + r.nbytes > last->addr + last->nbytes)
				last->nbytes = r.addr + r.nbytes - last->addr;
		} else {
			s->v[n++] = r;
		}
	}
	s->n = n;
}

/* The intersection of two merged lists. */
static bool
ranges_common(const struct ranges *a, const struct ranges *b, struct ranges *out)
{
	for (size_t i = 0, j = 0; i < a->n && j < b->n;) {
		const struct range *x = &a->v[i], *y = &b->v[j];
		uint64_t xe = x->addr + x->nbytes, ye = y->addr + y->nbytes;
		uint64_t lo = x->addr > y->addr ? x->addr : y->addr, hi = xe < ye ? xe : ye;

		if (lo < hi && !ranges_add(out, lo, hi - lo))
			return false;
		if (xe < ye)
			i++;
		else
			j++;
	}
	return true;
}

/* Add one buffer of a collective; an empty one has no range. */
static bool
add_buffer(const struct program *p, const struct inst_coll *c, enum plan_buf buf, uint64_t nelem,
	   struct ranges *to)
{
	const void *base = buf == PLAN_IN && c->given ? c->given : c->base[buf];

	return !base || nelem == 0 || ranges_add(to, devmem_addr(p->mem, base), nelem * c->elem);
}

/* The ranges that the program reads, writes, and overwrites of its inputs. */
static enum rc
find_ranges(const struct program *p, struct snapshot *e, struct err *err)
{
	bool good = true;

	e->in.n = e->out.n = e->both.n = 0;
	for (size_t i = 0; i < p->ninst && good; i++) {
		const struct inst_coll *c = &p->inst[i].coll;

		if (p->inst[i].kind != INST_COLL && p->inst[i].kind != INST_SENDRECV)
			return err_set(err, RC_INVAL,
				       "a list with a %s cannot be repeated: only collectives can",
				       inst_name(&p->inst[i]));
		good = add_buffer(p, c, PLAN_IN, c->shape.in, &e->in) &&
		       add_buffer(p, c, PLAN_OUT, c->shape.out, &e->out);
	}
	ranges_merge(&e->in);
	ranges_merge(&e->out);
	good = good && ranges_common(&e->in, &e->out, &e->both);
	return good ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

/* ---- records */

static uint64_t
data_at(uint64_t nranges)
{
	uint64_t n = sizeof(struct record) + nranges * sizeof(struct range);

	return (n + 63) / 64 * 64;
}

static uint64_t
check_of(const struct record *rec)
{
	const uint64_t head[] = {rec->magic, rec->coordinator, rec->comm,
				 rec->run,   rec->nranges,     rec->nbytes};
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < sizeof head / sizeof head[0]; i++)
		h = (h ^ head[i]) * 0x100000001b3u;
	for (uint64_t i = 0; i < rec->nranges; i++) {
		h = (h ^ rec->range[i].addr) * 0x100000001b3u;
		h = (h ^ rec->range[i].nbytes) * 0x100000001b3u;
	}
	return h ^ h >> 32;
}

/* A record of the file, of nbytes bytes, is undamaged. */
static bool
is_sound(const struct record *rec, uint64_t room)
{
	uint64_t sum = 0;

	if (rec->magic != MAGIC || rec->nranges > RANGES_MAX || data_at(rec->nranges) > room ||
	    rec->check != check_of(rec) || rec->nbytes > room - data_at(rec->nranges))
		return false;
	for (uint64_t i = 0; i < rec->nranges; i++) {
		if (rec->range[i].nbytes > rec->nbytes - sum)
			return false;
		sum += rec->range[i].nbytes;
	}
	return sum == rec->nbytes;
}

/* Invalidate the record. */
static void
forget(struct snapshot *e)
{
	if (e->rec) {
		atomic_store(&e->rec->complete, 0);
		e->rec->magic = 0;
	}
}

/* ---- the list */

static void
free_entry(struct snapshot *e)
{
	free(e->in.v);
	free(e->out.v);
	free(e->both.v);
	free(e);
}

/* Lock held. */
static struct snapshot **
find(struct snapshots *k, uint64_t comm)
{
	struct snapshot **at = &k->list;

	while (*at && (*at)->comm != comm)
		at = &(*at)->next;
	return at;
}

/* Lock held. */
static struct snapshot *
add(struct snapshots *k, uint64_t comm)
{
	struct snapshot *e = calloc(1, sizeof *e);

	if (e) {
		e->comm = comm;
		e->next = k->list;
		k->list = e;
	}
	return e;
}

/* The communicator's entry, for the caller alone until it is released. NULL: out of memory. */
static struct snapshot *
acquire(struct snapshots *k, uint64_t comm)
{
	struct snapshot *e;

	pthread_mutex_lock(&k->lock);
	while ((e = *find(k, comm)) && e->busy)
		pthread_cond_wait(&k->idle, &k->lock);
	if (!e)
		e = add(k, comm);
	if (e)
		e->busy = true;
	pthread_mutex_unlock(&k->lock);
	return e;
}

/* Lock held. */
static void
drop(struct snapshots *k, struct snapshot **at)
{
	struct snapshot *e = *at;

	if (e->busy) {
		e->doomed = true;
		return;
	}
	*at = e->next;
	forget(e);
	devmem_persist_free(k->mem, e->rec, NULL);
	free_entry(e);
}

static void
release(struct snapshots *k, struct snapshot *e)
{
	pthread_mutex_lock(&k->lock);
	e->busy = false;
	if (e->doomed)
		drop(k, find(k, e->comm));
	pthread_cond_broadcast(&k->idle);
	pthread_mutex_unlock(&k->lock);
}

/* Lock held. Add an area of the memory; free one without a valid record. */
static enum rc
enter(struct snapshots *k, struct record *rec, uint64_t room, struct err *err)
{
	struct snapshot *e;

	if (room < sizeof *rec || rec->magic != MAGIC || (rec->complete && !is_sound(rec, room)) ||
	    *find(k, rec->comm)) {
		devmem_persist_free(k->mem, rec, NULL);
		return RC_OK;
	}
	e = add(k, rec->comm);
	if (!e)
		return err_set(err, RC_NOMEM, "out of memory");
	e->rec = rec;
	e->room = room;
	return RC_OK;
}

enum rc
snapshots_load(struct snapshots *k, struct err *err)
{
	uint64_t room = 0;
	void *area, *next;
	enum rc rc = RC_OK;

	pthread_mutex_lock(&k->lock);
	for (area = devmem_persist_next(k->mem, NULL, &room); area && rc == RC_OK; area = next) {
		const struct snapshot *e = k->list;
		uint64_t n = room;

		next = devmem_persist_next(k->mem, area, &room);
		while (e && e->rec != area)
			e = e->next;
		if (!e)
			rc = enter(k, area, n, err);
	}
	pthread_mutex_unlock(&k->lock);
	return rc;
}

enum rc
snapshots_new(struct devmem *mem, struct snapshots **out, struct err *err)
{
	struct snapshots *k = calloc(1, sizeof *k);
	enum rc rc;

	if (!k)
		return err_set(err, RC_NOMEM, "out of memory");
	k->mem = mem;
	pthread_mutex_init(&k->lock, NULL);
	pthread_cond_init(&k->idle, NULL);
	rc = snapshots_load(k, err);
	if (rc != RC_OK)
		snapshots_free(k);
	else
		*out = k;
	return rc;
}

void
snapshots_free(struct snapshots *k)
{
	struct snapshot *e;

	if (!k)
		return;
	while ((e = k->list)) {
		k->list = e->next;
		free_entry(e);
	}
	pthread_cond_destroy(&k->idle);
	pthread_mutex_destroy(&k->lock);
	free(k);
}

void
snapshot_drop(struct snapshots *k, uint64_t comm, uint64_t spared)
{
	struct snapshot **at = &k->list;

	pthread_mutex_lock(&k->lock);
	while (*at) {
		struct snapshot *e = *at;
		bool stays = spared && (e->busy || !e->rec || e->rec->coordinator == spared);

		if (!stays && (!comm || e->comm == comm))
			drop(k, at);
		if (*at == e)
			at = &e->next;
	}
	pthread_mutex_unlock(&k->lock);
}

/* ---- taking and putting back */

/* The record is of this coordinator's communicator, so this is the memory that the communicator had here. */
static bool
is_of(const struct snapshot *e, const struct snapshot_id *id)
{
	return e->rec && e->rec->magic == MAGIC && e->rec->coordinator == id->coordinator;
}

/* Make room for ranges and bytes; the record is invalid from here on. */
static enum rc
make_room(struct snapshots *k, struct snapshot *e, uint64_t nranges, uint64_t nbytes,
	  struct err *err)
{
	uint64_t need = data_at(nranges) + nbytes;
	void *area = NULL;
	enum rc rc;

	if (e->rec)
		atomic_store(&e->rec->complete, 0);
	if (e->rec && e->room >= need)
		return RC_OK;
	forget(e);
	rc = devmem_persist_free(k->mem, e->rec, err);
	if (rc != RC_OK)
		return rc;
	e->rec = NULL;
	rc = devmem_persist_alloc(k->mem, need, &area, err);
	if (rc == RC_NOMEM)
		return err_set(err, rc,
			       "no room to keep %" PRIu64
			       " bytes of inputs that the run overwrites: "
			       "use separate output buffers, or a communicator with "
			       "--on-failure abort",
			       nbytes);
	if (rc != RC_OK)
		return rc;
	e->rec = area;
	forget(e);
	e->room = (need + DEVMEM_ALIGN - 1) / DEVMEM_ALIGN * DEVMEM_ALIGN;
	return RC_OK;
}

static uint64_t
total(const struct ranges *s)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->n; i++)
		sum += s->v[i].nbytes;
	return sum;
}

/* Copy between the ranges and the record's data, in the direction asked for. */
static enum rc
copy_all(struct snapshots *k, struct record *rec, bool back, struct err *err)
{
	unsigned char *data = (unsigned char *)rec + data_at(rec->nranges);
	void *p;

	for (uint64_t i = 0; i < rec->nranges; i++) {
		const struct range *r = &rec->range[i];
		enum rc rc = devmem_range(k->mem, "kept input", r->addr, r->nbytes, &p, err);

		if (rc != RC_OK)
			return rc;
		if (back)
			memcpy(p, data, r->nbytes);
		else
			memcpy(data, p, r->nbytes);
		data += r->nbytes;
	}
	return RC_OK;
}

static void
name_record(struct record *rec, const struct snapshot_id *id)
{
	rec->magic = MAGIC;
	rec->coordinator = id->coordinator;
	rec->comm = id->comm;
	rec->run = id->run;
}

static enum rc
fill(struct snapshots *k, struct snapshot *e, const struct snapshot_id *id, struct err *err)
{
	struct record *rec = e->rec;
	enum rc rc;

	name_record(rec, id);
	rec->nranges = e->both.n;
	rec->nbytes = total(&e->both);
	if (e->both.n)
		memcpy(rec->range, e->both.v, e->both.n * sizeof *e->both.v);
	rc = copy_all(k, rec, false, err);
	if (rc != RC_OK)
		return rc;
	rec->check = check_of(rec);
	atomic_store(&rec->complete, 1);
	return RC_OK;
}

enum rc
snapshot_take(struct snapshots *k, const struct snapshot_id *id, const struct program *p,
	      struct err *err)
{
	struct snapshot *e = acquire(k, id->comm);
	enum rc rc;

	if (!e)
		return err_set(err, RC_NOMEM, "out of memory");
	rc = RC_OK;
	if (is_of(e, id) && e->rec->complete && e->rec->run == id->run)
		goto out;
	rc = find_ranges(p, e, err);
	if (rc == RC_OK && e->both.n > RANGES_MAX)
		rc = err_set(err, RC_INVAL, "more than %u ranges of inputs to keep", RANGES_MAX);
	if (rc == RC_OK)
		rc = make_room(k, e, e->both.n, total(&e->both), err);
	if (rc == RC_OK)
		rc = fill(k, e, id, err);
out:
	release(k, e);
	return rc;
}

void
snapshot_mark(struct snapshots *k, const struct snapshot_id *id)
{
	struct snapshot *e = acquire(k, id->comm);

	if (e && !is_of(e, id) && make_room(k, e, 0, 0, NULL) == RC_OK)
		name_record(e->rec, id);
	if (e)
		release(k, e);
}

enum rc
snapshot_restore(struct snapshots *k, const struct snapshot_id *id, const struct program *p,
		 struct err *err)
{
	struct snapshot *e = acquire(k, id->comm);
	enum rc rc;

	if (!e)
		return err_set(err, RC_NOMEM, "out of memory");
	rc = is_of(e, id) ? RC_OK : find_ranges(p, e, err);
	if (!is_of(e, id)) {
		/* Without a record of the communicator, the run has not begun here. Its inputs must be in
		 * this memory. */
		for (size_t i = 0; i < e->in.n && rc == RC_OK; i++)
			if (!devmem_is_allocated(k->mem, e->in.v[i].addr, e->in.v[i].nbytes))
				rc = err_set(
				    err, RC_NOTFOUND,
				    "the inputs of run %" PRIu64 " of communicator %" PRIu64
				    " are lost: no snapshot, and no allocation at 0x%" PRIx64,
				    id->run, id->comm, e->in.v[i].addr);
	} else if (!e->rec->complete || e->rec->run < id->run)
		rc = RC_OK;
	else if (e->rec->run == id->run)
		rc = copy_all(k, e->rec, true, err);
	else
		rc = err_set(err, RC_NOTFOUND,
			     "the inputs of run %" PRIu64 " of communicator %" PRIu64
			     " are lost: the snapshot is of run %" PRIu64,
			     id->run, id->comm, e->rec->run);
	release(k, e);
	return rc;
}
