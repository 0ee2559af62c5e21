/*
 * meet CALL... - a process for each rank of a communicator that is not queued; rank r makes CALL r:
 *
 *	COLL:COUNT:TYPE	allreduce or broadcast (root 0), f32 or f64
 *	group:COUNT	begins a group of all ranks, submits an all-reduce, and does not end it
 *	-		nothing
 *
 * All then wait for the end of their standard input. Prints "ready" when the communicator exists.
 */
#include <gpusim.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void
die(const char *what)
{
	fprintf(stderr, "meet: %s: %s\n", what, gpusim_error());
	exit(1);
}

static void
call(struct gpusim *g, struct gpusim_comm *comm, uint32_t rank, uint32_t nranks, const char *text)
{
	const struct gpusim_stream stream = {0};
	struct gpusim_addr addr[64] = {{0}};
	size_t n = strtoul(strchr(text, ':') + 1, NULL, 10);
	enum gpusim_dtype type = strstr(text, ":f64") ? GPUSIM_F64 : GPUSIM_F32;
	bool group = strncmp(text, "group", 5) == 0;
	enum gpusim_rc rc = GPUSIM_OK;

	for (uint32_t r = 0; r < nranks && rc == GPUSIM_OK; r++)
		if (r == rank || group)
			rc = gpusim_malloc(g, gpusim_comm_device(comm, r), n * 8, GPUSIM_LEASE,
					   &addr[r]);
	if (rc != GPUSIM_OK)
		die("malloc");
	if (group) {
		rc = gpusim_comm_open(g, gpusim_comm_id(comm), &comm);
		if (rc == GPUSIM_OK)
			rc = gpusim_group_start(comm);
		if (rc == GPUSIM_OK)
			rc = gpusim_allreduce_all(comm, addr, addr, n, type, GPUSIM_SUM, stream);
	} else if (strncmp(text, "broadcast", 9) == 0) {
		rc = gpusim_broadcast(comm, addr[rank], addr[rank], n, type, 0, stream);
	} else {
		rc = gpusim_allreduce(comm, addr[rank], addr[rank], n, type, GPUSIM_SUM, stream);
	}
	if (rc != GPUSIM_OK)
		die(text);
}

static void
be_rank(struct gpusim_unique_id id, uint32_t rank, uint32_t nranks, const char *text)
{
	const struct gpusim_comm_config config = {GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE,
						  .queues = GPUSIM_QUEUES_OFF};
	const struct gpusim_device any = {0};
	struct gpusim_comm *comm = NULL;
	struct gpusim *g = NULL;
	char c;

	if (gpusim_open(NULL, &g) != GPUSIM_OK ||
	    gpusim_comm_init_rank(g, nranks, id, rank, any, &config, &comm) != GPUSIM_OK)
		die("comm-init");
	if (rank == 0)
		printf("ready\n");
	fflush(stdout);
	if (*text != '-')
		call(g, comm, rank, nranks, text);
	while (read(0, &c, 1) > 0)
		;
	_exit(0);
}

int
main(int argc, char **argv)
{
	struct gpusim_unique_id id;

	if (argc < 2 || argc > 64 || gpusim_get_unique_id(&id) != GPUSIM_OK)
		return 2;
	for (int r = 0; r < argc - 1; r++)
		if (fork() == 0)
			be_rank(id, (uint32_t)r, (uint32_t)argc - 1, argv[r + 1]);
	while (wait(NULL) > 0)
		;
	return 0;
}
