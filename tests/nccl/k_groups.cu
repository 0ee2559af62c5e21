/* Cooperative groups beside plain loops: each thread writes what it got, the program computes the same again. */
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include <vector>

#include "cu.h"

namespace cg = cooperative_groups;

struct wide {
	double a, b, c;
	int d;
};

struct multiply_add { /* associative, not commutative: (x -> a x + b) after each other, modulo 2^32 */
	__device__ uint2
	operator()(uint2 f, uint2 g) const
	{
		return make_uint2(f.x * g.x, f.y * g.x + g.y);
	}
};

/* What each thread of each kind of group notes. */
enum { RANK, SIZE, META_RANK, META_SIZE, SHFL, UP, DOWN, XOR, WIDE, BALLOT, ANY, ALL, MATCH, SAME, SUM, FSUM, MIN, MAX,
       ORDERED, INCLUSIVE, EXCLUSIVE, NOTES };

__device__ static int
smaller(int a, int b)
{
	return b < a ? b : a;
}

__host__ __device__ static unsigned
mixed(unsigned x)
{
	x *= 2654435761u;
	return x ^ x >> 15;
}

template <class G>
__device__ void
note(const G &g, unsigned v, unsigned *out)
{
	int same;
	wide w = {1.0 * v, 2.0 * v, 3.0 * v, (int)v};
	uint2 f = cg::reduce(g, make_uint2(v | 1, v), multiply_add());

	w = g.shfl(w, g.size() - 1);
	out[RANK] = g.thread_rank();
	out[SIZE] = g.size();
	out[META_RANK] = g.meta_group_rank();
	out[META_SIZE] = g.meta_group_size();
	out[SHFL] = g.shfl(v, 0);
	out[UP] = g.shfl_up(v, 1);
	out[DOWN] = g.shfl_down(v, 2);
	out[WIDE] = w.a + w.b + w.c == 6.0 * (unsigned)w.d ? w.d : ~0u;
	out[BALLOT] = g.ballot(v & 1);
	out[ANY] = g.any(v % 11 == 0);
	out[ALL] = g.all(v % 11 != 0);
	out[MATCH] = g.match_any(v % 3);
	g.match_all(v % 3, same);
	out[SAME] = same;
	out[SUM] = cg::reduce(g, v, cg::plus<unsigned>());
	out[FSUM] = cg::reduce(g, (float)(v % 1000), cg::plus<float>());
	out[MIN] = cg::reduce(g, (int)v, cg::less<int>());
	if (cg::reduce(g, (int)v, smaller) != (int)out[MIN])
		__trap();
	out[MAX] = cg::reduce(g, (int)v, cg::greater<int>());
	out[ORDERED] = f.x + 31 * f.y;
	out[INCLUSIVE] = cg::inclusive_scan(g, v);
	out[EXCLUSIVE] = cg::exclusive_scan(g, v, cg::greater<unsigned>());
	cg::sync(g);
}

/* The group of a thread is the threads of a block with the same key. */
__host__ __device__ static unsigned
key_of(int kind, unsigned t)
{
	unsigned w = t / 32, v = mixed(t);

	if (kind < 6)
		return t >> kind;
	if (kind == 6) /* lanes that come here */
		return v % 3 ? 2 * w : 2 * w + 1;
	if (kind == 7) /* by label, in tiles of 16 */
		return t / 16 * 5 + v % 5;
	if (kind == 8) /* by predicate */
		return 2 * w + (v % 7 < 3);
	return t / 8; /* tiles of tiles */
}

__global__ void
groups(int kind, unsigned *out)
{
	cg::thread_block block = cg::this_thread_block();
	unsigned t = block.thread_rank(), v = mixed(t);

	out += (size_t)(cg::this_grid().block_rank() * block.size() + t) * NOTES;
	switch (kind) {
#define TILE(i)                                                        \
	case i: {                                                      \
		auto g = cg::tiled_partition<1 << i>(block);           \
		note(g, v, out);                                       \
		out[XOR] = g.shfl_xor(v, (1 << i) / 2);                \
		break;                                                 \
	}
		TILE(0) TILE(1) TILE(2) TILE(3) TILE(4) TILE(5)
	case 6:
		if (v % 3)
			note(cg::coalesced_threads(), v, out);
		else
			note(cg::coalesced_threads(), v, out);
		break;
	case 7:
		note(cg::labeled_partition(cg::tiled_partition<16>(block), v % 5), v, out);
		break;
	case 8:
		note(cg::binary_partition(cg::tiled_partition<32>(block), v % 7 < 3), v, out);
		break;
	case 9:
		note(cg::tiled_partition<8>(cg::tiled_partition<32>(block)), v, out);
		break;
	}
}

static unsigned
expect(int what, const std::vector<unsigned> &g, unsigned r)
{
	unsigned n = (unsigned)g.size(), x = 0, y = 0, same = 1;
	int least = (int)g[0], most = (int)g[0];
	uint2 f = make_uint2(g[0] | 1, g[0]);

	for (unsigned i = 1; i < n; i++) {
		f = multiply_add()(f, make_uint2(g[i] | 1, g[i]));
		least = (int)g[i] < least ? (int)g[i] : least;
		most = (int)g[i] > most ? (int)g[i] : most;
		same &= g[i] % 3 == g[0] % 3;
	}
	for (unsigned i = 0; i < n; i++)
		switch (what) {
		case BALLOT: x |= (g[i] & 1) << i; break;
		case ANY: x |= g[i] % 11 == 0; break;
		case ALL: y |= g[i] % 11 == 0; x = !y; break;
		case MATCH: x |= (unsigned)(g[i] % 3 == g[r] % 3) << i; break;
		case SUM: x += g[i]; break;
		case FSUM: x += g[i] % 1000; break;
		case INCLUSIVE: x += i <= r ? g[i] : 0; break;
		case EXCLUSIVE: x = i < r && g[i] > x ? g[i] : x; break;
		}
	switch (what) {
	case RANK: return r;
	case SIZE: return n;
	case SHFL: return g[0];
	case UP: return g[r ? r - 1 : 0];
	case DOWN: return g[r + 2 < n ? r + 2 : r];
	case XOR: return g[r ^ n / 2];
	case WIDE: return g[n - 1];
	case SAME: return same;
	case MIN: return (unsigned)least;
	case MAX: return (unsigned)most;
	case ORDERED: return f.x + 31 * f.y;
	default: return x;
	}
}

static void
check(int kind, unsigned threads, const unsigned *got)
{
	for (unsigned t = 0; t < threads; t++, got += NOTES) {
		std::vector<unsigned> g;
		unsigned rank = 0, key = key_of(kind, t);

		for (unsigned i = 0; i < threads; i++)
			if (key_of(kind, i) == key) {
				rank = i < t ? rank + 1 : rank;
				g.push_back(mixed(i));
			}
		for (int what = 0; what < NOTES; what++) {
			unsigned want = expect(what, g, rank);

			if (what == META_RANK || what == META_SIZE || (what == XOR && kind > 5))
				continue;
			if (got[what] != want) {
				fprintf(stderr, "kind %d, thread %u of %u, %d: %u, not %u\n", kind, t,
					threads, what, got[what], want);
				exit(1);
			}
		}
		if (kind < 6) {
			CHECK(got[META_RANK] == t >> kind && got[META_SIZE] == threads >> kind);
		}
		CHECK(kind != 9 || (got[META_RANK] == t / 8 % 4 && got[META_SIZE] == 4));
		CHECK(kind != 8 || (got[META_RANK] == key % 2 && got[META_SIZE] == 2));
	}
}

/* ---- the base type, run-time tiles, whole blocks */

__device__ int
sum(cg::thread_group g, int *room, int v)
{
	int rank = g.thread_rank();

	for (int d = g.size() / 2; d > 0; d /= 2) {
		room[rank] = v;
		g.sync();
		if (rank < d)
			v += room[rank + d];
		g.sync();
	}
	return rank == 0 ? v : -1;
}

__global__ void
bases(int *out, const int *in)
{
#if __CUDA_ARCH__ >= 700
	__shared__ int room[128], copied[128];
	cg::thread_block block = cg::this_thread_block();
	int t = block.thread_rank(), all = sum(block, room, t);
	cg::thread_group tile = cg::tiled_partition(block, 16), part = cg::tiled_partition(tile, 4);
	int of_tile = sum(tile, room + t / 16 * 16, t), of_part = sum(part, room + t / 4 * 4, t);
	cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);

	cg::memcpy_async(block, copied, in, sizeof copied);
	cg::wait(block);
	out[t] = copied[127 - t];
	if (t == 0 && all != 127 * 64)
		__trap();
	if (t % 16 == 0 && of_tile != 16 * t + 120)
		__trap();
	if (t % 4 == 0 && of_part != 4 * t + 6)
		__trap();
	if (block.group_index().y != blockIdx.y || block.thread_index().y != threadIdx.y ||
	    block.dim_threads().x != blockDim.x || cg::this_grid().is_valid() ||
	    cg::this_grid().num_blocks() != gridDim.x * gridDim.y ||
	    cg::this_grid().size() != block.size() * gridDim.x * gridDim.y ||
	    warp.meta_group_size() != 4 || cg::this_thread().size() != 1)
		__trap();
	if (cg::invoke_one_broadcast(warp, [t] { return t; }) != t / 32 * 32)
		__trap();
#endif
}

/* Tiles of several warps, while each warp ends at a time of its own. */
template <unsigned N>
__global__ void
warps(int *out)
{
	__shared__ cg::block_tile_memory<256> room;
	auto block = cg::this_thread_block(room);
	auto g = cg::tiled_partition<N>(block);
	int t = block.thread_rank();

	for (int i = 0; i <= t / (int)N; i++) {
		int v = cg::reduce(g, t + i, cg::plus<int>()), w = g.shfl(t, N - 1);

		g.sync();
		out[t] = v + w + 7 * g.any(t == 5) + 9 * g.all(t >= (int)N);
	}
}

template <unsigned N>
static void
several_warps(int *out)
{
	int host[256];

	warps<N><<<1, 256>>>(out);
	CU(cudaMemcpy(host, out, sizeof host, cudaMemcpyDefault));
	for (int t = 0; t < 256; t++) {
		int first = t / N * N, sum = N * (first + t / N) + N * (N - 1) / 2;

		CHECK(host[t] == sum + first + (int)N - 1 + 7 * (t < (int)N) + 9 * (t >= (int)N));
	}
}

int
main()
{
	static const dim3 shapes[] = {{32, 1, 1}, {64, 1, 1}, {8, 4, 2}, {3, 32, 1}, {256, 1, 1}};
	std::vector<unsigned> got;
	unsigned *out;
	int *ints, host[128];

	CU(cudaMalloc(&out, (size_t)256 * NOTES * 2 * sizeof *out));
	for (const dim3 &shape : shapes)
		for (int kind = 0; kind < 10; kind++) {
			unsigned n = shape.x * shape.y * shape.z;

			got.resize((size_t)n * NOTES * 2);
			groups<<<2, shape>>>(kind, out);
			CU(cudaMemcpy(got.data(), out, got.size() * sizeof *out, cudaMemcpyDefault));
			check(kind, n, got.data());
			check(kind, n, got.data() + (size_t)n * NOTES);
		}
	CU(cudaMallocManaged(&ints, 256 * sizeof *ints));
	for (int i = 0; i < 128; i++)
		ints[128 + i] = i * i;
	bases<<<dim3(2, 3), dim3(64, 2)>>>(ints, ints + 128);
	CU(cudaMemcpy(host, ints, sizeof host, cudaMemcpyDefault));
	for (int i = 0; i < 128; i++)
		CHECK(host[i] == (127 - i) * (127 - i));
	several_warps<64>(ints);
	several_warps<128>(ints);
	puts("grouped");
}
