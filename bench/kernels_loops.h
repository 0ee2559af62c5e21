/* The loops that bench/kernels.cu compares with, and what both sides call for a row. */
#ifndef KERNELS_LOOPS_H
#define KERNELS_LOOPS_H

#include <math.h>

#ifdef __CUDACC__
#define ROW static inline __host__ __device__
#else
#define ROW static inline
#endif

/* out = (in - mean) / sqrt(variance + 1e-5) * weight + bias */
ROW void
loop_layernorm_row(float *out, const float *in, const float *weight, const float *bias, int width)
{
	float mean = 0, variance = 0, scale;

	for (int i = 0; i < width; i++)
		mean += in[i];
	mean /= (float)width;
	for (int i = 0; i < width; i++)
		variance += (in[i] - mean) * (in[i] - mean);
	scale = 1.0f / sqrtf(variance / (float)width + 1e-5f);
	for (int i = 0; i < width; i++)
		out[i] = scale * (in[i] - mean) * weight[i] + bias[i];
}

ROW void
loop_softmax_row(float *out, const float *in, int width)
{
	float most = -INFINITY;
	double sum = 0;

	for (int i = 0; i < width; i++)
		if (in[i] > most)
			most = in[i];
	for (int i = 0; i < width; i++) {
		out[i] = expf(in[i] - most);
		sum += out[i];
	}
	for (int i = 0; i < width; i++)
		out[i] /= (float)sum;
}

#ifdef __cplusplus
extern "C" {
#endif
void loop_add(const float *a, const float *b, float *c, int n);
float loop_sum(const float *a, int n);
void loop_matmul(const float *a, const float *b, float *c, int side); /* side x side, by rows */
void loop_layernorm(float *out, const float *in, const float *weight, const float *bias, int rows,
		    int width);
void loop_softmax(float *out, const float *in, int rows, int width);
#ifdef __cplusplus
}
#endif

#endif
