/* Layouts and numbers of the CUDA runtime's interface, as in CUDA 12.4: programs are compiled
 * against either. */
#include <stddef.h>

#include "cuda_runtime_api.h"
#include "tap.h"

#define SIZE(type, n)                  \
	{                              \
#type, sizeof(type), n \
	}
#define AT(type, field, n)                                 \
	{                                                  \
#type "." #field, offsetof(type, field), n \
	}
#define PROP(field, n) AT(struct cudaDeviceProp, field, n)
#define NUMBER(name, n)                  \
	{                                \
#name, (size_t)(name), n \
	}

static const struct {
	const char *name;
	size_t ours, cuda;
} facts[] = {
    SIZE(struct cudaDeviceProp, 1032),
    SIZE(struct cudaPointerAttributes, 24),
    SIZE(struct cudaFuncAttributes, 144),
    SIZE(struct cudaMemcpy3DParms, 160),
    SIZE(struct cudaMemcpy3DPeerParms, 168),
    SIZE(struct cudaMemPoolProps, 88),
    SIZE(struct cudaMemsetParams, 40),
    SIZE(struct cudaHostNodeParams, 16),
    SIZE(struct cudaKernelNodeParams, 56),
    SIZE(struct cudaGraphNodeParams, 256),
    SIZE(cudaGraphEdgeData, 8),
    SIZE(cudaLaunchAttribute, 72),
    SIZE(cudaLaunchConfig_t, 56),
    SIZE(cudaGraphInstantiateParams, 32),
    SIZE(cudaGraphExecUpdateResultInfo, 24),
    SIZE(cudaIpcMemHandle_t, 64),
    SIZE(cudaUUID_t, 16),
    SIZE(dim3, 12),
    SIZE(float2, 8),
    SIZE(float3, 12),
    SIZE(double2, 16),
    SIZE(double4, 32),
    SIZE(uchar4, 4),
    SIZE(long4, 32),
    {"float4's alignment", _Alignof(float4), 16},
    {"float3's alignment", _Alignof(float3), 4},
    {"short4's alignment", _Alignof(short4), 8},
    PROP(uuid, 256),
    PROP(luid, 272),
    PROP(totalGlobalMem, 288),
    PROP(warpSize, 308),
    PROP(maxThreadsPerBlock, 320),
    PROP(clockRate, 348),
    PROP(major, 360),
    PROP(multiProcessorCount, 388),
    PROP(computeMode, 404),
    PROP(maxTexture1D, 408),
    PROP(surfaceAlignment, 568),
    PROP(concurrentKernels, 576),
    PROP(pciBusID, 584),
    PROP(unifiedAddressing, 604),
    PROP(l2CacheSize, 616),
    PROP(managedMemory, 652),
    PROP(sharedMemPerBlockOptin, 696),
    PROP(reservedSharedMemPerBlock, 720),
    PROP(memoryPoolsSupported, 744),
    PROP(clusterLaunch, 772),
    PROP(reserved, 792),
    AT(struct cudaPointerAttributes, device, 4),
    AT(struct cudaPointerAttributes, devicePointer, 8),
    AT(struct cudaPointerAttributes, hostPointer, 16),
    AT(cudaLaunchConfig_t, stream, 32),
    AT(cudaLaunchConfig_t, numAttrs, 48),
    AT(struct cudaGraphNodeParams, kernel, 16),
    AT(cudaGraphInstantiateParams, errNode_out, 16),
    NUMBER(cudaErrorInvalidValue, 1),
    NUMBER(cudaErrorMemoryAllocation, 2),
    NUMBER(cudaErrorInitializationError, 3),
    NUMBER(cudaErrorNoDevice, 100),
    NUMBER(cudaErrorInvalidDevice, 101),
    NUMBER(cudaErrorInvalidResourceHandle, 400),
    NUMBER(cudaErrorNotReady, 600),
    NUMBER(cudaErrorIllegalAddress, 700),
    NUMBER(cudaErrorPeerAccessAlreadyEnabled, 704),
    NUMBER(cudaErrorLaunchFailure, 719),
    NUMBER(cudaErrorNotSupported, 801),
    NUMBER(cudaErrorStreamCaptureUnsupported, 900),
    NUMBER(cudaErrorStreamCaptureInvalidated, 901),
    NUMBER(cudaErrorStreamCaptureWrongThread, 908),
    NUMBER(cudaErrorGraphExecUpdateFailure, 910),
    NUMBER(cudaErrorUnknown, 999),
    NUMBER(cudaMemcpyDefault, 4),
    NUMBER(cudaMemoryTypeManaged, 3),
    NUMBER(cudaDevAttrComputeCapabilityMajor, 75),
    NUMBER(cudaDevAttrMemoryPoolsSupported, 115),
    NUMBER(cudaDevAttrHostNumaId, 134),
    NUMBER(cudaStreamCaptureModeRelaxed, 2),
    NUMBER(cudaGraphNodeTypeEventRecord, 7),
    NUMBER(cudaHostAllocMapped, 2),
    NUMBER(cudaEventDisableTiming, 2),
    NUMBER(cudaStreamLegacy, 1),
    NUMBER(cudaStreamPerThread, 2),
};

int
main(void)
{
	for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
		ok(facts[i].ours == facts[i].cuda, "%s is %zu", facts[i].name, facts[i].cuda);
	return tap_done();
}
