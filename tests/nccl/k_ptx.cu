/* PTX in asm statements: instructions, registers, memory, and a function with an unknown one that nobody calls. */
#include <cuda_runtime.h>

#include "cu.h"

template <class T>
__device__ T
unused_template(T x)
{
	asm volatile("frobnicate.sync.aligned.u32 %0, %1;" : "=r"(x) : "r"(x));
	return x;
}

static __device__ unsigned
unused(unsigned x)
{
	asm("{ .reg .pred p; setp.ne.u32 p, %1, 0; selp.u32 %0, 1, 2, p; }" : "=r"(x) : "r"(x));
	return x;
}

__host__ __device__ inline unsigned
both_sides(unsigned x)
{
	asm("brev.b32 %0, %1;" : "=r"(x) : "r"(x));
	return x;
}

#define INT(r, text, ...) asm volatile(text : "=r"(r) : __VA_ARGS__)

__global__ void
instructions(unsigned *out, float *f, unsigned long long *wide)
{
	unsigned a = 0xf0f0f0f1, b = 0x12345678;
	int negative = -20;
	float x = 1.5f;

	INT(out[0], "add.u32 %0, %1, %2;", "r"(a), "r"(b));
	INT(out[1], "mul.hi.u32 \t%0,%1,%2;", "r"(a), "r"(b));
	INT(out[2], "mad.lo.s32 %0, %1, 3, %2;", "r"(negative), "r"(b));
	INT(out[3], "bfe.u32 %0, %1, 4, 8;", "r"(b));
	INT(out[4], "bfe.s32 %0, %1, 28, 4;", "r"(a));
	INT(out[5], "bfi.b32 %0, %1, %2, 8, 4;", "r"(a), "r"(b));
	INT(out[6], "prmt.b32 %0, %1, %2, 0x7531;", "r"(a), "r"(b));
	INT(out[7], "lop3.b32 %0, %1, %2, %3, 0x96;", "r"(a), "r"(b), "r"(0xff));
	INT(out[8], "bfind.u32 %0, %1;", "r"(b));
	INT(out[9], "bfind.u32 %0, %1;", "r"(0));
	INT(out[10], "shr.s32 %0, %1, 40;", "r"(negative));
	INT(out[11], "shl.b32 %0, %1, 32;", "r"(a));
	INT(out[12], "vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;", "r"(0x01020304), "r"(0x04030201), "r"(100));
	INT(out[13], "popc.b32 %0, %1;", "r"(a));
	INT(out[14], "mov.b32 %0, %1;", "f"(x));
	INT(out[15], "min.s32 %0, %1, 5;", "r"(negative));
	asm("fma.rn.f32 %0, %1, %1, %2;" : "=f"(f[0]) : "f"(x), "f"(0.25f));
	asm("mul.wide.u32 %0, %1, %2;" : "=l"(wide[0]) : "r"(a), "r"(b));
	asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(f + 2), "f"(x), "f"(3.0f) : "memory");
	asm volatile("ld.global.cs.f32 %0, [%1+4];" : "=f"(f[1]) : "l"(f + 2));
	asm volatile("membar.gl; red.global.add.u64 [%0], %1;" ::"l"(wide + 1), "l"(5ull) : "memory");
	asm volatile("atom.global.cas.b32 %0, [%1], %2, %3;" : "=r"(out[16]) : "l"(out + 17), "r"(7), "r"(8));
	out[18] = both_sides(1);
}

__global__ void
lanes(unsigned *out)
{
	unsigned lane, below, other, votes, tid;

	asm("mov.u32 %0, %%laneid;" : "=r"(lane));
	asm("mov.u32 %0, %lanemask_lt;" : "=r"(below));
	asm("mov.u32 %0, %%tid.x;" : "=r"(tid));
	asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 0x1f, 0xffffffff;" : "=r"(other) : "r"(lane));
	asm volatile("shfl.sync.up.b32 %0, %1, 2, 0, 0xffffffff;" : "=r"(votes) : "r"(lane));
	asm volatile("bar.sync 0;");
	out[tid] = lane + 100 * other + 10000 * votes + 1000000 * (unsigned)__popc(below);
}

int
main()
{
	unsigned *out, *by_lane;
	float *f;
	unsigned long long *wide;
	const unsigned want[] = {0xf0f0f0f1 + 0x12345678,
				 (unsigned)(0xf0f0f0f1ull * 0x12345678 >> 32),
				 (unsigned)(-60 + 0x12345678),
				 0x67,
				 0xffffffff,
				 0x12345178,
				 0x1256f0f0,
				 0xf0f0f0f1 ^ 0x12345678 ^ 0xff,
				 28,
				 0xffffffff,
				 0xffffffff,
				 0,
				 108,
				 17,
				 0x3fc00000,
				 (unsigned)-20,
				 7,
				 8,
				 0x80000000};

	CU(cudaMallocManaged(&out, sizeof want));
	CU(cudaMallocManaged(&by_lane, 64 * sizeof *by_lane));
	CU(cudaMallocManaged(&f, 4 * sizeof *f));
	CU(cudaMallocManaged(&wide, 2 * sizeof *wide));
	wide[1] = 1;
	out[17] = 7;
	instructions<<<1, 1>>>(out, f, wide);
	lanes<<<1, 64>>>(by_lane);
	CU(cudaDeviceSynchronize());
	for (unsigned i = 0; i < sizeof want / sizeof *want; i++)
		if (out[i] != want[i])
			printf("instruction %u: %x, not %x\n", i, out[i], want[i]);
	CHECK(f[0] == 2.5f && f[1] == 3 && f[2] == 1.5f && f[3] == 3);
	CHECK(wide[0] == 0xf0f0f0f1ull * 0x12345678 && wide[1] == 6);
	for (unsigned i = 0; i < 64; i++) {
		unsigned lane = i % 32;

		CHECK(by_lane[i] == lane + 100 * (lane ^ 1) + 10000 * (lane < 2 ? lane : lane - 2) + 1000000 * lane);
	}
	puts("by table");
}
