/*
 * nccl_sum - the sum of vectors of f32 on standard input, one rank's after the other, by ncclAllReduce: every rank's
 * result.
 *
 *	nccl_sum         communicators without a configuration
 *	nccl_sum same    with one that says deterministic
 *	nccl_sum child   with one that is split from such a communicator
 *	nccl_sum other   with one that says deterministic on rank 0 alone
 */
#include "nccl_test.h"

#define COUNT 1003

static void
configure(struct world *w, const char *how)
{
	ncclUniqueId id;

	CUDA(cudaGetDeviceCount(&w->n));
	CHECK(w->n <= MAX_RANKS);
	NCCL(ncclGetUniqueId(&id));
	NCCL(ncclGroupStart());
	for (int r = 0; r < w->n; r++) {
		ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

		if (r == 0 || strcmp(how, "other") != 0)
			config.deterministic = 1;
		CUDA(cudaSetDevice(r));
		NCCL(ncclCommInitRankConfig(&w->comm[r], w->n, id, r, &config));
	}
	NCCL(ncclGroupEnd());
	world_streams(w);
}

static void
split(struct world *w)
{
	ncclComm_t child[MAX_RANKS];

	NCCL(ncclGroupStart());
	for (int r = 0; r < w->n; r++)
		NCCL(ncclCommSplit(w->comm[r], 0, r, &child[r], NULL));
	NCCL(ncclGroupEnd());
	for (int r = 0; r < w->n; r++) {
		NCCL(ncclCommDestroy(w->comm[r]));
		w->comm[r] = child[r];
	}
}

int
main(int argc, char **argv)
{
	static float in[MAX_RANKS][COUNT], out[COUNT];
	float *p[MAX_RANKS];
	struct world w;

	if (argc > 1)
		configure(&w, argv[1]);
	else
		world_init(&w);
	if (argc > 1 && strcmp(argv[1], "child") == 0)
		split(&w);
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
