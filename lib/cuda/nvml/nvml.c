/*
 * NVML's calls over the coordinator's status and the devices' recorders.
 *
 * Design notes. nvmlInit connects and lists this host's devices once, as the CUDA runtime does; handles stay valid
 * until the last nvmlShutdown. One lock covers all calls.
 */
#include "nvml.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/host.h"
#include "client/recorder.h"
#include "gpusim.h"

#define DRIVER "550.54.15" /* CUDA 12.4's */
#define CUDA   12040
#define MAJOR  9 /* the compute capability */
#define RINGS  256

struct nvmlDevice_st {
	unsigned index;
	struct gpusim_device_info info;
	struct client_recorder *recorder; /* NULL: not read */
	uint64_t busy_ns, at_ns;	  /* when the utilization was last asked */
	unsigned percent;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;
static struct gpusim *g;
static struct nvmlDevice_st *devices;
static unsigned ndevices;

static nvmlReturn_t
of(enum gpusim_rc rc)
{
	return rc == GPUSIM_OK		  ? NVML_SUCCESS
	       : rc == GPUSIM_UNREACHABLE ? NVML_ERROR_DRIVER_NOT_LOADED
	       : rc == GPUSIM_TIMEOUT	  ? NVML_ERROR_TIMEOUT
	       : rc == GPUSIM_NOMEM	  ? NVML_ERROR_MEMORY
					  : NVML_ERROR_UNKNOWN;
}

static bool
is_ours(const struct gpusim_device_info *d)
{
	return host_is_this(d->host) && !d->lost && !d->spare && *d->mem_path;
}

/* ------------------------------------------------------------------ recorders */

/* A device's busy time so far, and the processes with a queue of it: at most max, in pids. */
static bool
look(struct nvmlDevice_st *d, uint64_t *busy_ns, unsigned *pids, unsigned max, unsigned *npids)
{
	struct flight_source s;
	struct flight_header h;
	struct flight_ring ring;
	struct err err;

	*busy_ns = *npids = 0;
	if (!d->recorder)
		return false;
	s = client_recorder_source(d->recorder);
	if (flight_read_header(&s, &h, &err) != RC_OK)
		return false;
	for (uint32_t i = 0; i < h.nrings; i++) {
		unsigned k = 0;

		if (flight_read_ring(&s, &h, i, &ring, &err) != RC_OK)
			continue;
		*busy_ns += atomic_load(&ring.counts.busy_ns);
		if (ring.kind != FLIGHT_QUEUE || ring.state != FLIGHT_RING_USED)
			continue;
		while (k < *npids && pids[k] != ring.pid)
			k++;
		if (k == *npids && k < max)
			pids[(*npids)++] = ring.pid;
	}
	return true;
}

/* Lock held. */
static void
open_recorders(void)
{
	GpuSim__Reply *reply;

	if (client_status(g, &reply) != GPUSIM_OK)
		return;
	for (unsigned i = 0; i < ndevices; i++)
		for (size_t k = 0; k < reply->status->n_devices; k++) {
			const GpuSim__DeviceMetadata *m = reply->status->devices[k];

			if (m->deviceid && m->deviceid->value == devices[i].info.device.id)
				client_recorder_open(g, m, &devices[i].recorder);
		}
	wire_reply_free(reply);
}

/* ------------------------------------------------------------------ beginning and end */

static nvmlReturn_t
begin(void)
{
	struct gpusim_device_info *v = NULL;
	unsigned none[1], n;
	size_t nv = 0;
	enum gpusim_rc rc = gpusim_open(NULL, &g);

	if (rc == GPUSIM_OK)
		rc = gpusim_devices(g, &v, &nv);
	if (rc == GPUSIM_OK && !(devices = calloc(nv + 1, sizeof *devices)))
		rc = GPUSIM_NOMEM;
	ndevices = 0;
	for (size_t i = 0; rc == GPUSIM_OK && i < nv; i++)
		if (is_ours(&v[i])) {
			devices[ndevices].index = ndevices;
			devices[ndevices++].info = v[i];
		}
	free(v);
	if (rc != GPUSIM_OK) {
		gpusim_close(g);
		g = NULL;
		return of(rc);
	}
	open_recorders();
	for (unsigned i = 0; i < ndevices; i++) {
		look(&devices[i], &devices[i].busy_ns, none, 0, &n);
		devices[i].at_ns = clock_now_ns();
	}
	return NVML_SUCCESS;
}

nvmlReturn_t
nvmlInit_v2(void)
{
	nvmlReturn_t r = NVML_SUCCESS;

	pthread_mutex_lock(&lock);
	if (users == 0)
		r = begin();
	users += r == NVML_SUCCESS;
	pthread_mutex_unlock(&lock);
	return r;
}

nvmlReturn_t
nvmlInitWithFlags(unsigned int flags)
{
	(void)flags;
	return nvmlInit_v2();
}

nvmlReturn_t
nvmlShutdown(void)
{
	nvmlReturn_t r = NVML_ERROR_UNINITIALIZED;

	pthread_mutex_lock(&lock);
	if (users > 0)
		r = NVML_SUCCESS;
	if (users > 0 && --users == 0) {
		for (unsigned i = 0; i < ndevices; i++)
			client_recorder_close(devices[i].recorder);
		free(devices);
		devices = NULL;
		ndevices = 0;
		gpusim_close(g);
		g = NULL;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

const char *
nvmlErrorString(nvmlReturn_t result)
{
	static const struct {
		nvmlReturn_t r;
		const char *text;
	} texts[] = {{NVML_SUCCESS, "Success"},
		     {NVML_ERROR_UNINITIALIZED, "Uninitialized"},
		     {NVML_ERROR_INVALID_ARGUMENT, "Invalid Argument"},
		     {NVML_ERROR_NOT_SUPPORTED, "Not Supported"},
		     {NVML_ERROR_NO_PERMISSION, "Insufficient Permissions"},
		     {NVML_ERROR_ALREADY_INITIALIZED, "Already Initialized"},
		     {NVML_ERROR_NOT_FOUND, "Not Found"},
		     {NVML_ERROR_INSUFFICIENT_SIZE, "Insufficient Size"},
		     {NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"},
		     {NVML_ERROR_TIMEOUT, "Timeout"},
		     {NVML_ERROR_FUNCTION_NOT_FOUND, "Function Not Found"},
		     {NVML_ERROR_GPU_IS_LOST, "GPU is lost"},
		     {NVML_ERROR_MEMORY, "Insufficient Memory"},
		     {NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "Version Mismatch"}};

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
		if (texts[i].r == result)
			return texts[i].text;
	return "Unknown Error";
}

/* ------------------------------------------------------------------ what each call begins with */

/* Lock held; known handles alone, as a program may keep one past nvmlShutdown. */
static bool
is_device(const struct nvmlDevice_st *d)
{
	for (unsigned i = 0; i < ndevices; i++)
		if (d == &devices[i])
			return true;
	return false;
}

/* Take the lock. The caller releases it, also after a failure. */
static nvmlReturn_t
enter(bool argument)
{
	pthread_mutex_lock(&lock);
	return users == 0 ? NVML_ERROR_UNINITIALIZED
	       : argument ? NVML_SUCCESS
			  : NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t
enter_device(const struct nvmlDevice_st *d, bool argument)
{
	nvmlReturn_t r = enter(argument);

	return r == NVML_SUCCESS && !is_device(d) ? NVML_ERROR_INVALID_ARGUMENT : r;
}

static nvmlReturn_t
leave(nvmlReturn_t r)
{
	pthread_mutex_unlock(&lock);
	return r;
}

static nvmlReturn_t
give(nvmlReturn_t r, const char *text, char *out, unsigned length)
{
	if (r == NVML_SUCCESS && length <= strlen(text))
		r = NVML_ERROR_INSUFFICIENT_SIZE;
	if (r == NVML_SUCCESS)
		memcpy(out, text, strlen(text) + 1);
	return leave(r);
}

nvmlReturn_t
nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	return give(enter(version != NULL), DRIVER, version, length);
}

nvmlReturn_t
nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	return give(enter(version != NULL), NVML_API_VERSION_STR "." DRIVER, version, length);
}

#define NUMBER(name, type, entered, out, value) \
	nvmlReturn_t name                       \
	{                                       \
		nvmlReturn_t r = entered;       \
                                                \
		if (r == NVML_SUCCESS)          \
			*out = (type)(value);   \
		return leave(r);                \
	}
NUMBER(nvmlSystemGetCudaDriverVersion(int *out), int, enter(out != NULL), out, CUDA)
NUMBER(nvmlSystemGetCudaDriverVersion_v2(int *out), int, enter(out != NULL), out, CUDA)
NUMBER(nvmlDeviceGetCount_v2(unsigned int *out), unsigned, enter(out != NULL), out, ndevices)
NUMBER(nvmlDeviceGetIndex(nvmlDevice_t d, unsigned int *out), unsigned,
       enter_device(d, out != NULL), out, d->index)
NUMBER(nvmlDeviceGetMinorNumber(nvmlDevice_t d, unsigned int *out), unsigned,
       enter_device(d, out != NULL), out, d->index)
NUMBER(nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b,
					   nvmlGpuTopologyLevel_t *out),
       nvmlGpuTopologyLevel_t, enter_device(a, out &&is_device(b)), out,
       a == b ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_NODE)
NUMBER(nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, nvmlGpuP2PCapsIndex_t index,
			      nvmlGpuP2PStatus_t *out),
       nvmlGpuP2PStatus_t, enter_device(a, out &&is_device(b) && a != b), out,
       index == NVML_P2P_CAPS_INDEX_NVLINK ? NVML_P2P_STATUS_NOT_SUPPORTED : NVML_P2P_STATUS_OK)

/* ------------------------------------------------------------------ finding a device, and its names */

static void
uuid_of(const struct nvmlDevice_st *d, char out[NVML_DEVICE_UUID_BUFFER_SIZE])
{
	uint64_t id = d->info.device.id;

	snprintf(out, NVML_DEVICE_UUID_BUFFER_SIZE, "GPU-67707573-0000-0000-%04x-%012" PRIx64,
		 (unsigned)(id >> 48), id & 0xffffffffffff);
}

/* The bus is the index + 1, as in the CUDA runtime. */
static void
pci_of(const struct nvmlDevice_st *d, nvmlPciInfo_t *out)
{
	*out = (nvmlPciInfo_t){.domain = (d->index + 1) >> 8, .bus = (d->index + 1) & 0xff};
	snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "%04x:%02x:00.0", out->domain & 0xffff,
		 out->bus & 0xff);
	snprintf(out->busId, sizeof out->busId, "%08x:%02x:00.0", out->domain, out->bus);
}

nvmlReturn_t
nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	nvmlReturn_t r = enter(device != NULL);

	if (r == NVML_SUCCESS && index >= ndevices)
		r = NVML_ERROR_INVALID_ARGUMENT;
	if (r == NVML_SUCCESS)
		*device = &devices[index];
	return leave(r);
}

nvmlReturn_t
nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	char text[NVML_DEVICE_UUID_BUFFER_SIZE];
	nvmlReturn_t r = enter(uuid && device);
	unsigned i = 0;

	for (; r == NVML_SUCCESS && i < ndevices; i++) {
		uuid_of(&devices[i], text);
		if (strcmp(text, uuid) == 0)
			break;
	}
	if (r == NVML_SUCCESS && i == ndevices)
		r = NVML_ERROR_NOT_FOUND;
	if (r == NVML_SUCCESS)
		*device = &devices[i];
	return leave(r);
}

nvmlReturn_t
nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
	unsigned domain = 0, bus = 0, slot = 1, function = 0;
	nvmlReturn_t r = enter(bus_id && device);

	if (r == NVML_SUCCESS && sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3)
		r = NVML_ERROR_INVALID_ARGUMENT;
	domain = domain << 8 | bus;
	if (r == NVML_SUCCESS && (slot || function || domain < 1 || domain > ndevices))
		r = NVML_ERROR_NOT_FOUND;
	if (r == NVML_SUCCESS)
		*device = &devices[domain - 1];
	return leave(r);
}

nvmlReturn_t
nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	return give(enter_device(device, name != NULL), "gpusim device", name, length);
}

nvmlReturn_t
nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	char text[NVML_DEVICE_UUID_BUFFER_SIZE] = "";
	nvmlReturn_t r = enter_device(device, uuid != NULL);

	if (r == NVML_SUCCESS)
		uuid_of(device, text);
	return give(r, text, uuid, length);
}

nvmlReturn_t
nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	nvmlReturn_t r = enter_device(device, pci != NULL);

	if (r == NVML_SUCCESS)
		pci_of(device, pci);
	return leave(r);
}

nvmlReturn_t
nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	nvmlReturn_t r = enter_device(device, major && minor);

	if (r == NVML_SUCCESS) {
		*major = MAJOR;
		*minor = 0;
	}
	return leave(r);
}

/* ------------------------------------------------------------------ what a device does */

/* The coordinator's present record of a device. Lock held. */
static nvmlReturn_t
refresh(struct nvmlDevice_st *d)
{
	struct gpusim_device_info *v = NULL;
	nvmlReturn_t r = NVML_ERROR_GPU_IS_LOST;
	enum gpusim_rc rc;
	size_t n = 0;

	rc = gpusim_devices(g, &v, &n);
	for (size_t i = 0; i < n; i++)
		if (v[i].device.id == d->info.device.id && !v[i].lost) {
			d->info = v[i];
			r = NVML_SUCCESS;
		}
	free(v);
	return rc == GPUSIM_OK ? r : of(rc);
}

nvmlReturn_t
nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	nvmlReturn_t r = enter_device(device, memory != NULL);

	if (r == NVML_SUCCESS)
		r = refresh(device);
	if (r == NVML_SUCCESS) {
		memory->total = device->info.max_addr.addr - device->info.min_addr.addr;
		memory->used = device->info.used_bytes;
		memory->free = memory->total - memory->used;
	}
	return leave(r);
}

nvmlReturn_t
nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	nvmlMemory_t m;
	nvmlReturn_t r;

	if (memory && memory->version != nvmlMemory_v2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	r = nvmlDeviceGetMemoryInfo(device, memory ? &m : NULL);
	if (r == NVML_SUCCESS)
		*memory = (nvmlMemory_v2_t){nvmlMemory_v2, m.total, 0, m.free, m.used};
	return r;
}

nvmlReturn_t
nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
	nvmlReturn_t r = enter_device(device, rates != NULL);
	uint64_t busy, now, passed, total;
	unsigned none[1], n;

	if (r == NVML_SUCCESS)
		r = refresh(device);
	if (r == NVML_SUCCESS && !look(device, &busy, none, 0, &n))
		r = NVML_ERROR_NOT_SUPPORTED;
	if (r != NVML_SUCCESS)
		return leave(r);
	now = clock_now_ns();
	passed = now - device->at_ns;
	if (passed >= NS_PER_MS) {
		busy -= device->busy_ns;
		device->percent = (unsigned)(busy < passed ? busy * 100 / passed : 100);
		device->busy_ns += busy;
		device->at_ns = now;
	}
	total = device->info.max_addr.addr - device->info.min_addr.addr;
	rates->gpu = device->percent;
	rates->memory = (unsigned)(device->info.used_bytes * 100 / total);
	return leave(r);
}

nvmlReturn_t
nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
					nvmlProcessInfo_t *infos)
{
	nvmlReturn_t r = enter_device(device, count && (!*count || infos));
	unsigned pids[RINGS], n;
	uint64_t busy;

	if (r == NVML_SUCCESS && !look(device, &busy, pids, RINGS, &n))
		r = NVML_ERROR_NOT_SUPPORTED;
	if (r != NVML_SUCCESS)
		return leave(r);
	if (n > *count)
		r = NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < n && r == NVML_SUCCESS; i++)
		infos[i] = (nvmlProcessInfo_t){
		    pids[i], (unsigned long long)NVML_VALUE_NOT_AVAILABLE, UINT32_MAX, UINT32_MAX};
	*count = n;
	return leave(r);
}

nvmlReturn_t
nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
					 nvmlProcessInfo_t *infos)
{
	nvmlReturn_t r = enter_device(device, count != NULL);

	(void)infos;
	if (r == NVML_SUCCESS)
		*count = 0;
	return leave(r);
}

#define NO(name)                                                                \
	nvmlReturn_t name(nvmlDevice_t device, ...)                             \
	{                                                                       \
		nvmlReturn_t r = enter_device(device, true);                    \
                                                                                \
		return leave(r == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : r); \
	}
GPUSIM_NVML_NO(NO)
