/* cooperative_groups/scan.h - prefix sums over the threads of a tile or coalesced group. */
#ifndef COOPERATIVE_GROUPS_SCAN_H
#define COOPERATIVE_GROUPS_SCAN_H

#include <cooperative_groups/reduce.h>

#ifdef __GPUSIM_NVCC__

namespace cooperative_groups
{

namespace details
{

template <class T, class Op>
inline T
scan_neutral()
{
	if constexpr (std::is_same<typename op_of<Op>::type, T>::value)
		return op_of<Op>::neutral();
	else
		return T{};
}

} // namespace details

/* op of the values of all ranks up to the own one. */
template <class Group, class T, class Op = plus<T>>
inline T
inclusive_scan(const Group &g, T v, Op op = Op())
{
	coalesced_group lanes(g.lanes());

	for (unsigned d = 1; d < lanes.size(); d *= 2) {
		T before = lanes.shfl_up(v, d);

		if (lanes.thread_rank() >= d)
			v = op(before, v);
	}
	return v;
}

/* op of the values of all lower ranks; in rank 0 the operator's neutral value. */
template <class Group, class T, class Op = plus<T>>
inline T
exclusive_scan(const Group &g, T v, Op op = Op())
{
	coalesced_group lanes(g.lanes());
	T before = lanes.shfl_up(inclusive_scan(g, v, op), 1);

	return lanes.thread_rank() ? before : details::scan_neutral<T, Op>();
}

} // namespace cooperative_groups

#endif
#endif
