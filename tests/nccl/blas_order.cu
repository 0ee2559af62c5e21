/* cuBLAS's calls in the order of streams and graphs, from several threads; arguments that are wrong. */
#include "blas.h"

#include <thread>

__global__ void
fill(float *p, int n, float v)
{
	for (int i = 0; i < n; i++)
		p[i] = v;
}

__global__ void
add(float *p, int n, float v)
{
	for (int i = 0; i < n; i++)
		p[i] += v;
}

/* A kernel, a product that reads what it wrote, a kernel that changes the product: the next call sees all of it. */
static void
in_order(int device, bool blocking)
{
	const int n = 64, rounds = 20;
	cudaStream_t stream;
	cublasHandle_t h;
	float *a, *c, one = 1, zero = 0, last = 0;

	CUDA(cudaSetDevice(device));
	CUDA(cudaStreamCreateWithFlags(&stream,
				       blocking ? cudaStreamDefault : cudaStreamNonBlocking));
	OK(cublasCreate(&h));
	OK(cublasSetStream(h, stream));
	CUDA(cudaMalloc(&a, n * n * sizeof *a));
	CUDA(cudaMalloc(&c, n * n * sizeof *c));
	for (int round = 0; round < rounds; round++) {
		int i = round % 7 + 1; /* so small that sums are exact in any order */

		fill<<<1, 1, 0, stream>>>(a, n * n, (float)i);
		OK(cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &one, a, n, a, n, &zero, c,
			       n));
		add<<<1, 1, 0, stream>>>(c, n * n, 1);
		fill<<<1, 1, 0, stream>>>(a, n * n, -1);
		OK(cublasSasum(h, n * n, c, 1, &last)); /* waits for the stream */
		CHECK(last == (float)(n * i * i + 1) * n * n);
	}
	/* Memory may be freed as soon as its last use is enqueued: its pointers in an array, too. */
	{
		fill<<<1, 1, 0, stream>>>(a, n * n, 2);
		on_device<const float *> da({a});
		on_device<float *> dc({c});
		fill<<<1, 1, 0, stream>>>(a, n * n, 2);
		OK(cublasSgemmBatched(h, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &one, da.p, n, da.p, n, &zero, dc.p, n, 1));
		OK(cublasSaxpy(h, n * n, &one, a, 1, c, 1));
		CUDA(cudaFree(a));
		OK(cublasSasum(h, n * n, c, 1, &last));
		CHECK(last == (float)(4 * n + 2) * n * n);
	}
	CUDA(cudaFree(c));
	OK(cublasDestroy(h));
	CUDA(cudaStreamDestroy(stream));
}

static void
in_graph()
{
	const int n = 33;
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	cublasHandle_t h;
	float *alpha, *x, *y, *r, got, two = 2;

	CUDA(cudaStreamCreate(&stream));
	OK(cublasCreate(&h));
	OK(cublasSetStream(h, stream));
	CUDA(cudaMalloc(&x, n * sizeof *x));
	CUDA(cudaMalloc(&y, n * sizeof *y));
	CUDA(cudaMalloc(&r, sizeof *r));
	CUDA(cudaMalloc(&alpha, sizeof *alpha));
	fill<<<1, 1, 0, stream>>>(y, n, 0);
	fill<<<1, 1, 0, stream>>>(alpha, 1, 1);
	CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	IS(NOT_SUPPORTED, cublasSdot(h, n, x, 1, y, 1, &got)); /* its result is the host's */
	OK(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_DEVICE));
	fill<<<1, 1, 0, stream>>>(x, n, 1);
	OK(cublasSaxpy(h, n, alpha, x, 1, y, 1));
	add<<<1, 1, 0, stream>>>(alpha, 1, 1);
	OK(cublasSdot(h, n, y, 1, y, 1, r));
	CUDA(cudaStreamEndCapture(stream, &graph));
	CUDA(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 4; i++)
		CUDA(cudaGraphLaunch(exec, stream));
	CUDA(cudaStreamSynchronize(stream));
	CUDA(cudaMemcpy(&got, r, sizeof got, cudaMemcpyDeviceToHost));
	CHECK(got == n * 100); /* y: 1 + 2 + 3 + 4 */
	OK(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_HOST));
	OK(cublasSscal(h, n, &two, y, 1));
	OK(cublasSnrm2(h, n, y, 1, &got));
	CHECK(std::fabs(got - 20 * sqrtf(n)) < 1e-3f);
	CUDA(cudaGraphExecDestroy(exec));
	CUDA(cudaGraphDestroy(graph));
	OK(cublasDestroy(h));
}

static void
wrong()
{
	cublasHandle_t h = nullptr;
	std::vector<float> host(100, 1.0f);
	float one = 1, zero = 0, r = 9, *pinned;
	int version = 0;

	IS(NOT_INITIALIZED, cublasSdot(h, 1, &one, 1, &one, 1, &r));
	OK(cublasCreate(&h));
	on_device<float> x(host), y(host);
	auto gemm = [&](int m, int n, int k, const float *a, int lda,
			const float *alpha = nullptr) {
		return cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, alpha ? alpha : &one, a,
				   lda, x.p, k ? k : 1, &zero, y.p, m ? m : 1);
	};

	OK(gemm(4, 4, 4, x.p, 4));
	OK(gemm(0, 4, 4, nullptr, 1));
	IS(INVALID_VALUE, gemm(-1, 4, 4, x.p, 4));
	IS(INVALID_VALUE, gemm(4, 4, 4, x.p, 3));
	IS(INVALID_VALUE, gemm(4, 4, 4, x.p, 4, x.p)); /* alpha of the device */
	IS(INVALID_VALUE, cublasSgemm(h, (cublasOperation_t)7, CUBLAS_OP_N, 1, 1, 1, &one, x.p, 1,
				      x.p, 1, &zero, y.p, 1));
	IS(EXECUTION_FAILED,
	   gemm(11, 1, 64, x.p, 11)); /* too short, whatever the granularity of allocations is */
	IS(EXECUTION_FAILED, gemm(4, 4, 4, host.data(), 4)); /* the host's */
	IS(EXECUTION_FAILED, gemm(4, 4, 4, nullptr, 4));
	IS(INVALID_VALUE, cublasSdot(h, 1, x.p, 1, x.p, 1, nullptr));
	IS(INVALID_VALUE, cublasSdot(h, 1, x.p, 1, x.p, 1, y.p));
	OK(cublasSdot(h, 0, x.p, 1, x.p, 1, &r));
	CHECK(r == 0);
	OK(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_DEVICE));
	IS(EXECUTION_FAILED, cublasSdot(h, 1, x.p, 1, x.p, 1, &r));
	IS(EXECUTION_FAILED, cublasSscal(h, 1, &one, x.p, 1));
	OK(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_HOST));
	IS(INVALID_VALUE, cublasSetPointerMode(h, (cublasPointerMode_t)5));
	IS(NOT_SUPPORTED, cublasCgemm(h, 1));
	IS(NOT_SUPPORTED, cublasCgemm(h, 1)); /* said once */
	IS(NOT_SUPPORTED, cublasGemmEx(h, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, x.p, CUDA_R_8I,
				       1, x.p, CUDA_R_8I, 1, &zero, y.p, CUDA_R_32I, 1,
				       CUBLAS_COMPUTE_32I, CUBLAS_GEMM_DEFAULT));
	OK(cublasGemmEx(h, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, x.p, CUDA_R_32F, 1, x.p,
			CUDA_R_32F, 1, &zero, y.p, CUDA_R_32F, 1, CUDA_R_32F, CUBLAS_GEMM_DEFAULT));
	OK(cublasGetVersion(h, &version));
	CHECK(version == CUBLAS_VERSION && cublasGetStatusString(CUBLAS_STATUS_NOT_SUPPORTED)[0]);
	CHECK(!strcmp(cublasGetStatusName(CUBLAS_STATUS_MAPPING_ERROR),
		      "CUBLAS_STATUS_MAPPING_ERROR"));
	/* Pinned and managed memory. */
	CUDA(cudaMallocHost((void **)&pinned, 64));
	pinned[0] = 3;
	OK(cublasSdot(h, 1, pinned, 1, pinned, 1, &r));
	CHECK(r == 9);
	/* Rows and columns between host and device. */
	OK(cublasSetMatrix(2, 3, sizeof one, host.data(), 5, x.p, 2));
	OK(cublasSetVector(3, sizeof one, &host[1], 2, y.p, 1));
	OK(cublasGetVector(3, sizeof one, y.p, 1, &host[0], 3));
	OK(cublasGetMatrix(2, 3, sizeof one, x.p, 2, host.data(), 4));
	IS(INVALID_VALUE, cublasSetMatrix(2, 3, 0, host.data(), 5, x.p, 2));
	OK(cublasDestroy(h));
	IS(NOT_INITIALIZED, cublasDestroy(nullptr));
}

static void
copies()
{
	std::vector<float> host = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, back(12, -1.0f);
	on_device<float> x(std::vector<float>(12, 0.0f));

	OK(cublasSetMatrix(2, 3, 4, host.data(), 4, x.p, 3)); /* columns 0 1, 4 5, 8 9 */
	CHECK((x.get() == std::vector<float>{0, 1, 0, 4, 5, 0, 8, 9, 0, 0, 0, 0}));
	OK(cublasGetMatrix(2, 3, 4, x.p, 3, back.data(), 2));
	CHECK(back[2] == 4 && back[5] == 9 && back[6] == -1);
	OK(cublasSetVector(4, 4, host.data(), 3, x.p, 2));
	CHECK((x.get() == std::vector<float>{0, 1, 3, 4, 6, 0, 9, 9, 0, 0, 0, 0}));
	OK(cublasGetVector(3, 4, x.p, 2, back.data(), 1));
	CHECK(back[1] == 3 && back[2] == 6 && back[3] == 5);
}

/* A pointer of a batch is found wrong when the call runs: the stream fails, the process does not. */
static int
bad_batch()
{
	cublasHandle_t h;
	float one = 1, zero = 0;
	on_device<float> x(std::vector<float>(16));
	on_device<float *> good({x.p, x.p}), bad({x.p, (float *)nullptr});

	OK(cublasCreate(&h));
	OK(cublasSgemmBatched(h, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, good.p, 4, bad.p, 4,
			      &zero, good.p, 4, 2));
	printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
	return 0;
}

int
main(int argc, char **argv)
{
	int devices;

	if (argc > 1)
		return bad_batch();
	CUDA(cudaGetDeviceCount(&devices));
	{
		std::vector<std::thread> threads;

		for (int i = 0; i < 2 * devices; i++)
			threads.emplace_back(in_order, i / 2, i % 2 == 1);
		for (auto &t : threads)
			t.join();
	}
	in_graph();
	wrong();
	copies();
	if (!failures)
		puts("all is well");
	return failures != 0;
}
