/* thrust: vectors whose memory kernels use, and algorithms on the device beside those of the C++ library. */
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#include <algorithm>
#include <numeric>

#include "../cu.h"

__global__ void
scatter(int *v, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		v[i] = (int)((unsigned)v[i] * 2654435761u >> 8) % 5000;
}

struct square {
	__host__ __device__ int
	operator()(int v) const
	{
		return v * v;
	}
};

int
main()
{
	const int n = 20000;
	thrust::device_vector<int> v(n), w(n), x;
	thrust::host_vector<int> h, got;
	thrust::device_vector<float> filled(n, 0.5f);

	thrust::sequence(v.begin(), v.end(), 3);
	CHECK(v[0] == 3 && v[n - 1] == n + 2);
	scatter<<<(n + 255) / 256, 256>>>(thrust::raw_pointer_cast(v.data()), n);
	h = v;
	for (int i = 0; i < n; i++)
		CHECK(h[i] == (int)((unsigned)(i + 3) * 2654435761u >> 8) % 5000);
	CHECK(thrust::reduce(v.begin(), v.end()) == std::accumulate(h.begin(), h.end(), 0));
	CHECK(thrust::reduce(v.begin(), v.end(), 0, thrust::maximum<int>()) ==
	      *std::max_element(h.begin(), h.end()));
	CHECK(thrust::reduce(filled.begin(), filled.end()) == n * 0.5f);
	thrust::transform(v.begin(), v.end(), w.begin(), square());
	got = w;
	for (int i = 0; i < n; i++)
		CHECK(got[i] == h[i] * h[i]);
	thrust::inclusive_scan(v.begin(), v.end(), w.begin());
	got = w;
	for (int i = 0, sum = 0; i < n; i++)
		CHECK(got[i] == (sum += h[i]));
	x = v;
	thrust::sort(v.begin(), v.end());
	std::sort(h.begin(), h.end());
	got = v;
	CHECK(got == h);
	thrust::sort(x.begin(), x.end(), thrust::greater<int>());
	std::reverse(h.begin(), h.end());
	thrust::copy(x.begin(), x.end(), got.begin());
	CHECK(got == h);
	x[5] = -1;
	CHECK(x[5] == -1 && thrust::reduce(x.begin() + 5, x.begin() + 6) == -1);
	puts("thrust");
}
