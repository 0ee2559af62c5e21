/* The runtime when queues fail: sticky errors, dropped work, cleared errors; and the end of a device. */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "cuda_runtime_api.h"
#include "cudart/hooks.h"
#include "programs.h"

static enum gpusim_rc
append_bad_copy(void *arg, struct cmdq *q)
{
	struct cmdq_command c = {.kind = CMDQ_COPY, .u.bytes = {.dst = 1, .src = 1, .nbytes = 8}};

	(void)arg;
	return cmdq_append(q, &c, 1, NULL);
}

static int dropped;

static void
count_drop(void *arg)
{
	(void)arg;
	dropped++;
}

static atomic_int ran;
static _Atomic(cudaError_t) told = cudaSuccess;

static void
run(void *arg)
{
	(void)arg;
	ran++;
}

static void
tell(cudaStream_t s, cudaError_t e, void *arg)
{
	(void)s, (void)arg;
	told = e;
}

static void
test_failure(void)
{
	cudaStream_t s, other;
	cudaEvent_t before, after;
	struct cudaPointerAttributes a;
	char *p, c = 0;

	ok(cudaMalloc((void **)&p, 100) == cudaSuccess, "memory");
	cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
	cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
	cudaEventCreateWithFlags(&before, cudaEventDisableTiming);
	cudaEventCreateWithFlags(&after, cudaEventDisableTiming);
	cudaMemsetAsync(p, 1, 100, s);
	cudaEventRecord(before, s);
	ok(gpusim_cuda_enqueue(s, 1, append_bad_copy, NULL, count_drop) != cudaSuccess,
	   "a stream of another device is refused");
	ok(gpusim_cuda_enqueue(s, 0, append_bad_copy, NULL, count_drop) == cudaSuccess &&
	       dropped == 2,
	   "a failing command is enqueued, and its argument released");
	cudaLaunchHostFunc(s, run, NULL);
	cudaStreamAddCallback(s, tell, NULL, 0);
	cudaMemsetAsync(p, 2, 100, s);
	cudaEventRecord(after, s);
	ok(cudaStreamSynchronize(s) == cudaErrorIllegalAddress, "synchronize tells the failure");
	ok(cudaStreamQuery(s) == cudaErrorIllegalAddress, "and it is sticky");
	ok(cudaEventSynchronize(before) == cudaSuccess, "an event before it is well");
	ok(cudaEventSynchronize(after) == cudaErrorIllegalAddress, "one after it is not");
	ok(cudaDeviceSynchronize() == cudaErrorIllegalAddress, "the device tells it too");
	cudaMemsetAsync(p, 3, 100, other);
	ok(cudaStreamSynchronize(other) == cudaSuccess, "another stream is well");
	ok(cudaMemcpyAsync(&c, p, 1, cudaMemcpyDeviceToHost, other) == cudaSuccess && c == 3,
	   "nothing ran after the failure");
	gpusim_cuda_forgive(0, 12345);
	gpusim_cuda_forgive(1, 0);
	ok(cudaStreamQuery(s) == cudaErrorIllegalAddress,
	   "another communicator's forgiving is not its, nor another device's");
	gpusim_cuda_forgive(0, 0);
	ok(cudaStreamQuery(s) == cudaSuccess, "it is forgiven");
	cudaLaunchHostFunc(s, run, NULL);
	cudaMemsetAsync(p, 4, 100, s);
	ok(cudaStreamSynchronize(s) == cudaSuccess && ran == 1,
	   "it goes on; the host function in between did not run");
	ok(told == cudaErrorLaunchFailure, "the callback in between was told");
	ok(cudaMemcpy(&c, p + 99, 1, cudaMemcpyDeviceToHost) == cudaSuccess && c == 4,
	   "with new work");
	ok(cudaPointerGetAttributes(&a, p) == cudaSuccess && a.device == 0, "pointers stay");
	cudaEventDestroy(before);
	cudaEventDestroy(after);
}

static void
test_places(void)
{
	struct gpusim_cuda_place place;
	struct gpusim_device d;
	struct gpusim *g;
	int here = 0;
	char *p;

	ok(gpusim_cuda_connect(&g) == GPUSIM_OK && g, "the connection");
	ok(gpusim_cuda_device(1, &d) == GPUSIM_OK && d.id, "a device");
	ok(gpusim_cuda_device(2, &d) == GPUSIM_NOTFOUND, "no device");
	cudaSetDevice(1);
	cudaMalloc((void **)&p, 1000);
	cudaSetDevice(0);
	ok(gpusim_cuda_find(p + 8, 992, &place) && place.ordinal == 1 && place.addr,
	   "a device's pointer");
	ok(!gpusim_cuda_find(p + 8, 1017, &place),
	   "a range that leaves its allocation of whole 512 bytes");
	ok(!gpusim_cuda_find(&here, 4, &place) && !place.host, "the host's");
	cudaMallocHost((void **)&p, 10);
	ok(!gpusim_cuda_find(p, 10, &place) && place.host, "pinned");
	ok(gpusim_cuda_drain(1, 1000) == GPUSIM_OK, "drained");
}

static void
test_end_of_device(struct gpusim *g)
{
	struct gpusim_device_info *v;
	cudaStream_t s;
	cudaError_t e;
	size_t n;
	void *p;

	cudaSetDevice(1);
	cudaStreamCreate(&s);
	cudaMalloc(&p, 1 << 20);
	cudaMemsetAsync(p, 0, 1 << 20, s);
	cudaStreamSynchronize(s);
	if (gpusim_devices(g, &v, &n) != GPUSIM_OK || n != 2)
		tap_bail("no devices");
	kill((pid_t)v[1].pid, SIGKILL);
	free(v);
	do { /* until it has ended */
		cudaMemsetAsync(p, 0, 1 << 20, s);
		e = cudaStreamSynchronize(s);
	} while (e == cudaSuccess);
	ok(e == cudaErrorDevicesUnavailable, "a wait for a device that was killed ends");
	ok(cudaMemcpy(&v, p, 8, cudaMemcpyDeviceToHost) != cudaSuccess, "a copy fails");
	cudaSetDevice(0);
	ok(cudaDeviceSynchronize() == cudaSuccess, "the other device works");
}

int
main(void)
{
	struct launch_config cfg = two_devices();
	struct gpusim *g;
	struct launch *l = start(&cfg, &g);

	setenv("GPUSIM_COORD", launch_coordinator(l), 1);
	test_places();
	test_failure();
	test_end_of_device(g);
	gpusim_close(g);
	launch_end(l);
	return tap_done();
}
