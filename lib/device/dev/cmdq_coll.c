/* Collectives, sends and receives of command queues. Each shape is planned once. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "dev/cmdq_impl.h"
#include "coll/hoist.h"
#include "mem/dtype.h"
#include "mem/redop.h"
#include "wire/frame.h"

/* ---- a queue's communicators */

static void
shaped_free(struct queue *q, struct shaped *s)
{
	if (q->all->env.held)
		atomic_fetch_sub(q->all->env.held, s->nbytes);
	inst_coll_fini(&s->c);
	free(s->after[0]);
	free(s->after[1]);
	free(s);
}

static void
forget_shapes(struct queue *q, struct queue_comm *k)
{
	struct shaped *s;

	for (unsigned b = 0; b < SHAPE_BUCKETS; b++)
		while ((s = k->bucket[b])) {
			k->bucket[b] = s->next;
			shaped_free(q, s);
		}
	k->nshaped = 0;
}

void
queue_forget_comms(struct queue *q, bool all)
{
	struct queue_comm **at = &q->comms, *k;

	while ((k = *at)) {
		if (!all && !atomic_load(&k->bound->over)) {
			at = &k->next;
			continue;
		}
		*at = k->next;
		forget_shapes(q, k);
		bound_drop(q->all, k->bound);
		free(k);
	}
}

bool
queue_look_up(struct queue *q)
{
	uint32_t why = atomic_fetch_and(&q->attention, ~(uint32_t)QUEUE_LOOK);

	if (why & QUEUE_END)
		return false;
	if (why & QUEUE_LOOK)
		queue_forget_comms(q, false);
	return true;
}

/* Find the communicator; the list has the last used first. */
static struct queue_comm *
comm_of(struct queue *q, uint64_t id, struct err *err)
{
	struct queue_comm **at = &q->comms, *k;
	struct bound *b;

	if ((k = *at) && k->bound->comm == id)
		return k;
	while ((k = *at) && k->bound->comm != id)
		at = &k->next;
	if (k) {
		*at = k->next;
	} else {
		b = bound_hold(q->all, id, q->pid, err);
		if (!b)
			return NULL;
		k = calloc(1, sizeof *k);
		if (!k) {
			bound_drop(q->all, b);
			err_set(err, RC_NOMEM, "out of memory");
			return NULL;
		}
		k->bound = b;
		k->program = (struct program){.comm = b->comm,
					      .epoch = b->epoch,
					      .rank = b->rank,
					      .nranks = b->nranks,
					      .numbered = true,
					      .mem = q->all->env.mem,
					      .inject = q->all->env.inject,
					      .tape = q->all->env.tape,
					      .queue = q->id};
	}
	k->next = q->comms;
	q->comms = k;
	queue_settle_near(q, k);
	return k;
}

/* The same, if the communicator has not failed, with room for a command's shapes. */
static enum rc
live_comm(struct queue *q, uint64_t id, struct queue_comm **out, struct err *err)
{
	struct queue_comm *k = comm_of(q, id, err);

	if (!k)
		return err->rc;
	if (atomic_load_explicit(&k->bound->over, memory_order_acquire)) {
		*err = k->bound->why;
		return err->rc;
	}
	if (k->nshaped >= CMDQS_SHAPES)
		forget_shapes(q, k);
	*out = k;
	return RC_OK;
}

/* ---- shapes */

static unsigned
bucket_of(const struct cmdq_command *c)
{
	uint64_t h = c->u.coll.count * 0x9e3779b97f4a7c15u;

	h ^= (uint64_t)c->coll << 1 ^ (uint64_t)c->dtype << 5 ^ (uint64_t)c->redop << 9 ^
	     (uint64_t)c->u.coll.root << 13 ^ (uint64_t)c->algo << 40 ^ (uint64_t)c->mark << 24;
	return (unsigned)((h ^ h >> 29) * 0xbf58476d1ce4e5b9u >> 58) % SHAPE_BUCKETS;
}

static bool
is_of_shape(const struct shaped *s, const struct cmdq_command *c)
{
	const struct cmdq_command *a = &s->command;

	return a->u.coll.count == c->u.coll.count && a->coll == c->coll && a->dtype == c->dtype &&
	       a->redop == c->redop && a->u.coll.root == c->u.coll.root && a->algo == c->algo &&
	       a->mark == c->mark && !((a->flags ^ c->flags) & CMDQ_DETERMINISTIC);
}

/* Choose algorithm and chunk size, alike on all ranks, and plan. */
static enum rc
shape_it(const struct queue_comm *k, const struct cmdq_command *c, struct shaped *s,
	 struct err *err)
{
	const struct bound *b = k->bound;
	struct plan_args *a = &s->c.args;
	struct tune_ask ask = {.transport = b->by_memory ? TUNE_P2P : TUNE_NET,
			       .files = b->files ? &b->files->files : NULL};
	const struct plan_algo *row = NULL;
	const struct tune_file *file = NULL;
	struct tune_answer how;
	enum rc rc;

	s->command = *c;
	*a = (struct plan_args){.coll = (enum gpusim_coll)c->coll,
				.dtype = (enum gpusim_dtype)c->dtype,
				.redop = (enum gpusim_redop)c->redop,
				.rank = b->rank,
				.nranks = b->nranks,
				.root = c->u.coll.root,
				.nelem = c->u.coll.count,
				.canonical = c->flags & CMDQ_DETERMINISTIC};
	a->canonical = a->canonical && plan_args_ordered(a);
	if (c->algo && !(row = plan_algo_at(a->coll, c->algo - 1u)))
		return err_set(err, RC_INVAL, "unknown algorithm number %u", c->algo - 1u);
	/* The first of the collective whose name has this mark; the same on all ranks. */
	for (size_t i = 0; row == &plan_algo_file && ask.files && i < ask.files->n && !file; i++)
		if (ask.files->v[i].coll == a->coll &&
		    cmdq_algo_mark(ask.files->v[i].name) == c->mark)
			file = &ask.files->v[i];
	if (row == &plan_algo_file && !file)
		return err_set(err, RC_INVAL,
			       "the algorithm from a file did not exist when the communicator was "
			       "made, or is too large for its devices");
	ask.args = *a;
	if (row)
		ask.algo = file ? file->name : row->name;
	rc = tuner_choose(&b->tuner, &ask, &how, err);
	if (rc == RC_OK && how.file)
		a->schedule = how.file->of;
	if (rc == RC_OK)
		rc = plan_args_check(a, err);
	if (rc == RC_OK)
		rc = inst_coll_shape(&s->c, how.algo->name, how.chunk_bytes, err);
	return rc == RC_OK ? inst_coll_plan(&s->c, err) : rc;
}

/* The command's shape, planned if new. */
static enum rc
shaped_of(struct queue *q, struct queue_comm *k, const struct cmdq_command *c, struct shaped **out,
	  struct err *err)
{
	struct shaped **bucket = &k->bucket[bucket_of(c)], *s = *bucket;
	enum rc rc;

	while (s && !is_of_shape(s, c))
		s = s->next;
	*out = s;
	if (s)
		return RC_OK;
	if ((unsigned)c->coll >= GPUSIM_NCOLLS)
		return err_set(err, RC_INVAL, "unknown collective %u", c->coll);
	s = calloc(1, sizeof *s);
	if (!s)
		return err_set(err, RC_NOMEM, "out of memory");
	rc = shape_it(k, c, s, err);
	if (rc == RC_OK)
		rc = program_hold(q->all->env.held,
				  sizeof *s + s->c.plan.cap * sizeof(struct plan_step) +
				      2 * s->c.plan.nstep * sizeof(uint32_t),
				  &s->nbytes, err);
	if (rc != RC_OK) {
		shaped_free(q, s);
		return rc;
	}
	s->next = *bucket;
	*bucket = s;
	k->nshaped++;
	*out = s;
	return RC_OK;
}

/* Make the scratch at least nbytes long; operations of a queue share it one after the other. */
static enum rc
have_scratch(struct queue *q, uint64_t nbytes, struct err *err)
{
	void *p;
	enum rc rc;

	if (nbytes <= q->scratch_bytes)
		return RC_OK;
	devmem_own_free(q->all->env.mem, q->scratch);
	q->scratch = NULL;
	q->scratch_bytes = 0;
	rc = devmem_own_alloc(q->all->env.mem, nbytes, &p, err);
	if (rc != RC_OK)
		return err_prefix(err, "scratch");
	q->scratch = p;
	q->scratch_bytes = nbytes;
	return RC_OK;
}

/* ---- running */

/* premulsum: this rank's factor. */
static enum rc
take_factor(struct queue *q, struct inst_coll *i, const struct cmdq_command *c, struct err *err)
{
	void *at;
	enum rc rc = RC_OK;

	i->scalar = c->u.coll.scalar;
	if (!(c->flags & (CMDQ_SCALAR | CMDQ_SCALAR_ADDR)))
		return err_set(err, RC_INVAL, "premulsum without a factor");
	if (!(c->flags & CMDQ_SCALAR_ADDR))
		return RC_OK;
	rc = devmem_range(q->all->env.mem, "factor", c->u.coll.scalar, i->elem, &at, err);
	if (rc != RC_OK)
		return rc;
	i->scalar = 0;
	memcpy(&i->scalar, at, i->elem); /* little-endian, as the command's */
	return RC_OK;
}

static void
count_done(const struct queue_comm *k, uint64_t n)
{
	atomic_fetch_add_explicit(&k->bound->record->done, n, memory_order_relaxed);
}

enum rc
queue_coll(struct queue *q, const struct cmdq_command *c, struct err *err)
{
	uint64_t since = q->all->env.tell ? clock_now_ns() : 0;
	const uint64_t number = c->u.coll.number;
	struct queue_comm *k;
	struct shaped *s;
	uint32_t **after;
	enum rc rc = live_comm(q, c->u.coll.comm, &k, err);

	if (rc == RC_OK && (coll_is_sendrecv((enum gpusim_coll)c->coll) || number >= FRAME_OP_MAX))
		rc = err_set(err, RC_INVAL, "not a collective, or a bad number");
	if (rc == RC_OK)
		rc = shaped_of(q, k, c, &s, err);
	if (rc == RC_OK)
		rc = inst_coll_place(&s->c, q->all->env.mem, c->u.coll.send, c->u.coll.recv, err);
	if (rc == RC_OK)
		rc = have_scratch(q, inst_coll_scratch(&s->c), err);
	if (rc == RC_OK && s->c.given)
		rc = take_factor(q, &s->c, c, err);
	if (rc == RC_OK) {
		inst_coll_place_scratch(&s->c, q->scratch);
		/* The buffers may be in place; else they are apart. */
		after = &s->after[c->u.coll.send < c->u.coll.recv + s->c.shape.out * s->c.elem &&
				  c->u.coll.recv < c->u.coll.send + s->c.shape.in * s->c.elem];
		if (!*after && !(*after = hoist_compute(&s->c.plan, s->c.base, s->c.elem)))
			rc = err_set(err, RC_NOMEM, "out of memory");
		s->c.after = *after;
	}
	if (rc != RC_OK)
		return err_prefix(err, "%s", coll_name((enum gpusim_coll)c->coll));
	q->recorder.waited_ns = k->bound->waited_ns;
	rc = collective_run(q->all->env.xport, &k->bound->tickets, number, &k->program, &s->c,
			    number, &q->recorder, err);
	if (rc != RC_OK)
		return rc;
	count_done(k, 1);
	if (since)
		collective_tell(q->all->env.tell, &k->program, &s->c, number,
				clock_now_ns() - since);
	return RC_OK;
}

/* ---- sends and receives */

/* Make room for a set of n. */
static enum rc
have_room(struct queue *q, size_t n, struct err *err)
{
	size_t room = q->nset ? q->nset : 16;
	void *pair, *inst, *set;

	if (n <= q->nset)
		return RC_OK;
	while (room < n)
		room *= 2;
	if ((pair = alloc_resize(q->pair, room, sizeof *q->pair)))
		q->pair = pair;
	if ((inst = alloc_resize(q->inst, room, sizeof *q->inst)))
		q->inst = inst;
	if ((set = alloc_resize(q->set, room, sizeof *q->set)))
		q->set = set;
	if (!pair || !inst || !set)
		return err_set(err, RC_NOMEM, "out of memory");
	q->nset = room;
	return RC_OK;
}

/* Copy the set that begins with this command; each says whether more follow. */
static enum rc
gather(struct queue *q, const struct cmdq_command *c, size_t *n, struct err *err)
{
	struct cmdq_page *p = q->page;
	enum rc rc = have_room(q, 1, err);

	if (rc != RC_OK)
		return rc;
	q->set[0] = *c;
	for (*n = 1; q->set[*n - 1].flags & CMDQ_MORE; (*n)++) {
		if (*n == CMDQ_SIZE)
			return err_set(err, RC_INVAL, "a set of more than %d sends and receives",
				       CMDQ_SIZE - 1);
		while (atomic_load_explicit(&p->tail, memory_order_acquire) - q->n <= *n)
			if (!cmdq_await(&p->tail, &p->device_sleeps, q->n + *n + 1, &q->attention,
					UINT64_MAX) &&
			    !queue_look_up(q))
				return err_set(err, RC_ABORTED, "the queue is closing");
		rc = have_room(q, *n + 1, err);
		if (rc != RC_OK)
			return rc;
		q->set[*n] = p->command[(q->n + *n) % CMDQ_SIZE];
		if (q->set[*n].kind != CMDQ_SENDRECV || q->set[*n].u.coll.comm != c->u.coll.comm)
			break;
	}
	return RC_OK;
}

enum rc
queue_copy(struct queue *q, const struct cmdq_bytes *b, struct err *err)
{
	void *dst, *src;
	enum rc rc = devmem_range(q->all->env.mem, "destination", b->dst, b->nbytes, &dst, err);

	if (b->nbytes == 0)
		return RC_OK;
	if (rc == RC_OK)
		rc = devmem_range(q->all->env.mem, "source", b->src, b->nbytes, &src, err);
	if (rc == RC_OK)
		memmove(dst, src, b->nbytes);
	return rc;
}

/* Match a send to this rank itself with the next receive from it. */
static enum rc
copy_to_self(struct queue *q, const struct queue_comm *k, size_t n, struct err *err)
{
	size_t from = 0, to = 0;

	for (;; from++, to++) {
		const struct cmdq_command *out, *in;
		struct cmdq_bytes b;

		while (from < n && (q->set[from].u.coll.root != k->bound->rank ||
				    q->set[from].coll != GPUSIM_SEND))
			from++;
		while (to < n &&
		       (q->set[to].u.coll.root != k->bound->rank || q->set[to].coll != GPUSIM_RECV))
			to++;
		if (from == n && to == n)
			return RC_OK;
		if (from == n || to == n)
			return err_set(err, RC_INVAL,
				       "a send to itself needs its receive in the same group");
		out = &q->set[from];
		in = &q->set[to];
		b = (struct cmdq_bytes){.dst = in->u.coll.recv, .src = out->u.coll.send};
		if (out->u.coll.count != in->u.coll.count || out->dtype != in->dtype ||
		    __builtin_mul_overflow(in->u.coll.count,
					   dtype_size((enum gpusim_dtype)in->dtype), &b.nbytes))
			return err_set(err, RC_INVAL,
				       "it sends %" PRIu64 " %s to itself and receives %" PRIu64
				       " %s",
				       out->u.coll.count, dtype_name((enum gpusim_dtype)out->dtype),
				       in->u.coll.count, dtype_name((enum gpusim_dtype)in->dtype));
		if (queue_copy(q, &b, err) != RC_OK)
			return err->rc;
	}
}

/* Prepare one operation of a set. */
static enum rc
prepare(struct queue *q, struct queue_comm *k, const struct cmdq_command *c, size_t at,
	struct err *err)
{
	uint64_t number = c->u.coll.number;
	struct shaped *s;
	enum rc rc;

	if (number >= FRAME_SENDRECV_MAX - 1)
		return err_set(err, RC_INVAL, "a bad number");
	rc = shaped_of(q, k, c, &s, err);
	if (rc == RC_OK)
		rc = inst_coll_place(&s->c, q->all->env.mem, c->u.coll.send, c->u.coll.recv, err);
	if (rc != RC_OK)
		return rc;
	q->inst[at] = s->c;
	q->pair[at] = (struct pair){.c = &q->inst[at], .op = inst_coll_pair(&s->c, number + 1)};
	return RC_OK;
}

enum rc
queue_set(struct queue *q, const struct cmdq_command *c, size_t *n, struct err *err)
{
	uint64_t since = q->all->env.tell ? clock_now_ns() : 0;
	struct queue_comm *k;
	size_t npairs = 0;
	enum rc rc = gather(q, c, n, err);

	if (rc != RC_OK) {
		*n = 1;
		return rc;
	}
	rc = live_comm(q, c->u.coll.comm, &k, err);
	for (size_t i = 0; i < *n && rc == RC_OK; i++)
		if (!coll_is_sendrecv((enum gpusim_coll)q->set[i].coll))
			rc = err_set(err, RC_INVAL, "%s is not a send or receive",
				     coll_name((enum gpusim_coll)q->set[i].coll));
	for (size_t i = 0; i < *n && rc == RC_OK; i++)
		if (q->set[i].u.coll.root != k->bound->rank) {
			rc = prepare(q, k, &q->set[i], npairs++, err);
			if (rc != RC_OK)
				err_prefix(err, "%s", coll_name((enum gpusim_coll)q->set[i].coll));
		}
	if (rc == RC_OK)
		rc = copy_to_self(q, k, *n, err);
	if (rc == RC_OK && npairs) {
		q->recorder.waited_ns = k->bound->waited_ns;
		rc = pairs_run(q->all->env.xport, &k->program, q->pair, npairs, &q->recorder, err);
	}
	if (rc != RC_OK)
		return rc;
	count_done(k, *n);
	for (size_t i = 0; since && i < npairs; i++)
		collective_tell(q->all->env.tell, &k->program, q->pair[i].c, q->pair[i].op,
				clock_now_ns() - since);
	return RC_OK;
}

/* ---- failures */

void
queue_coll_failed(struct queue *q, const struct cmdq_command *c, const struct err *why)
{
	struct err err;
	struct queue_comm *k = comm_of(q, c->u.coll.comm, &err);

	recorder_end(&q->recorder);
	/* A failure heard from others has been reported already. */
	if (k)
		bound_give_up(q->all, k->bound, why->rc, why->text, why->rc != RC_ABORTED);
}

void
queue_skip(struct queue *q, const struct cmdq_command *c, const char *why)
{
	struct err err;
	struct queue_comm *k = comm_of(q, c->u.coll.comm, &err);
	char text[CMDQ_TEXT];

	if (!k || atomic_load(&k->bound->over))
		return;
	snprintf(text, sizeof text, "rank %u skipped its %s: %.300s", k->bound->rank,
		 coll_name((enum gpusim_coll)c->coll), why);
	bound_give_up(q->all, k->bound, RC_ABORTED, text, true);
}
