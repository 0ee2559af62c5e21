/* nccl_sum - the sum of vectors of f32 on standard input, one rank's after the other, by ncclAllReduce: every rank's result. */
#include "nccl_test.h"

#define COUNT 1003

int
main(void)
{
	static float in[MAX_RANKS][COUNT], out[COUNT];
	float *p[MAX_RANKS];
	struct world w;

	world_init(&w);
	CHECK(fread(in, sizeof in[0], (size_t)w.n, stdin) == (size_t)w.n);
	for (int r = 0; r < w.n; r++)
		p[r] = device_bytes(r, in[r], sizeof in[r]);
	NCCL(ncclGroupStart());
	for (int r = 0; r < w.n; r++)
		NCCL(ncclAllReduce(p[r], p[r], COUNT, ncclFloat, ncclSum, w.comm[r], w.stream[r]));
	NCCL(ncclGroupEnd());
	world_sync(&w);
	for (int r = 0; r < w.n; r++) {
		CUDA(cudaMemcpy(out, p[r], sizeof out, cudaMemcpyDefault));
		CHECK(fwrite(out, sizeof out, 1, stdout) == 1);
		CUDA(cudaFree(p[r]));
	}
	world_fini(&w);
	return 0;
}
