/* premulsum with a scalar of each rank's own: on the host, in device memory, in pinned memory that
 * changes. */
#include "nccl_test.h"

static struct world w;

static void
test(int dtype)
{
	ncclRedOp_t op[MAX_RANKS];
	size_t size = dtypes[dtype].size;
	char value[8] = {0}, scalar[8] = {0}, *p[MAX_RANKS], *on_device[MAX_RANKS];
	double want = 0, got;

	for (int r = 0; r < w.n; r++) {
		put(value, dtype, 0, r + 1);
		put(scalar, dtype, 0, 2);
		want += 2 * (r + 1);
		p[r] = device_bytes(r, value, size);
		on_device[r] = device_bytes(r, scalar, size);
		if (r % 2)
			NCCL(ncclRedOpCreatePreMulSum(&op[r], on_device[r], (ncclDataType_t)dtype,
						      ncclScalarDevice, w.comm[r]));
		else
			NCCL(ncclRedOpCreatePreMulSum(&op[r], scalar, (ncclDataType_t)dtype,
						      ncclScalarHostImmediate, w.comm[r]));
	}
	put(scalar, dtype, 0, 1); /* the call has read the host's scalar */
	NCCL(ncclGroupStart());
	for (int r = 0; r < w.n; r++)
		NCCL(ncclAllReduce(p[r], p[r], 1, (ncclDataType_t)dtype, op[r], w.comm[r],
				   w.stream[r]));
	NCCL(ncclGroupEnd());
	world_sync(&w);
	for (int r = 0; r < w.n; r++) {
		CUDA(cudaMemcpy(value, p[r], size, cudaMemcpyDefault));
		got = get(value, dtype, 0);
		if (got != want) {
			fprintf(stderr, "%s: rank %d has %g, not %g\n", dtypes[dtype].name, r, got,
				want);
			exit(1);
		}
		NCCL(ncclRedOpDestroy(op[r], w.comm[r]));
		CUDA(cudaFree(p[r]));
		CUDA(cudaFree(on_device[r]));
	}
}

static void
test_pinned(void)
{
	ncclRedOp_t op[MAX_RANKS];
	float *scalar, *p[MAX_RANKS], host, one = 1;

	CUDA(cudaHostAlloc((void **)&scalar, sizeof *scalar, cudaHostAllocDefault));
	for (int r = 0; r < w.n; r++) {
		p[r] = device_bytes(r, &one, sizeof one);
		NCCL(ncclRedOpCreatePreMulSum(&op[r], scalar, ncclFloat, ncclScalarDevice,
					      w.comm[r]));
	}
	*scalar = 3;
	NCCL(ncclGroupStart());
	for (int r = 0; r < w.n; r++)
		NCCL(ncclAllReduce(p[r], p[r], 1, ncclFloat, op[r], w.comm[r], w.stream[r]));
	NCCL(ncclGroupEnd());
	world_sync(&w);
	CUDA(cudaMemcpy(&host, p[0], sizeof host, cudaMemcpyDefault));
	CHECK(host == (float)(3 * w.n));
	for (int r = 0; r < w.n; r++) {
		NCCL(ncclRedOpDestroy(op[r], w.comm[r]));
		CUDA(cudaFree(p[r]));
	}
	CUDA(cudaFreeHost(scalar));
}

int
main(void)
{
	world_init(&w);
	for (int dtype = 0; dtype < ncclNumTypes; dtype++)
		test(dtype);
	test_pinned();
	world_fini(&w);
	printf("premulsum is well\n");
	return 0;
}
