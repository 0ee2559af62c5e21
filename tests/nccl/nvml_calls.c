/* NVML beside the CUDA runtime. With an argument: print ids and memory, as `gpuctl devices` has them. */
#include <nvml.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "cu.h"

#define NV(call)                                                                      \
	do {                                                                          \
		nvmlReturn_t nv_r = (call);                                           \
		if (nv_r != NVML_SUCCESS) {                                           \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
				nvmlErrorString(nv_r));                               \
			exit(1);                                                      \
		}                                                                     \
	} while (0)
#define REFUSES(call, want) CHECK((call) == (want))

/* The device that the runtime calls `ordinal`. */
static void
same(int ordinal)
{
	struct cudaDeviceProp p;
	char uuid[NVML_DEVICE_UUID_BUFFER_SIZE], name[NVML_DEVICE_NAME_BUFFER_SIZE], bus[16],
	    text[48] = "GPU-";
	nvmlDevice_t d, by_uuid, by_index;
	nvmlPciInfo_t pci;
	nvmlMemory_t memory;
	unsigned index;
	int major, minor;

	CU(cudaGetDeviceProperties(&p, ordinal));
	CU(cudaDeviceGetPCIBusId(bus, sizeof bus, ordinal));
	NV(nvmlDeviceGetHandleByPciBusId(bus, &d));
	NV(nvmlDeviceGetUUID(d, uuid, sizeof uuid));
	for (int i = 0; i < 16; i++)
		sprintf(text + strlen(text), "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			(unsigned char)p.uuid.bytes[i]);
	CHECK(strcmp(uuid, text) == 0);
	NV(nvmlDeviceGetHandleByUUID(uuid, &by_uuid));
	NV(nvmlDeviceGetIndex(d, &index));
	NV(nvmlDeviceGetHandleByIndex(index, &by_index));
	CHECK(d == by_uuid && d == by_index);
	NV(nvmlDeviceGetName(d, name, sizeof name));
	CHECK(strcmp(name, p.name) == 0);
	NV(nvmlDeviceGetPciInfo(d, &pci));
	CHECK(pci.bus == (unsigned)p.pciBusID && strcmp(pci.busIdLegacy, bus) == 0);
	NV(nvmlDeviceGetCudaComputeCapability(d, &major, &minor));
	CHECK(major == p.major && minor == p.minor);
	NV(nvmlDeviceGetMemoryInfo(d, &memory));
	CHECK(memory.total == p.totalGlobalMem && memory.used + memory.free == memory.total);
}

/* This process is one of those that use a device once it has a stream there. */
static void
processes(void)
{
	nvmlProcessInfo_t v[8];
	nvmlUtilization_t rates;
	nvmlDevice_t d;
	unsigned n = 8, none = 0;
	bool found = false;
	char bus[16];
	void *p;

	CU(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
	NV(nvmlDeviceGetHandleByPciBusId(bus, &d));
	CU(cudaMalloc(&p, 32 << 20));
	for (int i = 0; i < 50; i++)
		CU(cudaMemsetAsync(p, i, 32 << 20, 0));
	CU(cudaDeviceSynchronize());
	NV(nvmlDeviceGetUtilizationRates(d, &rates));
	CHECK(rates.gpu > 0 && rates.gpu <= 100);
	NV(nvmlDeviceGetComputeRunningProcesses(d, &n, v));
	for (unsigned i = 0; i < n; i++)
		found |= v[i].pid == (unsigned)getpid();
	CHECK(found);
	REFUSES(nvmlDeviceGetComputeRunningProcesses(d, &none, NULL), NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(none == n);
	CU(cudaFree(p));
}

static void
wrong(void)
{
	nvmlMemory_v2_t v2 = {.version = 1};
	nvmlGpuTopologyLevel_t level;
	nvmlGpuP2PStatus_t status;
	nvmlEnableState_t on;
	nvmlDevice_t a, b;
	unsigned n;
	char small[4];
	int version;

	NV(nvmlDeviceGetCount(&n));
	CHECK(n == 2);
	NV(nvmlDeviceGetHandleByIndex(0, &a));
	NV(nvmlDeviceGetHandleByIndex(1, &b));
	REFUSES(nvmlDeviceGetHandleByIndex(2, &b), NVML_ERROR_INVALID_ARGUMENT);
	REFUSES(nvmlDeviceGetHandleByUUID("GPU-1", &b), NVML_ERROR_NOT_FOUND);
	REFUSES(nvmlDeviceGetHandleByPciBusId("0000:07:00.0", &b), NVML_ERROR_NOT_FOUND);
	REFUSES(nvmlDeviceGetName(a, small, sizeof small), NVML_ERROR_INSUFFICIENT_SIZE);
	REFUSES(nvmlDeviceGetIndex(NULL, &n), NVML_ERROR_INVALID_ARGUMENT);
	REFUSES(nvmlDeviceGetTemperature(a, NVML_TEMPERATURE_GPU, &n), NVML_ERROR_NOT_SUPPORTED);
	REFUSES(nvmlDeviceGetNvLinkState(a, 0u, &on), NVML_ERROR_NOT_SUPPORTED);
	REFUSES(nvmlDeviceGetMemoryInfo_v2(a, &v2), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	v2.version = nvmlMemory_v2;
	NV(nvmlDeviceGetMemoryInfo_v2(a, &v2));
	NV(nvmlDeviceGetTopologyCommonAncestor(a, b, &level));
	CHECK(level == NVML_TOPOLOGY_NODE);
	NV(nvmlDeviceGetP2PStatus(a, b, NVML_P2P_CAPS_INDEX_READ, &status));
	CHECK(status == NVML_P2P_STATUS_OK);
	NV(nvmlSystemGetCudaDriverVersion(&version));
	CHECK(version == 12040);
	NV(nvmlInit());
	NV(nvmlShutdown());
	NV(nvmlDeviceGetCount(&n)); /* the first nvmlInit still counts */
}

static int
list(void)
{
	char uuid[NVML_DEVICE_UUID_BUFFER_SIZE];
	nvmlMemory_t m;
	nvmlDevice_t d;
	unsigned n;

	NV(nvmlInit());
	NV(nvmlDeviceGetCount(&n));
	for (unsigned i = 0; i < n; i++) {
		NV(nvmlDeviceGetHandleByIndex(i, &d));
		NV(nvmlDeviceGetMemoryInfo(d, &m));
		NV(nvmlDeviceGetUUID(d, uuid, sizeof uuid));
		/* GPU-67707573-0000-0000-aaaa-bbbbbbbbbbbb: the id is aaaabbbbbbbbbbbb. */
		printf("%u %.4s%s %llu %llu\n", i, uuid + 23, uuid + 28, m.total, m.used);
	}
	NV(nvmlShutdown());
	return 0;
}

int
main(int argc, char **argv)
{
	int n;

	(void)argv;
	if (argc > 1)
		return list();
	REFUSES(nvmlShutdown(), NVML_ERROR_UNINITIALIZED);
	NV(nvmlInit());
	CU(cudaGetDeviceCount(&n));
	for (int i = 0; i < n; i++)
		same(i);
	wrong();
	processes();
	NV(nvmlShutdown());
	puts("all is well");
	return 0;
}
