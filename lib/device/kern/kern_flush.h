/*
 * kern_flush.h - flush subnormal numbers to 0, for this thread.
 *
 * State that decays, such as the velocity of a weight whose gradient has become 0, ends as subnormals,
 * which are many times slower on a processor. As on a GPU, they count as 0 instead.
 */
#ifndef DEV_KERN_FLUSH_H
#define DEV_KERN_FLUSH_H

#if defined(__SSE2__)
#include <xmmintrin.h>

#define FLUSH_BITS 0x8040u /* results and operands */

typedef unsigned flush_state;

static inline flush_state
flush_begin(void)
{
	flush_state before = _mm_getcsr();

	_mm_setcsr(before | FLUSH_BITS);
	return before;
}

static inline void
flush_end(flush_state before)
{
	_mm_setcsr(before);
}

#elif defined(__aarch64__)
#include <stdint.h>

#define FLUSH_BITS (1u << 24)

typedef uint64_t flush_state;

static inline void
flush_end(flush_state before)
{
	__asm__ volatile("msr fpcr, %0" ::"r"(before) : "memory");
}

static inline flush_state
flush_begin(void)
{
	flush_state before;

	__asm__ volatile("mrs %0, fpcr" : "=r"(before)::"memory");
	flush_end(before | FLUSH_BITS);
	return before;
}

#else

typedef int flush_state;

static inline flush_state
flush_begin(void)
{
	return 0;
}

static inline void
flush_end(flush_state before)
{
	(void)before;
}

#endif
#endif
