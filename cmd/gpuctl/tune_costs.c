#include "tune_costs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/must.h"
#include "bench_cli.h"
#include "coll/tune.h"

/* Not more messages than fit in a window, so that no stall is measured. */
#define MESSAGES SIMULATE_WINDOW
#define SMALL	 4096u
#define LARGE	 262144u

/* The measurement, with n ranks. */
struct costs {
	struct cli *cli;
	const struct args *a;
	uint32_t n;
	enum tune_transport by;
};

static void
take(void *arg, const struct bench_row *row)
{
	*(double *)arg = row->result[BENCH_OUT_OF_PLACE].time.min_us;
}

/* The transport as the coordinator sees it: memory if all ranks reach each other through memory. */
static enum tune_transport
transport_of(const struct gpusim_comm *comm)
{
	size_t n = gpusim_comm_count(comm);
	uint8_t *path = must_alloc(n, n);
	enum tune_transport by = gpusim_comm_paths(comm, path) == GPUSIM_OK ? TUNE_P2P : TUNE_NET;

	for (size_t i = 0; by == TUNE_P2P && i < n * n; i++)
		if (path[i] != GPUSIM_PATH_P2P)
			by = TUNE_NET;
	free(path);
	return by;
}

/* Measure the least time of an operation on nbytes, in messages of at most chunk bytes. */
static enum rc
time_of(struct costs *c, enum gpusim_coll coll, const char *algo, uint64_t nbytes, uint64_t chunk,
	double *us, struct err *err)
{
	struct args as = *c->a;
	struct bench_cli b = {.cli = c->cli, .a = &as};
	struct bench_summary sum;
	struct bench *bench = NULL;
	enum rc rc;

	as.algo = algo;
	as.min_bytes = as.max_bytes = nbytes;
	as.chunk = chunk;
	rc = bench_cli_open(&b, coll, &bench, err);
	if (rc == RC_OK) {
		c->n = gpusim_comm_count(b.comm);
		c->by = transport_of(b.comm);
		rc = c->n < 2 ? err_set(err, RC_INVAL, "--calibrate: needs at least two devices")
			      : bench_run(bench, take, us, &sum, err);
	}
	if (rc == RC_OK && sum.nwrong)
		rc = err_set(err, RC_FAILED, "%llu wrong elements", (unsigned long long)sum.nwrong);
	bench_cli_close(&b, bench, rc);
	return rc;
}

/* The root of a naive broadcast sends to each rank in turn, so all messages leave through one port: its
 * time grows by the hosts' work per message, and by the time per byte. A barrier takes one latency per
 * round. */
enum rc
tune_costs(struct cli *cli, const struct args *a, struct err *err)
{
	static const struct {
		uint64_t nbytes, chunk;
	} sent[] = {{MESSAGES * SMALL, MESSAGES * SMALL},
		    {MESSAGES * SMALL, SMALL},
		    {MESSAGES * LARGE, LARGE}};
	struct costs c = {.cli = cli, .a = a};
	struct cost_model m = {0};
	struct buf text = {0};
	double barrier = 0, us[3] = {0}, to;
	enum rc rc = time_of(&c, GPUSIM_BARRIER, "dissemination", 0, 0, &barrier, err);

	for (int i = 0; i < 3 && rc == RC_OK; i++)
		rc = time_of(&c, GPUSIM_BROADCAST, "naive", sent[i].nbytes, sent[i].chunk, &us[i],
			     err);
	if (rc != RC_OK)
		return rc;
	to = c.n - 1;
	m.host_us = fmax(0, (us[1] - us[0]) / (to * (MESSAGES - 1)));
	m.beta_us = (us[2] - us[1]) / (to * MESSAGES * (LARGE - SMALL));
	m.alpha_us = barrier / ceil(log2(c.n)) - 2 * m.host_us;
	if (m.beta_us <= 0 || m.alpha_us <= 0)
		return err_set(err, RC_FAILED,
			       "a barrier took %.1f us, and broadcasts of %u and %u bytes %.1f and "
			       "%.1f us: the machine is too busy to measure",
			       barrier, MESSAGES * SMALL, MESSAGES * LARGE, us[1], us[2]);
	must(tune_show_sent(c.by, &m, &text));
	fwrite(text.data, 1, text.len, stdout);
	buf_fini(&text);
	return RC_OK;
}
