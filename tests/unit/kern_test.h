/*
 * kern_test.h - shared by the tests of the kernels: a small device memory, runs by name, and the
 * sweep of arguments that every kernel has to reject.
 */
#ifndef KERN_TEST_H
#define KERN_TEST_H

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kern/kernel.h"
#include "mem/devmem.h"
#include "mem/dtype.h"

#include "chance.h"
#include "tap.h"

#ifndef KT_NBYTES
#define KT_NBYTES 65536u
#endif

static struct devmem *kt_mem;
static struct err kt_err;
static uint64_t kt_seed = 0x9e3779b97f4a7c15u;

#define U(n, x) ((struct kernel_arg){.name = (n), .value.u = (x)})
#define R(n, x) ((struct kernel_arg){.name = (n), .is_real = true, .value.f = (x)})
#define ARGS(...)                                 \
	(const struct kernel_arg[]){__VA_ARGS__}, \
	    sizeof((const struct kernel_arg[]){__VA_ARGS__}) / sizeof(struct kernel_arg)

/* Run by name: kt_run("axpy", ARGS(U("n", 3), R("alpha", 2.0), ...)). */
static inline enum rc
kt_run(const char *name, const struct kernel_arg *args, size_t nargs)
{
	const struct kernel *k = kernel_find(name);
	union kernel_value v[KERNEL_MAX_PARAMS];
	uint64_t step[KERNEL_MAX_PARAMS];
	enum rc rc;

	memset(&kt_err, 0, sizeof kt_err);
	if (k == NULL)
		return RC_NOTFOUND;
	rc = kernel_bind(k, args, nargs, v, step, &kt_err);
	return rc == RC_OK ? kernel_run(k, kt_mem, v, &kt_err) : rc;
}

static inline uint64_t
kt_rnd(void)
{
	return xorshift_star(&kt_seed);
}

/* In [-1, 1). */
static inline double
kt_real(void)
{
	return (double)(kt_rnd() >> 11) * 0x1p-52 - 1;
}

/* The host's view of an address. */
static inline void *
kt_at(uint64_t addr)
{
	return devmem_at(kt_mem, addr, 0);
}

static inline uint64_t
kt_alloc(uint64_t nbytes)
{
	uint64_t addr = 0;

	if (devmem_alloc(kt_mem, nbytes, &addr, &kt_err) != RC_OK)
		tap_bail(kt_err.text);
	return addr;
}

/* Element i of a vector of f32 (size 4) or f64. */
static inline double
kt_get(uint64_t addr, size_t i, size_t size)
{
	return size == 4 ? (double)((float *)kt_at(addr))[i] : ((double *)kt_at(addr))[i];
}

static inline void
kt_put(uint64_t addr, size_t i, size_t size, double x)
{
	if (size == 4)
		((float *)kt_at(addr))[i] = (float)x;
	else
		((double *)kt_at(addr))[i] = x;
}

/* A new vector of n numbers in [-1, 1). */
static inline uint64_t
kt_vector(size_t n, size_t size)
{
	uint64_t addr = kt_alloc(n * size);
	size_t i;

	for (i = 0; i < n; i++)
		kt_put(addr, i, size, kt_real());
	return addr;
}

/* Free all memory, so that each check starts in the same state. */
static inline void
kt_open(void)
{
	char path[] = "/tmp/kern_test.XXXXXX";
	int fd = mkstemp(path);
	uint64_t i, *words;

	if (fd >= 0) {
		close(fd);
		unlink(path);
	}
	if (fd < 0 || devmem_open(path, 1, KT_NBYTES, &kt_mem, &kt_err) != RC_OK) {
		printf("Bail out! %s: %s\n", path, kt_err.text);
		exit(1);
	}
	unlink(path);
	words = kt_at(devmem_min(kt_mem));
	for (i = 0; i < KT_NBYTES / sizeof *words; i++)
		words[i] = kt_rnd();
}

static inline void
kt_close(void)
{
	devmem_close(kt_mem, DEVMEM_UNLINK_FILE);
	kt_mem = NULL;
}

/* Reports the first difference; NaN equals NaN. */
static inline bool
kt_near(const char *what, size_t i, double got, double want, double tolerance)
{
	if (fabs(got - want) <= tolerance || (isnan(got) && isnan(want)) || got == want)
		return true;
	printf("# %s[%zu] is %.17g, not %.17g (+- %g)\n", what, i, got, want, tolerance);
	return false;
}

/* Return true if the kernel rejects these arguments with `want` and changes no byte of memory. */
static inline bool
kt_refuses(enum rc want, const char *name, const struct kernel_arg *args, size_t nargs)
{
	static unsigned char before[KT_NBYTES];
	void *all = kt_at(devmem_min(kt_mem));
	enum rc rc;

	memcpy(before, all, sizeof before);
	rc = kt_run(name, args, nargs);
	if (rc != want) {
		printf("# %s: rc is %d, not %d (%s)\n", name, (int)rc, (int)want, kt_err.text);
		return false;
	}
	if (memcmp(before, all, sizeof before) != 0) {
		printf("# %s: memory has changed (%s)\n", name, kt_err.text);
		return false;
	}
	if (strstr(kt_err.text, name) != kt_err.text) {
		printf("# the sentence does not begin with %s: %s\n", name, kt_err.text);
		return false;
	}
	return true;
}

/*
 * Gradients by differences, in f64: forward writes y [ny] from memory, and dy . y is a number. Its
 * derivative by each element of x [n] equals the value at dx, within `tolerance`.
 */
struct kt_slope {
	bool (*forward)(void *ctx);
	void *ctx;
	uint64_t y, dy;
	size_t ny;
};

static inline double
kt_dot(const struct kt_slope *s)
{
	double sum = 0;
	size_t i;

	if (!s->forward(s->ctx)) {
		printf("# %s\n", kt_err.text);
		return (double)NAN;
	}
	for (i = 0; i < s->ny; i++)
		sum += kt_get(s->y, i, 8) * kt_get(s->dy, i, 8);
	return sum;
}

static inline bool
kt_gradient(const char *what, const struct kt_slope *s, uint64_t x, size_t n, uint64_t dx,
	    double tolerance)
{
	double h = 0x1p-16, old, up, down;
	bool good = true;
	size_t i;

	for (i = 0; good && i < n; i++) {
		old = kt_get(x, i, 8);
		kt_put(x, i, 8, old + h);
		up = kt_dot(s);
		kt_put(x, i, 8, old - h);
		down = kt_dot(s);
		kt_put(x, i, 8, old);
		good = !isnan(up) &&
		       kt_near(what, i, kt_get(dx, i, 8), (up - down) / (2 * h), tolerance);
	}
	return good;
}

/* A count that no memory depends on, and so may be anything. */
static const char *kt_any_count;

/*
 * Make every address, count, type and flag of good arguments bad, one at a time. bytes: the parameter, if
 * any, that is an address of single bytes and so may be odd. Finally the good arguments must run.
 */
static inline bool
kt_sweep(const char *name, const char *bytes, const struct kernel_arg *args, size_t nargs)
{
	uint64_t max = devmem_max(kt_mem);
	const uint64_t addrs[] = {0, 1, 3, max - 1, max, max + 1, UINT64_MAX, UINT64_MAX - 7};
	const uint64_t counts[] = {KT_NBYTES + 1,     UINT64_C(1) << 61, UINT64_C(1) << 62,
				   UINT64_C(1) << 63, UINT64_MAX,	 UINT64_MAX / 4 + 2};
	const struct kernel *k = kernel_find(name);
	struct kernel_arg bad[KERNEL_MAX_PARAMS];
	size_t a, p, i;

	for (a = 0; a < nargs; a++) {
		memcpy(bad, args, nargs * sizeof *bad);
		for (p = 0; strcmp(k->params[p].name, args[a].name) != 0; p++)
			;
		for (i = 0; i < sizeof addrs / sizeof *addrs; i++) {
			bad[a].value.u = addrs[i];
			if (k->params[p].kind == KP_ADDR &&
			    (addrs[i] != 0 || !k->params[p].optional) &&
			    !kt_refuses(RC_INVAL, name, bad, nargs))
				goto bad;
		}
		bad[a].value.u = args[a].value.u + 1;
		if (k->params[p].kind == KP_ADDR &&
		    (bytes == NULL || strcmp(bytes, args[a].name) != 0) &&
		    !kt_refuses(RC_INVAL, name, bad, nargs))
			goto bad;
		for (i = 0; i < sizeof counts / sizeof *counts; i++) {
			bad[a].value.u = counts[i];
			if (k->params[p].kind != KP_ADDR && k->params[p].kind != KP_REAL &&
			    (kt_any_count == NULL || strcmp(kt_any_count, args[a].name) != 0) &&
			    !kt_refuses(RC_INVAL, name, bad, nargs))
				goto bad;
		}
	}
	if (kt_run(name, args, nargs) == RC_OK)
		return true;
	printf("# the good arguments: %s\n", kt_err.text);
	return false;
bad:
	printf("# %s %s = 0x%" PRIx64 "\n", name, bad[a].name, bad[a].value.u);
	return false;
}

#endif
