/*
 * lab_part_a N [COUNT] - the lab's Part A against the C API: one vector of COUNT doubles on each of
 * N devices, summed by a ring all-reduce inside a group, read back and compared.
 *
 *	gpuctl run -n 3 -- build/examples/lab_part_a 3
 *
 * Device r holds r + i/2 at index i, so every sum is exact. Exits 0 when every element of every
 * device is right.
 */
#include <gpusim_lab.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MAX_RANKS 1024

static struct gpusim_addr addrs[MAX_RANKS]; /* by rank */

static double
contribution(uint32_t rank, uint64_t i)
{
	return (double)rank + (double)i / 2;
}

/* Memcpy: one vector per device. */
static enum gpusim_rc
upload(struct gpusim *g, struct gpusim_comm *comm, double *vec, uint64_t count)
{
	enum gpusim_rc rc = GPUSIM_OK;

	for (uint32_t r = 0; r < gpusim_comm_count(comm) && rc == GPUSIM_OK; r++) {
		struct gpusim_device device = gpusim_comm_device(comm, r);

		for (uint64_t i = 0; i < count; i++)
			vec[i] = contribution(r, i);
		rc = gpusim_malloc(g, device, count * sizeof *vec, GPUSIM_LEASE, &addrs[r]);
		if (rc == GPUSIM_OK)
			rc = gpusim_memcpy_h2d(g, device, addrs[r], vec, count * sizeof *vec);
	}
	return rc;
}

/* GroupStart, AllReduceRing, GroupEnd; then ask until it is no longer in progress. */
static enum gpusim_rc
reduce(struct gpusim_comm *comm, uint64_t count)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	enum gpusim_state state = GPUSIM_IN_PROGRESS;
	enum gpusim_rc rc = gpusim_group_start(comm);

	if (rc == GPUSIM_OK)
		rc = gpusim_allreduce_ring(comm, count, GPUSIM_F64, GPUSIM_SUM, addrs);
	if (rc == GPUSIM_OK)
		rc = gpusim_group_end(comm, GPUSIM_ASYNC);
	while (rc == GPUSIM_OK && state == GPUSIM_IN_PROGRESS) {
		rc = gpusim_comm_status(comm, GPUSIM_ASYNC, &state);
		if (rc == GPUSIM_OK && state == GPUSIM_IN_PROGRESS)
			nanosleep(&pause, NULL);
	}
	if (rc == GPUSIM_OK && state != GPUSIM_SUCCESS)
		rc = GPUSIM_FAILED;
	return rc;
}

/* Memcpy back and compare. nwrong: elements that differ, over all devices. */
static enum gpusim_rc
verify(struct gpusim *g, struct gpusim_comm *comm, double *vec, uint64_t count, uint64_t *nwrong)
{
	uint32_t n = gpusim_comm_count(comm);
	enum gpusim_rc rc = GPUSIM_OK;

	*nwrong = 0;
	for (uint32_t r = 0; r < n && rc == GPUSIM_OK; r++) {
		rc = gpusim_memcpy_d2h(g, vec, gpusim_comm_device(comm, r), addrs[r],
				       count * sizeof *vec);
		for (uint64_t i = 0; i < count && rc == GPUSIM_OK; i++)
			*nwrong += vec[i] != (double)n * (n - 1) / 2 + (double)n * (double)i / 2;
	}
	return rc;
}

int
main(int argc, char **argv)
{
	uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000, nwrong = 0;
	struct gpusim *g = NULL;
	const struct gpusim_comm_config lease = {GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE};
	struct gpusim_comm *comm = NULL;
	double *vec = NULL;
	enum gpusim_rc rc;

	if (n < 1 || n > MAX_RANKS || count < 1 || count > 1u << 24 || argc > 3) {
		fprintf(stderr, "usage: lab_part_a N [COUNT]\n");
		return gpusim_rc_exit(GPUSIM_INVAL);
	}
	vec = calloc(count, sizeof *vec);
	if (!vec) {
		fprintf(stderr, "lab_part_a: out of memory\n");
		return gpusim_rc_exit(GPUSIM_NOMEM);
	}
	rc = gpusim_open(NULL, &g);
	if (rc == GPUSIM_OK)
		rc = gpusim_comm_init_all(g, n, NULL, &lease, &comm);
	if (rc == GPUSIM_OK)
		rc = upload(g, comm, vec, count);
	if (rc == GPUSIM_OK)
		rc = reduce(comm, count);
	if (rc == GPUSIM_OK)
		rc = verify(g, comm, vec, count, &nwrong);
	if (rc == GPUSIM_OK) {
		rc = gpusim_comm_destroy(comm);
		comm = NULL;
	}
	if (rc != GPUSIM_OK)
		fprintf(stderr, "lab_part_a: %s\n", gpusim_error());
	else
		printf("%" PRIu32 " devices, %" PRIu64 " doubles each: %" PRIu64 " wrong\n", n,
		       count, nwrong);
	gpusim_comm_free(comm);
	gpusim_close(g);
	free(vec);
	return gpusim_rc_exit(rc == GPUSIM_OK && nwrong ? GPUSIM_FAILED : rc);
}
