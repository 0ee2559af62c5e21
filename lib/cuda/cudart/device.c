/* Calls about devices: a thread's current device, synchronisation, peers, limits, versions. */
#include <limits.h>
#include <stdlib.h>

#include "cuda_profiler_api.h"
#include "cudart/cuda_impl.h"
#include "cudart/helper.h"

cudaError_t
cudaRuntimeGetVersion(int *version)
{
	if (!version)
		return cuda_done(cudaErrorInvalidValue);
	*version = CUDART_VERSION;
	return cudaSuccess;
}

cudaError_t
cudaDriverGetVersion(int *version)
{
	return cudaRuntimeGetVersion(version);
}

cudaError_t
cudaGetDeviceCount(int *count)
{
	cudaError_t e = cuda_connect();

	if (!count)
		return cuda_done(cudaErrorInvalidValue);
	*count = e == cudaSuccess ? cuda_device_count() : 0;
	return cuda_done(e);
}

cudaError_t
cudaSetDevice(int device)
{
	cudaError_t e = cuda_connect();

	return cuda_done(e == cudaSuccess ? cuda_set_current(device) : e);
}

cudaError_t
cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags)
{
	cudaError_t e = cuda_connect();

	if (e == cudaSuccess && flags & ~(unsigned)cudaInitDeviceFlagsAreValid)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess && !cuda_device_at(device))
		e = cudaErrorInvalidDevice;
	if (e == cudaSuccess && flags & cudaInitDeviceFlagsAreValid)
		cuda_device_at(device)->flags = deviceFlags | cudaDeviceMapHost;
	return cuda_done(e);
}

#define GETTER(name, type, value)                  \
	cudaError_t name(type *out)                \
	{                                          \
		cudaError_t e = cuda_connect();    \
                                                   \
		if (e == cudaSuccess && !out)      \
			e = cudaErrorInvalidValue; \
		if (e == cudaSuccess)              \
			*out = value;              \
		return cuda_done(e);               \
	}
GETTER(cudaGetDevice, int, cuda_current()->ordinal)
GETTER(cudaGetDeviceFlags, unsigned int, cuda_current()->flags)
GETTER(cudaDeviceGetCacheConfig, enum cudaFuncCache, cudaFuncCachePreferNone)
GETTER(cudaDeviceGetSharedMemConfig, enum cudaSharedMemConfig, cudaSharedMemBankSizeFourByte)

cudaError_t
cudaChooseDevice(int *device, const struct cudaDeviceProp *prop)
{
	cudaError_t e = cuda_connect();

	if (e == cudaSuccess && (!device || !prop))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		*device = 0; /* all devices are alike */
	return cuda_done(e);
}

cudaError_t
cudaSetValidDevices(int *device_arr, int len)
{
	cudaError_t e = cuda_connect();

	if (e == cudaSuccess && (len < 0 || len > cuda_device_count() || (len && !device_arr)))
		e = cudaErrorInvalidValue;
	for (int i = 0; e == cudaSuccess && i < len; i++)
		if (!cuda_device_at(device_arr[i]))
			e = cudaErrorInvalidDevice;
	return cuda_done(e);
}

cudaError_t
cudaSetDeviceFlags(unsigned int flags)
{
	cudaError_t e = cuda_connect();

	if (e == cudaSuccess && flags & ~(unsigned)cudaDeviceMask)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess)
		cuda_current()->flags = flags | cudaDeviceMapHost;
	return cuda_done(e);
}

cudaError_t
cudaDeviceSynchronize(void)
{
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess)
		e = capture_forbids();
	return cuda_done(e == cudaSuccess ? order_drain_device(cuda_current()) : e);
}

cudaError_t
cudaThreadSynchronize(void)
{
	return cudaDeviceSynchronize();
}

/* Wait for the device's work, free its memory, and forget its streams and errors. */
cudaError_t
cudaDeviceReset(void)
{
	cudaError_t e = cuda_connect();
	struct device *d;

	if (e != cudaSuccess)
		return cuda_done(e);
	d = cuda_current();
	order_drain_device(d); /* a reset is meant to clear failures */
	helper_reset(d->ordinal);
	stream_forget_all(d);
	pool_forget(d->ordinal);
	memory_forget_all(d);
	for (int i = 0; i < cuda_device_count(); i++)
		atomic_store(&d->peers[i], false);
	cuda_forget_error();
	return cudaSuccess;
}

cudaError_t
cudaThreadExit(void)
{
	return cudaDeviceReset();
}

/* ------------------------------------------------------------------ peers */

cudaError_t
cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice)
{
	cudaError_t e = cuda_connect();

	if (e == cudaSuccess && !canAccessPeer)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess && (!cuda_device_at(device) || !cuda_device_at(peerDevice)))
		e = cudaErrorInvalidDevice;
	if (e == cudaSuccess)
		*canAccessPeer = device != peerDevice;
	return cuda_done(e);
}

static cudaError_t
set_peer(int peer, bool access)
{
	cudaError_t e = cuda_enter();
	struct device *d;

	if (e != cudaSuccess)
		return e;
	d = cuda_current();
	if (!cuda_device_at(peer) || peer == d->ordinal)
		return cudaErrorInvalidDevice;
	if (atomic_exchange(&d->peers[peer], access) != access) {
		if (!access)
			space_forget(NULL, 0, 0);
		return cudaSuccess;
	}
	return access ? cudaErrorPeerAccessAlreadyEnabled : cudaErrorPeerAccessNotEnabled;
}

cudaError_t
cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags)
{
	return cuda_done(flags ? cudaErrorInvalidValue : set_peer(peerDevice, true));
}

cudaError_t
cudaDeviceDisablePeerAccess(int peerDevice)
{
	return cuda_done(set_peer(peerDevice, false));
}

/* ------------------------------------------------------------------ limits and preferences */

static _Atomic size_t limits[] = {
    [cudaLimitStackSize] = 65536,
    [cudaLimitPrintfFifoSize] = 1 << 20,
    [cudaLimitMallocHeapSize] = 8 << 20,
    [cudaLimitDevRuntimeSyncDepth] = 0,
    [cudaLimitDevRuntimePendingLaunchCount] = 0,
    [cudaLimitMaxL2FetchGranularity] = 64,
    [cudaLimitPersistingL2CacheSize] = 0,
};

static bool
is_limit(enum cudaLimit limit)
{
	return (unsigned)limit < sizeof limits / sizeof limits[0];
}

cudaError_t
cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
	cudaError_t e = cuda_connect();

	if (e == cudaSuccess && !is_limit(limit))
		e = cudaErrorUnsupportedLimit;
	if (e == cudaSuccess)
		limits[limit] = value;
	return cuda_done(e);
}

cudaError_t
cudaDeviceGetLimit(size_t *value, enum cudaLimit limit)
{
	cudaError_t e = cuda_connect();

	if (e == cudaSuccess && !value)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess && !is_limit(limit))
		e = cudaErrorUnsupportedLimit;
	if (e == cudaSuccess)
		*value = limits[limit];
	return cuda_done(e);
}

cudaError_t
cudaThreadSetLimit(enum cudaLimit limit, size_t value)
{
	return cudaDeviceSetLimit(limit, value);
}

cudaError_t
cudaThreadGetLimit(size_t *value, enum cudaLimit limit)
{
	return cudaDeviceGetLimit(value, limit);
}

cudaError_t
cudaDeviceSetCacheConfig(enum cudaFuncCache cacheConfig)
{
	(void)cacheConfig; /* a preference */
	return cuda_done(cuda_connect());
}

cudaError_t
cudaThreadGetCacheConfig(enum cudaFuncCache *cacheConfig)
{
	return cudaDeviceGetCacheConfig(cacheConfig);
}

cudaError_t
cudaThreadSetCacheConfig(enum cudaFuncCache cacheConfig)
{
	return cudaDeviceSetCacheConfig(cacheConfig);
}

cudaError_t
cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config)
{
	(void)config; /* a preference */
	return cuda_done(cuda_connect());
}

cudaError_t
cudaCtxResetPersistingL2Cache(void)
{
	return cuda_done(cuda_connect());
}

cudaError_t
cudaProfilerStart(void)
{
	return cuda_done(cuda_enter());
}

cudaError_t
cudaProfilerStop(void)
{
	return cuda_done(cuda_enter());
}

cudaError_t
cudaDeviceFlushGPUDirectRDMAWrites(enum cudaFlushGPUDirectRDMAWritesTarget target,
				   enum cudaFlushGPUDirectRDMAWritesScope scope)
{
	(void)target, (void)scope;
	return cuda_done(cuda_connect());
}

cudaError_t
cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	cudaError_t e = cuda_connect();

	if (e == cudaSuccess && leastPriority)
		*leastPriority = 0;
	if (e == cudaSuccess && greatestPriority)
		*greatestPriority = -5;
	return cuda_done(e);
}
