/*
 * Waiting for a peer's counter: spin while the wait is likely to be short, then yield, then sleep. Where
 * ranks share cores there is no spinning: the peer may need this core.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "xport/peermem_impl.h"

static void
pause_core(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* The low half of a counter: a futex has 32 bits. */
static uint32_t *
futex_word(_Atomic uint64_t *word)
{
	uint32_t *half = (uint32_t *)(void *)word;

	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? half : half + 1;
}

static void
futex_sleep(_Atomic uint64_t *word, uint64_t seen, uint64_t ns)
{
	struct timespec ts = {.tv_sec = (time_t)(ns / NS_PER_SEC),
			      .tv_nsec = (long)(ns % NS_PER_SEC)};

	syscall(SYS_futex, futex_word(word), FUTEX_WAIT, (uint32_t)seen, &ts, NULL, 0);
}

void
peermem_publish(struct peer_mapping *m, _Atomic uint64_t *word, uint64_t n)
{
	/* The order matters: store, then check for sleepers; sleepers do the reverse. */
	atomic_store(word, n);
	if (atomic_load(&m->block->sleepers))
		syscall(SYS_futex, futex_word(word), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void
count_move(struct peermem_block *b)
{
	atomic_fetch_add(&b->moves, 1);
	if (atomic_load(&b->sleepers))
		syscall(SYS_futex, futex_word(&b->moves), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void
peermem_moved(struct comm *c)
{
	if (c->mapping)
		count_move(c->mapping->block);
	else
		atomic_fetch_add(c->moves, 1);
}

enum rc
peermem_verdict(const struct peer_mapping *m, struct err *err)
{
	/* No thread here waits for an unmapped rank. */
	for (uint32_t i = 0, n = atomic_load(&m->nmapped); i < n; i++) {
		struct peermem_block *b = m->peer[m->mapped[i]].block;

		if (atomic_load_explicit(&b->gave_up, memory_order_acquire) == PEERMEM_GAVE_UP)
			return err_set(err, RC_ABORTED, "%.*s", (int)sizeof b->reason - 1,
				       b->reason);
	}
	return RC_OK;
}

/* An ended process publishes nothing more; what it published before counts. */
static enum rc
still_there(const struct wait *w, struct err *err)
{
	const struct peermem_peer *p = &w->op->comm->mapping->peer[w->peer];

	if (!p->seen || kill(p->seen, 0) == 0 || errno != ESRCH || xport_wait_is_over(w))
		return RC_OK;
	return err_set(err, RC_UNREACHABLE,
		       "rank %u (device %016" PRIx64 ") is gone: its process %d has ended", w->peer,
		       p->id.device_id, p->seen);
}

/* The block is still the same. A rank that was frozen while the others continued may find anything in its
 * place when it wakes, and must not write there. */
static bool
is_same_block(const struct comm *c, const struct peermem_block *b)
{
	return b->magic == PEERMEM_MAGIC && b->comm == c->id && b->coordinator == c->coordinator &&
	       b->epoch == c->epoch;
}

void
peermem_moved_at(struct comm *c, uint32_t peer)
{
	struct peermem_block *b = c->mapping->peer[peer].block;

	if (is_same_block(c, b))
		count_move(b);
}

/* Sleep until a counter of block b changes; it is the one that is waited for, or changes with it. */
static void
sleep_on(struct wait *w, struct peermem_block *b, _Atomic uint64_t *counter)
{
	unsigned longer = w->pauses - YIELD_RUNS;
	uint64_t ns = longer < 5 ? SLEEP_NS << longer : SLEEP_MOST, seen;

	if (w->until_ns - w->now_ns < ns)
		ns = w->until_ns - w->now_ns;
	atomic_fetch_add(&b->sleepers, 1);
	seen = atomic_load(counter);
	if (!xport_wait_is_over(w))
		futex_sleep(counter, seen, ns);
	if (is_same_block(w->op->comm, b))
		atomic_fetch_sub(&b->sleepers, 1);
}

/* Yield for a while. False: it is time to sleep. */
static bool
yield_first(struct wait *w)
{
	for (unsigned i = 0; w->pauses < YIELD_RUNS && i < YIELDS; i++) {
		sched_yield();
		if (xport_wait_is_over(w))
			return true;
	}
	return w->pauses < YIELD_RUNS;
}

enum rc
peermem_pair_pause(struct wait *w, struct err *err)
{
	struct comm *c = w->op->comm;
	enum rc rc;

	for (unsigned i = w->pauses ? 0 : c->mapping->spins; i > 0 && !xport_wait_is_over(w); i--)
		pause_core();
	if (xport_wait_is_over(w) || yield_first(w))
		return RC_OK;
	/* A peer whose process has ended is reported by the coordinator, which knows why. */
	rc = xport_poll(w->op, err);
	/* Frames may come too: nng's threads read them. */
	net_pull_resume(c->x->pull);
	if (rc == RC_OK)
		sleep_on(w, c->mapping->block, c->moves);
	return rc;
}

enum rc
peermem_pause(struct wait *w, struct err *err)
{
	enum rc rc;

	if (yield_first(w))
		return RC_OK;
	rc = still_there(w, err);
	if (rc == RC_OK && w->peer != w->op->comm->rank)
		rc = peermem_compare(w->op, w->peer, err);
	/* The peers by frames need polling, too. */
	if (rc == RC_OK && w->op->frames)
		rc = xport_poll(w->op, err);
	if (rc == RC_OK)
		sleep_on(w, w->op->comm->mapping->peer[w->peer].block, w->counter);
	return rc;
}

/* The slow path of a wait. */
static __attribute__((noinline)) enum rc
await_long(struct xport_op *o, uint32_t peer, _Atomic uint64_t *word, uint64_t n, const char *what,
	   struct err *err)
{
	struct wait w = {
	    .op = o, .peer = peer, .what = what, .counter = word, .n = n, .until_ns = UINT64_MAX};

	return xport_await(&w, err);
}

enum rc
peermem_await(struct xport_op *o, uint32_t peer, _Atomic uint64_t *word, uint64_t n,
	      const char *what, struct err *err)
{
	for (unsigned i = o->comm->mapping->spins;; i--) {
		if (atomic_load_explicit(word, memory_order_acquire) >= n)
			return RC_OK;
		if (i == 0)
			return await_long(o, peer, word, n, what, err);
		pause_core();
	}
}
