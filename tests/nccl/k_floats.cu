/*
 * half, bfloat16, e4m3 and e5m2: every value, and every point halfway between two, compared with
 * values from ldexp. The same arithmetic in a kernel and on the host.
 */
#include <cmath>
#include <cstdint>
#include <cstring>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "cu.h"

/* A positive value by its bits. */
static double
value(unsigned bits, int exp, int man)
{
	int bias = (1 << (exp - 1)) - 1, e = bits >> man;
	double m = bits & ((1u << man) - 1);

	return e ? ldexp(m + (1 << man), e - bias - man) : ldexp(m, 1 - bias - man);
}

template <class T, class U>
static U
bits_of(T v)
{
	U u;

	memcpy((void *)&u, (void *)&v, sizeof u);
	return u;
}

template <class T, class U>
static T
of_bits(unsigned b)
{
	U u = (U)b;
	T v;

	memcpy((void *)&v, (void *)&u, sizeof v);
	return v;
}

/* largest: the bits of the largest finite value; beyond: the bits of a value more than halfway beyond it. */
template <class T, class U>
static void
check(int exp, int man, unsigned largest, unsigned beyond)
{
	const U sign = (U)(1u << (exp + man));

	for (unsigned b = 0; b <= largest; b++) {
		double v = value(b, exp, man), next = value(b + 1, exp, man), mid = (v + next) / 2;
		unsigned up = b == largest ? beyond : b + 1, even = b & 1 ? up : b;
		float f = (float)mid;

		CHECK(((double)(float)of_bits<T, U>(b) == v));
		CHECK(((double)(float)of_bits<T, U>(b | sign) == -v));
		CHECK((bits_of<T, U>(T(v)) == b && bits_of<T, U>(T(-v)) == (U)(b | sign)));
		CHECK((bits_of<T, U>(T(mid)) == even));
		CHECK((bits_of<T, U>(T(nextafter(mid, next))) == up));
		CHECK((bits_of<T, U>(T(nextafter(mid, 0))) == b));
		CHECK((bits_of<T, U>(T(-nextafter(mid, next))) == (U)(up | sign)));
		if ((double)f == mid && f > 1e-44f) {
			CHECK((bits_of<T, U>(T(f)) == even));
			CHECK((bits_of<T, U>(T(nextafterf(f, INFINITY))) == up));
			CHECK((bits_of<T, U>(T(nextafterf(f, 0))) == b));
		}
		if (v == floor(v) && v < 1e9)
			CHECK((bits_of<T, U>(T((unsigned long long)v)) == b &&
			       bits_of<T, U>(T(-(long long)v)) == (U)(b ? b | sign : 0)));
	}
}

template <class T>
__global__ void
arithmetic(float *out, const float *in, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= n)
		return;
	T a = T(in[i]), b = T(in[(i * 7 + 3) % n]), c = T(in[(i * 5 + 1) % n]);

	out[5 * i] = (float)(a + b);
	out[5 * i + 1] = (float)(a * b);
	out[5 * i + 2] = (float)__hfma(a, b, c);
	out[5 * i + 3] = (float)(__hlt(a, b) ? a / b : a - b);
	out[5 * i + 4] = (float)__hmax(a, -b);
}

/* The same from double, rounded once: products and sums of such numbers are exact there, or nearly. */
template <class T>
static void
check_arithmetic()
{
	const int n = 2000;
	static float in[n], out[5 * n];
	float *di, *d;

	for (int i = 0; i < n; i++)
		in[i] = ldexpf((float)(i * 2654435761u % 4001) - 2000, (int)(i * 40503u % 13) - 12);
	CU(cudaMalloc(&di, sizeof in));
	CU(cudaMalloc(&d, sizeof out));
	CU(cudaMemcpy(di, in, sizeof in, cudaMemcpyDefault));
	arithmetic<T><<<8, 250>>>(d, di, n);
	CU(cudaMemcpy(out, d, sizeof out, cudaMemcpyDefault));
	for (int i = 0; i < n; i++) {
		double a = (float)T(in[i]), b = (float)T(in[(i * 7 + 3) % n]),
		       c = (float)T(in[(i * 5 + 1) % n]);
		float *o = out + 5 * i, q = a < b ? (float)T(a / b) : (float)T(a - b);

		CHECK(o[0] == (float)T(a + b));
		CHECK(o[1] == (float)T(a * b));
		CHECK(o[2] == (float)T(a * b + c));
		CHECK(o[3] == q || (q != q && o[3] != o[3]));
		CHECK(o[4] == (float)fmax(a, -b));
	}
	CU(cudaFree(di));
	CU(cudaFree(d));
}

int
main(void)
{
	const float nan = NAN, inf = INFINITY;

	check<__half, uint16_t>(5, 10, 0x7bff, 0x7c00);
	check<__nv_bfloat16, uint16_t>(8, 7, 0x7f7f, 0x7f80);
	check<__nv_fp8_e4m3, uint8_t>(4, 3, 0x7e, 0x7e);
	check<__nv_fp8_e5m2, uint8_t>(5, 2, 0x7b, 0x7b);
	CHECK(__hisnan(__half(nan)) && __hisinf(__half(-inf)) == -1 && __hisnan(__nv_bfloat16(nan)));
	CHECK(__nv_fp8_e4m3(nan).__x == 0x7f && __nv_fp8_e5m2(nan).__x == 0x7f);
	CHECK(__nv_fp8_e4m3(-inf).__x == 0xfe && __nv_fp8_e5m2(inf).__x == 0x7b);
	CHECK(__nv_cvt_float_to_fp8(1e6f, __NV_NOSAT, __NV_E4M3) == 0x7f);
	CHECK(__nv_cvt_float_to_fp8(-1e6f, __NV_NOSAT, __NV_E5M2) == 0xfc);
	CHECK((float)__nv_fp8_e4m3(464.f) == 448 && (float)__nv_fp8_e4m3(__half(300.f)) == 288);
	CHECK((float)__float2half_rz(2049.9f) == 2048 && (float)__float2half_ru(2049.f) == 2050 &&
	      (float)__float2half_rd(-2049.f) == -2050);
	CHECK(__half2int_rn(__half(2.5f)) == 2 && __half2int_rz(__half(-2.7f)) == -2 &&
	      __half2ushort_rn(__half(-3.f)) == 0);
	check_arithmetic<__half>();
	check_arithmetic<__nv_bfloat16>();
	puts("exact");
	return 0;
}
