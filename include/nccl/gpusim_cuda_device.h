/*
 * gpusim_cuda_device.h - in .cu files: barriers, warps, atomics, and the rest of what threads of a kernel
 * call. cuda_runtime.h includes it.
 *
 * A block's threads run one at a time, so memory needs no order within a block; atomics are real, because
 * other blocks, devices and the program may touch the same memory.
 */
#ifndef GPUSIM_CUDA_DEVICE_H
#define GPUSIM_CUDA_DEVICE_H

#include "gpusim_cuda.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sched.h>

#define GPUSIM_DEVICE static inline __attribute__((unused))

/* ---- barriers and fences */

GPUSIM_DEVICE void
__syncthreads()
{
	__gpusim_barrier(0, nullptr);
}

GPUSIM_DEVICE int
__syncthreads_count(int predicate)
{
	unsigned trues;

	__gpusim_barrier(predicate, &trues);
	return (int)trues;
}

GPUSIM_DEVICE int
__syncthreads_and(int predicate)
{
	unsigned trues, all = __gpusim_barrier(predicate, &trues);

	return trues == all;
}

GPUSIM_DEVICE int
__syncthreads_or(int predicate)
{
	return __syncthreads_count(predicate) != 0;
}

GPUSIM_DEVICE void
__threadfence()
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

GPUSIM_DEVICE void
__threadfence_block()
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

GPUSIM_DEVICE void
__threadfence_system()
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

GPUSIM_DEVICE void
__nanosleep(unsigned ns)
{
	__gpusim_nanosleep(ns);
}

namespace gpusim_cuda
{

/* Where libcu++ calls sched_yield and nanosleep: in a kernel, other threads of the block run. */
inline int
thread_yield()
{
	if (__gpusim_inside)
		__gpusim_nanosleep(0);
	return __gpusim_inside ? 0 : sched_yield();
}

inline int
thread_sleep(const struct timespec *time, struct timespec *rest)
{
	return __gpusim_inside ? thread_yield() : nanosleep(time, rest);
}

} // namespace gpusim_cuda

GPUSIM_DEVICE void
__trap()
{
	__gpusim_trap();
}

GPUSIM_DEVICE void
__brkpt()
{
	__gpusim_trap();
}

#define __builtin_assume(x)		     ((x) ? (void)0 : __builtin_unreachable())
#define __nv_associate_access_property(p, a) (p)

/* ---- warps */

#define GPUSIM_WARP_VALUE                                                     \
	static_assert(sizeof(T) <= 8 && std::is_trivially_copyable<T>::value, \
		      "threads of a warp exchange values of at most 8 bytes")

namespace gpusim_cuda
{

template <class T>
inline unsigned long long
bits(T v)
{
	unsigned long long b = 0;

	GPUSIM_WARP_VALUE;
	memcpy(&b, static_cast<void *>(&v), sizeof v);
	return b;
}

template <class T>
inline T
value(unsigned long long b)
{
	T v;

	memcpy(static_cast<void *>(&v), &b, sizeof v);
	return v;
}

inline unsigned
lane()
{
	return ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) % 32;
}

template <class T>
inline T
shfl(unsigned mask, T v, unsigned from)
{
	return value<T>(__gpusim_warp(GPUSIM_WARP_SHFL, mask, bits(v), from));
}

} // namespace gpusim_cuda

GPUSIM_DEVICE void
__syncwarp(unsigned mask = 0xffffffff)
{
	__gpusim_warp(GPUSIM_WARP_SYNC, mask, 0, 0);
}

GPUSIM_DEVICE unsigned
__ballot_sync(unsigned mask, int predicate)
{
	return (unsigned)__gpusim_warp(GPUSIM_WARP_BALLOT, mask, predicate != 0, 0);
}

GPUSIM_DEVICE int
__any_sync(unsigned mask, int predicate)
{
	return __gpusim_warp(GPUSIM_WARP_OR, mask, predicate != 0, 0) != 0;
}

GPUSIM_DEVICE int
__all_sync(unsigned mask, int predicate)
{
	return __gpusim_warp(GPUSIM_WARP_AND, mask, predicate != 0, 0) != 0;
}

GPUSIM_DEVICE int
__uni_sync(unsigned mask, int predicate)
{
	return __gpusim_warp(GPUSIM_WARP_MATCH_ALL, mask, predicate != 0, 0) != 0;
}

/* The lanes that run here: those that reach this line before the warp's others wait or end. */
#define __activemask() \
	((unsigned)__gpusim_warp(GPUSIM_WARP_ACTIVE, 0xffffffff, 0, (unsigned)__LINE__))

template <class T>
inline T
__shfl_sync(unsigned mask, T v, int from, int width = 32)
{
	unsigned lane = gpusim_cuda::lane(), base = lane & ~((unsigned)width - 1);

	return gpusim_cuda::shfl(mask, v, base + ((unsigned)from & ((unsigned)width - 1)));
}

template <class T>
inline T
__shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32)
{
	unsigned lane = gpusim_cuda::lane(), base = lane & ~((unsigned)width - 1);

	return gpusim_cuda::shfl(mask, v, lane - base >= delta ? lane - delta : lane);
}

template <class T>
inline T
__shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32)
{
	unsigned lane = gpusim_cuda::lane(), base = lane & ~((unsigned)width - 1);

	return gpusim_cuda::shfl(mask, v,
				 lane - base + delta < (unsigned)width ? lane + delta : lane);
}

template <class T>
inline T
__shfl_xor_sync(unsigned mask, T v, int with, int width = 32)
{
	unsigned lane = gpusim_cuda::lane(), from = lane ^ (unsigned)with;
	unsigned end = (lane & ~((unsigned)width - 1)) + (unsigned)width;

	return gpusim_cuda::shfl(mask, v, from < end ? from : lane);
}

template <class T>
inline unsigned
__match_any_sync(unsigned mask, T v)
{
	return (unsigned)__gpusim_warp(GPUSIM_WARP_MATCH, mask, gpusim_cuda::bits(v), 0);
}

template <class T>
inline unsigned
__match_all_sync(unsigned mask, T v, int *all)
{
	unsigned m = (unsigned)__gpusim_warp(GPUSIM_WARP_MATCH_ALL, mask, gpusim_cuda::bits(v), 0);

	*all = m != 0;
	return m;
}

#define GPUSIM_WARP_REDUCE(name, type, op)                                                 \
	GPUSIM_DEVICE type name(unsigned mask, type v)                                     \
	{                                                                                  \
		return (type)__gpusim_warp(op, mask, (unsigned long long)(long long)v, 0); \
	}
GPUSIM_WARP_REDUCE(__reduce_add_sync, unsigned, GPUSIM_WARP_ADD)
GPUSIM_WARP_REDUCE(__reduce_add_sync, int, GPUSIM_WARP_ADD)
GPUSIM_WARP_REDUCE(__reduce_min_sync, unsigned, GPUSIM_WARP_UMIN)
GPUSIM_WARP_REDUCE(__reduce_min_sync, int, GPUSIM_WARP_MIN)
GPUSIM_WARP_REDUCE(__reduce_max_sync, unsigned, GPUSIM_WARP_UMAX)
GPUSIM_WARP_REDUCE(__reduce_max_sync, int, GPUSIM_WARP_MAX)
GPUSIM_WARP_REDUCE(__reduce_and_sync, unsigned, GPUSIM_WARP_AND)
GPUSIM_WARP_REDUCE(__reduce_or_sync, unsigned, GPUSIM_WARP_OR)
GPUSIM_WARP_REDUCE(__reduce_xor_sync, unsigned, GPUSIM_WARP_XOR)
#undef GPUSIM_WARP_REDUCE
#undef GPUSIM_WARP_VALUE

/* ---- atomics: each returns the old value */

namespace gpusim_cuda
{

/* Replace *p by f(*p). */
template <class T, class F>
inline T
atomic_update(T *p, F f)
{
	typedef typename std::conditional<
	    sizeof(T) == 8, unsigned long long,
	    typename std::conditional<sizeof(T) == 4, unsigned, unsigned short>::type>::type word;
	word *w = reinterpret_cast<word *>(p);
	word old = __atomic_load_n(w, __ATOMIC_RELAXED), fresh;
	T was, now;

	static_assert(sizeof(T) == sizeof(word), "atomics are of 2, 4 or 8 bytes");
	do {
		memcpy(static_cast<void *>(&was), &old, sizeof was);
		now = f(was);
		memcpy(&fresh, static_cast<void *>(&now), sizeof fresh);
	} while (
	    !__atomic_compare_exchange_n(w, &old, fresh, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
	return was;
}

} // namespace gpusim_cuda

#define GPUSIM_ATOMIC_FETCH(name, builtin, type, expr)             \
	GPUSIM_DEVICE type name(type *p, type v)                   \
	{                                                          \
		return builtin(p, (type)(expr), __ATOMIC_SEQ_CST); \
	}
#define GPUSIM_ATOMIC_LOOP(name, type, expr)                                                \
	GPUSIM_DEVICE type name(type *p, type v)                                            \
	{                                                                                   \
		return gpusim_cuda::atomic_update(p, [v](type o) { return (type)(expr); }); \
	}
#define GPUSIM_ATOMIC_WHOLE(s, type)                                     \
	GPUSIM_ATOMIC_FETCH(atomicAdd##s, __atomic_fetch_add, type, v)   \
	GPUSIM_ATOMIC_FETCH(atomicSub##s, __atomic_fetch_sub, type, v)   \
	GPUSIM_ATOMIC_FETCH(atomicAnd##s, __atomic_fetch_and, type, v)   \
	GPUSIM_ATOMIC_FETCH(atomicOr##s, __atomic_fetch_or, type, v)     \
	GPUSIM_ATOMIC_FETCH(atomicXor##s, __atomic_fetch_xor, type, v)   \
	GPUSIM_ATOMIC_FETCH(atomicExch##s, __atomic_exchange_n, type, v) \
	GPUSIM_ATOMIC_LOOP(atomicMin##s, type, v < o ? v : o)            \
	GPUSIM_ATOMIC_LOOP(atomicMax##s, type, o < v ? v : o)            \
	GPUSIM_ATOMIC_CAS(s, type)
#define GPUSIM_ATOMIC_CAS(s, type)                                                   \
	GPUSIM_DEVICE type atomicCAS##s(type *p, type compare, type v)               \
	{                                                                            \
		__atomic_compare_exchange_n(p, &compare, v, false, __ATOMIC_SEQ_CST, \
					    __ATOMIC_SEQ_CST);                       \
		return compare;                                                      \
	}
#define GPUSIM_ATOMIC_REAL(s, type)                   \
	GPUSIM_ATOMIC_LOOP(atomicAdd##s, type, o + v) \
	GPUSIM_ATOMIC_LOOP(atomicExch##s, type, ((void)o, v))
#define GPUSIM_ATOMICS(s)                                              \
	GPUSIM_ATOMIC_WHOLE(s, int)                                    \
	GPUSIM_ATOMIC_WHOLE(s, unsigned)                               \
	GPUSIM_ATOMIC_WHOLE(s, long long)                              \
	GPUSIM_ATOMIC_WHOLE(s, unsigned long long)                     \
	GPUSIM_ATOMIC_CAS(s, unsigned short)                           \
	GPUSIM_ATOMIC_REAL(s, float)                                   \
	GPUSIM_ATOMIC_REAL(s, double)                                  \
	GPUSIM_ATOMIC_LOOP(atomicInc##s, unsigned, o >= v ? 0 : o + 1) \
	GPUSIM_ATOMIC_LOOP(atomicDec##s, unsigned, o == 0 || o > v ? v : o - 1)

GPUSIM_ATOMICS()
GPUSIM_ATOMICS(_block)
GPUSIM_ATOMICS(_system)
#undef GPUSIM_ATOMICS
#undef GPUSIM_ATOMIC_WHOLE

/* ---- loads, stores, clocks */

#define GPUSIM_LOAD(name)                            \
	template <class T> inline T name(const T *p) \
	{                                            \
		return *p;                           \
	}
GPUSIM_LOAD(__ldg)
GPUSIM_LOAD(__ldca)
GPUSIM_LOAD(__ldcg)
GPUSIM_LOAD(__ldcs)
GPUSIM_LOAD(__ldcv)
GPUSIM_LOAD(__ldlu)
#undef GPUSIM_LOAD
#define GPUSIM_STORE(name)                             \
	template <class T> inline void name(T *p, T v) \
	{                                              \
		*p = v;                                \
	}
GPUSIM_STORE(__stwb)
GPUSIM_STORE(__stcg)
GPUSIM_STORE(__stcs)
GPUSIM_STORE(__stwt)
#undef GPUSIM_STORE

/* Nanoseconds stand for cycles. */
GPUSIM_DEVICE long long
clock64()
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

namespace gpusim_cuda
{

/* clock() of a function that kernels may call; in the program it is the C library's. */
inline clock_t
clock()
{
	return __gpusim_inside ? (clock_t)clock64() : ::clock();
}

} // namespace gpusim_cuda

GPUSIM_DEVICE bool
__isGlobal(const void *)
{
	return true;
}

#endif
