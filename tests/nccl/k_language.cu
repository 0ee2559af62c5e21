/* C++ and CUDA's names as in real programs; two devices and four threads launch at once. */
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cu.h"

#define LAUNCH(k, g, b, ...) k<<<g, b>>>(__VA_ARGS__)
#define HD		     __host__ __device__

struct vec {
	float x, y;
	HD vec operator+(const vec &o) const
	{
		return {x + o.x, y + o.y};
	}
};

namespace a
{
namespace b
{
template <int N, typename T>
__global__ void
tile(T *p, int)
{
	__shared__ T t[N][N + 1];
	int i = threadIdx.x;

	t[i % N][i / N % N] = p[i];
	__syncthreads();
	p[i] = t[i % N][i / N % N] + T(1);
}
} // namespace b
} // namespace a

template <typename T>
struct larger {
	HD T operator()(T a, T b) const
	{
		return a > b ? a : b;
	}
};

template <typename T, template <typename> class O>
__global__ void
apply(T *out, const T *a, const T *b, O<T> op)
{
	out[threadIdx.x] = op(a[threadIdx.x], b[threadIdx.x]);
}

enum class mode : int { one, two };

template <mode m>
__global__ void
tell(int *p)
{
	if constexpr (m == mode::one)
		*p = 1;
	else
		*p = 2;
}

static __device__ __forceinline__ int
some(int x)
{
	return min(x, 3) + (int)max(1u, 2u) + __popc(x) + abs(-x) + __clz(1) - __ffs(8);
}

__device__ int table[] = {1, 2, 3};
__constant__ vec cv = {1, 2};

extern "C" __global__ void
plain(int *p, const vec v)
{
	p[0] = some(7) + table[1] + (int)(v + cv).x;
}

class runner
{
      public:
	void run(int *p)
	{
		plain<<<1, 1>>>(p, vec{5, 6});
	}
};

__global__ void
floats(float4 *p)
{
	float4 v = make_float4(1, 2, 3, 4);

	p[0] = make_float4(v.x + sqrtf(4.f), __expf(0.f), rsqrtf(4.f), fmaf(2, v.z, 1));
	p[1] = make_float4(__int_as_float(0x3f800000), __fdividef(1, 4), __saturatef(7),
			   (float)__float2int_rn(2.5f));
}

static const int plain_one = 3 + 2 + 3 + 7 + 31 - 4 + 2 + 2;

/* Launches on its own device and stream. */
static void
many(int device)
{
	cudaStream_t s;
	int *d, h = 0;

	CU(cudaSetDevice(device));
	CU(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	CU(cudaMalloc(&d, 4));
	for (int k = 0; k < 700; k++)
		plain<<<1, 1, 0, s>>>(d, vec{1, 2});
	CU(cudaMemcpyAsync(&h, d, 4, cudaMemcpyDeviceToHost, s));
	CU(cudaStreamSynchronize(s));
	CHECK(h == plain_one);
}

int
main(void)
{
	std::vector<std::thread> threads;
	int *p;
	float4 *q;

	CU(cudaMallocManaged(&p, 4096));
	CU(cudaMallocManaged(&q, 64));
	for (int i = 0; i < 64; i++)
		p[i] = i;
	a::b::tile<8, int><<<dim3(1), dim3(64)>>>(p, 64);
	CU(cudaDeviceSynchronize());
	for (int i = 0; i < 64; i++)
		CHECK(p[i] == i + 1);
	LAUNCH((apply<int, larger>), 1, 16, p, p + 16, p + 32, larger<int>());
	CU(cudaDeviceSynchronize());
	CHECK(p[0] == 33 && p[15] == 48);
	tell<mode::two><<<1, 1>>>(p);
	CU(cudaDeviceSynchronize());
	CHECK(*p == 2);
	runner().run(p);
	CU(cudaDeviceSynchronize());
	CHECK(*p == plain_one + 4);
	floats<<<1, 1>>>(q);
	CU(cudaDeviceSynchronize());
	CHECK(q[0].x == 3 && q[0].y == 1 && q[0].z == .5f && q[0].w == 7);
	CHECK(q[1].x == 1 && q[1].y == .25f && q[1].z == 1 && q[1].w == 2);
	for (int i = 0; i < 4; i++)
		threads.emplace_back(many, i % 2);
	for (auto &t : threads)
		t.join();
	puts("as written");
	return 0;
}
