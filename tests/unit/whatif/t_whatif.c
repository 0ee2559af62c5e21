/* A training whose devices fail: published numbers, formulas, and that nothing is counted twice. */
#include <math.h>
#include <string.h>

#include "tap.h"
#include "whatif/whatif.h"

#define HOUR 3600.0
#define DAY  86400.0

static struct whatif_rates
rates(const char *text)
{
	struct whatif_rates r = {0};
	struct err err = {0};

	if (whatif_rates_read(text, "f", &r, &err) != RC_OK)
		tap_bail(err.text);
	return r;
}

static struct whatif_answer
run(struct whatif w)
{
	struct whatif_answer a = {0};
	struct err err = {0};

	if (whatif_run(&w, &a, &err) != RC_OK)
		tap_bail(err.text);
	return a;
}

static void
test_published(void)
{
	struct whatif_rates llama = rates("hosts = 2048\ndays = 54\n[failures]\nall = 419\n");
	struct whatif_rates rsc = rates("hosts = 1000\ndays = 1\n[failures]\nhost = 6.50\n");
	struct whatif w = {.rates = &llama,
			   .hosts = 2048,
			   .seconds = 54 * DAY,
			   .step_s = 5,
			   .detect_s = 30,
			   .restart_s = 600,
			   .checkpoint_s = 10,
			   .seed = 1};
	struct whatif_answer a = run(w);

	ok(fabs(a.failures - 419) < 0.5 && fabs(a.mtbf_s / HOUR - 3.09) < 0.01,
	   "Llama 3: 419 interruptions in 54 days are expected, one in 3.1 h");
	ok(fabs((double)a.happened - 419) < 4 * sqrt(419), "%d happen", (int)a.happened);
	ok(a.goodput > 0.9 && a.goodput < 1, "goodput %.3f, more than 0.9", a.goodput);
	ok(fabs(1 / whatif_rate(&rsc, 2048) / HOUR - 1.8) < 0.01 &&
	       fabs(1 / whatif_rate(&rsc, 16384) / HOUR - 0.225) < 0.001,
	   "RSC-1: 1.8 h at 16,384 GPUs, 0.23 h at 131,072");
}

static void
test_account(void)
{
	struct whatif_rates r = rates("hosts = 8\ndays = 1\n[failures]\na = 4\nb = 8\n");
	struct whatif w = {.rates = &r,
			   .hosts = 16,
			   .seconds = 100 * DAY,
			   .step_s = 4,
			   .detect_s = 20,
			   .restart_s = 300,
			   .recover_s = 30,
			   .checkpoint_s = 60,
			   .repair_s = DAY / 4,
			   .spares = 12,
			   .seed = 7};
	double last = 0;

	for (int p = 0; p < WHATIF_NPOLICIES; p++) {
		struct whatif_answer a, b;
		double sum;

		w.policy = (enum whatif_policy)p;
		a = run(w);
		b = run(w);
		sum = a.goodput + a.lost_detect + a.lost_restart + a.lost_again +
		      a.lost_checkpoint + a.lost_hosts;
		ok(fabs(sum - 1) < 1e-6, "%s: all time is in one account (%.9f)",
		   whatif_policy_name((unsigned)p), sum);
		ok(memcmp(&a, &b, sizeof a) == 0, "the same seed, the same answer");
		ok(a.count_kind[1] > a.count_kind[0] && a.count_kind[0] > 0, "kinds by their rate");
		last = p == WHATIF_RESTART ? a.goodput : last;
		ok(p == WHATIF_RESTART || p == WHATIF_SHRINK || a.goodput > last,
		   "from memory it is faster than a restart: %.3f", a.goodput);
	}
}

static void
test_interval(void)
{
	struct whatif_rates r = rates("hosts = 1\ndays = 1\n[failures]\na = 12\n");
	struct whatif w = {.rates = &r,
			   .hosts = 1,
			   .seconds = 2000 * DAY,
			   .step_s = 1,
			   .checkpoint_s = 60,
			   .restart_s = 100,
			   .seed = 3};
	double best = run(w).goodput;

	ok(fabs(whatif_young(60, 7200) - sqrt(2 * 60 * 7200.0)) < 1e-9, "Young's formula");
	ok(whatif_daly(60, 7200) > 0.9 * whatif_young(60, 7200) - 60 && whatif_daly(100, 10) == 10,
	   "Daly's");
	for (int i = -1; i <= 1; i += 2) {
		w.interval_s = whatif_daly(60, 7200) * pow(3, i);
		ok(run(w).goodput < best, "a third and three times Daly's interval are worse");
	}
}

/* Searched for by simulation: near the formulas; spares by the hosts under repair. */
static void
test_search(void)
{
	struct whatif_rates r = rates("hosts = 2048\ndays = 54\n[failures]\nall = 419\n");
	struct whatif w = {.rates = &r,
			   .hosts = 2048,
			   .seconds = 54 * DAY,
			   .step_s = 4,
			   .detect_s = 30,
			   .restart_s = 600,
			   .recover_s = 30,
			   .checkpoint_s = 10,
			   .repair_s = DAY,
			   .seed = 1};
	double best = 0, mtbf = 1 / whatif_rate(&r, 2048);
	double off = 0;
	uint32_t spares = 0, fewer = 0;
	struct err err = {0};

	if (whatif_best_interval(&w, &best, &err) != RC_OK ||
	    whatif_best_spares(&w, &spares, &err) != RC_OK)
		tap_bail(err.text);
	w.repair_s = 0;
	if (whatif_best_spares(&w, &fewer, &err) != RC_OK)
		tap_bail(err.text);
	ok(fabs(log2(best / whatif_daly(10, mtbf))) <= 0.51 &&
	       fabs(log2(best / whatif_young(10, mtbf))) <= 0.53,
	   "the best interval, %.0f s, is near Young's and Daly's", best);
	ok(spares >= 8 && spares <= 32, "7.8 hosts are away at a time: %d spares", (int)spares);
	ok(fewer <= 1, "one at most if a repair takes no time: %d", (int)fewer);
	for (w.seed = 1, mtbf = best; w.seed < 200; w.seed += 33) {
		if (whatif_best_interval(&w, &best, &err) != RC_OK)
			tap_bail(err.text);
		off = fmax(off, fabs(log2(best / mtbf)));
	}
	ok(off < 0.01, "other seeds choose the same interval");
}

static void
test_refused(void)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
	    {"hosts = 1\n[failures]\na = 1\n", "hosts and days are missing"},
	    {"hosts = 1\ndays = 1\n", "[failures] is empty"},
	    {"hosts = 0\ndays = 1\n", "f:1: hosts"},
	    {"hosts = 1\ndays = 1\n[failures]\na = -1\n", "f:4:"},
	    {"hosts = 1\ndays = 1\n[other]\na = 1\n", "f:4:"},
	    {"colour = 1\n", "f:1: no option 'colour'"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct whatif_rates r;
		struct err err = {0};

		ok(whatif_rates_read(cases[i].text, "f", &r, &err) == RC_INVAL &&
		       strstr(err.text, cases[i].why),
		   "refused: %s", err.text);
	}
}

int
main(void)
{
	test_published();
	test_account();
	test_interval();
	test_search();
	test_refused();
	return tap_done();
}
