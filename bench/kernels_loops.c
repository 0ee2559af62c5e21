/* What a C programmer writes first. */
#include "kernels_loops.h"

void
loop_add(const float *a, const float *b, float *c, int n)
{
	for (int i = 0; i < n; i++)
		c[i] = a[i] + b[i];
}

float
loop_sum(const float *a, int n)
{
	float sum = 0;

	for (int i = 0; i < n; i++)
		sum += a[i];
	return sum;
}

void
loop_matmul(const float *a, const float *b, float *c, int side)
{
	for (int i = 0; i < side; i++)
		for (int j = 0; j < side; j++) {
			float sum = 0;

			for (int k = 0; k < side; k++)
				sum += a[i * side + k] * b[k * side + j];
			c[i * side + j] = sum;
		}
}

void
loop_layernorm(float *out, const float *in, const float *weight, const float *bias, int rows, int width)
{
	for (int r = 0; r < rows; r++)
		loop_layernorm_row(out + (long)r * width, in + (long)r * width, weight, bias, width);
}

void
loop_softmax(float *out, const float *in, int rows, int width)
{
	for (int r = 0; r < rows; r++)
		loop_softmax_row(out + (long)r * width, in + (long)r * width, width);
}
