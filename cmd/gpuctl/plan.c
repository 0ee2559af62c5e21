/* gpuctl plan - a collective's schedule, as text. Needs no devices. */
#include "coll/plan.h"

#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "cli.h"
#include "coll/shape.h"

static enum rc
list(void)
{
	for (const struct plan_algo *row = plan_algos; row->name; row++) {
		bool first = row == plan_algos || row[-1].coll != row->coll;

		printf("%-14s  %-13s  %s%s\n", coll_name(row->coll), row->name, row->summary,
		       first ? " (default)" : "");
	}
	return RC_OK;
}

/* Without --count: one element in each rank's part. */
static enum rc
plan_size(enum gpusim_coll coll, const struct args *a, uint64_t *nelem, struct err *err)
{
	uint64_t count = shape_counts_parts(coll) ? 1 : a->nranks;

	if (args_has(a, OPT(COUNT)))
		count = a->count;
	else if (coll == GPUSIM_BARRIER)
		count = 0;
	return shape_nelem(coll, count, a->nranks, nelem, err);
}

enum rc
run_plan(struct cli *cli, const struct args *a, struct err *err)
{
	struct plan_args p = {.rank = a->rank, .nranks = a->nranks, .chunk = a->chunk};
	struct buf text = {0};
	enum rc rc;

	(void)cli;
	if (args_has(a, OPT(LIST)))
		return list();
	if (a->nrest < 1)
		return err_set(err, RC_INVAL, "which collective? --list lists them");
	if (!args_has(a, OPT(RANKS)))
		return err_set(err, RC_INVAL, "how many ranks? -n N");
	rc = coll_parse(a->rest[0], &p.coll, err);
	if (rc == RC_OK)
		rc = plan_size(p.coll, a, &p.nelem, err);
	p.root = rc == RC_OK && coll_is_p2p(p.coll) ? a->peer : a->root;
	if (rc == RC_OK)
		rc = plan_show(&p, a->algo, &text, err);
	if (rc == RC_OK)
		fwrite(text.data, 1, text.len, stdout);
	buf_fini(&text);
	return rc;
}
