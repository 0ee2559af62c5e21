/*
 * search.c - the best interval between checkpoints, and the best number of spares, by simulation. All
 * candidates see the same failures, of several seeds, and enough of them that chance does not decide.
 */
#include <math.h>

#include "whatif/whatif.h"

#define FAILURES   1000.0 /* of one simulation */
#define PER_DOUBLE 4	  /* intervals tried, from each to its double */
#define MOST_TRIED 256	  /* numbers of spares */

/* A time with enough failures. */
static struct whatif
longer(const struct whatif *w)
{
	struct whatif all = *w;

	all.seconds = FAILURES / whatif_rate(w->rates, w->hosts);
	return all;
}

/* The mean over seeds. */
static enum rc
goodput(const struct whatif *w, double *out, struct err *err)
{
	struct whatif try = *w;
	double sum = 0;
	enum rc rc = RC_OK;

	for (unsigned i = 0; i < WHATIF_SEEDS && rc == RC_OK; i++) {
		struct whatif_answer a;

		try.seed = w->seed + i;
		rc = whatif_run(&try, &a, err);
		sum += rc == RC_OK ? a.goodput : 0;
	}
	*out = sum / WHATIF_SEEDS;
	return rc;
}

enum rc
whatif_best_interval(const struct whatif *w, double *interval_s, struct err *err)
{
	struct whatif try = longer(w);
	double start = whatif_daly(w->checkpoint_s, 1 / whatif_rate(w->rates, w->hosts));
	double best = -INFINITY;
	enum rc rc = RC_OK;

	try.policy = WHATIF_RESTART;
	for (int i = -3 * PER_DOUBLE; i <= 3 * PER_DOUBLE && rc == RC_OK; i++) {
		double each;

		try.interval_s = start * pow(2, (double)i / PER_DOUBLE);
		rc = goodput(&try, &each, err);
		if (rc == RC_OK && each > best) {
			best = each;
			*interval_s = try.interval_s;
		}
	}
	return rc;
}

enum rc
whatif_best_spares(const struct whatif *w, uint32_t *spares, struct err *err)
{
	struct whatif try = longer(w);
	double away = whatif_rate(w->rates, w->hosts) * w->repair_s,
	       most = away + 6 * sqrt(away) + 2;
	double best = -INFINITY;
	uint32_t step = (uint32_t)(most / MOST_TRIED) + 1;
	enum rc rc = RC_OK;

	try.policy = WHATIF_SPARE;
	*spares = 0;
	for (try.spares = 0; try.spares <= most && rc == RC_OK; try.spares += step) {
		double each;

		rc = goodput(&try, &each, err);
		if (rc != RC_OK)
			break;
		each *= w->hosts / ((double)w->hosts + try.spares);
		if (each > best) {
			best = each;
			*spares = try.spares;
		}
	}
	return rc;
}
