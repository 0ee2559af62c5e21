/*
 * kern_impl.h - shared by the kernels: the table's entries, and the conversion of arguments to host pointers.
 *
 * A kernel asks for everything it needs through one struct kern_call, then looks at call.rc once,
 * and only then touches memory: after the first failure the other requests do nothing.
 */
#ifndef DEV_KERN_IMPL_H
#define DEV_KERN_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "kern/kernel.h"
#include "mem/dtype.h"

/* The kernels of gpudev, in the order of its list: each is a struct kernel kernel_NAME in a file kern_*.c. */
/* clang-format off */
#define KERNELS(ROW) \
	ROW(fill) ROW(copy) ROW(cast) ROW(gather) ROW(augment) ROW(affine) ROW(axpy)        \
	ROW(scale) ROW(add) ROW(fixed_add) ROW(gemm) ROW(bias_add) ROW(bias_relu)           \
	ROW(bias_grad) ROW(bias_relu_grad) ROW(relu) ROW(relu_grad) ROW(sigmoid)            \
	ROW(sigmoid_grad) ROW(tanh) ROW(tanh_grad) ROW(gelu) ROW(gelu_grad)                 \
	ROW(attention) ROW(attention_grad) ROW(patches) ROW(tokens) ROW(tokens_grad)        \
	ROW(pick) ROW(pick_grad) ROW(conv2d) ROW(conv2d_grad_x)                             \
	ROW(conv2d_grad_w) ROW(maxpool2d) ROW(maxpool2d_grad) ROW(batchnorm_sums)           \
	ROW(batchnorm_moments) ROW(batchnorm) ROW(batchnorm_grad_sums) ROW(batchnorm_grad)  \
	ROW(layernorm) ROW(layernorm_grad_params) ROW(layernorm_grad) ROW(softmax_xent)     \
	ROW(l2_loss) ROW(argmax) ROW(accuracy) ROW(shard_top) ROW(shard_sums) ROW(shard_xent) \
	ROW(shard_hits) ROW(sgd) ROW(adam) ROW(sum_squares) ROW(grad_scaler)                \
	ROW(orthogonalize) ROW(topk)                                                        \
	ROW(scatter_add) ROW(sign_pack) ROW(sign_unpack)
/* clang-format on */
#define KERNEL_DECLARED(name) extern const struct kernel kernel_##name;
KERNELS(KERNEL_DECLARED)

/* One run of a kernel; the caller sets the first four. */
struct kern_call {
	const struct kernel *k;
	const struct devmem *mem;
	const union kernel_value *v;
	struct err *err;
	enum rc rc; /* the first failure, set in *err */
	struct {
		unsigned char *p;
		size_t nbytes;
		float *values; /* of halves: the copy that the kernel works on; of two parameters */
		bool own, out; /* this parameter's, to be freed; to be written back */
	} area[KERNEL_MAX_PARAMS]; /* by parameter: from kern_at */
	enum gpusim_dtype half;	   /* the kernel's type, if f16 or bf16, else 0 */
};

/* The size of the type in parameter `param`; fails when it is not a type. */
size_t kern_type(struct kern_call *c, unsigned param);

/* Likewise, but these only. Of f16 and bf16 a kernel computes in f32, as tensor cores do, and its outputs are rounded
 * once: the size is that of f32, and kern_at and kern_out give copies in f32. */
#define KERN_FLOATS "f32, f64, f16 or bf16"
size_t kern_float(struct kern_call *c, unsigned param);

/* The host pointer of rows x cols elements of `size` bytes at the address in parameter `param`;
 * fails when a byte is outside memory or the address is not a multiple of size. NULL on failure.
 * kern_out: the kernel writes them. kern_plain: they are not of the kernel's type, so never copies. */
void *kern_at(struct kern_call *c, unsigned param, uint64_t rows, uint64_t cols, size_t size);
void *kern_out(struct kern_call *c, unsigned param, uint64_t rows, uint64_t cols, size_t size);
void *kern_plain(struct kern_call *c, unsigned param, uint64_t rows, uint64_t cols, size_t size);

/* The f32 at the address in `param`, 1 if it is 0. It overlaps nothing that is written. */
double kern_factor(struct kern_call *c, unsigned param, const unsigned *written, size_t nwritten);

/* Copies go back to the device's memory if the kernel has ended well, and are released. */
void kern_end(struct kern_call *c, bool ok);

/* Fails when the areas of two parameters share a byte; kern_inplace lets them be the very same. */
void kern_apart(struct kern_call *c, unsigned p, unsigned q);
void kern_inplace(struct kern_call *c, unsigned p, unsigned q);

/* kern_apart with each of n others; `written` may be one of them. */
void kern_apart_from(struct kern_call *c, unsigned written, const unsigned *others, size_t n);

/* The product of n factors; fails, naming `what`, when it exceeds 64 bits. */
uint64_t kern_product(struct kern_call *c, const char *what, const uint64_t *factor, size_t n);

/* Records the first failure, after the kernel's name; returns c->rc. */
enum rc kern_fail(struct kern_call *c, enum rc rc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* n doubles to elements of type t, rounded to nearest even. Integers saturate and NaN becomes 0. */
void kern_narrow(enum gpusim_dtype t, void *dst, const double *src, size_t n);

/* A conversion between two types, prepared once and used on any number of vectors. */
struct kern_cast {
	enum gpusim_dtype to, from;
	double scale;
	bool parts;   /* u8 to f32, and the scale in two parts rounds like the whole */
	float hi, lo; /* the two parts */
};

void kern_cast_init(struct kern_cast *c, enum gpusim_dtype to, enum gpusim_dtype from,
		    double scale);

/* dst[i] = scale src[i], as the kernel cast says; the vectors do not overlap. */
void kern_cast(const struct kern_cast *c, void *dst, const void *src, size_t n);

/* Run the loop of the type whose elements have `size` bytes. */
#define KERN_LOOP(size, name, ...)                  \
	do {                                        \
		if ((size) == sizeof(float))        \
			name##_float(__VA_ARGS__);  \
		else                                \
			name##_double(__VA_ARGS__); \
	} while (0)

/* Element i of a vector of float (size 4) or double (size 8). */
static inline double
kern_get(const void *p, size_t i, size_t size)
{
	return size == sizeof(double) ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static inline void
kern_put(void *p, size_t i, size_t size, double value)
{
	if (size == sizeof(double))
		((double *)p)[i] = value;
	else
		((float *)p)[i] = (float)value;
}

#endif
