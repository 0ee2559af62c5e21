/* cooperative_groups/reduce.h - sums, minima and other folds over the threads of a tile or coalesced group. */
#ifndef COOPERATIVE_GROUPS_REDUCE_H
#define COOPERATIVE_GROUPS_REDUCE_H

#include <cooperative_groups.h>

#ifdef __GPUSIM_NVCC__

#include <limits>

namespace cooperative_groups
{

/* ---- operators: less is the minimum, greater the maximum, as CUDA has it */

#define GPUSIM_GROUP_OPERATOR(name, expr, warp, identity) \
	template <class T> struct name {                  \
		T                                         \
		operator()(T a, T b) const                \
		{                                         \
			return expr;                      \
		}                                         \
	};                                                \
	namespace details                                 \
	{                                                 \
	template <class T> struct op_of<name<T>> {        \
		typedef T type;                           \
		static constexpr int code = warp;         \
		static T                                  \
		neutral()                                 \
		{                                         \
			return identity;                  \
		}                                         \
	};                                                \
	}

namespace details
{

/* An operator of a program has no code, and its neutral value is not known: T{}, as CUDA has it. */
template <class Op> struct op_of {
	typedef void type;
	static constexpr int code = -1;
};

} // namespace details

GPUSIM_GROUP_OPERATOR(plus, a + b, GPUSIM_WARP_ADD, T{})
GPUSIM_GROUP_OPERATOR(less, b < a ? b : a,
		      std::is_signed<T>::value ? GPUSIM_WARP_MIN : GPUSIM_WARP_UMIN,
		      std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity()
							   : (std::numeric_limits<T>::max)())
GPUSIM_GROUP_OPERATOR(greater, a < b ? b : a,
		      std::is_signed<T>::value ? GPUSIM_WARP_MAX : GPUSIM_WARP_UMAX,
		      std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
							   : (std::numeric_limits<T>::lowest)())
GPUSIM_GROUP_OPERATOR(bit_and, a &b, GPUSIM_WARP_AND, (T)~T{})
GPUSIM_GROUP_OPERATOR(bit_or, a | b, GPUSIM_WARP_OR, T{})
GPUSIM_GROUP_OPERATOR(bit_xor, a ^ b, GPUSIM_WARP_XOR, T{})
#undef GPUSIM_GROUP_OPERATOR

namespace details
{

/* In order of ranks, as a tree: any number of threads, any associative operator. */
template <class T, class Op>
inline T
reduce_tree(const coalesced_group &g, T v, Op &op)
{
	for (unsigned d = 1; d < g.size(); d *= 2) {
		T other = g.shfl_down(v, d);

		if (g.thread_rank() % (2 * d) == 0 && g.thread_rank() + d < g.size())
			v = op(v, other);
	}
	return g.shfl(v, 0);
}

template <class T, class Op>
inline constexpr bool is_word =
    std::is_integral<T>::value &&std::is_same<typename op_of<Op>::type, T>::value;

template <class T, class Op>
inline T
reduce(const coalesced_group &g, T v, Op &op)
{
	if constexpr (is_word<T, Op>)
		return (T)__gpusim_warp(op_of<Op>::code, g.lanes(),
					(unsigned long long)(long long)v, 0);
	else
		return reduce_tree(g, v, op);
}

template <unsigned N, class T, class Op>
inline T
reduce(const thread_block_tile<N> &g, T v, Op &op)
{
	if constexpr (N > 32) {
		v = reduce(thread_block_tile<32>(0, 1), v, op);
		return g.gather(gpusim_cuda::lane() == 0, v,
				[&op](T a, T b, unsigned) { return op(a, b); });
	} else {
		/* The last tile of a block may lack lanes. */
		if (is_word<T, Op> || g.lanes() != low(N) << (gpusim_cuda::lane() & ~(N - 1)))
			return reduce(coalesced_group(g.lanes()), v, op);
		for (unsigned d = 1; d < N; d *= 2) {
			T other = g.shfl_xor(v, d);

			v = g.thread_rank() & d ? op(other, v) : op(v, other);
		}
		return v;
	}
}

template <unsigned N, class P>
inline const thread_block_tile<N> &
plain(const thread_block_tile<N, P> &g)
{
	return g;
}

inline const coalesced_group &
plain(const coalesced_group &g)
{
	return g;
}

} // namespace details

/* op(v of rank 0, v of rank 1, ...) in all threads of the group, in an order that is the same each time. */
template <class Group, class T, class Op>
inline auto
reduce(const Group &g, T &&v, Op &&op)
{
	typedef std::remove_cv_t<std::remove_reference_t<T>> value;
	std::decay_t<Op> fold = op;

	return details::reduce(details::plain(g), value(v), fold);
}

template <class Group, class T>
inline auto
reduce(const Group &g, T &&v)
{
	return reduce(g, v, plus<std::remove_cv_t<std::remove_reference_t<T>>>());
}

} // namespace cooperative_groups

#endif
#endif
