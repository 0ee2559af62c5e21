/*
 * The process: its connection, its devices, and each thread's choices.
 *
 * Design notes. The first call connects, under a once; a failure is final, as in CUDA. Nothing is undone at
 * exit: the connection's end frees leases and closes queues, however the process ends. A child of fork has
 * copies of the connection's sockets and none of its threads, so every call in it fails at once.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/parse.h"
#include "cudart/cuda_impl.h"

static struct {
	pthread_once_t once;
	cudaError_t e; /* of connecting */
	struct gpusim *g;
	struct device *devices;
	int ndevices;
	uint32_t timeout_ms;
} process = {.once = PTHREAD_ONCE_INIT};

static atomic_bool forked;
static _Thread_local int current;
static _Thread_local bool forbidden;

static void
in_child(void)
{
	atomic_store(&forked, true);
}

/* True in a child of fork: this library must not touch the parent's connection. */
static bool
cuda_is_forked(void)
{
	return atomic_load_explicit(&forked, memory_order_relaxed);
}

/* ------------------------------------------------------------------ devices */

/* The bytes of cudaDeviceProp.uuid, as CUDA writes them: "gpus", four zeros, the id. */
static void
format_uuid(uint64_t id, char out[VISIBLE_UUID])
{
	snprintf(out, VISIBLE_UUID, "GPU-%08x-0000-0000-%04x-%012" PRIx64, 0x67707573u,
		 (unsigned)(id >> 48), id & 0xffffffffffff);
}

/* Collect this host's live devices that are not spares, in the coordinator's order. */
static size_t
keep_own(struct gpusim_device_info *v, size_t n)
{
	char host[HOST_ID_MAX];
	size_t kept = 0;

	host_id(host);
	for (size_t i = 0; i < n; i++)
		if (*host && strcmp(v[i].host, host) == 0 && !v[i].lost && !v[i].spare &&
		    *v[i].mem_path)
			v[kept++] = v[i];
	return kept;
}

static struct space_device
range_of(const struct gpusim_device_info *v, size_t place, int ordinal)
{
	const struct gpusim_device_info *d = &v[place];
	struct space_device r = {.device = d->device,
				 .nbytes = d->max_addr.addr - d->min_addr.addr,
				 .min_addr = d->min_addr.addr,
				 .ordinal = ordinal,
				 .place = (int)place};

	snprintf(r.path, sizeof r.path, "%s", d->mem_path);
	return r;
}

/* Sort visible devices first; *nvisible: their number. */
static enum rc
reserve_ranges(const struct gpusim_device_info *v, size_t n, size_t *nvisible, struct err *err)
{
	struct space_device *range = alloc_zeroed(n, sizeof *range);
	char(*uuid)[VISIBLE_UUID] = alloc_zeroed(n, sizeof *uuid);
	size_t *index = alloc_zeroed(n, sizeof *index), k;
	enum rc rc = RC_OK;

	if (!range || !uuid || !index) {
		rc = err_set(err, RC_NOMEM, "out of memory");
		goto out;
	}
	for (size_t i = 0; i < n; i++)
		format_uuid(v[i].device.id, uuid[i]);
	k = visible_parse(getenv("CUDA_VISIBLE_DEVICES"), (const char(*)[VISIBLE_UUID])uuid, n,
			  index);
	*nvisible = k;
	for (size_t i = 0; i < k; i++)
		range[i] = range_of(v, index[i], (int)i);
	for (size_t i = 0; i < n; i++) {
		bool visible = false;

		for (size_t j = 0; j < *nvisible; j++)
			visible |= index[j] == i;
		if (!visible)
			range[k++] = range_of(v, i, -1);
	}
	rc = space_reserve(range, n, err);
out:
	free(range);
	free(uuid);
	free(index);
	return rc;
}

static enum rc
make_devices(size_t n, struct err *err)
{
	process.devices = alloc_zeroed(n, sizeof *process.devices);
	if (!process.devices)
		return err_set(err, RC_NOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		struct device *d = &process.devices[i];

		d->ordinal = (int)i;
		d->space = space_at(i);
		snprintf(d->name, sizeof d->name, "gpusim device");
		d->flags = cudaDeviceMapHost;
		pthread_mutex_init(&d->lock, NULL);
		d->peers = space_peers(d->ordinal);
	}
	process.ndevices = (int)n;
	return RC_OK;
}

/* ------------------------------------------------------------------ connecting */

/* "30s", or a number of milliseconds. */
static uint32_t
read_timeout(void)
{
	const char *text = getenv("GPUSIM_TIMEOUT");
	struct err err = {0};
	uint64_t ns = 0;

	if (!text || !*text)
		return 0;
	if (text[strspn(text, "0123456789")] == '\0')
		ns = strtoull(text, NULL, 10) * NS_PER_MS;
	else if (parse_duration(text, &ns, &err) != RC_OK) {
		err_prefix(&err, "GPUSIM_TIMEOUT");
		cuda_tell(err.text);
	}
	return ns / NS_PER_MS > UINT32_MAX ? UINT32_MAX : (uint32_t)(ns / NS_PER_MS);
}

static cudaError_t
failed(const char *sentence, cudaError_t e)
{
	cuda_tell(sentence);
	return e;
}

static cudaError_t
connect_now(void)
{
	struct gpusim_device_info *v = NULL;
	struct err err = {0};
	size_t n = 0, visible = 0;
	cudaError_t e = cudaSuccess;

	process.timeout_ms = read_timeout();
	if (gpusim_open(NULL, &process.g) != GPUSIM_OK)
		return failed(gpusim_error(), cudaErrorNoDevice);
	if (gpusim_devices(process.g, &v, &n) != GPUSIM_OK)
		return failed(gpusim_error(), cudaErrorInitializationError);
	n = keep_own(v, n);
	if (n == 0)
		e = failed("no device of this host has joined the coordinator", cudaErrorNoDevice);
	else if (n > SPACE_DEVICES_MAX)
		e = failed("more devices than this library supports", cudaErrorInitializationError);
	else if (reserve_ranges(v, n, &visible, &err) != RC_OK ||
		 make_devices(visible, &err) != RC_OK)
		e = failed(err.text, cudaErrorInitializationError);
	else if (visible == 0)
		e = cudaErrorNoDevice;
	free(v);
	return e;
}

static void
connect_once(void)
{
	pthread_atfork(NULL, NULL, in_child);
	process.e = connect_now();
}

cudaError_t
cuda_connect(void)
{
	if (cuda_is_forked())
		return cudaErrorInitializationError;
	if (forbidden)
		return cudaErrorNotPermitted;
	pthread_once(&process.once, connect_once);
	return process.e;
}

cudaError_t
cuda_sticky(const struct device *d)
{
	_Atomic(uint32_t) *e = d ? atomic_load(&d->kernel_error) : NULL;

	return e ? (cudaError_t)atomic_load(e) : cudaSuccess;
}

cudaError_t
cuda_enter(void)
{
	cudaError_t e = cuda_connect();

	return e == cudaSuccess ? cuda_sticky(cuda_current()) : e;
}

struct gpusim *
cuda_connection(void)
{
	return process.g;
}

uint32_t
cuda_timeout_ms(void)
{
	return process.timeout_ms;
}

void
cuda_forbid_calls(bool forbid)
{
	forbidden = forbid;
}

int
cuda_device_count(void)
{
	return process.ndevices;
}

struct device *
cuda_device_at(int ordinal)
{
	return ordinal >= 0 && ordinal < process.ndevices ? &process.devices[ordinal] : NULL;
}

struct device *
cuda_current(void)
{
	return &process.devices[current];
}

cudaError_t
cuda_set_current(int ordinal)
{
	if (!cuda_device_at(ordinal))
		return cudaErrorInvalidDevice;
	current = ordinal;
	return cudaSuccess;
}

/* ------------------------------------------------------------------ hooks */

enum gpusim_rc
gpusim_cuda_connect(struct gpusim **out)
{
	cudaError_t e = cuda_connect();

	/* A program may use communicators of other hosts' devices only. */
	if (e != cudaSuccess && !(e == cudaErrorNoDevice && process.g))
		return process.g ? GPUSIM_FAILED : GPUSIM_UNREACHABLE;
	*out = process.g;
	return GPUSIM_OK;
}

enum gpusim_rc
gpusim_cuda_device(int ordinal, struct gpusim_device *out)
{
	if (cuda_connect() != cudaSuccess || !cuda_device_at(ordinal))
		return GPUSIM_NOTFOUND;
	*out = cuda_device_at(ordinal)->space->device;
	return GPUSIM_OK;
}
