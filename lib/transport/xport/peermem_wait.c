/*
 * Waiting for a peer's counter: spin while the wait is likely to be short, then yield, then sleep. Where
 * ranks share cores there is no spinning: the peer may need this core.
 */
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
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

void
peermem_give_up(struct peer_mapping *m, const char reason[REASON_MAX])
{
	struct peermem_block *b = m->block;

	if (!atomic_compare_exchange_strong(&b->gave_up, &(unsigned){PEERMEM_GOES_ON},
					    PEERMEM_WRITES))
		return;
	memcpy(b->reason, reason, sizeof b->reason);
	atomic_store_explicit(&b->gave_up, PEERMEM_GAVE_UP, memory_order_release);
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

void
peermem_sleep(struct wait *w, struct peermem_block *b, _Atomic uint64_t *counter)
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

bool
peermem_yield(struct wait *w, unsigned spins)
{
	for (; spins > 0 && !xport_wait_is_over(w); spins--)
		pause_core();
	for (unsigned i = 0; w->pauses < YIELD_RUNS && i < YIELDS && !xport_wait_is_over(w); i++)
		sched_yield();
	return w->pauses < YIELD_RUNS || xport_wait_is_over(w);
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
