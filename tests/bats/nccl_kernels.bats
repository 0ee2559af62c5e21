# Kernels: .cu programs of tests/nccl, compiled by bin/nvcc, and what nvcc refuses.
load nccl

setup() {
	nccl_setup
	need_cuda
	NVCC=$NCCL_HOME_HERE/bin/nvcc
}

@test "kernels run in order with copies and each other, in every form of a launch" {
	run nccl 1 k_order
	assert_status 0
	assert_output 'in order'
}

@test "threads work together: barriers, shared memory, warps, atomics, variables" {
	run nccl 1 k_threads
	assert_status 0
	assert_output 'together'
}

@test "cooperative groups: blocks, tiles, coalesced threads, partitions, reductions, scans" {
	run nccl 1 k_groups
	assert_status 0
	assert_output 'grouped'
}

# with_header HEADER PROGRAM - compile and run tests/nccl/cub/PROGRAM.cu; skip where Debian's package is not installed
with_header() {
	[ -e "/usr/include/$1" ] || skip "no $1: install libcub-dev and libthrust-dev"
	LIMIT=120
	bounded "$NVCC" -o "$2" "$BATS_TEST_DIRNAME/../nccl/cub/$2.cu"
	PROGRAMS=$PWD
	run nccl 1 "$2"
	assert_status 0
}

@test "cub: warps, blocks and devices reduce, scan, sort, select and count" {
	with_header cub/cub.cuh k_cub
	assert_output 'reduced, scanned, sorted'
}

@test "thrust: vectors that kernels use, and algorithms on the device" {
	with_header thrust/device_vector.h k_thrust
	assert_output 'thrust'
}

@test "kernels are C++ with CUDA's names; threads launch on two devices at once" {
	run nccl 2 k_language
	assert_status 0
	assert_output 'as written'
}

@test "parameters of kernels may be restricted pointers, in all spellings" {
	run nccl 1 k_restrict
	assert_status 0
	assert_output 'unaliased'
}

@test "headers have what programs test for; arithmetic rounds up, down and to zero" {
	run nccl 1 k_headers
	assert_status 0
	assert_output 'as named'
}

@test "kernels and functions of a device have __CUDA_ARCH__, the program does not" {
	run nccl 1 k_arch
	assert_status 0
	assert_output 'for a device'
}

@test "__managed__ variables belong to the program and to kernels of all devices" {
	run nccl 2 k_managed
	assert_status 0
	assert_output 'shared'
}

@test "cuda::atomic, cuda::barrier and cuda::pipeline of libcu++" {
	run nccl 1 k_libcu
	assert_status 0
	[[ $output != no* ]] || skip "$output"
	assert_output 'waited'
}

@test "PTX of a table becomes C++; functions that nobody calls may have any" {
	run nccl 1 k_ptx
	assert_status 0
	assert_output 'by table'
}

@test "blocks of a grid wait for each other: cooperative launches, and counts that blocks read" {
	run nccl 1 k_grid
	assert_status 0
	[ "${lines[-1]}" = 'all blocks' ] || { printf '%s\n' "$output" && false; }
	[[ $output == *'grid.sync() in a launch that is not cooperative: use cudaLaunchCooperativeKernel'* ]]
	GPUSIM_TIMEOUT=16s run --separate-stderr nccl 1 k_grid stuck
	((lines[0] > 1))
	assert_equal "${lines[1]}" cudaErrorLaunchTimeout
	[[ $stderr == *'kernel by_hand, block ('*"no block ends: ${lines[0]} run at once, and may wait for others that have not begun"* ]]
}

@test "kernels that run as loops, and loops that run in rounds, give what threads give" {
	local n
	for n in 1 2 5; do
		GPUSIM_THREADS=$n run nccl 1 k_loops
		assert_status 0
		assert_output 'as threads'
	done
	GPUSIM_THREADS=2x run nccl 1 k_loops
	assert_match 'libcudart [(]gpusim[)]: GPUSIM_THREADS: [^'$'\n'']*2x[^'$'\n'']*'$'\n''as threads$'
	run nccl 1 k_loops fault
	[[ $output == *'kernel faults, block (1,0,0) thread (48,0,0): an illegal address, 0x10'* ]]
}

@test "half, bfloat16 and both floats of 8 bits are exact" {
	run nccl 1 k_floats
	assert_status 0
	assert_output 'exact'
}

@test "text of kernels stands between the program's" {
	run nccl 1 k_print
	assert_status 0
	assert_output 'begin
kernel 1 thread 0
kernel 1 thread 1
middle
kernel 2 thread 0
kernel 2 thread 0
kernel 3 thread 0
end'
}

@test "kernels that come by dlopen, kernels in graphs, a program with children of its own" {
	"$NVCC" -shared -Xcompiler -fPIC -DLATE -o late.so "$BATS_TEST_DIRNAME/../nccl/k_late.cu"
	run nccl 1 k_late "$PWD/late.so"
	assert_status 0
	assert_output 'late'
}

# fails WAY RESULT SENTENCE - a kernel fails so, and the program hears why
fails() {
	run nccl 1 k_faults "$1"
	assert_status 0
	[ "${lines[-1]}" = "$2" ] || { printf '%s\n' "$output" && false; }
	[[ $output == *"$3"* ]] || { printf '%s\n' "$output" && false; }
}

@test "a failing kernel reports its error, and a reset recovers" {
	fails null cudaErrorIllegalAddress 'kernel touch, block (0,0,0) thread (0,0,0): an illegal address'
	fails low cudaErrorIllegalAddress 'an illegal address, 0x10'
	fails host cudaErrorIllegalAddress 'parameter 1 points to memory of the program'
	fails overflow cudaErrorIllegalAddress 'kernel overflow'
	fails stuck cudaErrorLaunchFailure 'wait at a barrier'
	fails assert cudaErrorAssert "assertion \`threadIdx.x < n' failed"
	fails trap cudaErrorLaunchFailure '__trap()'
	fails stack cudaErrorIllegalAddress 'its stack of 256 KiB overflowed'
	fails killed cudaErrorLaunchFailure 'the helper process of the device, which runs its kernels, has ended'
}

# refuses LINE SENTENCE SOURCE - nvcc names the user's file and line
refuses() {
	printf '%s\n' "$3" >bad.cu
	run "$NVCC" -c bad.cu -o bad.o
	[ "$status" -ne 0 ]
	[[ $output == *"bad.cu:$1"*"$2"* ]] || { printf '%s\n' "$output" && false; }
	[ ! -e bad.o ]
}

@test "nvcc refuses what cannot be done with file, line and a sentence" {
	refuses 2 'PTX is not simulated: '"'mma.sync %0;'" $'\n__global__ void f(int a) { asm("mma.sync %0;" :: "r"(a)); }'
	refuses 3 'PTX is not simulated' $'__device__ int f(int a) { asm(\n"" ::); \nasm("dp2a %0;" : "=r"(a)); return a; }\n__global__ void k(int *a) { *a = f(*a); }'
	refuses 2 'textures and surfaces are not simulated' $'\nvoid f(cudaTextureObject_t t);'
	refuses 3 'launches from kernels (dynamic parallelism) are not simulated' $'__global__ void a() {}\n__global__ void b() {\na<<<1, 1>>>(); }'
	refuses 2 'groups of several grids are not simulated' \
		$'#include <cooperative_groups.h>\n__global__ void k(int *p) { *p = cooperative_groups::this_multi_grid().size(); }'
	refuses 3 'the driver API (cu*) is not simulated' $'#include <cuda.h>\n#define OK(x) if (x) return\nvoid f() { OK(cuInit(0)); }'
	refuses 1 'cuFFT is not simulated' '#include <cufft.h>'
	refuses 1 "NCCL's device API is not simulated" '#include <nccl_device.h>'
	refuses 2 '__managed__ variables of classes' $'struct s {\nstatic __device__ __managed__ int x; };'
	refuses 3 'unknown_name' $'\n#define RUN(k) k<<<1, 1>>>\n__global__ void k(int a) { a = unknown_name; }'
}

@test "a plain compiler and a linker refuse what is not there, too" {
	printf '%s\n' '#include <cuda.h>' 'int main() { return cuInit(0); }' >driver.cpp
	run g++ -I"$NCCL_HOME_HERE/include" -c driver.cpp
	[ "$status" -ne 0 ]
	assert_match '^driver.cpp:2:.*error: the driver API .cu.. is not simulated'
	printf '%s\n' 'int main() {}' >main.cu
	"$NVCC" main.cu -lcuda -o names_the_driver
	run "$NVCC" main.cu -lcurand -o main
	assert_status 1
	assert_match 'gpusim: the library libcurand.so is not simulated'
}

@test "nvcc takes nvcc's options" {
	run "$NVCC" --version
	[[ $output == *'release 12.4'* ]]
	printf '%s\n' '#include "h.h"' '__global__ void k(int *p) { *p = X; }' 'void f(int *p) { k<<<1, 1>>>(p); }' >a.cu
	printf '%s\n' '#pragma once' >h.h
	printf '%s\n' 'void f(int *); int main() { return 0; }' >b.cpp
	"$NVCC" -ccbin g++ -gencode=arch=compute_90,code=sm_90 -std=c++14 --extended-lambda -O3 -lineinfo \
		-DX=3 -MMD -MF a.d -Xcompiler -Wall,-Werror -c a.cu -o a.o
	grep -q 'a.o:.*a.cu.*h.h' a.d
	"$NVCC" a.o b.cpp -o both -Xlinker -rpath,/nowhere
	./both
	"$NVCC" -shared -Xcompiler -fPIC -DX=4 a.cu -o liba.so
	"$NVCC" -E -DX=55 a.cu | grep -q '= 55'
	run "$NVCC" -M -DX=1 a.cu
	[[ $output == *h.h* ]]
	run "$NVCC" --frob a.cu
	assert_status 2
	assert_output 'nvcc: --frob: unknown option; pass options of the host compiler as -Xcompiler --frob'
	run "$NVCC" -c nowhere.cu
	assert_status 2
	assert_output 'nvcc: nowhere.cu: No such file or directory'
	run "$NVCC" -ccbin /no/compiler -c a.cu
	assert_status 1
	[[ $output == *'/no/compiler: cannot start the host compiler'*'install g++'* ]]
}

@test "kernels: a collective of another stream begins after the kernels that were launched before it" {
	need_cuda
	run nccl 2 k_beside
	assert_status 0
	assert_output 'all is well'
}
