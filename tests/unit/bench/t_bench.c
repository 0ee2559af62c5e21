/* A bench, as a C program has one; its table and options are in tests/bats/bench.bats. */
#include "bench/bench.h"

#include <string.h>

#include "programs.h"
#include "tap.h"

static void
baselines(void)
{
	static const struct {
		const char *text;
		bool good;
		double ratio; /* of 10 us to 1024 bytes out of place */
	} v[] = {
	    {"{\"rows\":[{\"size\":1024,\"out_of_place\":{\"time_us\":5},\"in_place\":null}]}",
	     true, 2},
	    {"{\"rows\":[{\"size\":2048,\"out_of_place\":{\"time_us\":5}}]}", true, 0},
	    {"{\"rows\":[{\"size\":1024,\"in_place\":{\"time_us\":5}}]}", true, 0},
	    {"{\"rows\":[]}", false, 0},
	    {"{\"rows\":[{\"size\":1024}", false, 0},
	    {"{\"rows\":[{\"size\":1024}]} more", false, 0},
	    {"", false, 0},
	};

	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		struct baseline b = {0};
		struct err err = {0};
		enum rc rc = baseline_parse(v[i].text, &b, &err);

		ok(rc == (v[i].good ? RC_OK : RC_BADDATA) &&
		       (rc != RC_OK ||
			baseline_ratio(&b, 1024, BENCH_OUT_OF_PLACE, 10) == v[i].ratio),
		   "baseline %s", v[i].text);
		baseline_fini(&b);
	}
}

struct seen {
	int n;
	uint64_t nbytes, nwrong, until;
	bool timed;
};

static void
see_row(void *arg, const struct bench_row *row)
{
	struct seen *s = arg;

	s->timed = (s->n == 0 || s->timed) && row->result[BENCH_OUT_OF_PLACE].ran &&
		   row->result[BENCH_OUT_OF_PLACE].time.p50_us > 0 &&
		   row->result[BENCH_OUT_OF_PLACE].client.min_us > 0;
	s->n++;
	s->nbytes = row->nbytes;
	s->nwrong += row->result[BENCH_OUT_OF_PLACE].nwrong + row->result[BENCH_IN_PLACE].nwrong;
}

/* Ranges follow each other, and the last has no end. */
static void
see_rule(void *arg, const struct bench_rule *rule)
{
	struct seen *s = arg;

	s->nwrong += rule->min_bytes != s->until || !rule->algo;
	s->until = rule->max_bytes + 1;
	s->n++;
}

int
main(void)
{
	struct launch_config two = two_devices();
	struct gpusim_comm_config policy = {GPUSIM_COMM_CONFIG_INIT, .life = GPUSIM_LEASE};
	struct gpusim_comm *comm = NULL;
	struct bench_config cfg = {
	    .comm = &comm,
	    .c = {GPUSIM_COLLECTIVE_INIT, .coll = GPUSIM_ALLREDUCE, .dtype = GPUSIM_F32},
	    .min_bytes = 1024,
	    .max_bytes = 64 << 20,
	    .fits = true,
	    .factor = 1024,
	    .iters = 2};
	struct seen rows = {0}, rules = {0};
	struct bench_summary sum = {0};
	struct bench *b = NULL;
	struct err err = {0};
	struct launch *l;
	enum rc rc;

	baselines();
	l = start(&two, &cfg.g);
	if (gpusim_comm_init_all(cfg.g, 2, NULL, &policy, &comm) != GPUSIM_OK)
		tap_bail(gpusim_error());
	rc = bench_open(&cfg, &b, &err);
	ok(rc == RC_OK && bench_max_bytes(b) < cfg.max_bytes,
	   "buffers are as large as devices have room %s", err.text);
	rc = rc == RC_OK ? bench_run(b, see_row, &rows, &sum, &err) : rc;
	ok(rc == RC_OK && rows.n == 2 && rows.nbytes == 1 << 20 && rows.timed, "a row a size %s",
	   err.text);
	ok(rows.nwrong == 0 && sum.nwrong == 0 && sum.avg_busbw > 0 && sum.client_nbytes == 1024,
	   "all is right, and added up");
	rc = rc == RC_OK ? bench_tune(b, see_rule, &rules, &err) : rc;
	ok(rc == RC_OK && rules.n > 0 && rules.nwrong == 0 && rules.until == 0,
	   "the fastest algorithms of all sizes %s", err.text);
	bench_close(b, rc);
	ok(bench_has_choice(GPUSIM_ALLREDUCE) && !bench_has_choice(GPUSIM_BARRIER),
	   "allreduce has a choice of algorithms, barrier has none");
	gpusim_comm_destroy(comm);
	gpusim_close(cfg.g);
	launch_end(l);
	return tap_done();
}
