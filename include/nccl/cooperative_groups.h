/*
 * cooperative_groups.h - groups of threads in kernels, with CUDA's names: a block, tiles of it, the threads
 * that run here, the grid. A tile or coalesced group is a set of lanes of one warp; its operations are those
 * of warps in gpusim_cuda.h. Ranks in a group go by lanes.
 */
#ifndef COOPERATIVE_GROUPS_H
#define COOPERATIVE_GROUPS_H

#include "cuda_runtime.h"

#ifdef __GPUSIM_NVCC__

namespace cooperative_groups
{

/* In a group: a function without arguments. */
#define GPUSIM_GROUP_IS(type, name, ...)    \
	type name() const                   \
	{                                   \
		return (type)(__VA_ARGS__); \
	}

/* A function of one expression. */
#define GPUSIM_GROUP_DO(type, name, parameters, ...) \
	type name parameters                         \
	{                                            \
		return __VA_ARGS__;                  \
	}

namespace details
{

enum class kind : unsigned char { block, lanes, warps, grid };

GPUSIM_GROUP_DO(inline unsigned, block_rank, (),
		(threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x)
GPUSIM_GROUP_DO(inline unsigned, block_size, (), blockDim.x *blockDim.y *blockDim.z)
GPUSIM_GROUP_DO(inline unsigned long long, grid_blocks, (),
		(unsigned long long)gridDim.x *gridDim.y *gridDim.z)
GPUSIM_GROUP_DO(inline unsigned long long, grid_rank, (),
		((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x)

/* The lowest n bits; n is 0 to 32. */
inline unsigned
low(unsigned n)
{
	return n < 32 ? (1u << n) - 1 : ~0u;
}

/* The position of the bit of `mask` that has n set bits below it; 32: there is none. */
inline unsigned
nth(unsigned mask, unsigned n)
{
	while (n-- && mask)
		mask &= mask - 1;
	return mask ? (unsigned)__builtin_ctz(mask) : 32;
}

/* v of a lane; of the own lane if that one takes no part. Values of at most 32 bytes. */
template <class T>
inline T
exchange(unsigned mask, T v, unsigned from)
{
	unsigned long long w[(sizeof(T) + 7) / 8] = {};
	T out;

	static_assert(sizeof(T) <= 32 && std::is_trivially_copyable<T>::value,
		      "threads of a group exchange trivially copyable values of at most 32 bytes");
	memcpy(w, static_cast<const void *>(std::addressof(v)), sizeof v);
	for (unsigned long long &each : w)
		each = __gpusim_warp(GPUSIM_WARP_SHFL, mask, each, from);
	memcpy(static_cast<void *>(std::addressof(out)), w, sizeof out);
	return out;
}

/*
 * What tiles of more than a warp share. A thread that waits for the tile's others lets the block's run. Every user
 * leaves the counts at 0.
 */
struct tile_memory {
	volatile unsigned arrived[16], turn[16]; /* one each tile of a block */
	unsigned long long value[32][4];	 /* one each warp */
};

inline tile_memory &
shared_tile_memory()
{
	__shared__ tile_memory m;

	return m;
}

} // namespace details

/* Any group. Objects are copied freely; each belongs to the thread that made it. */
class thread_group
{
      protected:
	details::kind kind_;
	unsigned mask_, size_;		 /* lanes: those of the warp; of tiles: threads */
	unsigned meta_rank_, meta_size_; /* of the group among those of its parent */

	thread_group(details::kind kind, unsigned mask = 0, unsigned size = 0,
		     unsigned meta_rank = 0, unsigned meta_size = 1)
	    : kind_(kind), mask_(mask), size_(size), meta_rank_(meta_rank), meta_size_(meta_size)
	{
	}

	void
	sync_warps() const
	{
		details::tile_memory &m = details::shared_tile_memory();
		unsigned turn = m.turn[meta_rank_];

		if ((m.arrived[meta_rank_] = m.arrived[meta_rank_] + 1) == size_) {
			m.arrived[meta_rank_] = 0;
			m.turn[meta_rank_] = turn + 1;
		}
		while (m.turn[meta_rank_] == turn)
			__gpusim_nanosleep(0);
	}

      public:
	void
	sync() const
	{
		if (kind_ == details::kind::lanes)
			__gpusim_warp(GPUSIM_WARP_SYNC, mask_, 0, 0);
		else if (kind_ == details::kind::block)
			__gpusim_barrier(0, nullptr);
		else if (kind_ == details::kind::warps)
			sync_warps();
		else
			__gpusim_grid_barrier();
	}

	unsigned long long
	size() const
	{
		if (kind_ == details::kind::grid)
			return details::grid_blocks() * details::block_size();
		return kind_ == details::kind::block ? details::block_size() : size_;
	}

	unsigned long long
	thread_rank() const
	{
		if (kind_ == details::kind::lanes)
			return (unsigned)__builtin_popcount(mask_ &
							    details::low(gpusim_cuda::lane()));
		if (kind_ == details::kind::grid)
			return details::grid_rank() * details::block_size() + details::block_rank();
		return kind_ == details::kind::block ? details::block_rank()
						     : details::block_rank() % size_;
	}

	GPUSIM_GROUP_IS(unsigned long long, num_threads, size())
	GPUSIM_GROUP_IS(unsigned, meta_group_rank, meta_rank_)
	GPUSIM_GROUP_IS(unsigned, meta_group_size, meta_size_)
	GPUSIM_GROUP_IS(bool, is_valid,
			kind_ != details::kind::grid || __gpusim_grid_is_cooperative())
	/* For functions of this header. */
	GPUSIM_GROUP_IS(unsigned, lanes, mask_)
	GPUSIM_GROUP_IS(details::kind, what, kind_)

	/* A barrier in two steps. The second one waits: each thread that arrives also waits. */
	struct arrival_token {
	};
	GPUSIM_GROUP_IS(arrival_token, barrier_arrive, arrival_token())
	void
	barrier_wait(arrival_token &&) const
	{
		sync();
	}
};

struct thread_block : thread_group {
	thread_block() : thread_group(details::kind::block)
	{
	}
	static void
	sync()
	{
		__gpusim_barrier(0, nullptr);
	}
	GPUSIM_GROUP_IS(unsigned, size, details::block_size())
	GPUSIM_GROUP_IS(unsigned, num_threads, details::block_size())
	GPUSIM_GROUP_IS(unsigned, thread_rank, details::block_rank())
	GPUSIM_GROUP_IS(dim3, group_index, dim3(blockIdx.x, blockIdx.y, blockIdx.z))
	GPUSIM_GROUP_IS(dim3, thread_index, dim3(threadIdx.x, threadIdx.y, threadIdx.z))
	GPUSIM_GROUP_IS(dim3, group_dim, blockDim)
	GPUSIM_GROUP_IS(dim3, dim_threads, blockDim)
};

GPUSIM_GROUP_DO(inline thread_block, this_thread_block, (), {})

/* Memory that CUDA needs for tiles of more than a warp; here nothing. */
template <unsigned MaxBlockSize = 1024> struct block_tile_memory {
	char unused;
};

template <unsigned N>
GPUSIM_GROUP_DO(inline thread_block, this_thread_block, (block_tile_memory<N> &), {})

struct grid_group : thread_group {
	grid_group() : thread_group(details::kind::grid)
	{
	}
	GPUSIM_GROUP_IS(unsigned long long, num_blocks, details::grid_blocks())
	GPUSIM_GROUP_IS(unsigned long long, block_rank, details::grid_rank())
	GPUSIM_GROUP_IS(dim3, block_index, dim3(blockIdx.x, blockIdx.y, blockIdx.z))
	GPUSIM_GROUP_IS(dim3, group_dim, gridDim)
	GPUSIM_GROUP_IS(dim3, dim_blocks, gridDim)
};

GPUSIM_GROUP_DO(inline grid_group, this_grid, (), {})

/* Several devices' grids, which CUDA 13 has removed. */
struct multi_grid_group : thread_group {
};
__attribute__((error("gpusim: groups of several grids are not simulated"))) multi_grid_group
this_multi_grid();

/* ---- lanes of a warp */

namespace details
{

/* What groups of lanes can do. Self has lane_of(a rank of the group), and by_rank(lanes), a mask of ranks. */
template <class Self> struct lane_operations : thread_group {
	lane_operations(unsigned mask, unsigned size, unsigned meta_rank, unsigned meta_size)
	    : thread_group(kind::lanes, mask, size, meta_rank, meta_size)
	{
	}
	const Self &
	self() const
	{
		return static_cast<const Self &>(*this);
	}
	void
	sync() const
	{
		__gpusim_warp(GPUSIM_WARP_SYNC, mask_, 0, 0);
	}

#define GPUSIM_GROUP_SHFL(name, arg, rank)                                  \
	template <class T> T name(T v, unsigned arg) const                  \
	{                                                                   \
		const unsigned r = self().thread_rank(), n = self().size(); \
                                                                            \
		(void)r, (void)n;                                           \
		return exchange(mask_, v, self().lane_of(rank));            \
	}
	GPUSIM_GROUP_SHFL(shfl, from, from)
	GPUSIM_GROUP_SHFL(shfl_up, delta, r >= delta ? r - delta : r)
	GPUSIM_GROUP_SHFL(shfl_down, delta, delta < n - r ? r + delta : r)
	GPUSIM_GROUP_SHFL(shfl_xor, with, r ^ (with & (n - 1))) /* of tiles */
#undef GPUSIM_GROUP_SHFL

	GPUSIM_GROUP_DO(int, any, (int predicate) const, __any_sync(mask_, predicate))
	GPUSIM_GROUP_DO(int, all, (int predicate) const, __all_sync(mask_, predicate))
	GPUSIM_GROUP_DO(unsigned, ballot, (int predicate) const,
			self().by_rank(__ballot_sync(mask_, predicate)))
	template <class T>
	GPUSIM_GROUP_DO(unsigned, match_any, (T v) const,
			self().by_rank(__match_any_sync(mask_, v)))
	template <class T>
	GPUSIM_GROUP_DO(unsigned, match_all, (T v, int &all) const,
			self().by_rank(__match_all_sync(mask_, v, &all)))
};

} // namespace details

struct coalesced_group : details::lane_operations<coalesced_group> {
	explicit coalesced_group(unsigned mask, unsigned meta_rank = 0, unsigned meta_size = 1)
	    : lane_operations(mask, (unsigned)__builtin_popcount(mask), meta_rank, meta_size)
	{
	}
	GPUSIM_GROUP_IS(unsigned, size, size_)
	GPUSIM_GROUP_IS(unsigned, num_threads, size_)
	GPUSIM_GROUP_IS(unsigned, thread_rank,
			__builtin_popcount(mask_ &details::low(gpusim_cuda::lane())))

	unsigned
	lane_of(unsigned rank) const
	{
		return rank < size_ ? details::nth(mask_, rank) : gpusim_cuda::lane();
	}
	unsigned
	by_rank(unsigned lanes) const
	{
		unsigned out = 0, rank = 0;

		for (unsigned m = mask_; m; m &= m - 1, rank++)
			out |= (lanes >> __builtin_ctz(m) & 1) << rank;
		return out;
	}
};

/* The lanes that reach this line before the warp's others wait or end. */
inline coalesced_group
coalesced_threads(unsigned line = (unsigned)__builtin_LINE())
{
	return coalesced_group((unsigned)__gpusim_warp(GPUSIM_WARP_ACTIVE, ~0u, 0, line));
}

namespace details
{

/* The lanes of the tile of n threads around this one, as far as the block has them. */
inline unsigned
tile_lanes(unsigned n)
{
	unsigned rank = block_rank(), left = block_size() - (rank & ~31u);

	return low(n) << (rank % 32 & ~(n - 1)) & low(left < 32 ? left : 32);
}

template <unsigned N> struct small_tile : lane_operations<small_tile<N>> {
	small_tile(unsigned meta_rank, unsigned meta_size)
	    : lane_operations<small_tile<N>>(tile_lanes(N), N, meta_rank, meta_size)
	{
	}
	GPUSIM_GROUP_IS(unsigned, thread_rank, gpusim_cuda::lane() & (N - 1))
	static constexpr unsigned
	size()
	{
		return N;
	}
	GPUSIM_GROUP_IS(unsigned, num_threads, N)

	GPUSIM_GROUP_DO(static unsigned, lane_of, (unsigned rank),
			(gpusim_cuda::lane() & ~(N - 1)) + rank % N)
	GPUSIM_GROUP_DO(static unsigned, by_rank, (unsigned lanes),
			lanes >> (gpusim_cuda::lane() & ~(N - 1)))
};

/* A tile of several warps. */
template <unsigned N> struct large_tile : thread_group {
	large_tile(unsigned meta_rank, unsigned meta_size)
	    : thread_group(kind::warps, 0, N, meta_rank, meta_size)
	{
	}
	GPUSIM_GROUP_IS(unsigned, thread_rank, block_rank() & (N - 1))
	static constexpr unsigned
	size()
	{
		return N;
	}
	GPUSIM_GROUP_IS(unsigned, num_threads, N)

	/* f of the values that the tile's warps left, in order; each thread gets the result. */
	template <class T, class F>
	T
	gather(bool leaves, T v, F f) const
	{
		auto *slot = shared_tile_memory().value;
		unsigned first = (block_rank() & ~(N - 1)) / 32;
		T each;

		static_assert(sizeof(T) <= sizeof *slot && std::is_trivially_copyable<T>::value,
			      "");
		if (leaves)
			memcpy(slot[block_rank() / 32], static_cast<void *>(std::addressof(v)),
			       sizeof v);
		sync_warps();
		for (unsigned w = 0; w < N / 32; w++) {
			memcpy(static_cast<void *>(std::addressof(each)), slot[first + w],
			       sizeof each);
			v = w ? f(v, each, w) : each;
		}
		sync_warps();
		return v;
	}
	template <class T>
	T
	shfl(T v, unsigned rank) const
	{
		return gather(thread_rank() % 32 == rank % 32, v,
			      [rank](T a, T b, unsigned w) { return w == rank % N / 32 ? b : a; });
	}
	int
	any(int predicate) const
	{
		return gather(true, __any_sync(~0u, predicate),
			      [](int a, int b, unsigned) { return a | b; });
	}
	GPUSIM_GROUP_DO(int, all, (int predicate) const, !any(!predicate))
};

template <unsigned N> using tile = std::conditional_t<N <= 32, small_tile<N>, large_tile<N>>;

} // namespace details

template <unsigned N, class Parent = void> struct thread_block_tile;

template <unsigned N> struct thread_block_tile<N, void> : details::tile<N> {
	static_assert(N > 0 && N <= 1024 && (N & (N - 1)) == 0,
		      "a tile has 1, 2, 4 ... 1024 threads");
	using details::tile<N>::tile;
};

template <unsigned N, class Parent> struct thread_block_tile : thread_block_tile<N> {
	using thread_block_tile<N>::thread_block_tile;
};

template <unsigned N, class Parent>
inline thread_block_tile<N, Parent>
tiled_partition(const Parent &g)
{
	unsigned rank = (unsigned)g.thread_rank(), size = (unsigned)g.size();

	if constexpr (N > 32) {
		details::shared_tile_memory().arrived[rank / N] = 0;
		g.sync();
	}
	return {rank / N, (size + N - 1) / N};
}

/* Tiles of n neighbouring ranks; n is 1, 2, 4 ... 32, or the kernel ends with an error. */
inline coalesced_group
tiled_partition(const coalesced_group &g, unsigned n)
{
	unsigned rank = g.thread_rank(), lanes = 0;

	if (n == 0 || n > 32 || n & (n - 1))
		__gpusim_trap();
	for (unsigned i = rank & ~(n - 1); i < (rank & ~(n - 1)) + n && i < g.size(); i++)
		lanes |= 1u << details::nth(g.lanes(), i);
	return coalesced_group(lanes, rank / n, (g.size() + n - 1) / n);
}

inline thread_group
tiled_partition(const thread_group &g, unsigned n)
{
	if (g.what() == details::kind::lanes)
		return tiled_partition(coalesced_group(g.lanes()), n);
	if (g.what() != details::kind::block || n == 0 || n > 32 || n & (n - 1))
		__gpusim_trap();
	return coalesced_group(details::tile_lanes(n), details::block_rank() / n,
			       (details::block_size() + n - 1) / n);
}

GPUSIM_GROUP_DO(inline thread_block_tile<1>, this_thread, (), {0, 1})

/* The threads of g with the same label. Groups are numbered by their first lanes. */
template <class Group, class Label>
inline coalesced_group
labeled_partition(const Group &g, Label label)
{
	unsigned lanes = __match_any_sync(g.lanes(), label);
	unsigned first = __ballot_sync(g.lanes(), (lanes & details::low(gpusim_cuda::lane())) == 0);
	unsigned before = first & details::low((unsigned)__builtin_ctz(lanes));

	return coalesced_group(lanes, (unsigned)__builtin_popcount(before),
			       (unsigned)__builtin_popcount(first));
}

/* The threads of g with the same truth of a predicate; number 0 are those without it. */
template <class Group>
inline coalesced_group
binary_partition(const Group &g, bool predicate)
{
	unsigned yes = __ballot_sync(g.lanes(), predicate);

	return coalesced_group(predicate ? yes : g.lanes() & ~yes, predicate, 2);
}

/* ---- functions of any group */

template <class Group>
inline void
sync(const Group &g)
{
	g.sync();
}

/* One thread of the group calls f; the others do not wait for it. */
template <class Group, class F, class... A>
inline void
invoke_one(const Group &g, F &&f, A &&...a)
{
	if (g.thread_rank() == 0)
		std::forward<F>(f)(std::forward<A>(a)...);
}

/* One thread of the group calls f; all return its result. */
template <class Group, class F, class... A>
inline auto
invoke_one_broadcast(const Group &g, F &&f, A &&...a)
{
	decltype(std::forward<F>(f)(std::forward<A>(a)...)) v{};

	invoke_one(g, [&] { v = std::forward<F>(f)(std::forward<A>(a)...); });
	return g.shfl(v, 0);
}

} // namespace cooperative_groups

#endif
#endif
