/* cub beside plain loops: what warps, blocks and grids do with each type that cub has PTX for, and with an operator. */
#include <cub/cub.cuh>

#include <algorithm>
#include <numeric>
#include <vector>

#include "../cu.h"

#define BLOCK 96
#define ITEMS 4

struct largest {
	template <class T>
	__host__ __device__ T
	operator()(T a, T b) const
	{
		return a < b ? b : a;
	}
};

struct is_small {
	__host__ __device__ bool
	operator()(int v) const
	{
		return v < 100;
	}
};

template <class T>
__global__ void
blocks(const T *in, T *out)
{
	typedef cub::BlockLoad<T, BLOCK, ITEMS, cub::BLOCK_LOAD_WARP_TRANSPOSE> load;
	typedef cub::BlockStore<T, BLOCK, ITEMS, cub::BLOCK_STORE_TRANSPOSE> store;
	typedef cub::BlockScan<T, BLOCK> scan;
	typedef cub::BlockReduce<T, BLOCK> reduce;
	typedef cub::BlockReduce<T, BLOCK, cub::BLOCK_REDUCE_WARP_REDUCTIONS> by_warps;
	__shared__ union {
		typename load::TempStorage load;
		typename store::TempStorage store;
		typename scan::TempStorage scan;
		typename reduce::TempStorage reduce;
		typename by_warps::TempStorage by_warps;
	} room;
	T v[ITEMS], first, sum, most;

	load(room.load).Load(in, v);
	first = v[0];
	__syncthreads();
	sum = reduce(room.reduce).Sum(v);
	__syncthreads();
	most = by_warps(room.by_warps).Reduce(first, largest());
	__syncthreads();
	scan(room.scan).InclusiveSum(v, v);
	__syncthreads();
	store(room.store).Store(out, v);
	if (threadIdx.x == 0) {
		out[BLOCK * ITEMS] = sum;
		out[BLOCK * ITEMS + 1] = most;
	}
}

/* Each group of `width` lanes by itself. */
template <class T, int width>
__global__ void
warps(const T *in, T *out)
{
	__shared__ typename cub::WarpReduce<T, width>::TempStorage reduce[BLOCK / width];
	__shared__ typename cub::WarpScan<T, width>::TempStorage scan[BLOCK / width];
	int group = threadIdx.x / width;
	T v = in[threadIdx.x], exclusive;

	out[threadIdx.x] = cub::WarpReduce<T, width>(reduce[group]).Sum(v);
	cub::WarpScan<T, width>(scan[group]).ExclusiveSum(v, exclusive);
	out[BLOCK + threadIdx.x] = exclusive;
	__syncwarp();
	out[2 * BLOCK + threadIdx.x] = cub::WarpReduce<T, width>(reduce[group]).Reduce(v, largest());
}

template <class T, int width>
static void
try_warps(const std::vector<T> &h, T *in, T *out)
{
	std::vector<T> g(3 * BLOCK);

	warps<T, width><<<1, BLOCK>>>(in, out);
	CU(cudaMemcpy(g.data(), out, g.size() * sizeof(T), cudaMemcpyDefault));
	for (int i = 0; i < BLOCK; i += width) {
		T sum = 0;

		for (int k = i; k < i + width; k++) {
			CHECK(g[BLOCK + k] == sum);
			sum += h[k];
		}
		CHECK(g[i] == sum);
		CHECK(g[2 * BLOCK + i] == *std::max_element(&h[i], &h[i] + width));
	}
}

template <class T>
static void
try_type()
{
	std::vector<T> h(BLOCK * ITEMS), g(BLOCK * ITEMS + 2), want(BLOCK * ITEMS);
	T *in, *out, most = 0;

	for (size_t i = 0; i < h.size(); i++)
		h[i] = (T)(i * 7919 % 1000);
	CU(cudaMalloc(&in, h.size() * sizeof(T)));
	CU(cudaMalloc(&out, g.size() * sizeof(T)));
	CU(cudaMemcpy(in, h.data(), h.size() * sizeof(T), cudaMemcpyDefault));
	blocks<<<1, BLOCK>>>(in, out);
	CU(cudaMemcpy(g.data(), out, g.size() * sizeof(T), cudaMemcpyDefault));
	std::partial_sum(h.begin(), h.end(), want.begin());
	for (size_t i = 0; i < h.size(); i += ITEMS)
		most = std::max(most, h[i]);
	CHECK(std::equal(want.begin(), want.end(), g.begin()));
	CHECK(g[h.size()] == want.back() && g[h.size() + 1] == most);
	try_warps<T, 32>(h, in, out);
	try_warps<T, 8>(h, in, out);
	CU(cudaFree(in));
	CU(cudaFree(out));
}

/* One of cub's calls for devices: first the size of its memory, then the work. */
template <class F>
static void
device(F f)
{
	size_t nbytes = 0;
	void *room = nullptr;

	CU(f(room, nbytes));
	CU(cudaMalloc(&room, nbytes));
	CU(f(room, nbytes));
	CU(cudaDeviceSynchronize());
	CU(cudaFree(room));
}

static std::vector<int>
fetch(const int *from, int n)
{
	std::vector<int> v(n);

	CU(cudaMemcpy(v.data(), from, n * sizeof(int), cudaMemcpyDefault));
	return v;
}

static void
devices(int n)
{
	std::vector<int> h(n), order(n), want(n);
	int *in, *out, *keys, *places;

	for (int i = 0; i < n; i++) {
		h[i] = (int)((unsigned)i * 2654435761u >> 7) % 1000 - 200;
		order[i] = i;
	}
	CU(cudaMalloc(&in, n * sizeof(int)));
	CU(cudaMalloc(&out, n * sizeof(int)));
	CU(cudaMalloc(&keys, n * sizeof(int)));
	CU(cudaMalloc(&places, n * sizeof(int)));
	CU(cudaMemcpy(in, h.data(), n * sizeof(int), cudaMemcpyDefault));
	CU(cudaMemcpy(keys, order.data(), n * sizeof(int), cudaMemcpyDefault));
	device([&](void *t, size_t &b) { return cub::DeviceReduce::Sum(t, b, in, out, n); });
	CHECK(fetch(out, 1)[0] == std::accumulate(h.begin(), h.end(), 0));
	device([&](void *t, size_t &b) { return cub::DeviceScan::InclusiveSum(t, b, in, out, n); });
	std::partial_sum(h.begin(), h.end(), want.begin());
	CHECK(fetch(out, n) == want);
	device([&](void *t, size_t &b) {
		return cub::DeviceRadixSort::SortPairs(t, b, in, out, keys, places, n);
	});
	std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return h[a] < h[b]; });
	CHECK(fetch(places, n) == order);
	device([&](void *t, size_t &b) {
		return cub::DeviceSelect::If(t, b, in, out, places, n, is_small());
	});
	want.resize(std::copy_if(h.begin(), h.end(), want.begin(), is_small()) - want.begin());
	CHECK(fetch(places, 1)[0] == (int)want.size() && fetch(out, (int)want.size()) == want);
	device([&](void *t, size_t &b) {
		return cub::DeviceHistogram::HistogramEven(t, b, in, out, 11, -200, 800, n);
	});
	for (int i = 0; i < 10; i++)
		CHECK(fetch(out, 10)[i] == std::count_if(h.begin(), h.end(), [i](int v) {
			      return v >= 100 * i - 200 && v < 100 * i - 100;
		      }));
}

int
main()
{
	try_type<int>();
	try_type<unsigned>();
	try_type<long long>();
	try_type<unsigned long long>();
	try_type<float>();
	try_type<double>();
	try_type<short>();
	devices(1000);
	devices(30000);
	puts("reduced, scanned, sorted");
}
