/*
 * gpusim_cuda.h - kernels: the interface between bin/nvcc's output and libcudart.so.12. Programs do not
 * include it directly.
 *
 * A kernel is one function with two lives. In the program __gpusim_inside is 0, and a call of it enqueues a
 * launch. In the helper process it is 1, and a call is one thread of a block; or it is
 * 2, and a call is the part that runs once a block, for all its threads.
 */
#ifndef GPUSIM_CUDA_H
#define GPUSIM_CUDA_H

#include "cuda_runtime_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel's record, one for each function and instance of a template. Lives as long as its module. */
struct __gpusim_kernel {
	void (*run)(void *const *args);	     /* one thread; args[i] points to parameter i */
	const struct __gpusim_param *params; /* each one's size */
	unsigned nparams;
	/* for the runtime */
	const void *function; /* its address, as cudaLaunchKernel gets it */
	const char *name;     /* text with the name, as the compiler writes it */
	struct __gpusim_kernel *next;
	unsigned long number;	/* of its registration, from 1 */
	int max_dynamic_shared; /* cudaFuncSetAttribute; 0: the default */
	unsigned flags;		/* GPUSIM_KERNEL_BLOCK; 0 in programs that an older nvcc compiled */
};

/* The kernel has a part that runs once a block, for all its threads. */
#define GPUSIM_KERNEL_BLOCK 1u

struct __gpusim_param {
	unsigned nbytes, align;
};

/* Register a kernel. Returns 1. */
int __gpusim_register(struct __gpusim_kernel *k, const void *function, const char *name);

/* Register the __device__ and __constant__ variables of a module, in [begin, end). Returns 1. */
int __gpusim_register_data(void *begin, void *end);

/* callee<<<grid, block, shared, stream>>>: keep it for the launch that follows in this thread. */
void __gpusim_configure(const unsigned grid[3], const unsigned block[3], size_t shared,
			cudaStream_t stream);
void __gpusim_launch(struct __gpusim_kernel *k, int registered, void **args);

/*
 * Of this thread: it runs kernels. Thread-local, because a program would get a copy of a plain variable.
 * Neither this nor what kernels read below has a model: programs use the fast one anyway, and a library
 * with initial-exec could not be loaded late, as Python does.
 */
extern __thread int __gpusim_inside;

/* Of this thread: the part of a kernel for all threads of a block, and what it leaves to single threads. */
struct __gpusim_state {
	int done;	      /* nothing */
	unsigned long rounds; /* of the kernel's loop, which the part has run for all threads */
	void *slots;	      /* the threads' variables after them */
};
extern __thread struct __gpusim_state __gpusim_state;

/* In a kernel. */
unsigned __gpusim_barrier(int predicate,
			  unsigned *trues); /* of the block; returns how many took part */
unsigned long long __gpusim_warp(int op, unsigned mask, unsigned long long value, unsigned arg);
void *__gpusim_slots(
    unsigned n); /* for n variables of each thread, of at most 16 bytes; NULL: out of memory */
void __gpusim_nanosleep(unsigned ns);

/*
 * Of a cooperative launch, whose blocks are all resident: wait until every live thread of the grid is here. In a
 * kernel that was launched otherwise it ends the kernel with cudaErrorLaunchFailure and a sentence.
 */
void __gpusim_grid_barrier(void);
int __gpusim_grid_is_cooperative(void); /* 1: cudaLaunchCooperativeKernel began this grid */

void *__gpusim_dynamic_shared(void);
void __gpusim_trap(void) __attribute__((noreturn));
void __gpusim_assert_fail(const char *text, const char *file, unsigned line, const char *function)
    __attribute__((noreturn));

/* Operations among the threads of a warp; `mask` of those that take part. */
enum {
	GPUSIM_WARP_SYNC,
	GPUSIM_WARP_SHFL, /* arg: the lane to read from; one that does not take part: the own value */
	GPUSIM_WARP_BALLOT,
	GPUSIM_WARP_ACTIVE,    /* mask of the present lanes */
	GPUSIM_WARP_MATCH,     /* lanes with the same value */
	GPUSIM_WARP_MATCH_ALL, /* the mask if all values are the same, else 0 */
	GPUSIM_WARP_ADD,
	GPUSIM_WARP_MIN, /* signed */
	GPUSIM_WARP_MAX,
	GPUSIM_WARP_UMIN,
	GPUSIM_WARP_UMAX,
	GPUSIM_WARP_AND,
	GPUSIM_WARP_OR,
	GPUSIM_WARP_XOR,
};

#ifdef __cplusplus
}
#endif

#ifdef __GPUSIM_NVCC__

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>
#include <utility>

extern __thread const uint3 threadIdx __asm__("__gpusim_thread_idx");
extern __thread const uint3 blockIdx __asm__("__gpusim_block_idx");
extern __thread const dim3 blockDim __asm__("__gpusim_block_dim");
extern __thread const dim3 gridDim __asm__("__gpusim_grid_dim");
static constexpr int warpSize = 32;

namespace gpusim_cuda
{

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
static const cudaStream_t default_stream = cudaStreamPerThread;
#else
static constexpr cudaStream_t default_stream = nullptr;
#endif

inline void
configure(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = default_stream)
{
	const unsigned g[3] = {grid.x, grid.y, grid.z}, b[3] = {block.x, block.y, block.z};

	if (__gpusim_inside)
		__gpusim_assert_fail("launches from kernels are not simulated", "<<<", 0, ">>>");
	__gpusim_configure(g, b, shared, stream ? stream : default_stream);
}

/* The type of a parameter in its function's type, where decltype keeps __restrict__. */
template <class T> struct plain_type {
	typedef T type;
};
template <class T> struct plain_type<T *__restrict__> {
	typedef T *type;
};
template <class T> struct plain_type<T *const __restrict__> {
	typedef T *type;
};
template <class T> using plain = typename plain_type<T>::type;

/* The memory of a __managed__ variable, with its initial value. Without devices, where no kernel can run, it is the
 * program's own. */
template <class T>
inline T &
managed(T &initial)
{
	void *p = nullptr;
	cudaError_t e = ::cudaMallocManaged(&p, sizeof initial, cudaMemAttachGlobal);

	static_assert(std::is_trivially_copyable<T>::value, "__managed__ variables are copied");
	if (e == cudaErrorNoDevice)
		return initial;
	if (e != cudaSuccess) {
		fprintf(stderr, "gpusim: memory of a __managed__ variable: %s\n",
			cudaGetErrorString(e));
		exit(1);
	}
	memcpy(p, static_cast<const void *>(&initial), sizeof initial);
	return *static_cast<T *>(p);
}

/* Thrown by a thread that ends before its kernel's end. */
struct thread_exit {
};

/* The record of a kernel f, whose type is F. */
template <class F, F f, unsigned flags = 0> struct kernel;

template <class... P, void (*f)(P...), unsigned flags> struct kernel<void (*)(P...), f, flags> {
	static constexpr __gpusim_param params[sizeof...(P) + 1] = {
	    {(unsigned)sizeof(P), (unsigned)alignof(P)}..., {0, 0}};
	static __gpusim_kernel record;
	static const int registered;

	template <size_t... I>
	static void
	call(void *const *args, std::index_sequence<I...>)
	{
		(void)args;
		try {
			f(*static_cast<std::remove_cv_t<std::remove_reference_t<P>> *>(args[I])...);
		} catch (const thread_exit &) {
		}
	}

	static void
	run(void *const *args)
	{
		call(args, std::index_sequence_for<P...>());
	}

	static const char *
	name()
	{
		return __PRETTY_FUNCTION__;
	}

	/* A: P, or restricted. */
	template <class... A>
	static __attribute__((noinline, cold)) void
	launch(A &...p)
	{
		void *args[] = {
		    const_cast<void *>(static_cast<const volatile void *>(std::addressof(p)))...,
		    nullptr};

		__gpusim_launch(&record, registered, args);
	}
};

template <class... P, void (*f)(P...), unsigned flags>
__gpusim_kernel kernel<void (*)(P...), f, flags>::record = {
    run, params, (unsigned)sizeof...(P), nullptr, nullptr, nullptr, 0, 0, flags};
template <class... P, void (*f)(P...), unsigned flags>
const int kernel<void (*)(P...), f, flags>::registered =
    __gpusim_register(&record, reinterpret_cast<const void *>(f), name());

#ifdef __clang__
struct __gpusim_clang__; /* a word for the rewriter */
#endif

/* The indices of a thread that a loop runs. */
struct indices {
	uint3 block;
	dim3 size, grid;

	indices() : block(::blockIdx), size(::blockDim), grid(::gridDim)
	{
	}
};

template <class F>
inline __attribute__((always_inline)) void
one_thread(const F &body, const uint3 thread, const indices &in)
{
	F own(body); /* each thread has its own parameters */

	own(thread, in.block, in.size, in.grid);
}

template <class F>
__attribute__((noinline, cold)) void
run_thread(const F &body, const uint3 thread)
{
	one_thread(body, thread, indices());
}

/* The compiler may take for granted that indices do not wrap; so it can use the processor's vectors. */
inline __attribute__((always_inline)) bool
is_narrow(const dim3 &size, const dim3 &grid)
{
	return (unsigned long)size.x * grid.x <= 0x7ffffbff && size.x <= 1024 && size.y <= 1024 &&
	       size.z <= 64;
}

/* Call a kernel's body for all threads of a block, or for the thread that runs. */
template <class F>
inline __attribute__((always_inline)) void
each_thread(const F &body)
{
	const indices in;

	if (__gpusim_inside != 2) {
		run_thread(body, ::threadIdx);
		return;
	}
	__gpusim_state.done = 1;
	if (!is_narrow(in.size, in.grid)) {
		for (unsigned z = 0; z < in.size.z; z++)
			for (unsigned y = 0; y < in.size.y; y++)
				for (unsigned x = 0; x < in.size.x; x++)
					run_thread(body, uint3{x, y, z});
		return;
	}
	if (in.block.x * in.size.x > 0x7ffffbff)
		__builtin_unreachable();
	for (unsigned z = 0; z < in.size.z; z++)
		for (unsigned y = 0; y < in.size.y; y++)
			for (unsigned x = 0; x < in.size.x; x++)
				one_thread(body, uint3{x, y, z}, in);
}

/* ---- strided loops in rounds: round m is step m of every thread */

inline unsigned
number_of(const uint3 thread, const dim3 size)
{
	return (thread.z * size.y + thread.y) * size.x + thread.x;
}

/* A loop's variable after some steps; it wraps as after single ones. */
template <class T, class S>
inline T
advance(T from, unsigned long steps, S step)
{
	return static_cast<T>(from + static_cast<T>(steps) * static_cast<T>(step));
}

/* Variable n of a thread, between rounds. */
template <class T>
inline void
put(void *slots, unsigned long thread, const T &v, unsigned n)
{
	(reinterpret_cast<T *>(static_cast<char *>(slots) + n * 16384))[thread] = v;
}

template <class T>
inline void
get(void *slots, unsigned long thread, T &v, unsigned n)
{
	v = (reinterpret_cast<T *>(static_cast<char *>(slots) + n * 16384))[thread];
}

/* What the threads of a block note about a round. */
struct rounds {
	void *slots;
	bool all, any; /* threads whose loops go on */
	bool numbers;  /* the variables are */
	long first;    /* the loop's variable of thread 0 */
	bool in_row;   /* thread n has first + n, and nothing wraps */

	template <class T>
	void
	note(bool more, T i, unsigned long thread)
	{
		all &= more;
		any |= more;
		if (thread == 0) {
			first = static_cast<long>(i);
			in_row = i <= std::numeric_limits<T>::max() - 1024;
		}
		in_row &= static_cast<long>(i) == first + static_cast<long>(thread);
	}
};

/* Of what stands before the loop only numbers and pointers are sure to be what they seem. */
template <class T>
inline void
must_be_scalar(rounds &r, const T &)
{
	r.numbers &= std::is_scalar<T>::value;
}

template <class T>
inline void
put_first(rounds &r, unsigned long thread, const T &v, unsigned n)
{
	if constexpr (std::is_arithmetic<T>::value)
		put(r.slots, thread, v, n);
	else
		r.numbers = false;
}

/* The loop's variable of a thread, if all are in a row. */
template <class T>
inline T
in_row(const rounds &r, const uint3 thread)
{
	const T first = static_cast<T>(r.first);

	if (first > std::numeric_limits<T>::max() - 1024)
		__builtin_unreachable();
	return static_cast<T>(first + static_cast<T>(thread.x));
}

enum { ROUND_BEGIN, ROUND_NOTE, ROUND_STEP, ROUND_STEP_IN_ROW };

template <int how, class F>
inline __attribute__((always_inline)) void
round_of(const F &part, unsigned long round, rounds &r, unsigned long n, const uint3 thread,
	 const indices &in)
{
	F own(part);

	own(std::integral_constant<int, how>(), round, r, n, thread, in.block, in.size, in.grid);
}

template <int how, class F>
inline __attribute__((always_inline)) void
one_round(const F &part, unsigned long round, rounds &r, const indices &in)
{
	unsigned long n = 0;

	for (unsigned z = 0; z < in.size.z; z++)
		for (unsigned y = 0; y < in.size.y; y++, n += in.size.x)
			for (unsigned x = 0; x < in.size.x; x++)
				round_of<how>(part, round, r, n + x, uint3{x, y, z}, in);
}

/* The first and the last thread of a row answer for all: the condition is that the variable is below a bound. */
template <class F>
inline void
note_ends(const F &part, unsigned long round, rounds &r, const indices &in)
{
	round_of<ROUND_NOTE>(part, round, r, 0, uint3{0, 0, 0}, in);
	round_of<ROUND_NOTE>(part, round, r, in.size.x - 1, uint3{in.size.x - 1, 0, 0}, in);
}

/*
 * Run rounds of a loop while all threads go on.
 *
 *	n	variables that it changes
 *	bound	its condition is a bound of its variable, the same for all threads
 *	ends	nothing follows it
 */
template <unsigned n, bool bound, class F>
inline void
run_rounds(const F &part, bool ends)
{
	const indices in;
	rounds r = {n ? __gpusim_slots(n) : nullptr, true, false, true, 0, true};
	unsigned long round = 0;
	bool row = in.size.y == 1 && in.size.z == 1;

	__gpusim_state.rounds = 0;
	__gpusim_state.slots = nullptr;
	if (!is_narrow(in.size, in.grid) || (n && !r.slots))
		return;
	if (in.block.x * in.size.x > 0x7ffffbff)
		__builtin_unreachable();
	if (n)
		one_round<ROUND_BEGIN>(part, 0, r, in);
	else
		round_of<ROUND_BEGIN>(part, 0, r, 0, uint3{0, 0, 0}, in);
	if (!r.numbers)
		return;
	for (;; round++) {
		r.all = true;
		r.any = false;
		if (bound && row && round > 0)
			note_ends(part, round, r, in);
		else
			one_round<ROUND_NOTE>(part, round, r, in);
		row = row && r.in_row;
		if (!r.all)
			break;
		if (row)
			for (unsigned x = 0; x < in.size.x; x++)
				round_of<ROUND_STEP_IN_ROW>(part, round, r, x, uint3{x, 0, 0}, in);
		else
			one_round<ROUND_STEP>(part, round, r, in);
	}
	__gpusim_state.rounds = round;
	__gpusim_state.slots = r.slots;
	if (ends && !r.any)
		__gpusim_state.done = 1;
}

/* A block's dynamic shared memory, as a pointer to anything. */
struct shared_memory {
	template <class T>
	operator T *() const
	{
		return static_cast<T *>(__gpusim_dynamic_shared());
	}
};

inline shared_memory
dynamic_shared()
{
	return {};
}

extern "C" __attribute__((weak, visibility("hidden"))) char __start_gpusim_device[];
extern "C" __attribute__((weak, visibility("hidden"))) char __stop_gpusim_device[];

static const int data_registered =
    __start_gpusim_device ? __gpusim_register_data(__start_gpusim_device, __stop_gpusim_device) : 0;

} // namespace gpusim_cuda

#endif
#endif
