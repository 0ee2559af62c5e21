/*
 * call [CALLS] - one 8-byte all-reduce over two devices by the C API, each a call that waits for its
 * result: prints the median in microseconds. Run it under gpuctl run -n 2.
 */
#include <gpusim.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { NRANKS = 2, COUNT = 2 };

static double
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void
must(enum gpusim_rc rc)
{
	if (rc != GPUSIM_OK) {
		fprintf(stderr, "call: %s\n", gpusim_error());
		exit(gpusim_rc_exit(rc));
	}
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Vectors {1, 2} and {10, 20}; the sum has to be on both. */
static void
give_input(struct gpusim *g, struct gpusim_comm *comm, struct gpusim_addr *in, struct gpusim_addr *out)
{
	const float v[NRANKS][COUNT] = {{1, 2}, {10, 20}};

	for (uint32_t r = 0; r < NRANKS; r++) {
		must(gpusim_malloc(g, gpusim_comm_device(comm, r), sizeof v[r], GPUSIM_LEASE, &in[r]));
		must(gpusim_malloc(g, gpusim_comm_device(comm, r), sizeof v[r], GPUSIM_LEASE, &out[r]));
		must(gpusim_memcpy_h2d(g, gpusim_comm_device(comm, r), in[r], v[r], sizeof v[r]));
	}
}

static int
check_output(struct gpusim *g, struct gpusim_comm *comm, const struct gpusim_addr *out)
{
	float v[COUNT];

	for (uint32_t r = 0; r < NRANKS; r++) {
		must(gpusim_memcpy_d2h(g, v, gpusim_comm_device(comm, r), out[r], sizeof v));
		if (v[0] != 11 || v[1] != 22) {
			fprintf(stderr, "call: rank %u: wrong sum\n", r);
			return 1;
		}
	}
	return 0;
}

int
main(int argc, char **argv)
{
	int ncalls = argc > 1 ? atoi(argv[1]) : 500, status;
	struct gpusim_addr in[NRANKS], out[NRANKS];
	struct gpusim_collective c = {GPUSIM_COLLECTIVE_INIT, .coll = GPUSIM_ALLREDUCE,
				      .dtype = GPUSIM_F32,
				      .redop = GPUSIM_SUM,
				      .nelem = COUNT,
				      .send = in,
				      .recv = out};
	const struct gpusim_comm_config lease = {GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE};
	struct gpusim_comm *comm;
	struct gpusim *g;
	double *t;

	if (ncalls < 1 || !(t = calloc((size_t)ncalls, sizeof *t))) {
		fprintf(stderr, "usage: call [CALLS]\n");
		return 2;
	}
	must(gpusim_open(NULL, &g));
	must(gpusim_comm_init_all(g, NRANKS, NULL, &lease, &comm));
	give_input(g, comm, in, out);
	for (int i = -ncalls / 10; i < ncalls; i++) { /* the first ones warm up */
		double begin = now_us();

		must(gpusim_collective(comm, &c, GPUSIM_SYNC));
		if (i >= 0)
			t[i] = now_us() - begin;
	}
	qsort(t, (size_t)ncalls, sizeof *t, compare);
	status = check_output(g, comm, out);
	if (status == 0)
		printf("%.2f\n", t[ncalls / 2]);
	gpusim_comm_free(comm);
	gpusim_close(g);
	free(t);
	return status;
}
