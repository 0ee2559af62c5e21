/*
 * search.c - the best interval between checkpoints, and how many spares are worth having: by simulation. What is compared
 * sees the same failures, and enough of them that chance does not choose.
 */
#include <math.h>

#include "whatif/whatif.h"

#define FAILURES   4000.0 /* of one simulation */
#define PER_DOUBLE 4	  /* intervals tried, from each to its double */
#define MOST_TRIED 256	  /* numbers of spares */

/* For so long that enough fails. */
static struct whatif
longer(const struct whatif *w)
{
	struct whatif all = *w;

	all.seconds = FAILURES / whatif_rate(w->rates, w->hosts);
	return all;
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
		struct whatif_answer a;

		try.interval_s = start * pow(2, (double)i / PER_DOUBLE);
		rc = whatif_run(&try, &a, err);
		if (rc == RC_OK && a.goodput > best) {
			best = a.goodput;
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
		struct whatif_answer a;
		double each;

		rc = whatif_run(&try, &a, err);
		if (rc != RC_OK)
			break;
		each = a.goodput * w->hosts / ((double)w->hosts + try.spares);
		if (each > best) {
			best = each;
			*spares = try.spares;
		}
	}
	return rc;
}
