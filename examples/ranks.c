/*
 * ranks N - NCCL's way: a process for each of N ranks. They form a communicator with an id, and each calls
 * gpusim_allreduce with its own buffer.
 *
 *	gpuctl run -n 4 -- build/examples/ranks 4
 *
 * Rank r brings r + 1 in each of COUNT floats, so every sum is N (N + 1) / 2. Exits 0 if every rank has it.
 */
#include <gpusim.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 1000 };

static enum gpusim_rc
sum(struct gpusim *g, struct gpusim_comm *comm, uint32_t rank, uint32_t nranks)
{
	const struct gpusim_stream stream = {0};
	struct gpusim_device device = gpusim_comm_device(comm, rank);
	struct gpusim_addr addr = {0};
	float v[COUNT];
	enum gpusim_rc rc = gpusim_malloc(g, device, sizeof v, GPUSIM_LEASE, &addr);

	for (int i = 0; i < COUNT; i++)
		v[i] = (float)rank + 1;
	if (rc == GPUSIM_OK)
		rc = gpusim_memcpy_h2d(g, device, addr, v, sizeof v);
	if (rc == GPUSIM_OK)
		rc = gpusim_allreduce(comm, addr, addr, COUNT, GPUSIM_F32, GPUSIM_SUM, stream);
	if (rc == GPUSIM_OK)
		rc = gpusim_stream_sync(g, device, stream);
	if (rc == GPUSIM_OK)
		rc = gpusim_memcpy_d2h(g, v, device, addr, sizeof v);
	for (int i = 0; rc == GPUSIM_OK && i < COUNT; i++)
		if (v[i] != (float)(nranks * (nranks + 1)) / 2) {
			fprintf(stderr, "ranks: rank %u: element %d is %g\n", rank, i, v[i]);
			return GPUSIM_FAILED;
		}
	if (rc != GPUSIM_OK)
		fprintf(stderr, "ranks: rank %u: %s\n", rank, gpusim_error());
	return rc;
}

static enum gpusim_rc
run_rank(struct gpusim_unique_id id, uint32_t rank, uint32_t nranks)
{
	const struct gpusim_comm_config config = {GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE};
	const struct gpusim_device any = {0};
	struct gpusim_comm *comm = NULL;
	struct gpusim *g = NULL;
	enum gpusim_rc rc = gpusim_open(NULL, &g);

	if (rc == GPUSIM_OK)
		rc = gpusim_comm_init_rank(g, nranks, id, rank, any, &config, &comm);
	if (rc == GPUSIM_OK)
		rc = sum(g, comm, rank, nranks);
	else
		fprintf(stderr, "ranks: rank %u: %s\n", rank, gpusim_error());
	gpusim_comm_free(comm);
	gpusim_close(g);
	return rc;
}

int
main(int argc, char **argv)
{
	uint32_t n = argc == 2 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	struct gpusim_unique_id id;
	int status, worst = 0;

	if (n < 1 || n > 1024 || gpusim_get_unique_id(&id) != GPUSIM_OK) {
		fprintf(stderr, "usage: ranks N\n");
		return gpusim_rc_exit(GPUSIM_INVAL);
	}
	for (uint32_t r = 0; r < n; r++) {
		pid_t pid = fork(); /* before the first call of the library that has threads */

		if (pid < 0)
			worst = 1;
		if (pid == 0)
			_exit(gpusim_rc_exit(run_rank(id, r, n)));
	}
	while (wait(&status) > 0)
		if (status != 0)
			worst = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	if (worst == 0)
		printf("%u ranks have the sum\n", n);
	return worst;
}
