/*
 * cooperative_groups/memcpy_async.h - copies by a group. One thread copies at once, which is one of the orders that
 * CUDA allows; the others see the bytes after wait, as in CUDA.
 */
#ifndef COOPERATIVE_GROUPS_MEMCPY_ASYNC_H
#define COOPERATIVE_GROUPS_MEMCPY_ASYNC_H

#include <cooperative_groups.h>

#ifdef __GPUSIM_NVCC__

namespace cooperative_groups
{

/* nbytes may be a cuda::aligned_size_t. All threads of the group call it. */
template <class Group, class Size>
inline void
memcpy_async(const Group &g, void *dst, const void *src, const Size &nbytes)
{
	if (g.thread_rank() == 0)
		memmove(dst, src, (size_t)nbytes);
}

/* The lengths are in elements; the shorter one counts. */
template <class Group, class T, class To, class From>
inline void
memcpy_async(const Group &g, T *dst, const To &to, const T *src, const From &from)
{
	size_t n = (size_t)to < (size_t)from ? (size_t)to : (size_t)from;

	memcpy_async(g, dst, src, n * sizeof(T));
}

/* Wait until the group's copies are complete. */
template <class Group>
inline void
wait(const Group &g)
{
	g.sync();
}

/* Until all but the last N are; here all. */
template <unsigned N, class Group>
inline void
wait_prior(const Group &g)
{
	g.sync();
}

} // namespace cooperative_groups

#endif
#endif
