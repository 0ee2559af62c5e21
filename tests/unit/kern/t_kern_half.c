/* Kernels of f16 and bf16 against the same kernels of f32 on the same values, their outputs rounded: bit by bit. */
#include "kern_test.h"

#include "kern/kern_impl.h"

/* A kernel and its arguments: a number; or memory, of so many elements of the kernel's type (h), or f32, f64 (d),
 * labels, u32 (w), u64 (q). @: the memory of an earlier argument. */
static const char *const tests[] = {
    "gemm m=7 n=9 k=33 a:h231 b:h297 c:h63 tb=1",
    "gemm m=5 n=5 k=5 a:h25 b:h25@a c:h25 beta=1",
    "gemm m=5 n=5 k=0 a:h0 b:h0 c:h25 beta=3",
    "bias_add x:h60 bias:h12 rows=5 cols=12",
    "bias_relu x:h60 bias:h12 rows=5 cols=12",
    "bias_grad db:h12 dy:h60 rows=5 cols=12",
    "bias_relu_grad dx:h60 db:h12 dy:h60@dx y:h60 rows=5 cols=12",
    "relu y:h99 x:h99@y n=99",
    "relu_grad dx:h99 dy:h99 x:h99@dx n=99",
    "sigmoid y:h99 x:h99 n=99",
    "sigmoid_grad dx:h99 dy:h99@dx y:h99 n=99",
    "tanh y:h99 x:h99 n=99",
    "tanh_grad dx:h99 dy:h99 y:h99 n=99",
    "gelu y:h99 x:h99 n=99",
    "gelu_grad dx:h99 dy:h99@dx x:h99 n=99",
    "attention y:h240 qkv:h720 lse:f20 samples=2 tokens=5 heads=2 dim=12",
    "attention_grad dqkv:h720 dy:h240 qkv:h720 y:h240 lse:f20 samples=2 tokens=5 heads=2 dim=12",
    "layernorm y:h84 x:h84 gamma:h12 beta:h12 moments:d14 rows=7 cols=12",
    "layernorm_grad_params dgamma:h12 dbeta:h12 dy:h84 x:h84 moments:d14 rows=7 cols=12",
    "layernorm_grad dx:h84 dy:h84 x:h84 gamma:h12 moments:d14 rows=7 cols=12 add=1",
    "patches y:h128 x:h128 n=2 c=1 h=8 w=8 size=4",
    "tokens y:h60 x:h48 first:h6 place:h30 n=2 tokens=5 cols=6",
    "tokens_grad dfirst:h6 dplace:h30 dy:h60 n=2 tokens=5 cols=6",
    "pick y:h12 x:h60 n=2 tokens=5 cols=6",
    "pick_grad dx:h60 dy:h12 n=2 tokens=5 cols=6",
    "add y:h99 a:h99@y b:h99 n=99",
    "affine x:h60 scale:f3 shift:f3 rows=5 c=3 hw=4",
    "axpy y:h99 x:h99 n=99 alpha=3",
    "axpy y:h99 x:h99@y n=99 alpha=3",
    "scale x:h99 n=99 alpha=3",
    "fixed_add sum:q99 src:h99 n=99 scale=65536 add=1",
    "softmax_xent logits:h40 labels:l4 loss:f1 rows=4 classes=10 grad:h40 grad_scale=5 scale_at:f1",
    "l2_loss logits:h40 labels:l4 loss:f1 rows=4 classes=10 grad:h40@logits",
    "argmax index:w4 logits:h40 rows=4 classes=10",
    "accuracy count:q1 logits:h40 labels:l4 rows=4 classes=10",
    "shard_top top:f4 logits:h40 rows=4 classes=9 cols=10",
    "shard_sums sums:f12 top:f4 labels:l4 first=2 logits:h40 rows=4 classes=9 cols=10",
    ("shard_xent grad:h40 loss:f1 top:f4 sums:f12 labels:l4 first=2 logits:h40@grad rows=4 "
     "classes=9 cols=10 scale_at:f1"),
    "conv2d x:h36 weight:h18 bias:h2 y:h72 scratch:h324 n=1 c=1 h=6 w=6 k=2 size=3 pad=1",
    "maxpool2d x:h36 y:h9 index:w9 n=1 c=1 h=6 w=6 size=2",
    "batchnorm y:h24 x:h24@y moments:h4 gamma:h2 beta:h2 n=3 c=2 hw=4 eps=2",
    "sgd w:h99 grad:h99 v:h99 n=99 lr=2 lr_at:f1 momentum=3",
    "adam w:h99 grad:h99 m:h99 v:h99 t:q1 n=99 lr=2 lr_at:f1",
};

#define MAX 16
struct arg {
	char name[16], kind, same[16]; /* n: a number */
	unsigned x;		       /* the number, or the elements */
};

static size_t
element(char kind, enum gpusim_dtype t)
{
	return kind == 'h' ? dtype_size(t) : kind == 'l' ? 1 : kind == 'f' || kind == 'w' ? 4 : 8;
}

/* Random contents of an argument's memory in the half type, and the same values in f32. */
static void
contents(const struct arg *a, enum gpusim_dtype half, uint64_t to[2])
{
	size_t n = a->x;
	struct kern_cast widen;

	kern_cast_init(&widen, GPUSIM_F32, half, 1);
	for (unsigned i = 0; i < 2; i++)
		to[i] = kt_alloc((n + 1) * element(a->kind, i ? GPUSIM_F32 : half));
	for (size_t i = 0; i < n; i++) {
		double x = kt_real() * 2;

		if (a->kind == 'h')
			kern_narrow(half, (uint16_t *)kt_at(to[0]) + i, &x, 1);
		else if (a->kind == 'f' || a->kind == 'd')
			kt_put(to[0], i, element(a->kind, half), fabs(x) + 1);
		else if (a->kind == 'l')
			((uint8_t *)kt_at(to[0]))[i] = (uint8_t)(i % 10);
		else
			memset((uint8_t *)kt_at(to[0]) + i * element(a->kind, half), 0,
			       element(a->kind, half));
	}
	if (a->kind == 'h')
		kern_cast(&widen, kt_at(to[1]), kt_at(to[0]), n);
	else
		memcpy(kt_at(to[1]), kt_at(to[0]), n * element(a->kind, half));
}

/* An argument's memory after both runs. */
static bool
equal(const char *name, const struct arg *a, enum gpusim_dtype half, const uint64_t at[2])
{
	size_t n = a->x, size = element(a->kind, half);
	uint16_t want[1024];
	struct kern_cast narrow;

	kern_cast_init(&narrow, half, GPUSIM_F32, 1);
	if (a->kind == 'h')
		kern_cast(&narrow, want, kt_at(at[1]), n);
	if (memcmp(kt_at(at[0]), a->kind == 'h' ? (void *)want : kt_at(at[1]), n * size) == 0)
		return true;
	printf("# %s: %s differs\n", name, a->name);
	return false;
}

/* Parse a test: the number of arguments. */
static unsigned
parse(const char *text, char name[32], struct arg *a)
{
	unsigned n = 0;
	int len = 0;

	sscanf(text, "%31s%n", name, &len);
	for (text += len; *text; text += len, n++) {
		a[n] = (struct arg){.kind = 'n'};
		if (sscanf(text, " %15[a-z0-9_]=%u%n", a[n].name, &a[n].x, &len) < 2)
			sscanf(text, " %15[a-z0-9_]:%c%u%n@%15s%n", a[n].name, &a[n].kind, &a[n].x,
			       &len, a[n].same, &len);
	}
	return n;
}

static bool
check(const char *text, enum gpusim_dtype half)
{
	struct arg a[MAX];
	char name[32];
	uint64_t at[MAX][2] = {{0}};
	unsigned n = parse(text, name, a);
	bool good = true;

	kt_open();
	for (unsigned i = 0; i < n; i++) {
		if (a[i].kind != 'n' && !a[i].same[0])
			contents(&a[i], half, at[i]);
		for (unsigned k = 0; k < i; k++)
			if (strcmp(a[k].name, a[i].same) == 0)
				memcpy(at[i], at[k], sizeof at[i]);
	}
	for (unsigned run = 0; run < 2 && good; run++) {
		struct kernel_arg args[MAX + 1];

		for (unsigned i = 0; i < n; i++)
			args[i] = U(a[i].name, a[i].kind == 'n' ? a[i].x : at[i][run]);
		args[n] = U("dtype", run ? GPUSIM_F32 : half);
		good = kt_run(name, args, n + 1) == RC_OK;
		if (!good)
			printf("# %s\n", kt_err.text);
	}
	for (unsigned i = 0; i < n && good; i++)
		good = a[i].kind == 'n' || strcmp(a[i].name, "scratch") == 0 ||
		       equal(name, &a[i], half, at[i]);
	kt_close();
	return good;
}

int
main(void)
{
	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
		ok(check(tests[i], GPUSIM_F16) && check(tests[i], GPUSIM_BF16), "halves: %.20s ...",
		   tests[i]);
	kt_open();
	{
		uint64_t x = kt_alloc(64), y = kt_alloc(64);

		ok(kt_sweep("relu", NULL,
			    ARGS(U("y", y), U("x", x), U("n", 9), U("dtype", GPUSIM_F16))),
		   "bad arguments; an address is a multiple of 2");
		ok(kt_run("relu", ARGS(U("y", y + 2), U("x", x), U("n", 9),
				       U("dtype", GPUSIM_BF16))) == RC_OK &&
		       kt_refuses(
			   RC_INVAL, "relu",
			   ARGS(U("y", x + 2), U("x", x), U("n", 9), U("dtype", GPUSIM_BF16))),
		   "overlap is that of the halves");
		ok(kt_refuses(RC_INVAL, "shard_top",
			      ARGS(U("top", x), U("logits", y), U("rows", 1), U("classes", 1),
				   U("cols", 1), U("dtype", GPUSIM_F64))),
		   "divided losses have no f64");
	}
	kt_close();
	return tap_done();
}
