# Building CUDA programs: CMake's two ways, separate compilation, dependencies, a module of Python.
# shellcheck disable=SC2034
load nccl

setup() {
	nccl_setup
	need_cuda
	NVCC=$NCCL_HOME_HERE/bin/nvcc
	export CUDACXX=$NVCC CUDA_PATH=$NCCL_HOME_HERE CUDA_HOME=$NCCL_HOME_HERE
	unset CUDAARCHS CUDAFLAGS CUDAHOSTCXX CC CXX
	LIMIT=60
}

# on_device PROGRAM [ARG...]
on_device() { bounded gpuctl run --nccl -n 1 -- "$@"; }

# with_cmake - configure and build the project here
with_cmake() {
	if ! { cmake -S . -B made && cmake --build made; } >log 2>&1; then
		fail "$(tail -n 30 log)"
	fi
}

# two_files - functions and variables of a device, between files; each has one of its own with the other's name
two_files() {
	cat >shared.h <<-'END'
		extern __device__ int counter;
		extern __constant__ int table[2];
		extern __device__ int twice(int x);
		int ask_b();
	END
	cat >a.cu <<-'END'
		#include <cstdio>
		#include "shared.h"
		static __device__ int own() { return 1; }
		__global__ void use(int *out) { *out = counter + twice(20) + table[1] + own(); counter = 7; }
		int main() {
			int *x, v = 5, read = 0;
			cudaMallocManaged(&x, sizeof *x);
			cudaMemcpyToSymbol(counter, &v, sizeof v);
			use<<<1, 1>>>(x);
			cudaMemcpyFromSymbol(&read, counter, sizeof read);
			std::printf("%d %d %d\n", *x, read, ask_b());
		}
	END
	cat >b.cu <<-'END'
		#include "shared.h"
		__device__ int counter = 3;
		__constant__ int table[2] = {100, 1000};
		__device__ int twice(int x) { return 2 * x; }
		static __device__ int own() { return 2; }
		__global__ void use_b(int *out) { *out = counter + own(); }
		int ask_b() {
			int *x;
			cudaMallocManaged(&x, sizeof *x);
			use_b<<<1, 1>>>(x);
			cudaDeviceSynchronize();
			return *x;
		}
	END
}

@test "separate compilation: -dc, -dlink and -rdc=true; functions and variables of a device between files" {
	two_files
	"$NVCC" -dc a.cu b.cu
	"$NVCC" -dlink a.o b.o -o device.o
	g++ a.o b.o device.o -L"$NCCL_HOME_HERE/lib64" -lcudart_static -lcudadevrt -o linked
	"$NVCC" -rdc=true a.cu b.cu -o whole
	"$NVCC" -lib -o libb.a b.o
	"$NVCC" a.o libb.a -o archive
	for program in linked whole archive; do
		assert_equal "$(on_device ./$program)" '1046 7 9'
	done
}

@test "without -rdc=true a file's functions and variables of a device are its own" {
	for name in a b; do
		cat >$name.cu <<-END
			#include "ask.h"
			__device__ int scale() { return $([ $name = a ] && echo 10 || echo 100); }
			__device__ int last;
			__constant__ int add;
			__global__ void use_$name(int *x) { last += add; *x = scale() * last; }
			int ask_$name() {
				int *x, v = 1;
				cudaMallocManaged(&x, sizeof *x);
				cudaMemcpyToSymbol(add, &v, sizeof v);
				use_$name<<<1, 1>>>(x);
				cudaDeviceSynchronize();
				return *x;
			}
		END
	done
	printf '%s\n' 'int ask_a(), ask_b();' >ask.h
	printf '%s\n' '#include <cstdio>' '#include "ask.h"' 'int main() { int a = ask_a(), c = ask_a(); std::printf("%d %d %d\n", a, c, ask_b()); }' >main.cpp
	"$NVCC" a.cu b.cu main.cpp -o own
	assert_equal "$(on_device ./own)" '10 20 100'
}

@test "dependencies: -M, -MM, -MD with -MF and -MT name the files that a source includes" {
	two_files
	"$NVCC" -MM a.cu >rule
	assert_equal "$(tr -d '\\\n' <rule | xargs)" 'a.o: a.cu shared.h'
	"$NVCC" -M -MT x/y.o a.cu | grep -q '^x/y.o: a.cu'
	"$NVCC" -dc -MD -MF a.d -MT target a.cu -o a.o
	grep -q '^target: a.cu' a.d
	grep -q ' shared.h' a.d
	grep -q 'include/cuda_runtime.h' a.d
	assert_file a.o
}

@test "CMake: project(LANGUAGES CUDA), find_package(CUDAToolkit), a static and a shared library" {
	needs cmake
	two_files
	cat >CMakeLists.txt <<-'END'
		cmake_minimum_required(VERSION 3.20)
		project(two LANGUAGES CXX CUDA)
		find_package(CUDAToolkit 12.0 REQUIRED)
		set(CMAKE_CUDA_STANDARD 17)
		add_library(b STATIC b.cu)
		add_executable(two a.cu)
		target_link_libraries(two PRIVATE b)
		set_target_properties(b two PROPERTIES CUDA_SEPARABLE_COMPILATION ON POSITION_INDEPENDENT_CODE ON)
		add_library(add SHARED add.cu)
		add_executable(host host.cpp)
		target_link_libraries(host PRIVATE add CUDA::cudart)
		message(STATUS "it is ${CMAKE_CUDA_COMPILER_ID} ${CUDAToolkit_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
	END
	cat >add.cu <<-'END'
		__global__ void add(int *x, int n) { atomicAdd(x, n); }
		void add_on_device(int *x, int n) { add<<<1, 4>>>(x, n); }
	END
	cat >host.cpp <<-'END'
		#include <cstdio>
		#include <cuda_runtime.h>
		void add_on_device(int *x, int n);
		int main() {
			int *x, y = 2;
			cudaMalloc(&x, sizeof *x);
			cudaMemcpy(x, &y, sizeof y, cudaMemcpyHostToDevice);
			add_on_device(x, 10);
			cudaMemcpy(&y, x, sizeof y, cudaMemcpyDeviceToHost);
			std::printf("%d\n", y);
		}
	END
	with_cmake
	grep -q 'it is NVIDIA 12.4.0 for 90$' log
	assert_equal "$(on_device made/two)" '1046 7 9'
	assert_equal "$(on_device made/host)" 42
	touch shared.h
	cmake --build made | grep -q 'Building CUDA object CMakeFiles/two.dir/a.cu.o'
}

@test "CMake: the old find_package(CUDA) with a module of pybind11 and a program" {
	needs cmake
	[ -e /usr/share/cmake/pybind11/pybind11Config.cmake ] || [ -e /usr/lib/cmake/pybind11/pybind11Config.cmake ] || skip 'no pybind11-dev'
	PATH=/usr/bin:$PATH
	cat >CMakeLists.txt <<-'END'
		cmake_minimum_required(VERSION 3.5)
		project(module C CXX)
		find_package(Python COMPONENTS Development Interpreter REQUIRED)
		include_directories(${Python_INCLUDE_DIRS})
		find_package(pybind11 REQUIRED)
		include_directories(SYSTEM ${pybind11_INCLUDE_DIRS})
		set(CMAKE_CXX_FLAGS "-std=c++11 -O2 ${CMAKE_CXX_FLAGS}")
		find_package(CUDA REQUIRED)
		include_directories(SYSTEM ${CUDA_INCLUDE_DIRS})
		CUDA_SELECT_NVCC_ARCH_FLAGS(ARCH_FLAGS 3.7)
		CUDA_ADD_LIBRARY(scaled MODULE scaled.cu OPTIONS ${ARCH_FLAGS})
		target_link_libraries(scaled ${pybind11_LIBRARIES} ${CUDA_CUDART_LIBRARY})
		pybind11_extension(scaled)
		pybind11_strip(scaled)
		CUDA_ADD_EXECUTABLE(program program.cu OPTIONS -O1)
	END
	cat >scaled.cu <<-'END'
		#include <pybind11/numpy.h>
		#include <pybind11/pybind11.h>
		#include <cuda_runtime.h>
		#include <vector>
		__global__ void scale(float *x, float by) { x[threadIdx.x] *= by; }
		PYBIND11_MODULE(scaled, m) {
			m.def("scaled", [](float a, float b, float by) {
				float *x, h[2] = {a, b};
				cudaError_t e = cudaMalloc(&x, sizeof h);
				if (e != cudaSuccess)
					throw std::runtime_error(cudaGetErrorString(e));
				cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
				scale<<<1, 2>>>(x, by);
				cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
				return pybind11::make_tuple(h[0], h[1]);
			});
		}
	END
	cat >program.cu <<-'END'
		#include <cstdio>
		__global__ void hello() { printf("hello from %d\n", threadIdx.x); }
		int main() { hello<<<1, 2>>>(); return cudaDeviceSynchronize(); }
	END
	with_cmake
	grep -q 'Found CUDA: .*found version "12.4"' log
	assert_equal "$(on_device made/program)" $'hello from 0\nhello from 1'
	assert_equal "$(cd made && on_device python3 -c 'import scaled; print(scaled.scaled(1, 2, 21))')" '(21.0, 42.0)'
}
