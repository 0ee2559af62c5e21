/* Memory in a stream's order, and pools. Two devices of 64 MiB. */
#include <string.h>

#include "cu.h"

enum { MIB = 1 << 20 };

static unsigned char host[4 * MIB], back[4 * MIB];

/* Copies of earlier calls find their memory, though it is freed after them. */
static void
order(void)
{
	cudaStream_t s;
	char *p, *q;

	CU(cudaStreamCreate(&s));
	for (int i = 0; i < 20; i++) {
		memset(host, i + 1, sizeof host);
		memset(back, 0, sizeof back);
		CU(cudaMallocAsync((void **)&p, sizeof host, s));
		CU(cudaMemcpyAsync(p, host, sizeof host, cudaMemcpyHostToDevice, s));
		CU(cudaMallocAsync((void **)&q, sizeof host, s));
		CU(cudaMemcpyAsync(q, p, sizeof host, cudaMemcpyDeviceToDevice, s));
		CU(cudaFreeAsync(p, s));
		FAILS(cudaMemcpyAsync(p, host, 1, cudaMemcpyHostToDevice, s),
		      cudaErrorInvalidValue);
		FAILS(cudaFreeAsync(p, s), cudaErrorInvalidValue);
		CU(cudaMemcpyAsync(back, q, sizeof host, cudaMemcpyDeviceToHost, s));
		CU(cudaFreeAsync(q, s));
		CU(cudaStreamSynchronize(s));
		CHECK(memcmp(host, back, sizeof host) == 0);
	}
	/* Most of the device again and again, without waiting: the stream gives it back to itself. */
	for (int i = 0; i < 50; i++) {
		CU(cudaMallocAsync((void **)&p, 40 * MIB, s));
		CU(cudaMemsetAsync(p, i, 40 * MIB, s));
		CU(cudaFreeAsync(p, s));
	}
	/* Another size: the call waits. */
	CU(cudaMallocAsync((void **)&p, 50 * MIB, s));
	CU(cudaFreeAsync(p, s));
	CU(cudaStreamSynchronize(s));
	CU(cudaStreamDestroy(s));
}

static unsigned long long
get(cudaMemPool_t pool, enum cudaMemPoolAttr attr)
{
	unsigned long long v = 77;

	CU(cudaMemPoolGetAttribute(pool, attr, &v));
	return v;
}

static void
attributes(void)
{
	struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
					 .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
	struct cudaMemAccessDesc all = {.location = {.type = cudaMemLocationTypeDevice, .id = 1},
					.flags = cudaMemAccessFlagsProtReadWrite};
	enum cudaMemAccessFlags flags;
	cudaMemPool_t pool, of_device, now;
	cudaStream_t s;
	char *p, *q;
	unsigned long long keep = 8 * MIB, zero = 0;
	int no = 0;

	CU(cudaMemPoolCreate(&pool, &props));
	CU(cudaDeviceGetDefaultMemPool(&of_device, 0));
	FAILS(cudaMemPoolDestroy(of_device), cudaErrorInvalidValue);
	CU(cudaDeviceSetMemPool(0, pool));
	CU(cudaDeviceGetMemPool(&now, 0));
	CHECK(now == pool);
	FAILS(cudaDeviceSetMemPool(1, pool), cudaErrorInvalidDevice);
	CU(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &no));
	CU(cudaMemPoolGetAttribute(pool, cudaMemPoolReuseAllowOpportunistic, &no));
	CHECK(no == 0);
	CU(cudaStreamCreate(&s));
	CU(cudaMallocAsync((void **)&p, 4 * MIB, s));
	CU(cudaMallocFromPoolAsync((void **)&q, 2 * MIB, pool, s));
	CHECK(get(pool, cudaMemPoolAttrUsedMemCurrent) == 6 * MIB);
	CHECK(get(pool, cudaMemPoolAttrReservedMemCurrent) == 6 * MIB);
	CHECK(get(of_device, cudaMemPoolAttrUsedMemCurrent) == 0);
	CU(cudaFreeAsync(q, s));
	CU(cudaStreamSynchronize(s));
	CHECK(get(pool, cudaMemPoolAttrReservedMemCurrent) == 4 * MIB);
	CHECK(get(pool, cudaMemPoolAttrReservedMemHigh) == 6 * MIB);
	FAILS(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &keep),
	      cudaErrorInvalidValue);
	CU(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &zero));
	CHECK(get(pool, cudaMemPoolAttrUsedMemHigh) == 4 * MIB);
	/* What is below the threshold stays, and comes back. */
	CU(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
	CU(cudaFreeAsync(p, s));
	CU(cudaStreamSynchronize(s));
	CHECK(get(pool, cudaMemPoolAttrReservedMemCurrent) == 4 * MIB);
	CHECK(get(pool, cudaMemPoolAttrUsedMemCurrent) == 0);
	CU(cudaMallocAsync((void **)&q, 4 * MIB, s));
	CHECK(p == q);
	CU(cudaFree(q));
	CHECK(get(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
	/* Unless the device is full. */
	CU(cudaMallocFromPoolAsync((void **)&q, 4 * MIB, pool, s));
	CU(cudaFreeAsync(q, s));
	CU(cudaStreamSynchronize(s));
	CHECK(get(pool, cudaMemPoolAttrReservedMemCurrent) == 4 * MIB);
	CU(cudaMalloc((void **)&p, 61 * MIB));
	CHECK(get(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
	CU(cudaFree(p));
	/* Access of another device. */
	CU(cudaMemPoolGetAccess(&flags, pool, &all.location));
	CHECK(flags == cudaMemAccessFlagsProtNone);
	CU(cudaMemPoolSetAccess(pool, &all, 1));
	CU(cudaMemPoolGetAccess(&flags, pool, &all.location));
	CHECK(flags == cudaMemAccessFlagsProtReadWrite);
	/* A pool ends before its memory. */
	CU(cudaMallocAsync((void **)&p, MIB, s));
	CU(cudaMemPoolDestroy(pool));
	FAILS(cudaMemPoolDestroy(pool), cudaErrorInvalidValue);
	CU(cudaDeviceGetMemPool(&now, 0));
	CHECK(now == of_device);
	CU(cudaMemset(p, 1, MIB));
	CU(cudaFreeAsync(p, s));
	CU(cudaStreamSynchronize(s));
	props.handleTypes = cudaMemHandleTypePosixFileDescriptor;
	FAILS(cudaMemPoolCreate(&pool, &props), cudaErrorNotSupported);
}

int
main(void)
{
	size_t before, after, total;

	CU(cudaMemGetInfo(&before, &total));
	order();
	attributes();
	CU(cudaDeviceSynchronize());
	CU(cudaMemGetInfo(&after, &total));
	CHECK(total == 64 * MIB);
	(void)before;
	puts("well");
	return 0;
}
