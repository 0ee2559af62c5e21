/* The rewriter of .cu sources: launches, kernels, marks, variables, PTX; and errors. */
#include <string.h>

#include "base/buf.h"
#include "nvcc/rewrite.h"
#include "nvcc/token.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define G	 "__gpusim_global__ void "
#define CONFIG	 "(::gpusim_cuda::configure("

/* Both texts are compared without blanks. */
static void
squeeze(const char *s, size_t n, char *out, size_t room)
{
	size_t k = 0;

	for (size_t i = 0; i < n && k + 1 < room; i++)
		if (!strchr(" \t\n", s[i]))
			out[k++] = s[i];
	out[k] = '\0';
}

static bool
gives(const char *source, const char *want)
{
	struct buf out = {0};
	struct err err = {0};
	char a[4096], b[4096];
	bool same;
	/* ! in front: not -rdc=true */
	const struct rewrite_how how = {.separate = *source != '!'};

	if (rewrite(source + (*source == '!'), strlen(source) - (*source == '!'), "x.cu", &how,
		    &out, &err) != RC_OK) {
		printf("#   '%s': %s\n", source, err.text);
		buf_fini(&out);
		return false;
	}
	squeeze(out.data, out.len, a, sizeof a);
	squeeze(want, strlen(want), b, sizeof b);
	same = strcmp(a, b) == 0;
	if (!same)
		printf("#   '%s'\n gave '%s'\n not  '%s'\n", source, a, b);
	buf_fini(&out);
	return same;
}

static bool
contains(const char *source, const char *part)
{
	struct buf out = {0};
	struct err err = {0};
	const struct rewrite_how how = {.separate = *source != '!'};
	bool good = rewrite(source, strlen(source), "x.cu", &how, &out, &err) == RC_OK &&
		    memmem(out.data, out.len, part, strlen(part));

	if (!good)
		printf("#   '%s' gave '%.*s' %s, without '%s'\n", source, (int)out.len,
		       out.data ? out.data : "", err.text, part);
	buf_fini(&out);
	return good;
}

static bool
refuses(const char *source, const char *sentence)
{
	struct buf out = {0};
	struct err err = {0};
	const struct rewrite_how how = {.separate = *source != '!'};
	bool good = rewrite(source, strlen(source), "x.cu", &how, &out, &err) == RC_BADDATA &&
		    strstr(err.text, sentence);

	if (!good)
		printf("#   '%s' gave '%s', not '%s'\n", source, err.text, sentence);
	buf_fini(&out);
	return good;
}

struct pair {
	const char *source, *want;
};

static void
check(const struct pair *v, size_t n, bool (*as)(const char *, const char *), const char *name)
{
	size_t good = 0;

	for (size_t i = 0; i < n; i++)
		good += as(v[i].source, v[i].want);
	ok(good == n, "%s: %zu cases", name, n);
}

static const struct pair launches[] = {
    {"k<<<1,2>>>(a);", CONFIG "1,2),k(a));"},
    {"k<T, 3><<<g, b, s, st>>>(a, f(b));", CONFIG "g,b,s,st),k<T,3>(a,f(b)));"},
    {"ns::k<a<b<int>>><<<1,2>>>();", CONFIG "1,2),ns::k<a<b<int>>>());"},
    {"return ::k<<<1,2>>>();", "return" CONFIG "1,2),::k());"},
    {"if (x) k<<<1,2>>>(); else p->fn[i]<<<3,4>>>();",
     "if (x) " CONFIG "1,2),k()); else " CONFIG "3,4),p->fn[i]());"},
    {"(c ? a : b)<<<1,2>>>(x);", CONFIG "1,2),(c ? a : b)(x));"},
    {"get(i)<<<1,2>>>(x);", CONFIG "1,2),get(i)(x));"},
    {"k<<<(n + 255) / 256, 256>>>(x);", CONFIG "(n + 255) / 256, 256),k(x));"},
    {"k<<<dim3(1, a >> 2), (f<g<h<int>>>(1))>>>(x);",
     CONFIG "dim3(1, a >> 2), (f<g<h<int>>>(1))),k(x));"},
    {"k<<<1,1>>>(h<<<2,2>>>());", CONFIG "1,1),k(" CONFIG "2,2),h())));"},
    {"o.template k<int><<<1,1>>>();", CONFIG "1,1),o.template k<int>());"},
    {"v = a << b; operator<<<int>(x); s = \"k<<<1,2>>>()\"; w = '<<<';",
     "v = a << b; operator<<<int>(x); s = \"k<<<1,2>>>()\"; w = '<<<';"},
    {"R\"x(k<<<1,2>>>())x\" k<<<1,2>>>();", "R\"x(k<<<1,2>>>())x\"" CONFIG "1,2),k());"},
};

#define PLAIN(name) "::gpusim_cuda::plain<decltype(" #name ")>"
#define HEAD(type, self, args)                                                             \
	"if (__builtin_expect(__gpusim_inside != 1, 0)) { if (!__gpusim_inside) "          \
	"::gpusim_cuda::kernel<void (*)(" type "), static_cast<void (*)(" type ")>(&" self \
	")>::launch(" args "); return; }"

static const struct pair kernels[] = {
    {G "k(int *a) { b; }", "void k(int *a) {" HEAD(PLAIN(a), "k", "a") "b; }"},
    {G "k(void) {}", "void k(void) {" HEAD("", "k", "") "}"},
    {"template <typename T, int, class... U> " G "k(T, U... u) {}",
     "template <typename T, int __gpusim_t1, class... U> void k(T __gpusim_p0, U... u) {" HEAD(
	 PLAIN(__gpusim_p0) ", " PLAIN(u) "...", "k<T, __gpusim_t1, U...>",
	 "__gpusim_p0, u...") "}"},
    {"template <> " G "k<float>(const float *__restrict__ p = nullptr) {}",
     "template <> void k<float>(const float *__restrict__ p = nullptr) {" HEAD(PLAIN(p), "k<float>",
									       "p") "}"},
    {"template <class T, typename = std::enable_if_t<(sizeof(T) > 2)>, bool = true> " G
     "k(T a[4], void (*f)(int), std::pair<int, T> q) {}",
     "template <class T, typename __gpusim_t1 = std::enable_if_t<(sizeof(T) > 2)>, bool "
     "__gpusim_t2 = true> void k(T a[4], void (*f)(int), std::pair<int, T> q) {" HEAD(
	 PLAIN(a) ", " PLAIN(f) ", " PLAIN(q), "k<T, __gpusim_t1, __gpusim_t2>", "a, f, q") "}"},
    {"static " G "__attribute__((aligned(4))) k(struct s v, unsigned long n, A::B<int>::C) {}",
     "static void __attribute__((aligned(4))) k(struct s v, unsigned long n, A::B<int>::C "
     "__gpusim_p2) {" HEAD(PLAIN(v) ", " PLAIN(n) ", " PLAIN(__gpusim_p2), "k",
			   "v, n, __gpusim_p2") "}"},
    {G "k(int a);", "void k(int a);"},
    {"template " G "k<int>(int *);", "template void k<int>(int *);"},
};

#define SECTION "__attribute__((section(\"gpusim_device\")))"

static const struct pair marks[] = {
    {"__gpusim_device__ int x;", SECTION "int x;"},
    {"__gpusim_constant__ float c[4] = {1};", SECTION "float c[4] = {1};"},
    {"static __gpusim_device__ const char *p = \"a\";", "static " SECTION "const char *p = \"a\";"},
    {"__gpusim_device__ const int t[2] = {1, 2};", "const int t[2] = {1, 2};"},
    {"__gpusim_device__ constexpr int n = 2;", "constexpr int n = 2;"},
    {"__gpusim_device__ __gpusim_host__ int f(int a = 1) { return a; }",
     "int f(int a = 1) { return a; }"},
    {"struct s { __gpusim_device__ bool operator=(int); __gpusim_device__ s() : a{1} {} int a; };",
     "struct s { bool operator=(int); s() : a{1} {} int a; };"},
    {"template <class T> __gpusim_device__ std::pair<T, int> f();",
     "template <class T> std::pair<T, int> f();"},
    {"auto l = [=] __gpusim_device__ (int i) { return i; };",
     "auto l = [=] (int i) { return i; };"},
    {"void f() { __gpusim_shared__ float a[2]; static __gpusim_shared__ int b; }",
     "void f() { static thread_local float a[2]; static thread_local int b; }"},
    {"void f() { __gpusim_shared__ alignas(16) float a[2]; }",
     "void f() { alignas(16) static thread_local float a[2]; }"},
    {"void f() { extern __gpusim_shared__ __attribute__((aligned(16))) char s[]; }",
     "void f() { __attribute__((aligned(16))) char (*const s) = ::gpusim_cuda::dynamic_shared(); "
     "}"},
    {"extern __gpusim_shared__ int s[][8];",
     "static thread_local int (*const &s) [8] = ::gpusim_cuda::dynamic_shared();"},
    {"__gpusim_noinline__ int f(); int g() __attribute__((__gpusim_noinline__));",
     "__attribute__((__noinline__)) int f(); int g() __attribute__((__noinline__));"},
    {"__gpusim_host__ __gpusim_device__ long f() { return clock() + a.clock(); } long g() { return "
     "clock(); }",
     "long f() { return ::gpusim_cuda::clock() + a.clock(); } long g() { return clock(); }"},
    {"#pragma unroll 4\nint a;\n#pragma once\n", "int a; #pragma once"},
    {"void f() { g(a ? 0 : __assert_fail(1)); } extern \"C\" { void __assert_fail(int); }",
     "void f() { g(a ? 0 : __gpusim_assert_fail(1)); } extern \"C\" { void __assert_fail(int); }"},
};

#define DEVICE "__gpusim_device__ void f() { "
#define PTX    "::gpusim_cuda::ptx_"

static const struct pair ptx[] = {
    {DEVICE
     "asm volatile(\"red.global.add.u64 [%0],%1;\" :: \"l\"(p), \"l\"(g(v, 1)) : \"memory\"); }",
     "void f() { " PTX "red_add<unsigned long long>((unsigned long long)(p), (g(v, 1))); }"},
    {DEVICE "asm(\"mov.u32 %0, %%laneid;\" : \"=r\"(x)); }",
     "void f() { " PTX "mov<unsigned>((x), " PTX "reg_laneid()); }"},
    {DEVICE "asm(\"ld.global.v2.f32 {%0,%1}, [%2+8];\" : \"=f\"(a), \"=f\"(b) : \"l\"(p)); }",
     "void f() { " PTX "ld<float>((unsigned long long)(p) + 8, (a), (b)); }"},
    {DEVICE "asm(\"membar.gl;\\n\\t\" \"shl.b32 %0, %1, 0x1f;\" : \"=r\"(a) : \"r\"(b)); }",
     "void f() { " PTX "membar(), " PTX "shl<unsigned>((a), (b), 0x1f); }"},
    {DEVICE "asm volatile(\"\" ::: \"memory\"); }", "void f() { " PTX "fence(); }"},
    {"void f() { asm volatile(\"pause\"); }", "void f() { asm volatile(\"pause\"); }"},
    {"__gpusim_host__ __gpusim_device__ void f() { asm(\"pause\"); asm(\"trap;\"); }",
     "void f() { asm(\"pause\"); " PTX "trap(); }"},
    {DEVICE "asm(\"add.u32 %0, %1;\" : \"=r\"(a) : \"r\"(b)); }",
     "void f() { do { void __gpusim_ptx_10() __attribute__((error(\"PTX is not simulated: 'add.u32 "
     "%0, %1;'\"))); "
     "__gpusim_ptx_10(); } while (0); }"},
    {DEVICE "asm(\"mma.x %0;\" : \"=r\"(a)); }",
     "void f() { do { void __gpusim_ptx_10() __attribute__((error(\"PTX is not simulated: 'mma.x "
     "%0;'\"))); "
     "__gpusim_ptx_10(); } while (0); }"},
};

/* Without -rdc=true. */
static const struct pair whole[] = {
    {"!__gpusim_device__ int x;",
     "static __attribute__((unused, section(\"gpusim_device\"))) int x;"},
    {"!__gpusim_device__ float f(int a) {}", "static __attribute__((unused)) float f(int a) {}"},
    {"!__gpusim_device__ float s::f(int a) {}", "float s::f(int a) {}"},
    {"!__gpusim_device__ s operator+(s a, s b);",
     "static __attribute__((unused)) s operator+(s a, s b);"},
    {"!__gpusim_device__ inline float f(int a) {}", "inline float f(int a) {}"},
    {"!__gpusim_device__ __gpusim_host__ float f();", "float f();"},
    {"!extern __gpusim_device__ int x; __gpusim_device__ int x = 3;",
     "extern " SECTION " int x; " SECTION " int x = 3;"},
    {"!struct s { __gpusim_device__ int f(); };", "struct s { int f(); };"},
    {"!__gpusim_managed__ __gpusim_device__ int x = 3, y[2]; int z;",
     "static int __gpusim_initial_x = 3, __gpusim_initial_y[2]; static auto &x = "
     "::gpusim_cuda::managed(__gpusim_initial_x); "
     "static auto &y = ::gpusim_cuda::managed(__gpusim_initial_y); int z;"},
};

static const struct pair refused[] = {
    {"void f() { static __gpusim_managed__ int x; }", "x.cu:1: error: __managed__"},
    {"__gpusim_device__ void f() { k<<<1, 1>>>(); }", "x.cu:1: error: launches from kernels"},
    {"cudaTextureObject_t t;", "x.cu:1: error: textures"},
    {"= <<<1,2>>>();", "x.cu:1: error: <<< has no kernel before it"},
    {"k<<<1,2>> (a);", "x.cu:1: error: <<< has no >>>("},
    {"k<<<1,2>>>(a;", "are not closed"},
    {"\n\n\"abc\n", "x.cu:3: error: unterminated string"},
    {"/* x", "x.cu:1: error: unterminated comment"},
    {"R\"a(b)\"", "unterminated raw string"},
    {"__gpusim_global__ int x;", "__global__ must mark a function"},
    {"void f() { extern __gpusim_shared__ int x; }", "needs an array"},
};

/* Line numbers are kept: the compiler's messages name the user's lines. */
static void
test_lines(void)
{
	const char *s =
	    "# 1 \"a.cu\"\n" G "k(int a,\n  int b)\n{\n}\nint main()\n{\n  k<<<1,\n 2>>>(3,\n"
	    " 4);\n}\n";
	struct buf out = {0};
	struct err err = {0};
	unsigned in = 0, lines = 0;

	rewrite(s, strlen(s), "x.cu", &(struct rewrite_how){0}, &out, &err);
	for (const char *c = s; *c; c++)
		in += *c == '\n';
	for (size_t i = 0; i < out.len; i++)
		lines += out.data[i] == '\n';
	ok(in == lines, "a source keeps its lines: %u of %u", lines, in);
	ok(contains(s, "{ if (__builtin_expect(") || contains(s, "{ if"),
	   "a kernel's head stands on its brace's line");
	buf_fini(&out);
}

int
main(void)
{
	check(launches, COUNT(launches), gives, "launches");
	check(kernels, COUNT(kernels), gives, "kernels");
	check(marks, COUNT(marks), gives, "marks and variables");
	check(ptx, COUNT(ptx), gives, "PTX by name");
	check(whole, COUNT(whole), gives, "what belongs to its file");
	check(refused, COUNT(refused), refuses, "refusals with file and line");
	test_lines();
	return tap_done();
}
