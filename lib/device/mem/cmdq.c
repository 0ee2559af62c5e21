/* Counters of command queues: publishing and waiting. */
#include "mem/cmdq.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define SPINS  100 /* a few us, if there are cores for all: the other side will soon arrive */
#define FEW    4   /* cores: two ranks with their clients may have to share them */
#define YIELDS 250 /* if the other side shares this core, it runs now */
#define SLICE_NS \
	100000000u /* longest sleep before the deadline and the other process are checked */

static uint32_t *
futex_word(_Atomic uint64_t *word)
{
	uint32_t *half = (uint32_t *)(void *)word;

	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? half : half + 1;
}

void
cmdq_wake(_Atomic uint64_t *counter)
{
	syscall(SYS_futex, futex_word(counter), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void
cmdq_publish(_Atomic uint64_t *counter, atomic_uint *sleeps, uint64_t n)
{
	/* Sequentially consistent: first this store, then the check for sleepers; they do the reverse. */
	atomic_store(counter, n);
	if (atomic_load(sleeps))
		cmdq_wake(counter);
}

static void
sleep_on(_Atomic uint64_t *counter, atomic_uint *sleeps, uint64_t n, uint64_t ns)
{
	struct timespec ts = {.tv_sec = (time_t)(ns / NS_PER_SEC),
			      .tv_nsec = (long)(ns % NS_PER_SEC)};
	uint64_t seen;

	atomic_fetch_add(sleeps, 1);
	seen = atomic_load(counter);
	if (seen < n)
		syscall(SYS_futex, futex_word(counter), FUTEX_WAIT, (uint32_t)seen, &ts, NULL, 0);
	atomic_fetch_sub(sleeps, 1);
}

/* If the other side may need this core, spinning would block it. */
static unsigned
spins(void)
{
	static atomic_uint n = UINT_MAX;

	if (atomic_load_explicit(&n, memory_order_relaxed) == UINT_MAX)
		atomic_store(&n, sysconf(_SC_NPROCESSORS_ONLN) > FEW ? SPINS : 0);
	return atomic_load_explicit(&n, memory_order_relaxed);
}

bool
cmdq_await(_Atomic uint64_t *counter, atomic_uint *sleeps, uint64_t n, const _Atomic uint32_t *stop,
	   uint64_t until_ns)
{
	const unsigned before = spins();

	for (unsigned i = 0;; i++) {
		if (atomic_load_explicit(counter, memory_order_acquire) >= n)
			return true;
		if (i < before) {
#if defined(__x86_64__) || defined(__i386__)
			__builtin_ia32_pause();
#endif
			continue;
		}
		if (i < before + YIELDS) {
			sched_yield();
			continue;
		}
		uint64_t now = clock_now_ns();

		if ((stop && atomic_load(stop)) || now >= until_ns)
			return atomic_load(counter) >= n;
		sleep_on(counter, sleeps, n, until_ns - now < SLICE_NS ? until_ns - now : SLICE_NS);
	}
}
