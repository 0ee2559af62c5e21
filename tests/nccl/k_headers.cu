/* What programs test for or include: guards of NVIDIA's headers, constants, complex numbers, extents, directed rounding. */
#include <cuComplex.h>
#include <cuda.h>
#include <cuda_pipeline.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include <library_types.h>
#include <math_constants.h>

#include "cu.h"

#if !defined __CUDA_RUNTIME_H__ || !defined __DRIVER_TYPES_H__ || !defined __CUDA_RUNTIME_API_H__ || \
    !defined __VECTOR_TYPES_H__ || !defined __cuda_cuda_h__ || CUDA_VERSION != CUDART_VERSION
#error "a macro that programs test for"
#endif

/* One ulp above and below the value that is nearest. */
__global__ void
arithmetic(float *f, double *d, int *good)
{
	float third = 1.0f / 3; /* rounded up */

	f[0] = __fdiv_rd(1, 3);
	f[1] = __fdiv_ru(1, 3);
	f[2] = __fdiv_rz(-1, 3);
	f[3] = __fadd_ru(1, 1e-30f);
	f[4] = __fadd_rd(1, -1e-30f);
	f[5] = __fmul_rz(third, third);
	f[6] = __fsub_rd(1, 1e-30f);
	f[7] = __fsqrt_ru(2);
	f[8] = __frcp_rd(3);
	f[9] = __fmaf_ru(third, 3, -1);
	f[10] = __int2float_rz(16777217 * 3);
	f[11] = __double2float_ru(1 + 1e-12);
	d[0] = __dadd_ru(1, 1e-300);
	d[1] = __dmul_rd(0.1, 0.1);
	d[2] = __ddiv_rz(2, 3);
	d[3] = __dsqrt_rd(2);
	d[4] = __fma_rd(0.1, 10, -1);
	d[5] = 1.0 / 3; /* the mode is back */
	*good = isnan(CUDART_NAN_F) && isinf(CUDART_INF) && isfinite(CUDART_PI) && !isfinite(CUDART_INF_F);
}

__global__ void
staged(const int4 *in, int4 *out)
{
	__shared__ int4 stage[2];

	__pipeline_memcpy_async(&stage[threadIdx.x], &in[threadIdx.x], sizeof(int4), 4 * threadIdx.x);
	__pipeline_commit();
	__pipeline_wait_prior(0);
	__syncthreads();
	out[threadIdx.x] = stage[1 - threadIdx.x];
}

static void
copies()
{
	int4 *v;

	CU(cudaMallocManaged(&v, 4 * sizeof *v));
	v[0] = make_int4(1, 2, 3, 4);
	v[1] = make_int4(5, 6, 7, 8);
	staged<<<1, 2>>>(v, v + 2);
	CU(cudaDeviceSynchronize());
	CHECK(v[2].x == 5 && v[2].z == 7 && v[2].w == 0 && v[3].x == 1 && v[3].w == 4);
}

static bool
near_to(cuDoubleComplex a, double x, double y)
{
	return cuCabs(cuCsub(a, make_cuDoubleComplex(x, y))) < 1e-15;
}

static void
complex_numbers()
{
	cuDoubleComplex a = make_cuDoubleComplex(1, 2), b = make_cuDoubleComplex(3, -4);
	cuComplex f = make_cuComplex(1e30f, 1e30f);

	CHECK(near_to(cuCmul(a, b), 11, 2) && near_to(cuCadd(a, b), 4, -2) && near_to(cuConj(b), 3, 4));
	CHECK(near_to(cuCdiv(a, b), -0.2, 0.4) && cuCabs(b) == 5 && near_to(cuCfma(a, b, a), 12, 4));
	f = cuCdivf(f, f);
	CHECK(fabsf(cuCrealf(f) - 1) < 1e-6f && cuCimagf(f) == 0);
}

int
main()
{
	struct cudaExtent e = make_cudaExtent(16, 3, 2);
	struct cudaMemcpy3DParms p = {};
	struct cudaPitchedPtr box;
	char in[96], out[96] = {};
	float *f;
	double *d;
	int *good;
	const float up = nextafterf(1, 2), third = 1.0f / 3;

	CU(cudaProfilerStart());
	CU(cudaMallocManaged(&f, 12 * sizeof *f));
	CU(cudaMallocManaged(&d, 6 * sizeof *d));
	CU(cudaMallocManaged(&good, sizeof *good));
	arithmetic<<<1, 1>>>(f, d, good);
	CU(cudaDeviceSynchronize());
	CU(cudaProfilerStop());
	CHECK(f[1] == third && f[0] == nextafterf(third, 0) && f[2] == -f[0] && f[8] == f[0]);
	CHECK(f[3] == up && f[4] == nextafterf(1, 0) && f[6] == f[4] && f[7] == nextafterf(sqrtf(2), 2));
	CHECK(f[5] == 0.11111111f && f[9] == (float)((double)third * 3 - 1) && f[10] == 50331648.f && f[11] == up);
	CHECK(d[0] == nextafter(1, 2) && d[1] == 0.01 && d[2] == 2.0 / 3 && d[3] == nextafter(sqrt(2), 0));
	CHECK(d[4] > 0 && d[5] == 1.0 / 3 && *good);
	complex_numbers();
	copies();
	for (int i = 0; i < 96; i++)
		in[i] = (char)i;
	CU(cudaMalloc3D(&box, e));
	p.srcPtr = make_cudaPitchedPtr(in, 16, 16, 3);
	p.dstPtr = box;
	p.extent = e;
	p.kind = cudaMemcpyHostToDevice;
	CU(cudaMemcpy3D(&p));
	p.srcPtr = box;
	p.srcPos = make_cudaPos(4, 1, 1);
	p.dstPtr = make_cudaPitchedPtr(out, 16, 16, 3);
	p.extent = make_cudaExtent(8, 2, 1);
	p.kind = cudaMemcpyDeviceToHost;
	CU(cudaMemcpy3D(&p));
	for (int y = 0; y < 2; y++)
		for (int x = 0; x < 16; x++)
			CHECK(out[16 * y + x] == (x < 8 ? in[48 + 16 * (y + 1) + x + 4] : 0));
	puts("as named");
}
