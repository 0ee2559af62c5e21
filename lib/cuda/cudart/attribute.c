/*
 * The attributes of a simulated device.
 *
 * Compute capability 9.0: NCCL and its tests take their ordinary paths on it. Features that they
 * would use in device code (clusters, multicast, GPUDirect) are off in their own attributes.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cudart/cuda_impl.h"
#include "cudart/launch.h"

#define WARP	32
#define THREADS 1024
#define SHARED	49152

/* Attributes with one value for all devices; those not listed are 0. */
static const struct {
	enum cudaDeviceAttr attr;
	int value;
} values[] = {
    {cudaDevAttrMaxThreadsPerBlock, THREADS},
    {cudaDevAttrMaxBlockDimX, THREADS},
    {cudaDevAttrMaxBlockDimY, THREADS},
    {cudaDevAttrMaxBlockDimZ, 64},
    {cudaDevAttrMaxGridDimX, 2147483647},
    {cudaDevAttrMaxGridDimY, 65535},
    {cudaDevAttrMaxGridDimZ, 65535},
    {cudaDevAttrMaxSharedMemoryPerBlock, SHARED},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin, SHARED},
    {cudaDevAttrMaxSharedMemoryPerMultiprocessor, 2 * SHARED},
    {cudaDevAttrTotalConstantMemory, 65536},
    {cudaDevAttrWarpSize, WARP},
    {cudaDevAttrMaxPitch, 2147483647},
    {cudaDevAttrMaxRegistersPerBlock, 65536},
    {cudaDevAttrMaxRegistersPerMultiprocessor, 65536},
    {cudaDevAttrClockRate, 1000000},
    {cudaDevAttrMemoryClockRate, 1000000},
    {cudaDevAttrGlobalMemoryBusWidth, 64},
    {cudaDevAttrL2CacheSize, 1 << 20},
    {cudaDevAttrTextureAlignment, 512},
    {cudaDevAttrTexturePitchAlignment, 32},
    {cudaDevAttrSurfaceAlignment, 512},
    {cudaDevAttrGpuOverlap, 1},
    {cudaDevAttrAsyncEngineCount, 1},
    {cudaDevAttrMultiProcessorCount, LAUNCH_SMS},
    {cudaDevAttrMaxThreadsPerMultiProcessor, LAUNCH_SM_THREADS},
    {cudaDevAttrMaxBlocksPerMultiprocessor, LAUNCH_SM_BLOCKS},
    {cudaDevAttrCooperativeLaunch, 1},
    {cudaDevAttrCanMapHostMemory, 1},
    {cudaDevAttrConcurrentKernels, 1},
    {cudaDevAttrUnifiedAddressing, 1},
    {cudaDevAttrManagedMemory, 1},
    {cudaDevAttrConcurrentManagedAccess, 1},
    {cudaDevAttrStreamPrioritiesSupported, 1},
    {cudaDevAttrComputeCapabilityMajor, 9},
    {cudaDevAttrComputeCapabilityMinor, 0},
    {cudaDevAttrHostRegisterSupported, 1},
    {cudaDevAttrMemoryPoolsSupported, 1},
    {cudaDevAttrSingleToDoublePrecisionPerfRatio, 2},
    {cudaDevAttrHostNumaId, -1},
    {cudaDevAttrNumaId, -1},
};

static int
constant(enum cudaDeviceAttr attr)
{
	for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
		if (values[i].attr == attr)
			return values[i].value;
	return 0;
}

static int
attribute(const struct device *d, enum cudaDeviceAttr attr)
{
	switch ((int)attr) {
	case cudaDevAttrPciBusId:
		return d->space->place + 1;
	case cudaDevAttrMultiGpuBoardGroupID:
		return d->ordinal;
	default:
		return constant(attr);
	}
}

cudaError_t
cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
	cudaError_t e = cuda_connect();

	if (e == cudaSuccess && (!value || attr < 1 || attr >= cudaDevAttrMax))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess && !cuda_device_at(device))
		e = cudaErrorInvalidDevice;
	if (e == cudaSuccess)
		*value = attribute(cuda_device_at(device), attr);
	return cuda_done(e);
}

cudaError_t
cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int srcDevice, int dstDevice)
{
	cudaError_t e = cuda_connect();

	if (e == cudaSuccess && !value)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess &&
	    (!cuda_device_at(srcDevice) || !cuda_device_at(dstDevice) || srcDevice == dstDevice))
		e = cudaErrorInvalidDevice;
	if (e == cudaSuccess)
		*value = attr == cudaDevP2PAttrAccessSupported ||
			 attr == cudaDevP2PAttrNativeAtomicSupported;
	return cuda_done(e);
}

static void
fill_uuid(uint64_t id, cudaUUID_t *out)
{
	memcpy(out->bytes, "gpus\0\0\0\0", 8);
	for (int i = 0; i < 8; i++)
		out->bytes[8 + i] = (char)(id >> (56 - 8 * i));
}

static void
fill_limits(const struct device *d, struct cudaDeviceProp *p)
{
	p->totalGlobalMem = d->space->nbytes;
	p->sharedMemPerBlock = p->sharedMemPerBlockOptin = SHARED;
	p->sharedMemPerMultiprocessor = 2 * SHARED;
	p->regsPerBlock = p->regsPerMultiprocessor = 65536;
	p->warpSize = WARP;
	p->memPitch = 2147483647;
	p->maxThreadsPerBlock = THREADS;
	p->maxThreadsDim[0] = p->maxThreadsDim[1] = THREADS;
	p->maxThreadsDim[2] = 64;
	p->maxGridSize[0] = 2147483647;
	p->maxGridSize[1] = p->maxGridSize[2] = 65535;
	p->totalConstMem = 65536;
	p->textureAlignment = p->surfaceAlignment = 512;
	p->texturePitchAlignment = 32;
	p->multiProcessorCount = LAUNCH_SMS;
	p->maxThreadsPerMultiProcessor = 2 * THREADS;
	p->maxBlocksPerMultiProcessor = 32;
}

static void
fill(const struct device *d, struct cudaDeviceProp *p)
{
	*p = (struct cudaDeviceProp){0};
	snprintf(p->name, sizeof p->name, "%s", d->name);
	fill_uuid(d->space->device.id, &p->uuid);
	fill_limits(d, p);
	p->clockRate = p->memoryClockRate = 1000000;
	p->memoryBusWidth = 64;
	p->l2CacheSize = 1 << 20;
	p->major = 9;
	p->deviceOverlap = p->asyncEngineCount = 1;
	p->cooperativeLaunch = p->canMapHostMemory = p->concurrentKernels = p->unifiedAddressing =
	    1;
	p->pciBusID = d->space->place + 1;
	p->multiGpuBoardGroupID = d->ordinal;
	p->streamPrioritiesSupported = p->managedMemory = p->concurrentManagedAccess = 1;
	p->singleToDoublePrecisionPerfRatio = 2;
	p->hostRegisterSupported = p->memoryPoolsSupported = 1;
}

cudaError_t
cudaGetDeviceProperties_v2(struct cudaDeviceProp *prop, int device)
{
	cudaError_t e = cuda_connect();

	if (e == cudaSuccess && !prop)
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess && !cuda_device_at(device))
		e = cudaErrorInvalidDevice;
	if (e == cudaSuccess)
		fill(cuda_device_at(device), prop);
	return cuda_done(e);
}

/* ------------------------------------------------------------------ PCI ids: the bus is the place + 1 */

static int
bus_of(int ordinal)
{
	return cuda_device_at(ordinal)->space->place + 1;
}

cudaError_t
cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
	cudaError_t e = cuda_connect();

	if (e == cudaSuccess && (!pciBusId || len < 13))
		e = cudaErrorInvalidValue;
	if (e == cudaSuccess && !cuda_device_at(device))
		e = cudaErrorInvalidDevice;
	if (e == cudaSuccess)
		snprintf(pciBusId, (size_t)len, "%04x:%02x:00.0", bus_of(device) >> 8,
			 bus_of(device) & 0xff);
	return cuda_done(e);
}

cudaError_t
cudaDeviceGetByPCIBusId(int *device, const char *pciBusId)
{
	unsigned domain = 0, bus, slot, function;
	cudaError_t e = cuda_connect();

	if (e == cudaSuccess && (!device || !pciBusId))
		e = cudaErrorInvalidValue;
	if (e != cudaSuccess)
		return cuda_done(e);
	function = 0;
	if (sscanf(pciBusId, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
		domain = 0;
		if (sscanf(pciBusId, "%x:%x.%x", &bus, &slot, &function) < 2)
			return cuda_done(cudaErrorInvalidValue);
	}
	for (int i = 0; !slot && !function && i < cuda_device_count(); i++)
		if (bus_of(i) == (int)(domain << 8 | bus)) {
			*device = i;
			return cudaSuccess;
		}
	return cuda_done(cudaErrorInvalidDevice);
}
