/*
 * gpusim_cuda_ptx.h - in .cu files: what bin/nvcc makes of PTX in asm statements. A function has an instruction's
 * name, its first type as T, and its operands in order; memory comes first. cuda_runtime.h includes it.
 */
#ifndef GPUSIM_CUDA_PTX_H
#define GPUSIM_CUDA_PTX_H

#include "gpusim_cuda_device.h"
#include "gpusim_cuda_math.h"

/* Addresses of 32 bits, for PTX that is not simulated. */
extern "C" size_t __cvta_generic_to_shared(const void *p)
    __attribute__((error("PTX with addresses of shared memory is not simulated")));

namespace gpusim_cuda
{

/* An operand as a T: the bits of a float where T is an integer, and the other way round. */
template <class T, class A>
inline T
ptx_in(A a)
{
	if constexpr (std::is_floating_point<A>::value != std::is_floating_point<T>::value &&
		      sizeof(A) == sizeof(T))
		return bit_cast<T>(a);
	else
		return (T)a;
}

template <class D, class T>
inline void
ptx_out(D &d, T v)
{
	d = ptx_in<D>(v);
}

template <class T>
using ptx_unsigned = typename std::conditional<sizeof(T) == 8, unsigned long long, unsigned>::type;
template <class T>
using ptx_wide = typename std::conditional<
    std::is_signed<T>::value, typename std::conditional<sizeof(T) == 2, int, long long>::type,
    typename std::conditional<sizeof(T) == 2, unsigned, unsigned long long>::type>::type;
template <class T>
using ptx_wider = typename std::conditional<
    sizeof(T) == 8,
    typename std::conditional<std::is_signed<T>::value, __int128, unsigned __int128>::type,
    ptx_wide<T>>::type;

/* ---- arithmetic */

#define GPUSIM_PTX_1(name, expr)                                          \
	template <class T, class D, class A> inline void name(D &d, A a_) \
	{                                                                 \
		const T a = ptx_in<T>(a_);                                \
		ptx_out(d, expr);                                         \
	}
#define GPUSIM_PTX_2(name, expr)                                                         \
	template <class T, class D, class A, class B> inline void name(D &d, A a_, B b_) \
	{                                                                                \
		const T a = ptx_in<T>(a_), b = ptx_in<T>(b_);                            \
		ptx_out(d, expr);                                                        \
	}
#define GPUSIM_PTX_3(name, expr)                                                 \
	template <class T, class D, class A, class B, class C>                   \
	inline void name(D &d, A a_, B b_, C c_)                                 \
	{                                                                        \
		const T a = ptx_in<T>(a_), b = ptx_in<T>(b_), c = ptx_in<T>(c_); \
		ptx_out(d, expr);                                                \
	}
GPUSIM_PTX_1(ptx_mov, a)
GPUSIM_PTX_1(ptx_cvta, a)
GPUSIM_PTX_1(ptx_not, (T)~a)
GPUSIM_PTX_1(ptx_neg, (T)-a)
GPUSIM_PTX_1(ptx_abs, (T)(std::signbit((double)a) ? -a : a))
GPUSIM_PTX_1(ptx_popc, sizeof(T) == 8 ? __popcll((unsigned long long)a) : __popc((unsigned)a))
GPUSIM_PTX_1(ptx_clz, sizeof(T) == 8 ? __clzll((long long)a) : __clz((int)a))
GPUSIM_PTX_1(ptx_brev, (T)(sizeof(T) == 8 ? __brevll((unsigned long long)a) : __brev((unsigned)a)))
GPUSIM_PTX_2(ptx_add, (T)(a + b))
GPUSIM_PTX_2(ptx_sub, (T)(a - b))
GPUSIM_PTX_2(ptx_mul, (T)(a *b))
GPUSIM_PTX_2(ptx_mul_hi, (T)((ptx_wider<T>)a *b >> 8 * sizeof(T)))
GPUSIM_PTX_2(ptx_mul_wide, (ptx_wide<T>)a *b)
GPUSIM_PTX_2(ptx_div, (T)(a / b))
GPUSIM_PTX_2(ptx_rem, (T)(a % b))
GPUSIM_PTX_2(ptx_min, (T)min(a, b))
GPUSIM_PTX_2(ptx_max, (T)max(a, b))
GPUSIM_PTX_2(ptx_and, (T)(a &b))
GPUSIM_PTX_2(ptx_or, (T)(a | b))
GPUSIM_PTX_2(ptx_xor, (T)(a ^ b))
GPUSIM_PTX_3(ptx_mad, (T)(a *b + c))
GPUSIM_PTX_3(ptx_fma, (T)(sizeof(T) == 8 ? fma(a, b, c) : fmaf((float)a, (float)b, (float)c)))

template <class T, class D, class A, class B, class C>
inline void
ptx_mad_wide(D &d, A a, B b, C c)
{
	ptx_out(d, (ptx_wide<T>)ptx_in<T>(a) * ptx_in<T>(b) + ptx_in<ptx_wide<T>>(c));
}

/* Shifts by the width or more give zeros, or signs. */
template <class T, class D, class A>
inline void
ptx_shl(D &d, A a, unsigned n)
{
	ptx_out(d, n >= 8 * sizeof(T) ? (T)0 : (T)(ptx_in<T>(a) << n));
}

template <class T, class D, class A>
inline void
ptx_shr(D &d, A a, unsigned n)
{
	const T v = ptx_in<T>(a);

	ptx_out(d, n >= 8 * sizeof(T) ? (T)(v < 0 ? -1 : 0) : (T)(v >> n));
}

/* The position of the highest bit that differs from the sign; all ones if there is none. */
template <class T, class D, class A>
inline void
ptx_bfind(D &d, A a)
{
	const T v = ptx_in<T>(a);
	const unsigned long long u = (ptx_unsigned<T>)(v < 0 ? ~v : v);

	d = (D)(u ? 63 - __builtin_clzll(u) : -1);
}

/* The field of `len` bits from `pos`, with its sign where T has one. */
template <class T, class D, class A>
inline void
ptx_bfe(D &d, A a, unsigned pos, unsigned len)
{
	const unsigned bits = 8 * sizeof(T);
	const T v = ptx_in<T>(a);

	pos &= 255, len &= 255;
	if (len == 0)
		ptx_out(d, (T)0);
	else if (pos >= bits)
		ptx_out(d, (T)(v < 0 ? -1 : 0));
	else if (pos + len >= bits)
		ptx_out(d, (T)(v >> pos));
	else
		ptx_out(d, (T)((T)((ptx_unsigned<T>)v << (bits - pos - len)) >> (bits - len)));
}

template <class T, class D, class A, class B>
inline void
ptx_bfi(D &d, A a, B b, unsigned pos, unsigned len)
{
	const T low = (len & 255) >= 8 * sizeof(T) ? ~(T)0 : (T)(((T)1 << (len & 255)) - 1);
	const T mask = (pos & 255) >= 8 * sizeof(T) ? (T)0 : (T)(low << (pos & 255));

	ptx_out(d, (T)((ptx_in<T>(b) & ~mask) | ((mask ? ptx_in<T>(a) << (pos & 255) : 0) & mask)));
}

template <class T, class D>
inline void
ptx_prmt(D &d, unsigned a, unsigned b, unsigned selector)
{
	d = (D)__byte_perm(a, b, selector);
}

/* Bit i of the table is the result where the three operands' bits are i's. */
template <class T, class D>
inline void
ptx_lop3(D &d, unsigned a, unsigned b, unsigned c, unsigned table)
{
	unsigned v = 0;

	for (unsigned i = 0; i < 8; i++)
		if (table >> i & 1)
			v |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
	d = (D)v;
}

template <class T, class D>
inline void
ptx_vabsdiff4_add(D &d, unsigned a, unsigned b, unsigned c)
{
	for (int i = 0; i < 32; i += 8)
		c += (unsigned)abs((int)(a >> i & 255) - (int)(b >> i & 255));
	d = (D)c;
}

/* ---- memory */

template <class T, class P, class... D>
inline void
ptx_ld(P p, D &...d)
{
	T v, *at = (T *)p;

	((__atomic_load(at++, &v, __ATOMIC_ACQUIRE), ptx_out(d, v)), ...);
}

template <class T, class P, class D>
inline void
ptx_ldu(P p, D &d)
{
	ptx_ld<T>(p, d);
}

template <class T, class P, class... A>
inline void
ptx_st(P p, A... a)
{
	T v, *at = (T *)p;

	((v = ptx_in<T>(a), __atomic_store(at++, &v, __ATOMIC_RELEASE)), ...);
}

#define GPUSIM_PTX_ATOMIC(name, function)                                                         \
	template <class T, class P, class D, class A> inline void ptx_atom_##name(P p, D &d, A a) \
	{                                                                                         \
		ptx_out(d, function((T *)p, ptx_in<T>(a)));                                       \
	}                                                                                         \
	template <class T, class P, class A> inline void ptx_red_##name(P p, A a)                 \
	{                                                                                         \
		function((T *)p, ptx_in<T>(a));                                                   \
	}
GPUSIM_PTX_ATOMIC(add, atomicAdd)
GPUSIM_PTX_ATOMIC(min, atomicMin)
GPUSIM_PTX_ATOMIC(max, atomicMax)
GPUSIM_PTX_ATOMIC(and, atomicAnd)
GPUSIM_PTX_ATOMIC(or, atomicOr)
GPUSIM_PTX_ATOMIC(xor, atomicXor)
GPUSIM_PTX_ATOMIC(exch, atomicExch)
#undef GPUSIM_PTX_ATOMIC

template <class T, class P, class D, class A, class B>
inline void
ptx_atom_cas(P p, D &d, A compare, B v)
{
	ptx_out(d, atomicCAS((T *)p, ptx_in<T>(compare), ptx_in<T>(v)));
}

/* ---- threads */

/* c holds the last lane of the segment in its low bits, and above bit 8 the lanes' bits that all of a segment share. */
#define GPUSIM_PTX_SHFL(name, from_expr, in_segment)                                           \
	template <class T, class D, class A>                                                   \
	inline void ptx_shfl_##name(D &d, A a, unsigned b, unsigned c, unsigned mask)          \
	{                                                                                      \
		const unsigned lane = gpusim_cuda::lane(), segment = c >> 8 & 31;              \
		const unsigned first = lane & segment, last = first | (c & 31 & ~segment);     \
		const unsigned from = (from_expr);                                             \
		(void)first, (void)last;                                                       \
		ptx_out(d, gpusim_cuda::shfl(mask, ptx_in<T>(a), (in_segment) ? from : lane)); \
	}
GPUSIM_PTX_SHFL(idx, first | (b & 31 & ~segment), from <= last)
GPUSIM_PTX_SHFL(up, lane - (b & 31), (int)from >= (int)last)
GPUSIM_PTX_SHFL(down, lane + (b & 31), from <= last)
GPUSIM_PTX_SHFL(bfly, lane ^ (b & 31), from <= last)
#undef GPUSIM_PTX_SHFL

template <class T, class D>
inline void
ptx_vote_ballot(D &d, int predicate, unsigned mask)
{
	d = (D)__ballot_sync(mask, predicate);
}

template <class T, class D>
inline void
ptx_activemask(D &d)
{
	d = (D)__activemask();
}

inline void
ptx_bar_sync(unsigned barrier, unsigned count = 0)
{
	if (barrier != 0 || (count && count != blockDim.x * blockDim.y * blockDim.z))
		__gpusim_trap(); /* named barriers are not simulated */
	__syncthreads();
}

inline void
ptx_barrier_sync(unsigned barrier)
{
	ptx_bar_sync(barrier);
}

inline void
ptx_bar_warp_sync(unsigned mask)
{
	__syncwarp(mask);
}

inline void
ptx_fence()
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

inline void
ptx_membar()
{
	ptx_fence();
}

template <class T>
inline void
ptx_nanosleep(unsigned ns)
{
	__nanosleep(ns);
}

inline void
ptx_trap()
{
	__gpusim_trap();
}

/* ---- special registers */

#define GPUSIM_PTX_REGISTER(name, type, expr) \
	inline type ptx_reg_##name()          \
	{                                     \
		return (type)(expr);          \
	}
#define GPUSIM_PTX_REGISTERS(name, variable)                \
	GPUSIM_PTX_REGISTER(name##_x, unsigned, variable.x) \
	GPUSIM_PTX_REGISTER(name##_y, unsigned, variable.y) \
	GPUSIM_PTX_REGISTER(name##_z, unsigned, variable.z)
GPUSIM_PTX_REGISTERS(tid, threadIdx)
GPUSIM_PTX_REGISTERS(ntid, blockDim)
GPUSIM_PTX_REGISTERS(ctaid, blockIdx)
GPUSIM_PTX_REGISTERS(nctaid, gridDim)
GPUSIM_PTX_REGISTER(laneid, unsigned, lane())
GPUSIM_PTX_REGISTER(warpid, unsigned,
		    ((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x) / 32)
GPUSIM_PTX_REGISTER(smid, unsigned, 0)
GPUSIM_PTX_REGISTER(nsmid, unsigned, 1)
GPUSIM_PTX_REGISTER(clock, unsigned, clock64())
GPUSIM_PTX_REGISTER(clock64, unsigned long long, clock64())
GPUSIM_PTX_REGISTER(lanemask_eq, unsigned, 1u << lane())
GPUSIM_PTX_REGISTER(lanemask_lt, unsigned, (1u << lane()) - 1)
GPUSIM_PTX_REGISTER(lanemask_le, unsigned, (2u << lane()) - 1)
GPUSIM_PTX_REGISTER(lanemask_gt, unsigned, ~((2u << lane()) - 1))
GPUSIM_PTX_REGISTER(lanemask_ge, unsigned, ~((1u << lane()) - 1))
#undef GPUSIM_PTX_REGISTERS
#undef GPUSIM_PTX_REGISTER
#undef GPUSIM_PTX_1
#undef GPUSIM_PTX_2
#undef GPUSIM_PTX_3

inline unsigned long long
ptx_reg_globaltimer()
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (unsigned long long)ts.tv_sec * 1000000000 + (unsigned long long)ts.tv_nsec;
}

} // namespace gpusim_cuda

#endif
