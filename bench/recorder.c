/*
 * recorder OTHER N BYTES [BATCHES] - run a graph of all-reduces over the devices of $GPUSIM_COORD and over
 * those of the coordinator at OTHER, in turn: prints the time of one on the first, on the second, and the
 * ratio. Each time is the least of many short batches, because anything else on the machine makes a batch
 * longer and none shorter. To be run under two gpuctl run.
 */
#include <gpusim.h>

#include <stdio.h>
#include <stdlib.h>

enum { BATCH_US = 500, TRIES = 50, MOST_RANKS = 64 };

struct side {
	struct gpusim *g;
	struct gpusim_comm *comm;
	struct gpusim_graph graph;
	double least_us;
};

static void
must(enum gpusim_rc rc)
{
	if (rc != GPUSIM_OK) {
		fprintf(stderr, "recorder: %s\n", gpusim_error());
		exit(gpusim_rc_exit(rc));
	}
}

static void
prepare(struct side *s, const char *coordinator, uint32_t n, uint64_t nbytes)
{
	const struct gpusim_comm_config lease = {GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE};
	struct gpusim_collective c = {GPUSIM_COLLECTIVE_INIT, .coll = GPUSIM_ALLREDUCE,
				      .dtype = GPUSIM_F32,
				      .redop = GPUSIM_SUM,
				      .nelem = nbytes / sizeof(float)};
	struct gpusim_addr *addr;
	struct gpusim_ops *ops;

	must(gpusim_open(coordinator, &s->g));
	must(gpusim_comm_init_all(s->g, n, NULL, &lease, &s->comm));
	addr = calloc(2 * (size_t)n, sizeof *addr);
	for (uint32_t r = 0; r < 2 * n; r++)
		must(gpusim_malloc(s->g, gpusim_comm_device(s->comm, r % n), nbytes, GPUSIM_LEASE, &addr[r]));
	c.send = addr;
	c.recv = addr + n;
	ops = gpusim_ops_new(n);
	gpusim_ops_collective(ops, &c);
	must(gpusim_graph_create(s->comm, ops, &s->graph));
	gpusim_ops_free(ops);
	free(addr);
}

/* Microseconds of one operation in a batch of n, as measured by rank 0. */
static double
batch(struct side *s, uint64_t n)
{
	struct gpusim_times t[MOST_RANKS] = {{0}};

	must(gpusim_graph_launch(s->comm, s->graph, 0, n, GPUSIM_SYNC, t));
	return (double)t[0].comm_ns / 1e3 / (double)n;
}

int
main(int argc, char **argv)
{
	long batches = argc > 4 ? atol(argv[4]) : 2000, nranks = argc > 2 ? atol(argv[2]) : 0;
	struct side side[2] = {{.least_us = 1e30}, {.least_us = 1e30}};
	uint64_t nbytes, n;

	if (argc < 4 || batches < 1 || nranks < 2 || nranks > MOST_RANKS ||
	    (nbytes = strtoull(argv[3], NULL, 10)) < sizeof(float)) {
		fprintf(stderr, "usage: recorder OTHER N BYTES [BATCHES]\n");
		return 2;
	}
	prepare(&side[0], NULL, (uint32_t)nranks, nbytes);
	prepare(&side[1], argv[1], (uint32_t)nranks, nbytes);
	batch(&side[0], TRIES);
	n = (uint64_t)(BATCH_US / batch(&side[0], TRIES)) + 1;
	for (long i = 0; i < 2 * batches; i++) {
		struct side *s = &side[(i ^ i >> 1) & 1]; /* A B B A */
		double us = batch(s, n);

		if (us < s->least_us)
			s->least_us = us;
	}
	printf("%.3f %.3f %.3f\n", side[0].least_us, side[1].least_us,
	       side[0].least_us / side[1].least_us);
	for (int i = 0; i < 2; i++) {
		gpusim_comm_free(side[i].comm);
		gpusim_close(side[i].g);
	}
	return 0;
}
