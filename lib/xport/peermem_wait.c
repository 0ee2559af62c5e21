/*
 * Waiting for a peer's counter: spinning while that is likely to be short, then giving the core
 * away, then sleeping. Where ranks have to share cores there is no spinning: whoever is waited for
 * may need this very core.
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

#define YIELDS	     1000 /* before sleeping */
#define YIELDS_CHECK 32	  /* between looking whether to go on */
#define SLEEP_NS     (1 * NS_PER_MS)
#define SLEEP_MOST   (20 * NS_PER_MS)

static void
pause_core(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* The half of a counter that changes: a futex is 32 bits. */
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
peermem_publish(struct peer_mapping *l, _Atomic uint64_t *word, uint64_t n)
{
	/* In one order for all: this, then looking for sleepers; theirs is the other way round. */
	atomic_store(word, n);
	if (atomic_load(&l->block->sleepers))
		syscall(SYS_futex, futex_word(word), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

enum rc
peermem_aborted(const struct peer_mapping *l, struct err *err)
{
	struct comm *c = l->comm;

	if (!atomic_load_explicit(&l->aborted, memory_order_relaxed))
		return RC_OK;
	pthread_mutex_lock(&c->x->lock);
	err_set(err, RC_ABORTED, "%s", c->aborted);
	pthread_mutex_unlock(&c->x->lock);
	return RC_ABORTED;
}

/* Whether the operation can go on at all. */
static enum rc
verdict(const struct peermem_op *o, struct err *err)
{
	const struct peer_mapping *l = o->lane;

	if (peermem_aborted(l, err) != RC_OK)
		return RC_ABORTED;
	/* Of those who are not mapped nobody here waits for any. */
	for (uint32_t i = 0, n = atomic_load(&l->nmapped); i < n; i++) {
		struct peermem_block *b = l->peer[l->mapped[i]].block;

		if (atomic_load_explicit(&b->gave_up, memory_order_acquire) == PEERMEM_GAVE_UP)
			return err_set(err, RC_ABORTED, "%.*s", (int)sizeof b->reason - 1,
				       b->reason);
	}
	return RC_OK;
}

/* A process that has ended will not publish anything more. */
static enum rc
still_there(const struct peermem_op *o, uint32_t peer, struct err *err)
{
	const struct peermem_peer *p = &o->lane->peer[peer];

	if (!p->seen || kill(p->seen, 0) == 0 || errno != ESRCH)
		return RC_OK;
	return err_set(err, RC_UNREACHABLE,
		       "rank %u (device %016" PRIx64 ") is gone: its process %d has ended", peer,
		       p->id.device_id, p->seen);
}

static enum rc
sleep_for(const struct peermem_op *o, uint32_t peer, _Atomic uint64_t *word, uint64_t n,
	  uint64_t deadline, const char *what, struct err *err)
{
	uint64_t ns = SLEEP_NS, seen;

	while ((seen = atomic_load(word)) < n) {
		enum rc rc = verdict(o, err);

		if (rc == RC_OK)
			rc = still_there(o, peer, err);
		/* What it published before it ended counts. */
		if (rc == RC_UNREACHABLE && atomic_load(word) >= n)
			return RC_OK;
		if (rc == RC_OK && clock_now_ns() >= deadline)
			rc = err_set(err, RC_TIMEOUT,
				     "no progress for %.1fs: %s rank %u (device %016" PRIx64 ")",
				     (double)o->lane->comm->op_timeout_ns / 1e9, what, peer,
				     o->lane->peer[peer].id.device_id);
		if (rc != RC_OK)
			return rc;
		if (o->idle)
			o->idle(o->idle_arg);
		futex_sleep(word, seen, ns);
		if (ns < SLEEP_MOST)
			ns *= 2;
	}
	return RC_OK;
}

/* Is it the block that it was? Who slept frozen, while the others went on without it, finds anything
 * in its place, and must not write there. */
static bool
is_same_block(const struct peermem_op *o, const struct peermem_block *b)
{
	const struct comm *c = o->lane->comm;

	return b->magic == PEERMEM_MAGIC && b->comm == c->id && b->coordinator == c->coordinator &&
	       b->epoch == c->epoch;
}

/* Give the core away for a while, then sleep. */
static enum rc
wait_long(const struct peermem_op *o, uint32_t peer, _Atomic uint64_t *word, uint64_t n,
	  const char *what, struct err *err)
{
	struct peermem_block *b = o->lane->peer[peer].block;
	uint64_t deadline;
	enum rc rc;

	for (unsigned i = 1; i <= YIELDS; i++) {
		sched_yield();
		if (atomic_load_explicit(word, memory_order_acquire) >= n)
			return RC_OK;
		if (i % YIELDS_CHECK == 0 && (rc = verdict(o, err)) != RC_OK)
			return rc;
	}
	deadline = clock_now_ns() + o->lane->comm->op_timeout_ns;
	atomic_fetch_add(&b->sleepers, 1);
	rc = sleep_for(o, peer, word, n, deadline, what, err);
	if (is_same_block(o, b))
		atomic_fetch_sub(&b->sleepers, 1);
	return rc;
}

enum rc
peermem_await(const struct peermem_op *o, uint32_t peer, _Atomic uint64_t *word, uint64_t n,
	      const char *what, struct err *err)
{
	enum rc rc;

	if (atomic_load_explicit(word, memory_order_acquire) >= n)
		return RC_OK;
	for (unsigned i = 0; i < o->lane->spins; i++) {
		pause_core();
		if (atomic_load_explicit(word, memory_order_acquire) >= n)
			return RC_OK;
	}
	recorder_waits(o->meter, peer);
	rc = wait_long(o, peer, word, n, what, err);
	recorder_goes_on(o->meter, rc != RC_OK);
	return rc;
}
