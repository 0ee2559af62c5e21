/* A queue's thread: commands in order, failures, the end. Design notes: cmdq_impl.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "dev/cmdq_impl.h"

/* Wait until *counter is at least n, however long that takes. False: the queue ends. */
static bool
await(struct queue *q, _Atomic uint64_t *counter, atomic_uint *sleeps, uint64_t n)
{
	bool goes_on = true;

	atomic_store(&q->waits_on, counter);
	while (goes_on && !cmdq_await(counter, sleeps, n, &q->attention, UINT64_MAX))
		goes_on = queue_look_up(q);
	atomic_store(&q->waits_on, &q->page->tail);
	return goes_on;
}

/* After this long the recorder shows what the thread waits for. */
#define SHOWN_NS (100 * NS_PER_MS)

/* x: the work that the client does, or NULL. */
static void
show(struct queue *q, enum flight_task what, uint64_t queue, const struct cmdq_extern *x)
{
	struct flight_now now = {.what = what, .since = recorder_now(&q->recorder), .queue = queue};

	if (x) {
		now.tid = x->tid;
		memcpy(now.name, x->kernel.name, sizeof x->kernel.name);
	}
	if (x && what == FLIGHT_TASK_HOST && x->does == CMDQ_DOES_KERNEL) {
		now.what = FLIGHT_TASK_KERNEL;
	} else if (x && what == FLIGHT_TASK_HOST && x->does != CMDQ_DOES_HOST) {
		now.what = x->does == CMDQ_DOES_WAIT ? FLIGHT_TASK_QUEUE : FLIGHT_TASK_COPY;
		now.queue = x->queue;
		now.device = x->device;
	}
	recorder_task(&q->recorder, &now);
}

/* As await, and show long waits in the recorder. */
static bool
await_shown(struct queue *q, _Atomic uint64_t *counter, atomic_uint *sleeps, uint64_t n,
	    enum flight_task what, const struct cmdq_extern *x)
{
	bool goes_on;

	atomic_store(&q->waits_on, counter);
	if (cmdq_await(counter, sleeps, n, &q->attention, clock_now_ns() + SHOWN_NS)) {
		atomic_store(&q->waits_on, &q->page->tail);
		return true;
	}
	show(q, what, 0, x);
	goes_on = await(q, counter, sleeps, n);
	recorder_task(&q->recorder, NULL);
	return goes_on;
}

/* ---- commands without a communicator */

static enum rc
run_memset(struct queue *q, const struct cmdq_bytes *b, struct err *err)
{
	size_t done = b->width < b->nbytes ? b->width : b->nbytes;
	void *dst;
	enum rc rc;

	if (b->width != 1 && b->width != 2 && b->width != 4)
		return err_set(err, RC_INVAL, "units of %u bytes: must be 1, 2 or 4", b->width);
	if (b->nbytes == 0)
		return RC_OK;
	rc = devmem_range(q->all->env.mem, "address", b->dst, b->nbytes, &dst, err);
	if (rc != RC_OK)
		return rc;
	if (b->width == 1) {
		memset(dst, (int)(b->value & 0xff), b->nbytes);
		return RC_OK;
	}
	memcpy(dst, &b->value, done);		      /* little-endian: the low bytes come first */
	for (size_t n; done < b->nbytes; done += n) { /* by doubling */
		n = done < b->nbytes - done ? done : b->nbytes - done;
		memcpy((unsigned char *)dst + done, dst, n);
	}
	return RC_OK;
}

/* It has waited since it began the command. */
static void
paused(struct queue *q, enum flight_copy_kind what, uint64_t with)
{
	uint64_t begin = q->recorder.clock;

	recorder_clock(&q->recorder);
	if (begin)
		recorder_pause(&q->recorder, what, with, begin);
}

static const char ends[] = "the queue is closing";

/* Wait until a queue has reached a position, or has ended and so skipped the rest. */
static enum rc
run_wait(struct queue *q, const struct cmdq_wait *w, struct err *err)
{
	struct cmdqs *s = q->all;
	struct queue *of;
	bool known, goes_on = true;

	pthread_mutex_lock(&s->lock);
	of = queue_find(s, w->queue);
	known = w->queue && w->queue <= s->last_id;
	if (of)
		of->refs++;
	pthread_mutex_unlock(&s->lock);
	if (!known)
		return err_set(err, RC_INVAL, "no command queue %" PRIu64, w->queue);
	if (!of)
		return RC_OK;
	atomic_store(&q->waits_on, &of->page->head);
	while (goes_on && !atomic_load(&of->over) &&
	       !cmdq_await(&of->page->head, &of->page->client_sleeps, w->position, &q->attention,
			   clock_now_ns() + SHOWN_NS)) {
		show(q, FLIGHT_TASK_QUEUE, w->queue, NULL);
		goes_on = queue_look_up(q);
	}
	recorder_task(&q->recorder, NULL);
	atomic_store(&q->waits_on, &q->page->tail);
	pthread_mutex_lock(&s->lock);
	queue_drop(of);
	pthread_mutex_unlock(&s->lock);
	paused(q, FLIGHT_PAUSE_QUEUE, w->queue);
	return goes_on ? RC_OK : err_set(err, RC_ABORTED, ends);
}

/* The client has run a kernel, or a library's function in place of one; its message is copied before use. */
static void
record_kernel(struct queue *q, struct cmdq_extern *x, uint64_t begin, enum rc rc)
{
	struct cmdq_kernel told = x->kernel;
	struct flight_kernel k = {.result = (uint8_t)rc, .begin = begin};

	recorder_clock(&q->recorder);
	told.name[sizeof told.name - 1] = '\0';
	snprintf(k.name, sizeof k.name, "%s", *told.name ? told.name : "kernel");
	k.threads = told.threads < UINT16_MAX ? (uint16_t)told.threads : UINT16_MAX;
	k.argbytes = told.argbytes;
	memcpy(k.grid, told.grid, sizeof k.grid);
	recorder_kernel(&q->recorder, &k);
}

static enum rc
run_extern(struct queue *q, const struct cmdq_ext *e, struct err *err)
{
	uint64_t begin = q->recorder.clock;
	struct cmdq_extern *x;
	uint32_t rc;

	if (e->who >= CMDQ_EXTERNS)
		return err_set(err, RC_INVAL, "no worker %" PRIu64, e->who);
	x = &q->page->ext[e->who];
	atomic_store_explicit(&x->rc, 0, memory_order_relaxed);
	cmdq_publish(&x->go, &x->worker_sleeps, e->n);
	if (!await_shown(q, &x->done, &x->device_sleeps, e->n,
			 e->who == 0 ? FLIGHT_TASK_KERNEL : FLIGHT_TASK_HOST, x))
		return err_set(err, RC_ABORTED, ends);
	rc = atomic_load(&x->rc);
	if (e->who == 0 || x->does == CMDQ_DOES_KERNEL)
		record_kernel(q, x, begin, rc <= RC_RECOVERED ? (enum rc)rc : RC_FAILED);
	else
		paused(q, FLIGHT_PAUSE_HOST, 0);
	if (rc == RC_OK)
		return RC_OK;
	return err_set(err, rc <= RC_RECOVERED ? (enum rc)rc : RC_FAILED, "%.*s",
		       (int)sizeof x->text - 1, x->text);
}

static void
run_note(struct queue *q, const struct cmdq_command *c)
{
	const struct cmdq_note *n = &c->u.note;
	struct flight_range r = {.what = c->flags,
				 .category = c->mark,
				 .colour = n->colour,
				 .begin = n->begin,
				 .end = n->end,
				 .pid = q->pid,
				 .tid = n->tid};

	_Static_assert(sizeof r.name == sizeof n->name, "one length");
	memcpy(r.name, n->name, sizeof r.name);
	r.name[sizeof r.name - 1] = '\0';
	recorder_range(&q->recorder, &r);
}

/* A position in another queue. */
struct behind {
	struct queue *q;
	uint64_t at;
};

/* Return true if a command waits for nothing but those before it. */
static bool
is_plain(const struct cmdq_command *c)
{
	return (c->kind == CMDQ_EXTERN && c->u.ext.who == 0) || c->kind == CMDQ_COPY ||
	       c->kind == CMDQ_MEMSET || c->kind == CMDQ_STAMP || c->kind == CMDQ_NOP;
}

/* The same for a wait for another queue: all commands up to there are plain. Lock held. */
static bool
is_plain_wait(struct cmdqs *s, const struct cmdq_command *c)
{
	struct queue *of = c->kind == CMDQ_WAIT ? queue_find(s, c->u.wait.queue) : NULL;
	uint64_t at = of ? atomic_load(&of->page->head) : 0;

	if (!of)
		return c->kind == CMDQ_WAIT; /* it has ended */
	for (; at < c->u.wait.position && c->u.wait.position - at <= CMDQ_SIZE; at++) {
		struct cmdq_command b = of->page->command[at % CMDQ_SIZE];

		if (!is_plain(&b))
			return false;
	}
	return true;
}

/* The position after the kernels from o's current command on that were queued before `queued`; those behind commands
 * that may wait for anything do not count. 0: there are none. Lock held. */
static uint64_t
kernels_before(struct queue *o, uint32_t queued)
{
	struct cmdq_page *p = o->page;
	uint64_t at = atomic_load(&p->head), tail = atomic_load(&p->tail), found = 0;

	for (; at < tail && tail - at <= CMDQ_SIZE; at++) {
		struct cmdq_command c = p->command[at % CMDQ_SIZE];

		if (!is_plain(&c) && !is_plain_wait(o->all, &c))
			break;
		if (c.kind != CMDQ_EXTERN)
			continue;
		if ((int32_t)(queued - (uint32_t)c.u.ext.queued) < 0)
			break;
		found = at + 1;
	}
	return found;
}

/* Holds the queues that it finds. */
static unsigned
find_kernels(struct queue *q, uint32_t queued, struct behind *v, unsigned max)
{
	struct cmdqs *s = q->all;
	unsigned n = 0;

	pthread_mutex_lock(&s->lock);
	for (struct queue *o = s->queues; o && n < max; o = o->next) {
		uint64_t at = o != q && o->pid == q->pid ? kernels_before(o, queued) : 0;

		if (at) {
			o->refs++;
			v[n++] = (struct behind){o, at};
		}
	}
	pthread_mutex_unlock(&s->lock);
	return n;
}

/*
 * On a GPU the blocks of a kernel get their places before those of a later launch, in whatever stream, and programs
 * rely on it where an event is missing. So a collective begins after the kernels that were launched before it and wait
 * for nothing else; after a minute in any case, because a kernel might wait for the collective.
 */
static void
await_kernels(struct queue *q, uint32_t queued)
{
	uint64_t until = clock_now_ns() + 60000 * NS_PER_MS;
	struct behind v[16];
	unsigned n = find_kernels(q, queued, v, 16);
	bool goes_on = true;

	for (unsigned i = 0; i < n; i++) {
		struct cmdq_page *p = v[i].q->page;

		while (goes_on && clock_now_ns() < until && !atomic_load(&v[i].q->over) &&
		       !cmdq_await(&p->head, &p->client_sleeps, v[i].at, &q->attention, until))
			goes_on = queue_look_up(q);
	}
	if (n == 0)
		return;
	pthread_mutex_lock(&q->all->lock);
	for (unsigned i = 0; i < n; i++)
		queue_drop(v[i].q);
	pthread_mutex_unlock(&q->all->lock);
}

static bool
is_of_comm(const struct cmdq_command *c)
{
	return c->kind == CMDQ_COLL || c->kind == CMDQ_SENDRECV;
}

/* Run one command, or a set; *n is its length. */
static enum rc
run(struct queue *q, const struct cmdq_command *c, size_t *n, struct err *err)
{
	uint64_t now = c->kind == CMDQ_STAMP ? clock_now_ns() : 0;
	void *dst;
	enum rc rc;

	switch (c->kind) {
	case CMDQ_COLL:
		await_kernels(q, c->u.coll.queued);
		return queue_coll(q, c, err);
	case CMDQ_SENDRECV:
		return queue_set(q, c, n, err);
	case CMDQ_NOP:
		return RC_OK;
	case CMDQ_COPY:
		return queue_copy(q, &c->u.bytes, err);
	case CMDQ_MEMSET:
		return run_memset(q, &c->u.bytes, err);
	case CMDQ_STAMP:
		rc =
		    devmem_range(q->all->env.mem, "address", c->u.bytes.dst, sizeof now, &dst, err);
		if (rc == RC_OK)
			memcpy(dst, &now, sizeof now);
		return rc;
	case CMDQ_WAIT:
		return run_wait(q, &c->u.wait, err);
	case CMDQ_EXTERN:
		return run_extern(q, &c->u.ext, err);
	case CMDQ_NOTE:
		run_note(q, c);
		return RC_OK;
	}
	return err_set(err, RC_INVAL, "unknown kind of command: %u", c->kind);
}

static enum rc
run_recorded(struct queue *q, const struct cmdq_command *c, size_t *n, struct err *err)
{
	uint64_t begin = recorder_now(&q->recorder);
	bool copies = c->kind == CMDQ_COPY;
	enum rc rc;

	if (is_of_comm(c)) { /* queued by its client, in ticks; 0: implausible */
		uint32_t ago = (uint32_t)(begin >> 6) - c->u.coll.queued;

		q->recorder.queued =
		    c->u.coll.queued && ago <= INT32_MAX ? begin - ((uint64_t)ago << 6) : 0;
	}
	rc = run(q, c, n, err);
	if (copies || c->kind == CMDQ_MEMSET) {
		recorder_clock(&q->recorder);
		recorder_copy(&q->recorder, &(struct flight_copy){
						.what = copies ? FLIGHT_COPY_DEVICE : FLIGHT_MEMSET,
						.result = (uint8_t)rc,
						.begin = begin,
						.dst = c->u.bytes.dst,
						.src = copies ? c->u.bytes.src : 0,
						.nbytes = c->u.bytes.nbytes});
	}
	return rc;
}

/* ---- failures */

static const char *
word(const struct cmdq_command *c)
{
	static const char *const words[] = {
	    [CMDQ_COPY] = "copy", [CMDQ_MEMSET] = "memset", [CMDQ_STAMP] = "stamp",
	    [CMDQ_WAIT] = "wait", [CMDQ_EXTERN] = "kernel", [CMDQ_NOP] = "nop",
	    [CMDQ_NOTE] = "note"};

	return c->kind < sizeof words / sizeof *words ? words[c->kind] : NULL;
}

/* The current command has failed: skip all that follow. */
static void
fail(struct queue *q, const struct cmdq_command *c, struct err *err)
{
	struct cmdq_error *e = &q->page->error;

	if (is_of_comm(c))
		queue_coll_failed(q, c, err);
	else if (c->kind != CMDQ_EXTERN && word(c))
		err_prefix(err, "%s", word(c));
	e->at = q->n;
	e->comm = is_of_comm(c) ? c->u.coll.comm : 0;
	e->rc = (uint32_t)err->rc;
	snprintf(e->text, sizeof e->text, "%.*s", (int)sizeof e->text - 1, err->text);
	q->failed = true;
	atomic_store(&e->number, ++q->errors);
}

/* Skip the current command. */
static void
pass_over(struct queue *q, const struct cmdq_command *c, const char *why)
{
	if (is_of_comm(c))
		queue_skip(q, c, why);
}

/* ---- the thread */

/* Carry out or skip the current command. */
static void
serve(struct queue *q)
{
	struct cmdq_command c = q->page->command[q->n % CMDQ_SIZE];
	struct err err;
	size_t n = 1;

	if (__builtin_expect(q->failed, 0)) /* the last error may be cleared by now */
		q->failed = atomic_load_explicit(&q->page->error.forgiven, memory_order_acquire) <
			    q->errors;
	if (q->failed)
		pass_over(q, &c, q->page->error.text);
	else if (run_recorded(q, &c, &n, &err) != RC_OK)
		fail(q, &c, &err);
	q->n += n;
	cmdq_publish(&q->page->head, &q->page->client_sleeps, q->n);
}

/* Wait until no run of the stream precedes the current command. False: the queue ends. */
static bool
have_turn(struct queue *q)
{
	bool goes_on;

	if (atomic_load_explicit(&q->turns.gate, memory_order_acquire) > q->n)
		return true;
	recorder_now(&q->recorder);
	goes_on =
	    await_shown(q, &q->turns.gate, &q->turns.gate_sleeps, q->n + 1, FLIGHT_TASK_TURN, NULL);
	paused(q, FLIGHT_PAUSE_TURN, 0);
	return goes_on;
}

/* Serve until the queue ends; then *why. */
static void
serve_all(struct queue *q, struct err *why)
{
	struct cmdq_page *p = q->page;
	uint64_t tail;

	for (;;) {
		tail = atomic_load_explicit(&p->tail, memory_order_acquire);
		if (tail == q->n) {
			if (q->home >= 0 && sched_getcpu() != q->home)
				queue_move_home(q);
			if (!await(q, &p->tail, &p->device_sleeps, q->n + 1))
				break;
			q->recorder.clock = 0;
			continue;
		}
		if (tail - q->n > CMDQ_SIZE) {
			err_set(why, RC_BADDATA,
				"the queue's tail is %" PRIu64 " after %" PRIu64
				" commands: its client has corrupted it",
				tail, q->n);
			return;
		}
		while (q->n != tail) {
			if (atomic_load_explicit(&q->attention, memory_order_relaxed) &&
			    !queue_look_up(q))
				goto out;
			if (q->stream != CMDQS_OWN && !have_turn(q))
				goto out;
			serve(q);
		}
	}
out:
	err_set(why, RC_ABORTED, "the queue was closed");
}

/* Nothing more is carried out: end all waits for the queue. */
static void
pass_rest(struct queue *q, struct err *why)
{
	struct cmdq_page *p = q->page;
	uint64_t tail = atomic_load(&p->tail);

	if (why->rc == RC_BADDATA)
		fail(q, &(struct cmdq_command){.kind = CMDQ_EXTERN}, why);
	else
		for (; q->n < tail && tail - q->n <= CMDQ_SIZE; q->n++) {
			struct cmdq_command c = p->command[q->n % CMDQ_SIZE];

			pass_over(q, &c, why->text);
		}
	atomic_store(&p->closed, 1);
	cmdq_publish(&p->head, &p->client_sleeps, tail);
}

void *
queue_main(void *arg)
{
	struct queue *q = arg;
	struct cmdqs *s = q->all;
	struct err why = {0};

	q->home = -1;
	if (sched_getaffinity(0, sizeof q->cores, &q->cores) != 0)
		CPU_ZERO(&q->cores);
	atomic_store(&q->waits_on, &q->page->tail);
	pthread_mutex_lock(&s->lock);
	recorder_open(&q->recorder, s->env.flight, FLIGHT_QUEUE, q->id,
		      q->stream == CMDQS_OWN ? FLIGHT_OWN_STREAM : q->stream, q->pid, "queue");
	pthread_mutex_unlock(&s->lock);
	serve_all(q, &why);
	if (q->stream != CMDQS_OWN)
		streams_detach(s->streams, &q->turns);
	pass_rest(q, &why);
	queue_forget_comms(q, true);
	free(q->pair);
	free(q->inst);
	free(q->set);
	devmem_own_free(s->env.mem, q->scratch);
	q->scratch = NULL;
	pthread_mutex_lock(&s->lock);
	recorder_close(&q->recorder);
	atomic_store(&q->over, true);
	atomic_store(&q->waits_on, NULL);
	queue_drop(q);
	s->threads--;
	pthread_cond_broadcast(&s->ended);
	pthread_mutex_unlock(&s->lock);
	return NULL;
}
