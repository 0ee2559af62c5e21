/* Find the fastest algorithm for each size. */
#include <inttypes.h>

#include "bench/bench_impl.h"
#include "coll/tune.h"
#include "coll/plan.h"

/* The fastest at one size. An algorithm over peer memory is not a candidate if the ranks do not share
 * memory. */
static enum rc
find_winner(struct bench *b, uint64_t nbytes, const char **algo, struct err *err)
{
	double best = 0;

	*algo = NULL;
	for (const struct plan_algo *row = plan_algos; row->name; row++) {
		const struct cost_algo *cost = cost_find(b->c.coll, row->name);
		struct bench_row out;
		enum rc rc;

		if (row->coll != b->c.coll || (cost && cost->slow))
			continue;
		b->c.algo = row->name;
		rc = bench_size(b, nbytes, &out, err);
		if (rc == RC_INVAL && cost && cost->shared)
			continue;
		if (rc != RC_OK)
			return err_prefix(err, "%s %s", coll_name(b->c.coll), row->name);
		if (out.result[0].nwrong)
			return err_set(err, RC_FAILED, "%s %s: %" PRIu64 " wrong elements",
				       coll_name(b->c.coll), row->name, out.result[0].nwrong);
		if (!*algo || out.result[0].time.p50_us < best) {
			best = out.result[0].time.p50_us;
			*algo = row->name;
		}
	}
	return RC_OK;
}

enum rc
bench_tune(struct bench *b, void (*take)(void *arg, const struct bench_rule *rule), void *arg,
	   struct err *err)
{
	struct bench_rule rule = {.max_bytes = UINT64_MAX};
	uint64_t nbytes = b->cfg.min_bytes;
	const char *algo;

	do {
		if (find_winner(b, nbytes, &algo, err) != RC_OK)
			return err->rc;
		if (rule.algo && rule.algo != algo) {
			rule.max_bytes = nbytes - 1;
			take(arg, &rule);
			rule = (struct bench_rule){.min_bytes = nbytes, .max_bytes = UINT64_MAX};
		}
		rule.algo = algo;
	} while ((nbytes = bench_next(b, nbytes)) != 0);
	if (rule.algo)
		take(arg, &rule);
	return RC_OK;
}

bool
bench_has_choice(enum gpusim_coll coll)
{
	int n = 0;

	for (const struct cost_algo *row = cost_algos; row->name; row++)
		n += row->coll == coll && !row->slow && !row->shared;
	return n > 1;
}
