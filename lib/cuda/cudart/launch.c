/*
 * Launches: kernel<<<...>>>(...), cudaLaunchKernel and its variants. The arguments of a launch are
 * copied, because the call returns at once and a graph launches again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "cudart/cuda_impl.h"
#include "cudart/helper.h"
#include "cudart/ipc.h"
#include "cudart/launch.h"
#include "cudart/registry.h"
#include "cudart/space.h"

#define ARGS_MAX   32764 /* bytes of parameters, as in CUDA 12 */
#define PARAMS_MAX 1024
#define NESTED	   16 /* launches whose arguments launch */

struct launch {
	int ordinal;
	struct helper_launch what;
	uint32_t *offset;
	unsigned char *args;
};

/* ---- a copy */

/* ---- parameters that point to memory that kernels cannot access */

#define LEAST 65536 /* addresses below are not mapped */

/* Search the list of mappings: private, and writable. Called only for values that are addresses. */
static bool
is_private(uint64_t value)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	bool found = false, is = false;

	while (f && !found && fgets(line, sizeof line, f)) {
		uint64_t from, to;
		char mode[8];

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &from, &to, mode) != 3 ||
		    value < from || value >= to)
			continue;
		found = true;
		is = mode[1] == 'w' && mode[3] == 'p';
	}
	if (f)
		fclose(f);
	return is;
}

/*
 * Return true if a parameter's value is the address of the program's own writable memory: malloc's,
 * a stack's, a variable's, or memory of cudaHostRegister. A helper has a copy of it, so a kernel
 * that uses it would read old values, and its writes would be lost. A GPU faults.
 */
static bool
is_host(uint64_t value)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	unsigned char there;

	if (value < LEAST || value >> 47 || space_find((const void *)(uintptr_t)value) ||
	    space_is_pinned((const void *)(uintptr_t)value))
		return false;
	if (mincore((void *)(uintptr_t)(value / page * page), 1, &there) != 0)
		return false;
	return is_private(value);
}

/* ---- launches */

static void
launch_free(void *arg)
{
	struct launch *l = arg;

	free(l->offset);
	free(l->args);
	free(l);
}

/* Compute the offset of each parameter; returns the bytes of all, or 0: too many. */
static uint32_t
lay_out(const struct __gpusim_kernel *k, uint32_t *offset)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < k->nparams; i++) {
		uint32_t align = k->params[i].align < 16 ? k->params[i].align : 16;

		n = (n + align - 1) / align * align;
		offset[i] = n;
		n += k->params[i].nbytes;
		if (n > ARGS_MAX)
			return 0;
	}
	return n ? n : 1;
}

static uint64_t
as_word(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof v);
	return v;
}

static cudaError_t
copy_args(struct launch *l, struct __gpusim_kernel *k, void **args)
{
	l->offset = alloc_zeroed(k->nparams + 1, sizeof *l->offset);
	if (!l->offset)
		return cudaErrorMemoryAllocation;
	l->what.nbytes = k->nparams > PARAMS_MAX ? 0 : lay_out(k, l->offset);
	if (l->what.nbytes == 0)
		return cudaErrorInvalidValue;
	l->args = alloc_zeroed(l->what.nbytes, 1);
	if (!l->args)
		return cudaErrorMemoryAllocation;
	for (unsigned i = 0; i < k->nparams; i++) {
		if (!args || !args[i])
			return cudaErrorInvalidValue;
		memcpy(l->args + l->offset[i], args[i], k->params[i].nbytes);
		if (l->what.host_param == 0 && k->params[i].nbytes == 8 &&
		    is_host(as_word(args[i])))
			l->what.host_param = i + 1;
	}
	l->what.kernel = k;
	l->what.nparams = k->nparams;
	l->what.offset = l->offset;
	l->what.args = l->args;
	return cudaSuccess;
}

/* ---- limits */

static int
shared_limit(const struct __gpusim_kernel *k)
{
	return k->max_dynamic_shared > LAUNCH_SHARED ? k->max_dynamic_shared : LAUNCH_SHARED;
}

int
launch_per_sm(uint64_t block, size_t shared)
{
	uint64_t n = block > LAUNCH_THREADS ? 0 : LAUNCH_SM_RESIDENT / block;

	if (n > LAUNCH_SM_WAITING)
		n = LAUNCH_SM_WAITING;
	if (shared && n > LAUNCH_SHARED_MAX / shared)
		n = LAUNCH_SHARED_MAX / shared;
	return (int)n;
}

static cudaError_t
check(const struct __gpusim_kernel *k, dim3 grid, dim3 block, size_t shared)
{
	uint64_t threads = (uint64_t)block.x * block.y * block.z;

	if (!grid.x || !grid.y || !grid.z || grid.x > INT32_MAX || grid.y > 65535 || grid.z > 65535)
		return cudaErrorInvalidConfiguration;
	if (!threads || block.x > 1024 || block.y > 1024 || block.z > 64 ||
	    threads > LAUNCH_THREADS)
		return cudaErrorInvalidConfiguration;
	return shared > (size_t)shared_limit(k) ? cudaErrorInvalidValue : cudaSuccess;
}

/* ---- enqueueing */

static enum gpusim_rc
enqueue(void *arg, struct cmdq *q)
{
	struct launch *l = arg;
	struct err err = {0};
	enum rc rc = helper_enqueue(l->ordinal, q, &l->what, &err);

	if (rc != RC_OK)
		cuda_tell(err.text);
	return (enum gpusim_rc)rc;
}

static cudaError_t
launch(struct __gpusim_kernel *k, dim3 grid, dim3 block, void **args, size_t shared,
       cudaStream_t stream, bool cooperative)
{
	struct err err = {0};
	struct launch *l;
	uint32_t resident = 0;
	cudaError_t e = cuda_enter();

	if (e == cudaSuccess)
		e = check(k, grid, block, shared);
	if (e == cudaSuccess) {
		resident = LAUNCH_SMS *
			   (uint32_t)launch_per_sm((uint64_t)block.x * block.y * block.z, shared);
		if (cooperative && (uint64_t)grid.x * grid.y * grid.z > resident)
			e = cudaErrorCooperativeLaunchTooLarge;
	}
	if (e != cudaSuccess)
		return e;
	ipc_check();
	l = calloc(1, sizeof *l);
	if (!l)
		return cudaErrorMemoryAllocation;
	l->ordinal = cuda_current()->ordinal;
	e = copy_args(l, k, args);
	if (e == cudaSuccess && helper_error(l->ordinal))
		e = (cudaError_t)helper_error(l->ordinal);
	if (e == cudaSuccess && helper_start(l->ordinal, &err) != RC_OK) {
		cuda_tell(err.text);
		e = cudaErrorLaunchFailure;
	}
	if (e != cudaSuccess) {
		launch_free(l);
		return e;
	}
	memcpy(l->what.grid, (uint32_t[3]){grid.x, grid.y, grid.z}, sizeof l->what.grid);
	memcpy(l->what.block, (uint32_t[3]){block.x, block.y, block.z}, sizeof l->what.block);
	l->what.shared = shared;
	l->what.resident = resident;
	l->what.cooperative = cooperative;
	return gpusim_cuda_enqueue(stream, l->ordinal, enqueue, l, launch_free);
}

static cudaError_t
launch_function(const void *func, dim3 grid, dim3 block, void **args, size_t shared,
		cudaStream_t stream, bool cooperative)
{
	struct __gpusim_kernel *k = registry_find(func);

	return cuda_done(k ? launch(k, grid, block, args, shared, stream, cooperative)
			   : cudaErrorInvalidDeviceFunction);
}

cudaError_t
cudaLaunchKernel(const void *func, dim3 grid, dim3 block, void **args, size_t shared,
		 cudaStream_t stream)
{
	return launch_function(func, grid, block, args, shared, stream, false);
}

/* Attributes are hints, except the one for cooperative launches. */
cudaError_t
cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
	bool cooperative = false;

	if (!config)
		return cuda_done(cudaErrorInvalidValue);
	for (unsigned i = 0; i < config->numAttrs; i++)
		if (config->attrs[i].id == cudaLaunchAttributeCooperative)
			cooperative = config->attrs[i].val.cooperative != 0;
	return launch_function(func, config->gridDim, config->blockDim, args,
			       config->dynamicSmemBytes, config->stream, cooperative);
}

cudaError_t
cudaLaunchCooperativeKernel(const void *func, dim3 grid, dim3 block, void **args, size_t shared,
			    cudaStream_t stream)
{
	return launch_function(func, grid, block, args, shared, stream, true);
}

cudaError_t
cudaLaunchCooperativeKernelMultiDevice(struct cudaLaunchParams *list, unsigned n, unsigned flags)
{
	(void)list, (void)n, (void)flags;
	return cuda_done(cudaErrorNotSupported);
}

/* ---- kernel<<<...>>>(...) */

struct config {
	dim3 grid, block;
	size_t shared;
	cudaStream_t stream;
};

static _Thread_local struct config configs[NESTED];
static _Thread_local unsigned nconfigs;

void
__gpusim_configure(const unsigned grid[3], const unsigned block[3], size_t shared,
		   cudaStream_t stream)
{
	/* Left over from an argument that threw. */
	if (nconfigs == NESTED)
		memmove(configs, configs + 1, --nconfigs * sizeof *configs);
	configs[nconfigs++] = (struct config){
	    {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared, stream};
}

void
__gpusim_launch(struct __gpusim_kernel *k, int registered, void **args)
{
	struct config c;

	(void)registered;
	if (nconfigs == 0) {
		cuda_done(cudaErrorMissingConfiguration);
		return;
	}
	c = configs[--nconfigs];
	cuda_done(launch(k, c.grid, c.block, args, c.shared, c.stream, false));
}
