/*
 * rank_call - for python.py: all-reduces of 8 bytes by the C API, each waited for. A shared object.
 *
 * Microseconds of a call, the mean of n; below 0: a call failed.
 */
#include <gpusim.h>

#include <time.h>

static double
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

double rank_call(struct gpusim *g, struct gpusim_comm *comm, struct gpusim_device device,
		 struct gpusim_addr addr, int n);

double
rank_call(struct gpusim *g, struct gpusim_comm *comm, struct gpusim_device device,
	  struct gpusim_addr addr, int n)
{
	const struct gpusim_stream stream = {0};
	double begin = now_us();

	for (int i = 0; i < n; i++)
		if (gpusim_allreduce(comm, addr, addr, 2, GPUSIM_F32, GPUSIM_SUM, stream) ||
		    gpusim_stream_sync(g, device, stream))
			return -1;
	return (now_us() - begin) / n;
}
