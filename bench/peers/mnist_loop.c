/*
 * mnist_loop - mnist-train's work written by hand for one core, as a peer. One process, one BLAS thread, no
 * gpusim.
 *
 *	cc -O3 -march=native -o mnist_loop mnist_loop.c -lopenblas -lz -lm
 *	mnist_loop [DIR [EPOCHS [BATCH]]]		(data/mnist, 5, 64)
 *
 * 784-128-10, relu, softmax cross-entropy; SGD, lr 0.1, momentum 0.9; pixels / 255; f32. Prints a
 * line per epoch: loss, test accuracy, images per second (without the test).
 *
 * Two things would cost a factor each, and are avoided: OpenBLAS falls back to
 * SSE3 on a processor it does not know, and velocities that have faded to subnormals are slow.
 */
#include <cblas.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

enum { IN = 784, HID = 128, OUT = 10, NPARAMS = HID * IN + HID + OUT * HID + OUT };

/* One vector, so that the optimizer is one loop: w1[HID,IN] b1[HID] w2[OUT,HID] b2[OUT]. */
static float params[NPARAMS], grads[NPARAMS], velocity[NPARAMS];
#define W1(p) (p)
#define B1(p) ((p) + HID * IN)
#define W2(p) (B1(p) + HID)
#define B2(p) (W2(p) + OUT * HID)

static float *x, *h, *dh,
    *y; /* [batch,IN], [batch,HID] twice, [batch,OUT]: logits, then their gradient */

/* Read the bytes of an IDX file after its header, which has *n items. Raw or gzipped. */
static uint8_t *
load(const char *dir, const char *name, unsigned header, size_t item, size_t *n)
{
	char path[4096];
	uint8_t head[16], *data;
	gzFile f;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	if (!(f = gzopen(path, "rb"))) {
		snprintf(path, sizeof path, "%s/%s.gz", dir, name);
		f = gzopen(path, "rb");
	}
	if (!f || gzread(f, head, header) != (int)header) {
		fprintf(stderr, "mnist_loop: cannot read %s\n", path);
		exit(1);
	}
	*n = (size_t)head[4] << 24 | (size_t)head[5] << 16 | (size_t)head[6] << 8 | head[7];
	data = malloc(*n * item);
	if (!data || gzread(f, data, (unsigned)(*n * item)) != (int)(*n * item)) {
		fprintf(stderr, "mnist_loop: %s: too short\n", path);
		exit(1);
	}
	gzclose(f);
	return data;
}

static uint64_t
rnd(void)
{
	static uint64_t s = 0x9e3779b97f4a7c15u;

	s ^= s << 13;
	s ^= s >> 7;
	s ^= s << 17;
	return s * 0x2545f4914f6cdd1du;
}

static void
init(float *w, size_t n, size_t fan_in)
{
	float bound = 1 / sqrtf((float)fan_in);

	for (size_t i = 0; i < n; i++)
		w[i] = ((float)(rnd() >> 40) * 0x1p-23f - 1) * bound;
}

static void
normalise(float *restrict out, const uint8_t *restrict in)
{
	for (size_t i = 0; i < IN; i++)
		out[i] = (float)in[i] * (1 / 255.f);
}

/* y = logits of the first n rows of x; h = the hidden layer. The products add to the bias. */
static void
forward(size_t n)
{
	for (size_t r = 0; r < n; r++)
		memcpy(h + r * HID, B1(params), HID * sizeof *h);
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, HID, IN, 1, x, IN, W1(params),
		    IN, 1, h, HID);
	for (size_t i = 0; i < n * HID; i++)
		h[i] = h[i] > 0 ? h[i] : 0;
	for (size_t r = 0; r < n; r++)
		memcpy(y + r * OUT, B2(params), OUT * sizeof *y);
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)n, OUT, HID, 1, h, HID,
		    W2(params), HID, 1, y, OUT);
}

/* The loss of one row of logits, which become the loss's gradient times scale. */
static float
softmax_xent(float *row, unsigned label, float scale)
{
	float top = row[0], sum = 0, right = row[label];

	for (int j = 1; j < OUT; j++)
		top = row[j] > top ? row[j] : top;
	for (int j = 0; j < OUT; j++)
		sum += row[j] = expf(row[j] - top);
	for (int j = 0; j < OUT; j++)
		row[j] *= scale / sum;
	row[label] -= scale;
	return logf(sum) - (right - top);
}

static void
sum_rows(float *restrict out, const float *restrict in, size_t rows, size_t cols)
{
	memset(out, 0, cols * sizeof *out);
	for (size_t r = 0; r < rows; r++)
		for (size_t c = 0; c < cols; c++)
			out[c] += in[r * cols + c];
}

static void
backward(size_t n)
{
	cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, OUT, HID, (int)n, 1, y, OUT, h, HID, 0,
		    W2(grads), HID);
	sum_rows(B2(grads), y, n, OUT);
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)n, HID, OUT, 1, y, OUT,
		    W2(params), HID, 0, dh, HID);
	for (size_t i = 0; i < n * HID; i++)
		dh[i] = h[i] > 0 ? dh[i] : 0;
	cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, HID, IN, (int)n, 1, dh, HID, x, IN, 0,
		    W1(grads), IN);
	sum_rows(B1(grads), dh, n, HID);
}

static void
sgd(float lr, float momentum, float decay)
{
	for (size_t i = 0; i < NPARAMS; i++) {
		velocity[i] = momentum * velocity[i] + (grads[i] + decay * params[i]);
		params[i] -= lr * velocity[i];
	}
}

static double
epoch(const uint8_t *images, const uint8_t *labels, uint32_t *order, size_t items, size_t batch)
{
	double loss = 0;

	for (size_t i = items; i > 1; i--) {
		size_t j = rnd() % i;
		uint32_t swap = order[i - 1];

		order[i - 1] = order[j];
		order[j] = swap;
	}
	for (size_t at = 0; at < items; at += batch) {
		size_t n = items - at < batch ? items - at : batch;

		for (size_t r = 0; r < n; r++)
			normalise(x + r * IN, images + (size_t)order[at + r] * IN);
		forward(n);
		for (size_t r = 0; r < n; r++)
			loss += softmax_xent(y + r * OUT, labels[order[at + r]], 1 / (float)n);
		backward(n);
		sgd(0.1f, 0.9f, 0);
	}
	return loss / (double)items;
}

static double
accuracy(const uint8_t *images, const uint8_t *labels, size_t items, size_t batch)
{
	size_t right = 0;

	for (size_t at = 0; at < items; at += batch) {
		size_t n = items - at < batch ? items - at : batch;

		for (size_t r = 0; r < n; r++)
			normalise(x + r * IN, images + (at + r) * IN);
		forward(n);
		for (size_t r = 0; r < n; r++) {
			unsigned best = 0;

			for (unsigned j = 1; j < OUT; j++)
				if (y[r * OUT + j] > y[r * OUT + best])
					best = j;
			right += best == labels[at + r];
		}
	}
	return (double)right / (double)items;
}

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Flush subnormals; make OpenBLAS use the processor's features, for which the program restarts.
 */
static void
tune(char **argv)
{
#ifdef __x86_64__
	_mm_setcsr(_mm_getcsr() | 0x8040);
	if (getenv("OPENBLAS_CORETYPE") || strcmp(openblas_get_corename(), "Prescott") != 0)
		return;
	__builtin_cpu_init();
	setenv("OPENBLAS_CORETYPE",
	       __builtin_cpu_supports("avx512vl") ? "SkylakeX"
	       : __builtin_cpu_supports("avx2")	  ? "Haswell"
						  : "Prescott",
	       1);
	execv("/proc/self/exe", argv);
#else
	(void)argv;
#endif
}

int
main(int argc, char **argv)
{
	tune(argv);

	const char *dir = argc > 1 ? argv[1] : "data/mnist";
	int epochs = argc > 2 ? atoi(argv[2]) : 5;
	size_t batch = argc > 3 ? (size_t)atoi(argv[3]) : 64, items, nlabels, tests;
	uint8_t *images = load(dir, "train-images-idx3-ubyte", 16, IN, &items);
	uint8_t *labels = load(dir, "train-labels-idx1-ubyte", 8, 1, &nlabels);
	uint8_t *test_images = load(dir, "t10k-images-idx3-ubyte", 16, IN, &tests);
	uint8_t *test_labels = load(dir, "t10k-labels-idx1-ubyte", 8, 1, &nlabels);
	uint32_t *order = malloc(items * sizeof *order);

	openblas_set_num_threads(1);
	x = aligned_alloc(64, batch * IN * sizeof *x);
	h = aligned_alloc(64, batch * HID * sizeof *h);
	dh = aligned_alloc(64, batch * HID * sizeof *dh);
	y = aligned_alloc(64, (batch * OUT * sizeof *y + 63) / 64 * 64);
	if (!order || !x || !h || !dh || !y)
		return 1;
	for (uint32_t i = 0; i < items; i++)
		order[i] = i;
	init(W1(params), HID * IN + HID, IN);
	init(W2(params), OUT * HID + OUT, HID);
	for (int e = 1; e <= epochs; e++) {
		double began = now(), loss = epoch(images, labels, order, items, batch);
		double seconds = now() - began;

		printf("epoch %d/%d  loss %.4f  test accuracy %.2f %%  %.0f images/s\n", e, epochs,
		       loss, 100 * accuracy(test_images, test_labels, tests, batch),
		       (double)items / seconds);
		fflush(stdout);
	}
	return 0;
}
