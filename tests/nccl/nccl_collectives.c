/*
 * Every collective with every type and operator, out of place and in place, against a reference:
 * all ranks in this process, grouped. Values are small enough to be exact in all types.
 */
#include "nccl_test.h"

enum { ALLREDUCE, REDUCE, BROADCAST, ALLGATHER, REDUCESCATTER, ALLTOALL, GATHER, SCATTER, NCOLLS };

static const char *const names[] = {"AllReduce",     "Reduce",	 "Broadcast", "AllGather",
				    "ReduceScatter", "AlltoAll", "Gather",    "Scatter"};

static struct world w;

/* Rank r's element i: 0, 1 or 2; products and sums of 8 ranks stay small. */
static double
value(int r, size_t i)
{
	return (double)((i + (size_t)r * 5) % 3);
}

static double
reduced(int op, size_t i)
{
	double v = value(0, i);

	for (int r = 1; r < w.n; r++) {
		double x = value(r, i);

		v = op == ncclProd  ? v * x
		    : op == ncclMax ? fmax(v, x)
		    : op == ncclMin ? fmin(v, x)
				    : v + x;
	}
	return v;
}

/* Return true if the type represents the average exactly, so that the comparison can be exact. */
static bool
expect(int coll, int op, int root, int rank, size_t count, size_t i, double *out)
{
	size_t part = i / count, at = i % count;

	switch (coll) {
	case ALLREDUCE:
	case REDUCE:
		*out = reduced(op, i);
		break;
	case REDUCESCATTER:
		*out = reduced(op, (size_t)rank * count + i);
		break;
	case BROADCAST:
		*out = value(root, i);
		break;
	case ALLGATHER:
	case GATHER:
		*out = value((int)part, at);
		break;
	case ALLTOALL:
		*out = value((int)part, (size_t)rank * count + at);
		break;
	default:
		*out = value(root, (size_t)rank * count + i);
	}
	return coll != REDUCE && coll != GATHER ? true : rank == root;
}

static void
call(int coll, const void *send, void *recv, size_t count, int dtype, int op, int root, int r)
{
	ncclDataType_t t = (ncclDataType_t)dtype;
	ncclRedOp_t o = (ncclRedOp_t)op;

	switch (coll) {
	case ALLREDUCE:
		NCCL(ncclAllReduce(send, recv, count, t, o, w.comm[r], w.stream[r]));
		break;
	case REDUCE:
		NCCL(ncclReduce(send, recv, count, t, o, root, w.comm[r], w.stream[r]));
		break;
	case BROADCAST:
		NCCL(ncclBroadcast(send, recv, count, t, root, w.comm[r], w.stream[r]));
		break;
	case ALLGATHER:
		NCCL(ncclAllGather(send, recv, count, t, w.comm[r], w.stream[r]));
		break;
	case REDUCESCATTER:
		NCCL(ncclReduceScatter(send, recv, count, t, o, w.comm[r], w.stream[r]));
		break;
	case ALLTOALL:
		NCCL(ncclAlltoAll(send, recv, count, t, w.comm[r], w.stream[r]));
		break;
	case GATHER:
		NCCL(ncclGather(send, recv, count, t, root, w.comm[r], w.stream[r]));
		break;
	default:
		NCCL(ncclScatter(send, recv, count, t, root, w.comm[r], w.stream[r]));
	}
}

static bool
is_whole(int coll, bool of_send)
{
	if (coll == ALLTOALL)
		return true;
	return of_send ? coll == REDUCESCATTER || coll == SCATTER
		       : coll == ALLGATHER || coll == GATHER;
}

/* The offset in bytes into the other buffer for an in-place collective. */
static size_t
own_part(int coll, int r, size_t nbytes)
{
	return is_whole(coll, true) != is_whole(coll, false) ? (size_t)r * nbytes : 0;
}

static void
test(int coll, int dtype, int op, bool in_place, size_t count)
{
	size_t size = dtypes[dtype].size, n = count * (size_t)w.n;
	int root = coll % w.n;
	char *buffer[2][MAX_RANKS], *host = calloc(n + 1, size);

	for (int r = 0; r < w.n; r++)
		for (int b = 0; b < 2; b++) {
			for (size_t i = 0; i < n; i++)
				put(host, dtype, i, b == 0 ? value(r, i) : 0);
			buffer[b][r] = device_bytes(r, host, n * size);
		}
	NCCL(ncclGroupStart());
	for (int r = 0; r < w.n; r++) {
		char *send = buffer[0][r], *recv = buffer[in_place ? 0 : 1][r];
		size_t part = own_part(coll, r, count * size);

		/* The rank's own input is where its part of the result will be. */
		if (in_place && part && !is_whole(coll, true)) {
			send = recv + part;
			CUDA(cudaSetDevice(r));
			CUDA(cudaMemcpy(send, buffer[0][r], count * size, cudaMemcpyDefault));
		} else if (in_place && part) {
			recv = send + part;
		}
		call(coll, send, recv, count, dtype, op, root, r);
		buffer[1][r] =
		    in_place
			? (buffer[1][r] ? (cudaSetDevice(r), cudaFree(buffer[1][r]), recv) : recv)
			: buffer[1][r];
	}
	NCCL(ncclGroupEnd());
	world_sync(&w);
	for (int r = 0; r < w.n; r++) {
		size_t have = is_whole(coll, false) ? n : count;
		double want;

		CUDA(cudaMemcpy(host, buffer[1][r], have * size, cudaMemcpyDefault));
		for (size_t i = 0; i < have; i++) {
			if (!expect(coll, op, root, r, count, i, &want))
				continue;
			if (op == ncclAvg)
				want = dtype < ncclFloat16 ? trunc(want / w.n) : want / w.n;
			if (get(host, dtype, i) != want) {
				fprintf(
				    stderr, "%s %s op %d%s: rank %d: element %zu is %g, not %g\n",
				    names[coll], dtypes[dtype].name, op,
				    in_place ? " in place" : "", r, i, get(host, dtype, i), want);
				exit(1);
			}
		}
		CUDA(cudaSetDevice(r));
		CUDA(cudaFree(buffer[0][r]));
		if (!in_place)
			CUDA(cudaFree(buffer[1][r]));
	}
	free(host);
}

int
main(void)
{
	int tests = 0;

	world_init(&w);
	for (int coll = 0; coll < NCOLLS; coll++)
		for (int dtype = 0; dtype < ncclNumTypes; dtype++)
			for (int op = 0; op < ncclNumOps; op++)
				for (int in_place = 0; in_place < 2; in_place++) {
					bool reduces = coll == ALLREDUCE || coll == REDUCE ||
						       coll == REDUCESCATTER;

					/* An average of three or more ranks is rounded. */
					if ((op && !reduces) || (in_place && coll == ALLTOALL) ||
					    (op == ncclAvg && (w.n & (w.n - 1))))
						continue;
					test(coll, dtype, op, in_place, 33);
					tests++;
				}
	for (int coll = 0; coll < NCOLLS; coll++)
		test(coll, ncclFloat32, ncclSum, false, 0);
	world_fini(&w);
	printf("%d combinations\n", tests);
	return 0;
}
