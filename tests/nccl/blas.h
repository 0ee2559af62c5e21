/* blas.h - for the tests of cuBLAS: memory of the device, numbers, comparison with plain loops. C++. */
#ifndef TEST_BLAS_H
#define TEST_BLAS_H

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

static int failures;

#define CHECK(x)                                                       \
	do {                                                           \
		if (!(x)) {                                            \
			printf("%s:%d: %s\n", __FILE__, __LINE__, #x); \
			if (++failures > 20)                           \
				exit(1);                               \
		}                                                      \
	} while (0)
#define IS(status, call) CHECK((call) == CUBLAS_STATUS_##status)
#define OK(call)	 IS(SUCCESS, call)
#define CUDA(call)	 CHECK((call) == cudaSuccess)

static unsigned seed = 1;

/* Small integers: their sums are exact in each type. */
static double
number()
{
	seed = seed * 1664525u + 1013904223u;
	return (double)(int)(seed >> 24) / 64 - 2;
}

template <class T>
static std::vector<T>
numbers(size_t n)
{
	std::vector<T> v(n);

	for (auto &x : v)
		x = (T)(float)number();
	return v;
}

/* A copy on the device. */
template <class T> struct on_device {
	T *p = nullptr;
	size_t n;

	on_device(const std::vector<T> &v) : n(v.size())
	{
		CUDA(cudaMalloc(&p, n * sizeof(T)));
		CUDA(cudaMemcpy(p, v.data(), n * sizeof(T), cudaMemcpyHostToDevice));
	}
	~on_device()
	{
		cudaFree(p);
	}
	on_device(const on_device &) = delete;

	std::vector<T>
	get() const
	{
		std::vector<T> v(n);

		CUDA(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
		return v;
	}
};

template <class T> constexpr double epsilon();
template <>
constexpr double
epsilon<double>()
{
	return 1e-14;
}
template <>
constexpr double
epsilon<float>()
{
	return 2e-6;
}
template <>
constexpr double
epsilon<__half>()
{
	return 0x1p-11;
}
template <>
constexpr double
epsilon<__nv_bfloat16>()
{
	return 0x1p-8;
}

/* Return true if they are alike: `size` is the largest sum of absolute values on the way. */
template <class T>
static bool
alike(T a, double b, double size = 1)
{
	double x = (double)(float)a;

	if (sizeof(T) == 8)
		memcpy(&x, &a, 8);
	return std::isnan(b) ? std::isnan(x)
			     : std::fabs(x - b) <= epsilon<T>() * std::fabs(b) +
						       (sizeof(T) == 8 ? 1e-14 : 2e-6) * size;
}

template <class T>
static bool
alike(const std::vector<T> &a, const std::vector<double> &b, double size = 1)
{
	for (size_t i = 0; i < a.size(); i++)
		if (!alike(a[i], b[i], size)) {
			printf("element %zu: %g, not %g\n", i, (double)(float)a[i], b[i]);
			return false;
		}
	return a.size() == b.size();
}

template <class T>
static std::vector<double>
wide(const std::vector<T> &v)
{
	std::vector<double> w;

	for (T x : v)
		w.push_back(sizeof(T) == 8 ? (double)*(double *)&x : (double)(float)x);
	return w;
}

/* Element (i, j) of op(a). */
static inline double
at(const std::vector<double> &a, int ld, bool t, int i, int j, size_t from = 0)
{
	return a[from + (t ? (size_t)i * ld + j : (size_t)j * ld + i)];
}

#endif
