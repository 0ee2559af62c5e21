# cuBLAS and cublasLt over OpenBLAS: libcublas.so.12 and libcublasLt.so.12 of build/nccl.
# shellcheck disable=SC2016
load nccl

@test "blas: every call against plain loops, with both pointer modes" {
	need_cuda
	run nccl 1 blas_calls
	assert_status 0
	assert_output 'all is well'
}

@test "blas: cublasLt's epilogues, types, orders, batches, and what it refuses" {
	need_cuda
	run --separate-stderr nccl 1 blas_lt
	assert_status 0
	assert_output 'all is well'
}

@test "blas: in the order of streams and graphs, from threads; wrong arguments are reported, once" {
	need_cuda
	run --separate-stderr nccl 2 blas_order
	assert_status 0
	assert_output 'all is well'
	assert_equal "$(grep -c 'cublasCgemm: not supported by this library' <<<"$stderr")" 1
	grep -q 'cublasSgemm: 64 bytes at (nil) are not in one allocation that a kernel can access' <<<"$stderr"
}

@test "blas: a wrong pointer of a batch fails the stream, with a sentence" {
	need_cuda
	run --separate-stderr nccl 1 blas_order bad
	assert_status 0
	assert_output cudaErrorIllegalAddress
	grep -q 'cublasSgemmBatched: matrix 1 of a batch: 64 bytes at (nil)' <<<"$stderr"
}

@test "blas: the headers declare what the libraries have; a trace shows the calls" {
	need_cuda
	run bounded gpuctl run --nccl -n 1 --trace trace.json -- "$PROGRAMS/blas_lt"
	assert_status 0
	grep -q cublasLtMatmul trace.json
	for library in cublas cublasLt; do
		nm -D --defined-only "$NCCL_HOME_HERE/lib/lib$library.so.12" | awk '{ print $3 }' | sort -u >defined
		echo '#include <cublas_v2.h>
#include <cublasLt.h>' | compile -E -P -I"$NCCL_HOME_HERE/include" - | grep -oE '\bcublas\w+ ?\(' | tr -d ' (' |
			grep -vE 'cublasLt(MatmulDesc|MatrixLayout|MatmulPreference)Init$' | sort -u >declared
		if [ $library = cublas ]; then
			diff <(grep -v cublasLt declared) defined
		else
			diff <(grep cublasLt declared) defined
		fi
	done
}

@test "run --nccl: products use --threads, or the cores divided by the devices" {
	run bounded gpuctl run --nccl -n 2 --threads 3 -- sh -c 'echo $OPENBLAS_NUM_THREADS'
	assert_output 3
	OPENBLAS_NUM_THREADS=7 run bounded gpuctl run --nccl -n 2 -- sh -c 'echo $OPENBLAS_NUM_THREADS'
	assert_output 7
	run bounded gpuctl run --nccl -n 64 -- sh -c 'echo $OPENBLAS_NUM_THREADS'
	at_least "$output" 1
	assert_equal "$output" $(($(nproc) < 64 ? 1 : $(nproc) / 64))
}
