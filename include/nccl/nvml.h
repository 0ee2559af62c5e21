/*
 * nvml.h - NVML's names that libnvidia-ml.so.1 of this home has: this host's simulated devices, all of them, in
 * CUDA's order. What a simulated device has none of is NVML_ERROR_NOT_SUPPORTED.
 */
#ifndef __nvml_nvml_h__
#define __nvml_nvml_h__

#ifdef __cplusplus
extern "C" {
#endif

#define NVML_API_VERSION		       12
#define NVML_API_VERSION_STR		       "12"
#define NVML_DEVICE_NAME_BUFFER_SIZE	       64
#define NVML_DEVICE_NAME_V2_BUFFER_SIZE	       96
#define NVML_DEVICE_UUID_BUFFER_SIZE	       80
#define NVML_DEVICE_UUID_V2_BUFFER_SIZE	       96
#define NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE 80
#define NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE   80
#define NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE     32
#define NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE  16
#define NVML_NVLINK_MAX_LINKS		       18
#define NVML_VALUE_NOT_AVAILABLE	       (-1)
#define NVML_CUDA_DRIVER_VERSION_MAJOR(v)      ((v) / 1000)
#define NVML_CUDA_DRIVER_VERSION_MINOR(v)      (((v) % 1000) / 10)
#define NVML_STRUCT_VERSION(data, ver) \
	(unsigned int)(sizeof(nvml##data##_v##ver##_t) | (ver << 24U))
#define nvmlClocksThrottleReasonNone		     0x0ULL
#define nvmlClocksThrottleReasonGpuIdle		     0x1ULL
#define nvmlClocksThrottleReasonSwPowerCap	     0x4ULL
#define nvmlClocksThrottleReasonHwSlowdown	     0x8ULL
#define nvmlClocksThrottleReasonSyncBoost	     0x10ULL
#define nvmlClocksThrottleReasonSwThermalSlowdown    0x20ULL
#define nvmlClocksThrottleReasonHwThermalSlowdown    0x40ULL
#define nvmlClocksThrottleReasonHwPowerBrakeSlowdown 0x80ULL
#define nvmlClocksThrottleReasonAll		     0x1ffULL

typedef enum nvmlReturn_enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_ALREADY_INITIALIZED = 5,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_TIMEOUT = 10,
	NVML_ERROR_FUNCTION_NOT_FOUND = 13,
	NVML_ERROR_GPU_IS_LOST = 15,
	NVML_ERROR_MEMORY = 20,
	NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_ERROR_UNKNOWN = 999
} nvmlReturn_t;
typedef enum {
	NVML_TOPOLOGY_INTERNAL = 0,
	NVML_TOPOLOGY_SINGLE = 10,
	NVML_TOPOLOGY_MULTIPLE = 20,
	NVML_TOPOLOGY_HOSTBRIDGE = 30,
	NVML_TOPOLOGY_NODE = 40,
	NVML_TOPOLOGY_SYSTEM = 50
} nvmlGpuTopologyLevel_t;
typedef enum { NVML_P2P_STATUS_OK = 0, NVML_P2P_STATUS_NOT_SUPPORTED = 5 } nvmlGpuP2PStatus_t;
typedef enum {
	NVML_P2P_CAPS_INDEX_READ = 0,
	NVML_P2P_CAPS_INDEX_WRITE = 1,
	NVML_P2P_CAPS_INDEX_NVLINK = 2,
	NVML_P2P_CAPS_INDEX_ATOMICS = 3
} nvmlGpuP2PCapsIndex_t;
typedef enum { NVML_FEATURE_DISABLED = 0, NVML_FEATURE_ENABLED = 1 } nvmlEnableState_t;
typedef enum { NVML_TEMPERATURE_GPU = 0 } nvmlTemperatureSensors_t;
typedef enum {
	NVML_TEMPERATURE_THRESHOLD_SHUTDOWN = 0,
	NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1
} nvmlTemperatureThresholds_t;
typedef enum {
	NVML_CLOCK_GRAPHICS = 0,
	NVML_CLOCK_SM = 1,
	NVML_CLOCK_MEM = 2,
	NVML_CLOCK_VIDEO = 3
} nvmlClockType_t;
typedef enum {
	NVML_TOTAL_POWER_SAMPLES = 0,
	NVML_GPU_UTILIZATION_SAMPLES = 1,
	NVML_MEMORY_UTILIZATION_SAMPLES = 2
} nvmlSamplingType_t;
typedef enum {
	NVML_VALUE_TYPE_DOUBLE = 0,
	NVML_VALUE_TYPE_UNSIGNED_INT = 1,
	NVML_VALUE_TYPE_UNSIGNED_LONG = 2,
	NVML_VALUE_TYPE_UNSIGNED_LONG_LONG = 3
} nvmlValueType_t;

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct {
	char busIdLegacy[NVML_DEVICE_PCI_BUS_ID_BUFFER_V2_SIZE];
	unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
	char busId[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE];
} nvmlPciInfo_t;
typedef struct {
	unsigned long long total, free, used;
} nvmlMemory_t;
typedef struct {
	unsigned int version; /* nvmlMemory_v2 */
	unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;
#define nvmlMemory_v2 NVML_STRUCT_VERSION(Memory, 2)
typedef struct {
	unsigned int gpu, memory; /* percent */
} nvmlUtilization_t;
typedef struct {
	unsigned int pid;
	unsigned long long usedGpuMemory; /* NVML_VALUE_NOT_AVAILABLE */
	unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;
typedef union {
	double dVal;
	unsigned int uiVal;
	unsigned long ulVal;
	unsigned long long ullVal;
} nvmlValue_t;
typedef struct {
	unsigned long long timeStamp;
	nvmlValue_t sampleValue;
} nvmlSample_t;

/* Calls may be nested: the last nvmlShutdown ends it. */
nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlInitWithFlags(unsigned int flags);
nvmlReturn_t nvmlShutdown(void);
const char *nvmlErrorString(nvmlReturn_t result);
nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length);
nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length);
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version);
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version);

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length);
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index);
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor);
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci);
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory);
/* Since the last call, or nvmlInit; gpu: time of operations, kernels and copies; memory: used. */
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates);
/* Processes with a stream of the device. NVML_ERROR_INSUFFICIENT_SIZE: *count is too small, and set. */
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
						     nvmlProcessInfo_t *infos);
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
						      nvmlProcessInfo_t *infos); /* none */
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b,
						 nvmlGpuTopologyLevel_t *level);
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, nvmlGpuP2PCapsIndex_t index,
				    nvmlGpuP2PStatus_t *status);

/* Calls that return NVML_ERROR_NOT_SUPPORTED for each device. */
/* clang-format off */
#define GPUSIM_NVML_NO(X) \
	X(nvmlDeviceGetTemperature) X(nvmlDeviceGetTemperatureThreshold) X(nvmlDeviceGetPowerUsage) \
	X(nvmlDeviceGetPowerManagementLimit) X(nvmlDeviceGetEnforcedPowerLimit) X(nvmlDeviceGetPowerState) \
	X(nvmlDeviceGetTotalEnergyConsumption) X(nvmlDeviceGetPerformanceState) X(nvmlDeviceGetClockInfo) \
	X(nvmlDeviceGetMaxClockInfo) X(nvmlDeviceGetApplicationsClock) X(nvmlDeviceGetFanSpeed) \
	X(nvmlDeviceGetCurrentClocksThrottleReasons) X(nvmlDeviceGetSamples) X(nvmlDeviceGetNvLinkState) \
	X(nvmlDeviceGetNvLinkVersion) X(nvmlDeviceGetNvLinkCapability) X(nvmlDeviceGetNvLinkRemotePciInfo_v2) \
	X(nvmlDeviceGetEccMode) X(nvmlDeviceGetTotalEccErrors) X(nvmlDeviceGetPersistenceMode) \
	X(nvmlDeviceGetComputeMode) X(nvmlDeviceGetBAR1MemoryInfo) X(nvmlDeviceGetSerial) \
	X(nvmlDeviceGetVbiosVersion) X(nvmlDeviceGetBrand) X(nvmlDeviceGetCurrPcieLinkWidth) \
	X(nvmlDeviceGetCurrPcieLinkGeneration) X(nvmlDeviceGetMaxPcieLinkWidth) \
	X(nvmlDeviceGetMaxPcieLinkGeneration) X(nvmlDeviceGetPcieThroughput) X(nvmlDeviceGetEncoderUtilization) \
	X(nvmlDeviceGetDecoderUtilization) X(nvmlDeviceGetMigMode) X(nvmlDeviceGetAccountingMode) \
	X(nvmlDeviceGetCpuAffinity) X(nvmlDeviceSetPersistenceMode) X(nvmlDeviceSetComputeMode) \
	X(nvmlDeviceSetPowerManagementLimit) X(nvmlDeviceSetApplicationsClocks)
/* clang-format on */
#define GPUSIM_NVML_DECLARE(name) nvmlReturn_t name(nvmlDevice_t device, ...);
GPUSIM_NVML_NO(GPUSIM_NVML_DECLARE)
#undef GPUSIM_NVML_DECLARE

#define nvmlInit			      nvmlInit_v2
#define nvmlDeviceGetCount		      nvmlDeviceGetCount_v2
#define nvmlDeviceGetHandleByIndex	      nvmlDeviceGetHandleByIndex_v2
#define nvmlDeviceGetHandleByPciBusId	      nvmlDeviceGetHandleByPciBusId_v2
#define nvmlDeviceGetPciInfo		      nvmlDeviceGetPciInfo_v3
#define nvmlDeviceGetNvLinkRemotePciInfo      nvmlDeviceGetNvLinkRemotePciInfo_v2
#define nvmlDeviceGetComputeRunningProcesses  nvmlDeviceGetComputeRunningProcesses_v3
#define nvmlDeviceGetGraphicsRunningProcesses nvmlDeviceGetGraphicsRunningProcesses_v3

#ifdef __cplusplus
}
#endif
#endif
