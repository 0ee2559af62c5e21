/*
 * gpusim_cuda_cub.h - in .cu files: what cub and thrust need. bin/nvcc replaces their asm by calls of
 * these, with the outputs first, then the inputs. cuda_runtime.h includes it.
 */
#ifndef GPUSIM_CUDA_CUB_H
#define GPUSIM_CUDA_CUB_H

#include "gpusim_cuda_device.h"

/* cub chooses the size of blocks in the program by the PTX of a kernel, and in kernels by a macro. Here both are one
 * code: it must ask the macro everywhere. Later architectures only have larger tiles. */
#define CUB_PTX_ARCH				    600
#define CUB_IS_DEVICE_CODE			    1
#define CUB_IS_HOST_CODE			    0
#define CUB_INCLUDE_DEVICE_CODE			    1
#define CUB_INCLUDE_HOST_CODE			    0
#define __cudaDeviceSynchronizeDeprecationAvoidance cudaDeviceSynchronize

namespace gpusim_cuda
{

/* ---- bits */

template <class T>
inline void
cub_shr_add(T &out, unsigned x, unsigned shift, unsigned add)
{
	out = (shift < 32 ? x >> shift : 0) + add;
}

template <class T>
inline void
cub_shl_add(T &out, unsigned x, unsigned shift, unsigned add)
{
	out = (shift < 32 ? x << shift : 0) + add;
}

template <class T>
inline void
cub_add3(T &out, unsigned x, unsigned y, unsigned z)
{
	out = x + y + z;
}

/* ---- lanes */

/*
 * The lane that shfl reads from: up or down, by its first letter. c: bits 8 to 12 are the lane's bits that
 * do not change, bits 0 to 4 the end. takes [out]: that lane is in the own part of the warp; else it is the own lane.
 */
template <char way>
inline unsigned
cub_from(unsigned b, unsigned c, bool &takes)
{
	unsigned l = lane(), part = c >> 8 & 31, first = l & part, end = first | (c & 31 & ~part);
	unsigned from = way == 'u' ? l - (b & 31) : l + (b & 31);

	takes = way == 'u' ? (int)from >= (int)end : from <= end;
	return takes ? from : l;
}

/* v, and v of the other lane if there is one. */
template <char way, class T>
inline void
cub_sum(T &out, T v, unsigned b, unsigned c, unsigned mask)
{
	bool takes;
	T other = shfl(mask, v, cub_from<way>(b, c, takes));

	out = takes ? other + v : v;
}

template <char way, class T>
inline void
cub_sum(T &out, T v, unsigned b, unsigned c, T, unsigned mask)
{
	cub_sum<way>(out, v, b, c, mask);
}

/* The lanes whose bit is as the own one. */
template <class T>
inline void
cub_match_bit(T &out, unsigned v, unsigned bit)
{
	bool is = (v & bit) == bit;
	unsigned set = __ballot_sync(~0u, is);

	out = (T)(is ? set : ~set);
}

inline void
cub_exit()
{
	throw thread_exit();
}

/* ---- bytes, which PTX keeps in registers of 16 bits */

template <class T, class P>
inline void
cub_load_byte(T &out, P from)
{
	out = (T) * (const volatile unsigned char *)from;
}

template <class P, class T>
inline void
cub_store_byte(P to, T v)
{
	*(volatile unsigned char *)to = (unsigned char)v;
}

} // namespace gpusim_cuda

#endif
