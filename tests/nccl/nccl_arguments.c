/* Wrong arguments: each has its result and a message that names the argument, and leaves everything
 * usable. */
#include "nccl_test.h"

static struct world w;

/* The last failure's message contains this. */
static void
says(const char *text)
{
	if (strstr(ncclGetLastError(NULL), text))
		return;
	fprintf(stderr, "want: %s\ngot: %s\n", text, ncclGetLastError(NULL));
	exit(1);
}

static void
test_collectives(float *p, float *elsewhere)
{
	float host[8], *input[MAX_RANKS];
	ncclComm_t c = w.comm[0];
	cudaStream_t s = w.stream[0];

	WANT(ncclInvalidArgument, ncclAllReduce(p, p, 1, ncclFloat, ncclSum, NULL, s));
	says("AllReduce : comm argument is NULL");
	WANT(ncclInvalidArgument, ncclAllReduce(p, p, 1, (ncclDataType_t)12, ncclSum, c, s));
	says("AllReduce : invalid type 12");
	WANT(ncclInvalidArgument, ncclAllReduce(p, p, 1, ncclFloat, (ncclRedOp_t)99, c, s));
	says("AllReduce : invalid reduction operation 99");
	WANT(ncclInvalidArgument, ncclReduce(p, p, 1, ncclFloat, ncclSum, -1, c, s));
	says("Reduce : invalid root -1");
	WANT(ncclInvalidArgument, ncclSend(p, 1, ncclFloat, w.n, c, s));
	says("Send : invalid peer");
	WANT(ncclInvalidArgument, ncclAllReduce(NULL, p, 1, ncclFloat, ncclSum, c, s));
	says("AllReduce : sendbuff argument is NULL");
	WANT(ncclInvalidArgument, ncclAllReduce(p, host, 1, ncclFloat, ncclSum, c, s));
	says("is not a valid pointer");
	WANT(ncclInvalidArgument, ncclAllReduce(p, p, 1 << 20, ncclFloat, ncclSum, c, s));
	says("is not a valid pointer to 4194304 bytes");
	WANT(ncclInvalidArgument, ncclAllReduce(p, elsewhere, 1, ncclFloat, ncclSum, c, s));
	says("recvbuff allocated on device 1 mismatches with NCCL device 0");
	WANT(ncclInvalidArgument, ncclAllReduce(p, p + 1, 2, ncclFloat, ncclSum, c, s));
	says("overlap");
	WANT(ncclInvalidArgument, ncclAllGather(p + 1, p, 1, ncclFloat, c, s));
	says("overlap");
	WANT(ncclInvalidArgument, ncclAllGather(p, p, SIZE_MAX / 2, ncclFloat, c, s));
	says("too large");
	/* The other ranks' recvbuff is not checked. */
	for (int r = 1; r < w.n; r++)
		input[r] = device_bytes(r, NULL, 64);
	NCCL(ncclGroupStart());
	NCCL(ncclReduce(p, p, 1, ncclFloat, ncclSum, 0, w.comm[0], w.stream[0]));
	for (int r = 1; r < w.n; r++)
		NCCL(ncclReduce(input[r], NULL, 1, ncclFloat, ncclSum, 0, w.comm[r], w.stream[r]));
	NCCL(ncclGroupEnd());
	world_sync(&w);
}

static void
test_operators(float *p)
{
	float half = 0.5f;
	ncclRedOp_t op;
	ncclComm_t c = w.comm[0];

	WANT(ncclInvalidArgument, ncclRedOpDestroy(ncclSum, c));
	WANT(ncclInvalidArgument, ncclRedOpDestroy((ncclRedOp_t)9, c));
	WANT(ncclInvalidArgument,
	     ncclRedOpCreatePreMulSum(&op, &half, ncclFloat, ncclScalarDevice, c));
	NCCL(ncclRedOpCreatePreMulSum(&op, &half, ncclFloat, ncclScalarHostImmediate, c));
	WANT(ncclInvalidArgument, ncclAllReduce(p, p, 1, ncclInt, op, c, w.stream[0]));
	says("does not match type");
	WANT(ncclInvalidArgument, ncclAllReduce(p, p, 1, ncclFloat, op, w.comm[1], w.stream[1]));
	NCCL(ncclRedOpDestroy(op, c));
	WANT(ncclInvalidArgument, ncclAllReduce(p, p, 1, ncclFloat, op, c, w.stream[0]));
}

static void
test_communicators(float *p)
{
	ncclUniqueId id, zero;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER, blank;
	ncclComm_t c = NULL;
	ncclResult_t e;
	void *handle;
	int list[2] = {0, 0}, n, all;

	memset(&zero, 0, sizeof zero);
	memset(&blank, 0, sizeof blank);
	NCCL(ncclGetUniqueId(&id));
	WANT(ncclInvalidArgument, ncclGetUniqueId(NULL));
	WANT(ncclInvalidArgument, ncclCommInitRank(NULL, 1, id, 0));
	WANT(ncclInvalidArgument, ncclCommInitRank(&c, 1, id, 1));
	says("invalid rank requested : 1/1");
	WANT(ncclInvalidArgument, ncclCommInitRank(&c, 1, zero, 0));
	says("does not come from this library's ncclGetUniqueId");
	WANT(ncclInvalidArgument, ncclCommInitRankConfig(&c, 1, id, 0, &blank));
	says("NCCL_CONFIG_INITIALIZER");
	config.maxCTAs = -3;
	WANT(ncclInvalidArgument, ncclCommInitRankConfig(&c, 1, id, 0, &config));
	says("maxCTAs");
	WANT(ncclInvalidArgument, ncclCommInitAll(&c, 0, NULL));
	WANT(ncclInvalidArgument, ncclCommInitAll(&c, 1, (int[]){7}));
	WANT(ncclInvalidUsage, ncclCommInitAll((ncclComm_t[2]){0}, 2, list));
	says("twice");
	CHECK(c == NULL);
	WANT(ncclInvalidUsage, ncclGroupEnd());
	says("not in a group call");
	WANT(ncclInvalidArgument, ncclCommCount(NULL, &n));
	WANT(ncclInvalidArgument, ncclCommCount(w.comm[0], NULL));
	NCCL(ncclCommCount(w.comm[0], &all));
	CHECK(all == w.n);
	NCCL(ncclCommUserRank(w.comm[1], &n));
	CHECK(n == 1);
	NCCL(ncclCommCuDevice(w.comm[1], &n));
	CHECK(n == 1);
	WANT(ncclInvalidUsage, ncclCommDeregister(w.comm[0], NULL));
	NCCL(ncclCommRegister(w.comm[0], p, 16, &handle));
	WANT(ncclInvalidArgument, ncclCommRegister(w.comm[1], p, 16, &handle));
	NCCL(ncclCommDeregister(w.comm[0], handle));
	WANT(ncclInvalidArgument, ncclCommSplit(w.comm[0], -7, 0, &c, NULL));
	WANT(ncclInvalidArgument, ncclCommShrink(w.comm[0], list, 1, &c, NULL, 0));
	says("excludes itself");
	NCCL(ncclCommSuspend(w.comm[0], NCCL_SUSPEND_MEM));
	WANT(ncclInvalidUsage, ncclAllReduce(p, p, 1, ncclInt, ncclSum, w.comm[0], w.stream[0]));
	NCCL(ncclCommResume(w.comm[0]));
	NCCL(ncclCommGetAsyncError(w.comm[0], &e));
	CHECK(e == ncclSuccess);
	NCCL(ncclCommDestroy(NULL));
	NCCL(ncclCommFinalize(NULL));
}

static void
test_parameters(void)
{
	ncclParamHandle_t h;
	const char *text, **table;
	int32_t number;
	int n;

	setenv("NCCL_P2P_DISABLE", "1", 1);
	NCCL(ncclParamBind(&h, "NCCL_P2P_DISABLE"));
	NCCL(ncclParamGetI32(h, &number));
	CHECK(number == 1);
	NCCL(ncclParamGetStr(h, &text));
	CHECK(strcmp(text, "1") == 0);
	NCCL(ncclParamGetAllParameterKeys(&table, &n));
	CHECK(n > 3 && table[0]);
	WANT(ncclInvalidArgument, ncclParamBind(&h, "NCCL_NO_SUCH"));
	unsetenv("NCCL_P2P_DISABLE");
}

int
main(void)
{
	float *p, *elsewhere;

	world_init(&w);
	p = device_bytes(0, NULL, 4096);
	elsewhere = device_bytes(1, NULL, 4096);
	CUDA(cudaSetDevice(0));
	test_collectives(p, elsewhere);
	test_operators(p);
	test_communicators(p);
	test_parameters();
	CHECK(strcmp(ncclGetErrorString(ncclSuccess), "no error") == 0);
	world_fini(&w);
	printf("arguments are checked\n");
	return 0;
}
