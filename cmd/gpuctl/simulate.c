/* gpuctl simulate - predict nccl-tests' table of a cluster. Needs no devices. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "base/must.h"
#include "cli.h"
#include "cluster/scheme.h"
#include "mem/dtype.h"
#include "mem/redop.h"
#include "plan_file.h"
#include "simulate_table.h"
#include "simulate_training.h"

/* Time the thread blocks of a custom algorithm, which run concurrently. */
static enum rc
time_blocks(const struct table *t, uint64_t nbytes, enum cluster_proto proto,
	    struct traffic_answer *out, struct flow_report *report, struct err *err)
{
	const struct algo *f = t->custom;
	struct flow_plans p = {.nplans = f->nranks, .nranks = f->nranks, .elem = 1};
	struct plan *plans = NULL;
	uint32_t chunks = f->nchunks ? f->nchunks : 1;
	enum rc rc;

	rc = algo_blocks(f, (nbytes + chunks - 1) / chunks, &plans, &p.blocks, err);
	if (rc != RC_OK)
		return rc;
	p.plan = plans;
	rc = traffic_plans(&t->c, &p, proto, out, report, err);
	out->algo = f->name;
	plan_free_all(plans, f->nranks * p.blocks);
	return rc;
}

static enum rc
row_of_links(struct table *t, struct row *row, struct err *err)
{
	struct traffic_ask ask = {
	    .coll = t->ask.coll,
	    .ngpus = t->ask.ngpus,
	    .root = t->a->root,
	    .nelem = row->size / dtype_size(t->dtype),
	    .elem = dtype_size(t->dtype),
	    .wide = coll_reduces(t->ask.coll) && redop_widening(t->a->redop, t->dtype) > 1,
	    .algo = t->algo,
	    .schedule = t->schedule,
	    .channels = t->a->channels,
	    .proto = t->ask.proto < 0 ? CLUSTER_SIMPLE : (enum cluster_proto)t->ask.proto};
	enum rc rc = t->custom
			 ? time_blocks(t, row->size, ask.proto, &row->traffic, &row->report, err)
			 : traffic_time(&t->c, &ask, &row->traffic, &row->report, err);

	if (rc != RC_OK)
		return rc;
	row->us = row->traffic.us;
	row->algo = t->algo;
	row->proto = cluster_proto_name(ask.proto);
	row->channels = row->traffic.channels;
	row->bar = cluster_error_bar(CLUSTER_LIKE_NONE, row->size);
	row->bound = row->traffic.bound;
	return RC_OK;
}

static enum rc
row_of_model(struct table *t, struct row *row, struct err *err)
{
	const struct tuning_choice *choice = &row->model.choice;
	enum rc rc = cluster_predict(&t->c, &t->ask, &row->model, err);

	if (rc != RC_OK)
		return rc;
	if (t->a->explain)
		(void)traffic_of_choice(&t->c, &t->ask, choice, &row->traffic, &row->report, NULL);
	row->us = row->model.us;
	row->algo = cluster_algo_name(choice->algo);
	row->proto = cluster_proto_name(choice->proto);
	row->channels = choice->channels;
	row->bar = cluster_error_bar(cluster_likeness(&t->c, t->ask.ngpus, choice), row->size);
	row->bound = row->model.bound;
	return RC_OK;
}

static enum rc
rows(struct table *t, struct err *err)
{
	const struct args *a = t->a;
	uint64_t nbytes = a->min_bytes;
	enum rc rc = RC_OK;

	for (; nbytes <= a->max_bytes; nbytes *= a->factor) {
		struct row row = {0};

		t->ask.nbytes = row.size = table_size(t, nbytes, &row.count);
		rc = (t->algo ? row_of_links : row_of_model)(t, &row, err);
		if (rc != RC_OK)
			return rc;
		table_row(t, &row);
		flow_report_fini(&row.report);
		if (!nbytes || nbytes > UINT64_MAX / a->factor)
			break;
	}
	table_end(t);
	return rc;
}

static enum rc
check_sizes(const struct args *a, struct err *err)
{
	if (args_given(a, count) || args_given(a, nbytes) || args_given(a, chunk))
		return err_set(err, RC_INVAL, "--cluster: sizes are set by -b, -e and -f");
	if (a->min_bytes > a->max_bytes)
		return err_set(err, RC_INVAL, "-b: must not exceed -e");
	return RC_OK;
}

/* List all algorithms for the cluster: NCCL's, schemes, and gpusim's own. */
static enum rc
no_algorithm(const struct table *t, const char *name, struct err *err)
{
	enum gpusim_coll coll = t->ask.coll;
	struct tuning_ranks r;
	struct tuning_choice choice;
	struct buf all = {0};
	enum rc rc;

	tuning_ranks(&t->c, t->ask.ngpus, &r);
	for (int i = 0; i < CLUSTER_NALGOS; i++)
		if (tuning_choose(&t->c, &r, coll, i, -1, 1, &choice, NULL) == RC_OK)
			(void)must_addf(&all, ", %s", cluster_algo_name((unsigned)i));
	for (char *p = all.data; p && *p; p++)
		*p = (char)tolower((unsigned char)*p);
	for (const struct scheme *s = schemes; s->name; s++)
		if (s->coll == coll)
			(void)must_addf(&all, ", %s", s->name);
	for (const struct plan_algo *row = plan_algos; row->name; row++)
		if (row->coll == coll && traffic_knows(coll, row->name) &&
		    cluster_algo_parse(row->name, &(int){0}, NULL) != RC_OK)
			(void)must_addf(&all, ", %s", row->name);
	rc = err_set(err, RC_INVAL,
		     "'%.64s' is not an algorithm of %s on this cluster; must be one of auto%s",
		     name, t->coll, all.len ? all.data : "");
	buf_fini(&all);
	return rc;
}

/* Use NCCL's model if it knows the algorithm for this collective; else the links. */
static enum rc
choose_model(struct table *t, struct err *err)
{
	const char *name = t->a->algo && *t->a->algo ? t->a->algo : "auto";
	enum rc rc = cluster_algo_parse(name, &t->ask.algo, err);
	struct tuning_ranks r;
	struct tuning_choice choice;

	if (rc != RC_OK && !traffic_knows(t->ask.coll, name))
		return no_algorithm(t, name, err);
	if (rc == RC_OK && t->ask.algo >= 0 && t->ask.ngpus <= cluster_gpus(&t->c)) {
		tuning_ranks(&t->c, t->ask.ngpus, &r);
		rc = tuning_choose(&t->c, &r, t->ask.coll, t->ask.algo, t->ask.proto, 1, &choice,
				   err);
		/* NCCL has only one algorithm for the collective, but other kinds exist. */
		if (rc != RC_OK && !traffic_knows(t->ask.coll, name) &&
		    tuning_choose(&t->c, &r, t->ask.coll, -1, -1, 1, &choice, NULL) == RC_OK &&
		    choice.algo == CLUSTER_P2P)
			return no_algorithm(t, name, err);
	}
	if (rc == RC_OK || !traffic_knows(t->ask.coll, name))
		return rc;
	if (t->a->channels && !scheme_find(t->ask.coll, name))
		return err_set(err, RC_INVAL, "--channels: only for NCCL's algorithms, not for %s",
			       name);
	t->algo = name;
	return RC_OK;
}

static enum rc
check_root(const struct table *t, struct err *err)
{
	if (coll_has_root(t->ask.coll) && t->a->root >= t->ask.ngpus)
		return err_set(err, RC_INVAL, "--root: no rank %" PRIu32 " among %" PRIu32 " ranks",
			       t->a->root, t->ask.ngpus);
	return RC_OK;
}

/* Use a file's algorithm: prove it, and make each rank's schedule. */
static enum rc
by_file(struct table *t, struct err *err)
{
	struct algo *f = NULL;
	struct schedule *schedule = NULL;
	enum rc rc;

	if (t->a->channels)
		return err_set(err, RC_INVAL,
			       "--channels: only for NCCL's algorithms, not for a file");
	rc = plan_file_load(t->a, &f, NULL, err);
	if (rc == RC_OK && f->custom)
		t->custom = f;
	else if (rc == RC_OK)
		rc = algo_lower(f, NULL, &schedule, err);
	if (rc == RC_OK) {
		t->ask.coll = f->custom ? GPUSIM_SEND : f->coll; /* busbw is algbw */
		t->ask.ngpus = f->nranks;
		t->coll = algo_coll_name(f);
		t->algo = f->name;
		t->schedule = schedule;
		rc = rows(t, err);
	}
	schedule_free_all(schedule, f ? f->nranks : 0);
	algo_free(f);
	return rc;
}

static enum rc
on_cluster(const struct args *a, struct err *err)
{
	struct table t = {
	    .a = a, .json.f = stdout, .ask = {.proto = a->proto, .channels = a->channels}};
	enum rc rc = check_sizes(a, err);

	t.dtype = a->typed ? a->dtype : GPUSIM_F32;
	if (rc == RC_OK)
		rc = cluster_load(a->cluster, &t.c, err);
	if (rc == RC_OK && a->algo_file)
		return by_file(&t, err);
	if (rc == RC_OK)
		rc = cluster_coll(a->rest[0], &t.ask.coll, err);
	if (rc != RC_OK)
		return rc;
	t.coll = coll_is_sendrecv(t.ask.coll) ? "sendrecv" : coll_name(t.ask.coll);
	t.ask.ngpus = a->nranks ? a->nranks : cluster_gpus(&t.c);
	rc = check_root(&t, err);
	if (rc == RC_OK)
		rc = choose_model(&t, err);
	return rc == RC_OK ? rows(&t, err) : rc;
}

#define ROW(field) offsetof(struct args, field)

enum form { OF_TABLES, OF_TRAINING, OF_STEP };

/* The options that only some forms take; OF_STEP: also training. */
static const size_t of_form[][24] = {
    [OF_TABLES] = {ROW(min_bytes), ROW(max_bytes), ROW(factor), ROW(algo), ROW(algo_file),
		   ROW(proto), ROW(channels), ROW(dtype), ROW(redop), ROW(root), ROW(explain),
		   ROW(count), ROW(nbytes)},
    [OF_TRAINING] = {ROW(params), ROW(step_ms), ROW(bucket), ROW(fail_rate), ROW(detect_ms),
		     ROW(restart_ms), ROW(recover_ms), ROW(repair_ms), ROW(checkpoint_ms),
		     ROW(checkpoint), ROW(how), ROW(spares), ROW(days), ROW(seed), ROW(plot)},
    [OF_STEP] = {ROW(parallel), ROW(overlap), ROW(model), ROW(step.layers), ROW(step.hidden),
		 ROW(step.heads), ROW(step.seq), ROW(step.vocab), ROW(step.batch), ROW(step.micro),
		 ROW(step.interleave), ROW(step.zero), ROW(step.flat), ROW(step.recompute),
		 ROW(step.sequence_parallel), ROW(schedule), ROW(step_dtype)},
};

static enum rc
check_form(const struct args *a, enum form form, struct err *err)
{
	static const char *const whose[] = {"collectives", "training", "step and training"};
	static const char *const words[] = {"a collective", "training", "step"};

	for (unsigned f = OF_TABLES; f <= OF_STEP; f++)
		for (const size_t *at = of_form[f]; *at; at++)
			if (args_was_given(a, *at) && f != form &&
			    !(f == OF_STEP && form == OF_TRAINING))
				return err_set(
				    err, RC_INVAL,
				    "an option for %s was given, which %s does not accept",
				    whose[f], words[form]);
	return RC_OK;
}

/* Without a cluster: simulate gpusim's own algorithms, as `gpuctl plan --simulate` does. */
enum rc
run_simulate(struct cli *cli, const struct args *a, struct err *err)
{
	struct args plan = *a;

	enum form form = strcmp(a->rest[0], "training") == 0 ? OF_TRAINING
			 : strcmp(a->rest[0], "step") == 0   ? OF_STEP
							     : OF_TABLES;

	if (a->fit) {
		if (check_form(a, OF_TABLES, NULL) != RC_OK ||
		    check_form(a, OF_STEP, NULL) != RC_OK)
			return err_set(err, RC_INVAL,
				       "--fit: allows only --cluster, -n, -o and --json");
		return simulate_fit(a, err);
	}
	if (a->nrest > 1)
		return err_set(err, RC_INVAL, "unexpected operand '%s': one collective is expected",
			       a->rest[1]);
	if (args_given(a, output))
		return err_set(err, RC_INVAL, "-o: needs --fit");
	if (check_form(a, form, err) != RC_OK)
		return RC_INVAL;
	if (form != OF_TABLES)
		return (form == OF_STEP ? simulate_step : simulate_training)(a, err);
	if (a->cluster)
		return on_cluster(a, err);
	if (args_given(a, proto) || a->channels || a->explain || args_given(a, min_bytes) ||
	    args_given(a, max_bytes))
		return err_set(err, RC_INVAL,
			       "--proto, --channels, --explain, -b and -e: need --cluster");
	plan.simulate = true;
	return run_plan(cli, &plan, err);
}
