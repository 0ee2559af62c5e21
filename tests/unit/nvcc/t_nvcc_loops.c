/* Which kernels become loops over the threads of a block, and which loops of kernels run in rounds. */
#include <string.h>

#include "base/buf.h"
#include "nvcc/rewrite.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define G	 "__gpusim_global__ void k(int *p, float *x, int n) "
#define D	 "__gpusim_device__ "
#define RUNTIME                                                                               \
	"unsigned __gpusim_barrier(int, unsigned *); static void __syncthreads() { "          \
	"__gpusim_barrier(0, 0); } static int lane() { return threadIdx.x % 32; } "           \
	"static int atomicAdd(int *p, int v) { return __atomic_fetch_add(p, v, 0); } static " \
	"float "                                                                              \
	"sqrtf(float v) { return v; }\n"

static bool
has(const char *source, const char *part)
{
	struct buf out = {0}, text = {0};
	struct err err = {0};
	const struct rewrite_how how = {.separate = true, .loops = true};
	bool found;

	buf_add(&text, RUNTIME, strlen(RUNTIME));
	buf_add(&text, source, strlen(source));
	found = rewrite(text.data, text.len, "x.cu", &how, &out, &err) == RC_OK &&
		memmem(out.data, out.len, part, strlen(part));
	buf_fini(&out);
	buf_fini(&text);
	return found;
}

static void
check(const char *const *v, size_t n, const char *part, bool want, const char *name)
{
	size_t good = 0;

	for (size_t i = 0; i < n; i++) {
		if (has(v[i], part) == want)
			good++;
		else
			printf("#   %s: %s\n", want ? "not so" : "wrongly so", v[i]);
	}
	ok(good == n, "%s: %zu cases", name, n);
}

static const char *const loops[] = {
    G "{ p[threadIdx.x] = n; }",
    G "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; x[i] = sqrtf(x[i]); }",
    D "int twice(int a) { return 2 * a; } " G "{ p[threadIdx.x] = twice(n); }",
    D "int f(int); " G "{ p[threadIdx.x] = f(n); } int f(int a) { return a; }",
    G "{ atomicAdd(p, (int)x[threadIdx.x] + int(n)); }",
    "struct S { int a; int get() const { return a; } }; " G "{ S s{n}; p[threadIdx.x] = s.get(); }",
    "template <class T> __gpusim_global__ void t(T *v, T a) { v[threadIdx.x] = (T)(a) + T(1); }",
    "template <class F> __gpusim_global__ void t(F f) { f(threadIdx.x); }",
    G "{ auto sq = [=](float v) { return v * v; }; x[threadIdx.x] = sq(x[threadIdx.x]); }",
    D "void other() { __syncthreads(); } " G "{ p[threadIdx.x] = 1; }",
    G "{ __gpusim_shared__ int s[4]; s[0] = n; p[threadIdx.x] = s[0]; }",
};

static const char *const threads[] = {
    G "{ p[threadIdx.x] = n; __syncthreads(); }",
    D "void meet() { __syncthreads(); } " G "{ meet(); }",
    D "void a(); " D "void b() { a(); } " G "{ b(); } " D "void a() { __syncthreads(); }",
    G "{ p[lane()] = 1; }",
    D "int self() { return threadIdx.x; } " G "{ p[self()] = 1; }",
    D "int f(int); " G "{ p[threadIdx.x] = f(n); }",
    "typedef int (*fn)(int); " D "int w(int a) { __syncthreads(); return a; } " D
    "fn table[1] = {w}; " G "{ p[threadIdx.x] = table[0](n); }",
    "__gpusim_global__ void k(int (*f)(int), int *p) { p[threadIdx.x] = f(1); }",
    "__gpusim_global__ void k(int (*f)(int), int *p) { p[threadIdx.x] = (*f)(1); }",
    "struct S { void meet() { __syncthreads(); } }; " G "{ S s; s.meet(); }",
    "struct S { S(); }; S::S() { __syncthreads(); } " G "{ S s; }",
    "struct S { S() : a(0), b{1} { __syncthreads(); } int a, b; }; " G "{ S s; }",
    "struct S { int operator+(int b) { __syncthreads(); return b; } }; " G "{ S s; p[0] = s + 1; }",
    "struct S { void operator()(int) { __syncthreads(); } }; template <class F> "
    "__gpusim_global__ void t(F f) { f(1); } void h() { t<<<1, 1>>>(S()); }",
    "template <class F> __gpusim_global__ void t(F f) { f(1); } void h() { t<<<1, 1>>>([=] "
    "__gpusim_device__(int i) { __syncthreads(); }); }",
    G "{ printf(\"%d\", n); }",
    G "{ asm volatile(\"\" ::: \"memory\"); }",
    G "{ struct L { int f() { return threadIdx.x; } } l; p[0] = l.f(); }",
    G "{ auto f = []() { return threadIdx.x; }; p[0] = f(); }",
};

#define I     "int i = blockIdx.x * blockDim.x + threadIdx.x; "
#define S     "blockDim.x * gridDim.x"
#define FOR   "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += " S ") "
#define AFTER "__gpusim_shared__ float s[4]; s[0] = 1; __syncthreads();"

static const char *const rounds[] = {
    G "{ " FOR "x[i] = 2 * x[i]; }",
    G "{ float v = 0; " FOR "{ v += x[i]; } x[threadIdx.x] = v; " AFTER " }",
    G "{ " I "int step = " S "; while (i < n) { x[i] += 1; i += step; } }",
    G "{ " I "for (; i < n; i += 1024) { if (x[i] < 0) continue; x[i] = sqrtf(x[i]); } }",
    G "{ int t = threadIdx.x, hits = 0; for (int i = t; i < n; i += blockDim.x) { if (x[i] > 0) "
      "hits++; atomicAdd(&p[i % 8], 1); } p[t] = hits; }",
    G "{ " FOR "for (int j = 0; j < 4; j++) x[4 * i + j] = j; }",
    D "void bump(float &a) { a += 1; } " G "{ float v = 0; " FOR "{ bump(v); } x[0] = v; }",
};

static const char *const no_rounds[] = {
    G "{ for (int i = 0; i < n; i += 32) x[i] = 1; }",
    G "{ for (int i = threadIdx.x * n; i < n; i += 1) x[i] = 1; }",
    G "{ for (int i = threadIdx.x; i < n; i++) x[i] = 1; }",
    G "{ " FOR "{ if (x[i] < 0) break; x[i] = 1; } }",
    G "{ " FOR "{ if (x[i] < 0) return; x[i] = 1; } }",
    G "{ " FOR "{ x[i] = 1; i += 3; } }",
    G "{ " FOR "{ x[i] = 1; __syncthreads(); } }",
    G "{ float v = x[0]; " FOR "x[i] = v; }",
    G "{ p[threadIdx.x] = 1; " FOR "x[i] = 1; }",
    G "{ " FOR "{ x[i] = 1; n--; } }",
    G "{ " FOR "{ *x++ = 1; } }",
    D "void bump(int &a) { a += 1; } " G "{ " FOR "{ bump(n); x[i] = n; } }",
    D "void bump(int &a) { a += 1; } " G "{ " FOR "{ bump(i); x[i] = n; } }",
    G "{ float *q = x; " FOR "{ q += 1; *q = i; } }",
    G "{ int m = n; "
      "for (int i = threadIdx.x; i < m; i += 64) { m -= 1; x[i] = 0; } }",
    G "{ int m = 64; "
      "for (int i = threadIdx.x; i < n; i += m) { m += 1; x[i] = 0; } }",
    G "{ for (float i = threadIdx.x; i < n; i += 64) x[(int)i] = 0; }",
    G "{ __gpusim_shared__ float s[64]; for (int i = threadIdx.x; i < n; i += 64) s[i] = 0; }",
    G "{ int *q = &n; " FOR "x[i] = *q; }",
    D "int total; " G "{ int m = total; " FOR "{ x[i] = m; atomicAdd(&total, 1); } }",
    D "int a = 1, total[2]; " G "{ for (int i = threadIdx.x; i < a; i += 64) x[i] = 1; }",
    G "{ float m = __ldg(x); " FOR "x[i] = m; }",
    "struct R { int s; int next() { return ++s; } }; __gpusim_global__ void k(R r, int *p, int n) "
    "{ " FOR "p[i] = r.next(); }",
    "struct R { int s; }; __gpusim_global__ void k(R r, int *p, int n) { " FOR
    "{ r.s += 1; p[i] = r.s; } }",
    "template <class F> __gpusim_global__ void k(F f, int *p, int n) { " FOR "p[i] = f(i); }",
};

int
main(void)
{
	check(loops, COUNT(loops), "each_thread", true, "kernels that become loops");
	check(threads, COUNT(threads), "each_thread", false, "kernels that need threads");
	check(rounds, COUNT(rounds), "run_rounds", true, "loops that run in rounds");
	check(no_rounds, COUNT(no_rounds), "run_rounds", false, "loops that do not");
	return tap_done();
}
