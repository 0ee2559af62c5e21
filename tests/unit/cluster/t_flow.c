/* Plans on links: sharing by hand, shifts against all ranks, what a report adds up to. */
#include <math.h>
#include <string.h>

#include "cluster/flow.h"
#include "coll/tune.h"
#include "tap.h"

static bool
about(double got, double want)
{
	if (fabs(got - want) <= 1e-6 * want)
		return true;
	printf("#   got %.6f, want %.6f\n", got, want);
	return false;
}

static void
put(struct plan *plan, enum plan_step_kind kind, uint32_t peer, uint64_t count)
{
	plan_append(plan, (struct plan_step){.kind = kind, .peer = peer, .count = count});
}

static void
message(struct plan *plans, uint32_t from, uint32_t to, uint64_t count)
{
	put(&plans[from], STEP_SEND, to, count);
	put(&plans[to], STEP_RECV, from, count);
}

static void
drop(struct plan *plans, uint32_t n)
{
	for (uint32_t r = 0; r < n; r++)
		plan_fini(&plans[r]);
}

/* Bytes take a microsecond. */
static double
time_of(const struct plan *plans, uint32_t n, const struct links *links)
{
	struct flow_plans p = {plans, n, n, 1, 1, false};
	struct err err = {0};
	double us = NAN;

	if (flow_simulate(&p, links, &us, NULL, &err) != RC_OK)
		printf("# %s\n", err.text);
	return us;
}

static void
test_sharing(void)
{
	struct cost_model m = {.alpha_us = 5, .beta_us = 1};
	struct links flat = links_flat(4, &m);
	struct plan plan[4] = {{0}};

	message(plan, 0, 1, 100);
	ok(about(time_of(plan, 4, &flat), 105), "a message: its bytes and the latency");
	message(plan, 0, 1, 50);
	ok(about(time_of(plan, 4, &flat), 155), "two: one behind the other, latencies overlap");
	drop(plan, 4);

	message(plan, 0, 1, 100);
	message(plan, 0, 2, 100);
	ok(about(time_of(plan, 4, &flat), 205), "to two ranks: the port out is shared");
	drop(plan, 4);

	/* The textbook's: 0 to 1 shares 0's way out with 0 to 2, and that shares 2's way in with 3 to 2 and 1 to 2. */
	message(plan, 1, 2, 100);
	message(plan, 0, 1, 200);
	message(plan, 0, 2, 100);
	message(plan, 3, 2, 100);
	/* Thirds into 2 until 300; the first has two thirds: 200 bytes by 300. */
	ok(about(time_of(plan, 4, &flat), 305), "max-min: what one cannot use another has");
	plan[0].step[0].count = 300;
	plan[1].step[1].count = 300;
	ok(about(time_of(plan, 4, &flat), 405), "and a flow alone has all");
	drop(plan, 4);

	m.host_us = 10;
	flat = links_flat(4, &m);
	message(plan, 0, 1, 100);
	ok(about(time_of(plan, 4, &flat), 125), "both hosts are held for each message");
	drop(plan, 4);
}

/* Ahead, sends do not wait for receives that they do not need; in order they do. */
static void
test_ahead(void)
{
	enum { N = 5 };
	struct cost_model m = {.alpha_us = 5, .beta_us = 0.001};
	struct links flat = links_flat(N, &m);
	struct plan plan[N] = {{0}};
	struct flow_plans p = {plan, N, N, 1, 1, true};
	struct plan_step step = {.count = 1};
	double us = NAN;

	/* Each to all others, and each from its neighbour what it passes on. */
	for (uint32_t k = 1; k < N; k++)
		for (uint32_t r = 0; r < N; r++) {
			step.kind = STEP_SEND;
			step.peer = (r + k) % N;
			step.src_off = 2 * k;
			(void)plan_append(&plan[r], step);
			step.kind = STEP_RECV;
			step.peer = (r + N - k) % N;
			step.dst_off = 2 * k + 1;
			(void)plan_append(&plan[r], step);
		}
	ok(about(time_of(plan, N, &flat), 20.004), "an exchange in order: a latency a round");
	ok(flow_simulate(&p, &flat, &us, NULL, NULL) == RC_OK && about(us, 5.004),
	   "ahead: one latency");
	for (uint32_t r = 0; r < N; r++) {
		step.kind = STEP_SEND;
		step.peer = (r + 1) % N;
		step.src_off = 3; /* what came in the first round */
		(void)plan_append(&plan[r], step);
		step.kind = STEP_RECV;
		step.peer = (r + N - 1) % N;
		(void)plan_append(&plan[r], step);
	}
	ok(flow_simulate(&p, &flat, &us, NULL, NULL) == RC_OK && us > 10 && us < 10.1,
	   "ahead: what is passed on waits");
	drop(plan, N);
}

static void
test_errors(void)
{
	struct cost_model m = {.alpha_us = 5, .beta_us = 1};
	struct links flat = links_flat(2, &m);
	struct plan plan[2] = {{0}};
	struct flow_plans p = {plan, 2, 2, 1, 1, false};
	struct err err = {0};
	double us = 7;

	put(&plan[0], STEP_SEND, 1, 3);
	ok(flow_simulate(&p, &flat, &us, NULL, &err) == RC_FAILED && us == 7,
	   "a send that nobody takes");
	put(&plan[0], STEP_RECV, 1, 3);
	put(&plan[1], STEP_SEND, 0, 3);
	put(&plan[1], STEP_RECV, 0, 3);
	ok(flow_simulate(&p, &flat, &us, NULL, &err) == RC_OK && about(us, 8),
	   "an exchange, both ways at once");
	drop(plan, 2);
	for (uint32_t r = 0; r < 2; r++) {
		put(&plan[r], STEP_RECV, !r, 1);
		put(&plan[r], STEP_SEND, !r, 1);
	}
	ok(flow_simulate(&p, &flat, &us, NULL, &err) == RC_FAILED &&
	       !strcmp(err.text, "rank 0 waits forever in step 0"),
	   "a cycle of waiting ranks is reported");
	drop(plan, 2);
	p.nplans = 0;
	ok(flow_simulate(&p, &flat, &us, NULL, &err) == RC_INVAL, "no plans at all");
}

/* Hosts of 4 with 2 NICs; 2 hosts a switch, whose way up is as wide as one NIC. */
static struct links
cluster_of(uint32_t n)
{
	return (struct links){.nranks = n,
			      .domain = 4,
			      .port_byte_us = 0.001,
			      .port_latency_us = 1,
			      .nics = 2,
			      .host_nics = 2,
			      .nic_byte_us = 0.01,
			      .nic_latency_us = 4,
			      .level = {{8, 0.01, 0}, {64, 0, 3}},
			      .nlevels = 2,
			      .host_us = 0.3,
			      .reduce_byte_us = 0.0002};
}

static void
test_levels(void)
{
	struct links l = cluster_of(16);
	struct plan plan[16] = {{0}};
	struct buf text = {0};

	l.host_us = 0;
	message(plan, 0, 1, 1000);
	ok(about(time_of(plan, 16, &l), 2), "inside a host");
	drop(plan, 16);
	message(plan, 0, 4, 1000);
	ok(about(time_of(plan, 16, &l), 14), "to the neighbour: NICs");
	message(plan, 3, 7, 1000);
	ok(about(time_of(plan, 16, &l), 14), "another NIC has room");
	message(plan, 1, 5, 1000);
	ok(about(time_of(plan, 16, &l), 24), "two ranks of one NIC share it");
	drop(plan, 16);
	message(plan, 0, 8, 1000);
	message(plan, 2, 10, 1000);
	ok(about(time_of(plan, 16, &l), 27), "the way up is narrower than two NICs");
	drop(plan, 16);
	for (uint32_t i = 0; i < links_count(&l); i++)
		links_name(&l, i, &text), buf_addf(&text, "\n");
	ok(strstr(text.data, "GPU 0's way into its domain\n") &&
	       strstr(text.data, "GPU 15's way from its domain\nhost 0's NIC 0 out\n") &&
	       strstr(text.data, "host 3's NIC 1 in\nleaf switch 0's way up\n") &&
	       strstr(text.data, "leaf switch 1's way down\n"),
	   "links have names");
	buf_fini(&text);
}

/* The first `period` plans alone give what all give. */
static bool
folds(enum gpusim_coll coll, const char *algo, uint32_t n, const struct links *l)
{
	struct plan_args a = {.coll = coll, .nranks = n, .nelem = 6000ull * n, .chunk = 2000};
	struct plan *plans;
	struct err err = {0};
	double all = NAN, some = NAN;
	uint32_t period = links_period(l);

	if (plan_build_all(&a, algo, &plans, &err) != RC_OK ||
	    flow_simulate(&(struct flow_plans){plans, n, n, 4, 1, false}, l, &all, NULL, &err) !=
		RC_OK ||
	    flow_simulate(&(struct flow_plans){plans, period, n, 4, 1, false}, l, &some, NULL,
			  &err) != RC_OK)
		printf("# %s\n", err.text);
	plan_free_all(plans, n);
	if (fabs(all - some) <= 1e-9 * all)
		return true;
	printf("#   %s %s, %u ranks by %u: %.9g, all %.9g\n", coll_name(coll), algo, n, period,
	       some, all);
	return false;
}

static void
test_shift(void)
{
	static const struct {
		enum gpusim_coll coll;
		const char *algo;
	} rows[] = {{GPUSIM_ALLREDUCE, "ring"},	    {GPUSIM_ALLREDUCE, "ring-chunked"},
		    {GPUSIM_ALLREDUCE, "pairwise"}, {GPUSIM_ALLGATHER, "ring"},
		    {GPUSIM_REDUCESCATTER, "ring"}, {GPUSIM_REDUCESCATTER, "pairwise"},
		    {GPUSIM_ALLTOALL, "pairwise"}};
	struct cost_model m = {20, 0.0004, 0.0001, 1};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		bool good = true;

		for (uint32_t n = 2; n <= 64; n++) {
			struct links flat = links_flat(n, &m), l = cluster_of(n);

			if (n % 7 == 0 || n <= 16 || n == 64)
				good &= folds(rows[i].coll, rows[i].algo, n, &flat);
			if (n % 8 == 0 && (n <= 32 || n == 64))
				good &= folds(rows[i].coll, rows[i].algo, n, &l);
		}
		ok(good, "%s %s: a shift's first ranks give what all give", coll_name(rows[i].coll),
		   rows[i].algo);
	}
}

static void
test_report(void)
{
	bool sums = true, bytes = true, ordered = true;

	for (const struct plan_algo *algo = plan_algos; algo->name; algo++) {
		struct plan_args a = {
		    .coll = algo->coll, .nranks = 16, .nelem = 16000, .chunk = 600};
		struct links l = cluster_of(16);
		struct flow_report r = {0};
		struct plan *plans;
		double us = NAN, sum = 0, sent = 0, ports = 0;

		if (plan_algo_mapped(algo))
			continue;
		a.root = coll_is_sendrecv(algo->coll);
		a.nelem = algo->coll == GPUSIM_BARRIER ? 0 : a.nelem;
		if (plan_build_all(&a, algo->name, &plans, NULL) != RC_OK)
			continue;
		l.domain = 16;
		ok(flow_simulate(&(struct flow_plans){plans, 16, 16, 4, 1, false}, &l, &us, &r,
				 NULL) == RC_OK,
		   "%s %s", coll_name(algo->coll), algo->name);
		for (int w = 0; w < FLOW_NWHY; w++)
			sum += r.why_us[w];
		sums &= fabs(sum - us) <= 1e-6 * us;
		for (size_t i = 1; i < r.nhops; i++)
			ordered &= fabs(r.hop[i].begin_us - r.hop[i - 1].end_us) <= 1e-6 * us;
		for (uint32_t p = 0; p < 16; p++)
			for (size_t i = 0; i < plans[p].nstep; i++)
				if (plans[p].step[i].kind == STEP_SEND)
					sent += 4.0 * (double)plans[p].step[i].count;
		for (size_t i = 0; i < r.nlinks; i++) {
			ports += r.link[i].nbytes;
			bytes &= r.link[i].busy_us <= us * (1 + 1e-9) &&
				 r.link[i].busy_us >= r.link[i].nbytes * 0.001 * (1 - 1e-9);
		}
		bytes &= fabs(ports - 2 * sent) <= 1e-6 * sent;
		flow_report_fini(&r);
		plan_free_all(plans, 16);
	}
	ok(sums && ordered, "the critical path has no gap, and its parts add up to the time");
	ok(bytes, "links carry each byte once out and once in, never faster than they can");
}

int
main(void)
{
	test_sharing();
	test_ahead();
	test_errors();
	test_levels();
	test_shift();
	test_report();
	return tap_done();
}
