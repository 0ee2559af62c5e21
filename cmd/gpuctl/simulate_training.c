/*
 * simulate_training.c - gpuctl simulate training: the time that failures and communication leave.
 *
 * All numbers that the result depends on are printed with it, and with their origin.
 */
#include "simulate_training.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/must.h"
#include "base/parse.h"
#include "cluster/predict.h"
#include "plot/plot.h"
#include "whatif/whatif.h"

#define DAY	       86400.0
#define HOUR	       3600.0
#define GRADIENT_BYTES 2 /* bf16 */

struct training {
	const struct args *a;
	struct cluster c;
	struct whatif_rates rates;
	struct whatif w;
	double overlap;
	struct step_ask ask;
	struct step_answer step; /* with --layers; else params alone is set */
	uint32_t ngpus;
	uint32_t tp, pp, dp;	/* dp ranks reduce a tp * pp-th of the gradients each */
	uint32_t per_host;	/* of those dp ranks */
	struct cluster reduces; /* one such group's share of the cluster, while all groups reduce */
	double reduce_s,
	    exposed_s; /* of a step: all all-reduces; the part that computing does not hide */
	double young_s, daly_s, best_s, mtbf_s;
	uint32_t best_spares;
	struct whatif_answer answer[WHATIF_NPOLICIES];
};

static double
seconds(uint32_t ms)
{
	return ms / 1000.0;
}

/* The fraction of the time between failures in which steps compute. */
static double
computing(const struct training *t)
{
	return t->w.step_s / (t->w.step_s + t->exposed_s);
}

static bool
wanted(const struct training *t, int policy)
{
	return t->a->how < 0 || t->a->how == policy;
}

static enum rc
read_rates(struct training *t, struct err *err)
{
	char path[PATH_MAX];
	struct buf text = {0};
	enum rc rc = cluster_find("failures", t->a->fail_rate, path, err);

	if (rc == RC_OK)
		rc = file_text(path, "a file of failures", &text, err);
	if (rc == RC_OK)
		rc = whatif_rates_read(text.data, path, &t->rates, err);
	buf_fini(&text);
	return rc;
}

/*
 * Compute a data-parallel group's share of the cluster. Neighbours are in one tensor-parallel group, then
 * come data-parallel ranks, as Megatron-LM places them: every tp-th GPU of a host is in one group, and tp
 * groups share its NICs.
 */
static enum rc
share_cluster(struct training *t, struct err *err)
{
	uint32_t each = t->c.gpus_per_host;

	if (t->tp > 1 && each % t->tp != 0 && t->tp % each != 0)
		return err_set(err, RC_INVAL,
			       "--parallel: tp %" PRIu32 " must divide a host's %" PRIu32
			       " GPUs, or be a multiple of them",
			       t->tp, each);
	t->reduces = cluster_strided(&t->c, t->tp);
	t->per_host = t->reduces.gpus_per_host;
	return RC_OK;
}

/* Time the all-reduces of a step's gradients, bucket after bucket. */
static enum rc
communication(struct training *t, struct err *err)
{
	double bytes = t->step.params * GRADIENT_BYTES / ((double)t->tp * t->pp),
	       bucket = (double)t->a->bucket;
	struct cluster_ask ask = {
	    .coll = GPUSIM_ALLREDUCE, .ngpus = t->dp, .algo = -1, .proto = -1};
	struct cluster_answer answer;
	double whole = floor(bytes / bucket);
	enum rc rc;

	if (t->dp < 2)
		return RC_OK; /* no rank to reduce with */
	if (t->a->step.layers) {
		t->reduce_s = t->step.dp_s + t->step.hidden_s;
		t->exposed_s = t->step.dp_s;
		return RC_OK;
	}

	ask.nbytes = (uint64_t)bucket;
	rc = whole > 0 ? cluster_predict(&t->reduces, &ask, &answer, err) : RC_OK;
	if (rc != RC_OK)
		return rc;
	t->reduce_s = whole > 0 ? whole * answer.us / 1e6 : 0;
	ask.nbytes = (uint64_t)(bytes - whole * bucket);
	if (ask.nbytes) {
		rc = cluster_predict(&t->reduces, &ask, &answer, err);
		if (rc != RC_OK)
			return rc;
		t->reduce_s += answer.us / 1e6;
	}
	t->exposed_s = (1 - t->overlap) * t->reduce_s;
	return RC_OK;
}

/* The step's time from its model, instead of --step-time. */
static enum rc
predict_step(struct training *t, struct err *err)
{
	const struct args *a = t->a;

	if (args_given(a, params) || args_given(a, step_ms) || args_given(a, bucket))
		return err_set(err, RC_INVAL,
			       "--layers: a model's step is predicted; leave out --params, "
			       "--step-time and --bucket");
	return simulate_step_of(a, &t->c, &t->ask, &t->step, err);
}

static enum rc
interval(struct training *t, struct err *err)
{
	const char *word = t->a->checkpoint;
	uint32_t ms;
	enum rc rc;

	t->mtbf_s = 1 / whatif_rate(&t->rates, t->w.hosts);
	t->young_s = whatif_young(t->w.checkpoint_s, t->mtbf_s);
	t->daly_s = whatif_daly(t->w.checkpoint_s, t->mtbf_s);
	rc = whatif_best_interval(&t->w, &t->best_s, err);
	t->w.interval_s = t->best_s;
	if (rc != RC_OK || strcmp(word, "auto") == 0)
		return rc;
	rc = parse_ms(word, &ms, err);
	if (rc == RC_OK && !ms)
		rc = err_set(err, RC_INVAL, "must not be 0");
	if (rc != RC_OK)
		return err_prefix(err, "--checkpoint");
	t->w.interval_s = seconds(ms);
	return RC_OK;
}

static enum rc
prepare(struct training *t, struct err *err)
{
	const struct args *a = t->a;
	enum rc rc = cluster_load(a->cluster, &t->c, err);

	if (rc == RC_OK)
		rc = read_rates(t, err);
	if (rc != RC_OK)
		return rc;
	rc = simulate_parallel(a, &t->c, &t->ask, err);
	t->tp = t->ask.tp;
	t->pp = t->ask.pp;
	t->dp = t->ask.dp;
	t->ngpus = t->tp * t->pp * t->dp;
	if (rc == RC_OK)
		rc = share_cluster(t, err);
	if (rc == RC_OK && a->step.layers)
		rc = predict_step(t, err);
	if (rc != RC_OK)
		return rc;
	t->w = (struct whatif){.rates = &t->rates,
			       .hosts = (t->ngpus + t->c.gpus_per_host - 1) / t->c.gpus_per_host,
			       .seconds = a->days * DAY,
			       .step_s =
				   a->step.layers ? t->step.s - t->step.dp_s : seconds(a->step_ms),
			       .detect_s = seconds(a->detect_ms),
			       .restart_s = seconds(a->restart_ms),
			       .recover_s = seconds(a->recover_ms),
			       .repair_s = seconds(a->repair_ms),
			       .checkpoint_s = seconds(a->checkpoint_ms),
			       .spares = a->spares,
			       .seed = a->seed};
	rc = communication(t, err);
	t->w.step_s += t->exposed_s;
	if (rc == RC_OK)
		rc = interval(t, err);
	t->w.step_s -= t->exposed_s;
	return rc;
}

static enum rc
simulate(struct training *t, struct err *err)
{
	enum rc rc = RC_OK;

	for (int p = 0; p < WHATIF_NPOLICIES && rc == RC_OK; p++) {
		t->w.policy = (enum whatif_policy)p;
		if (wanted(t, p))
			rc = whatif_run(&t->w, &t->answer[p], err);
	}
	if (rc == RC_OK && wanted(t, WHATIF_SPARE))
		rc = whatif_best_spares(&t->w, &t->best_spares, err);
	return rc;
}

/* ---- as text */

static void
print_head(const struct training *t)
{
	printf("# training on %" PRIu32 " GPUs (%" PRIu32 " hosts) of %s, %.4g days\n", t->ngpus,
	       t->w.hosts, t->c.name, t->w.seconds / DAY);
	printf("# a step: %.4g s, and %.3g s of communication that computing does not hide ",
	       t->w.step_s, t->exposed_s);
	if (t->a->step.layers)
		printf("(data-parallel messages take %.3g s)\n", t->reduce_s);
	else
		printf("(all-reduces of %.3g GB take %.3g s)\n",
		       t->step.params * GRADIENT_BYTES / 1e9 / ((double)t->tp * t->pp),
		       t->reduce_s);
	printf("# failures: one every %.3g h, %.0f expected\n", t->mtbf_s / HOUR,
	       t->w.seconds / t->mtbf_s);
	printf("# checkpoint every %.4g s; best: %.4g s by simulation (the mean of %d seeds), %.4g "
	       "s by Young, %.4g s by "
	       "Daly\n#\n",
	       t->w.interval_s, t->best_s, WHATIF_SEEDS, t->young_s, t->daly_s);
	printf("# %7s  %8s  %8s  %9s  %s\n", "", "goodput", "training", "", "lost, % of the time");
	printf("# %7s  %7s%%  %7s%%  %9s  %7s  %7s  %7s  %7s  %7s  %7s\n", "policy", "computing",
	       "time", "failures", "comm", "detect", "restart", "again", "ckpt", "hosts");
}

static void
print_policy(const struct training *t, int p)
{
	const struct whatif_answer *a = &t->answer[p];

	printf("%9s  %8.2f  %8.2f  %9" PRIu64 "  %7.2f  %7.2f  %7.2f  %7.2f  %7.2f  %7.2f\n",
	       whatif_policy_name((unsigned)p), 100 * a->goodput * computing(t), 100 * a->goodput,
	       a->happened, 100 * a->goodput * (1 - computing(t)), 100 * a->lost_detect,
	       100 * a->lost_restart, 100 * a->lost_again, 100 * a->lost_checkpoint,
	       100 * a->lost_hosts);
}

static void
print_kinds(const struct training *t)
{
	int p = t->a->how < 0 ? WHATIF_RESTART : t->a->how;
	const struct whatif_answer *a = &t->answer[p];

	printf("#\n# by kind, with %s:\n# %9s  %7s  kind\n", whatif_policy_name((unsigned)p),
	       "failures", "lost %");
	for (size_t k = 0; k < t->rates.nkinds; k++)
		printf("# %9" PRIu64 "  %7.2f  %s\n", a->count_kind[k], 100 * a->lost_kind[k],
		       t->rates.kind[k].name);
}

#define ORIGIN(field) (args_given(a, field) ? "given" : "default")

static void
assumed(const char *option, const char *meaning, double value, const char *unit, const char *origin)
{
	printf("#   %-18s %10.6g %-2s %s; %s\n", option, value, unit, meaning, origin);
}

static void
print_assumed(const struct training *t)
{
	const struct args *a = t->a;

	printf("#\n# assumed:\n#   failures from %s: %s\n", a->fail_rate, t->rates.source);
	printf("#   hosts fail independently, at random, at a constant rate, also while the "
	       "training stands still\n#   with shrink and spare each failure removes a host "
	       "until it is repaired\n");
	printf("#   %" PRIu32 " GPUs, %" PRIu32
	       " per host, reduce the same bf16 gradients: 1 of %" PRIu32 " parts of all\n",
	       t->dp, t->per_host, t->tp * t->pp);
	if (t->tp * t->pp > 1)
		printf(
		    "#   tp %" PRIu32 " GPUs of a host share a layer, then come dp %" PRIu32
		    ", then pp %" PRIu32 " stages, as in Megatron-LM;\n"
		    "#   --step-time includes tensor- and pipeline-parallel messages and bubbles\n",
		    t->tp, t->dp, t->pp);
	assumed("--step-time", "computation of a step", t->w.step_s, "s",
		t->a->step.layers ? "predicted" : ORIGIN(step_ms));
	assumed("--params", "parameters", t->step.params, "",
		t->a->step.layers ? "predicted" : ORIGIN(params));
	if (!a->step.layers)
		assumed("--bucket", "bytes of one all-reduce", (double)a->bucket, "B",
			ORIGIN(bucket));
	assumed("--overlap", "hidden part of communication", t->overlap, "", ORIGIN(overlap));
	assumed("--detect-time", "time until a failure is detected", t->w.detect_s, "s",
		ORIGIN(detect_ms));
	assumed("--restart-time", "time to start from a checkpoint", t->w.restart_s, "s",
		ORIGIN(restart_ms));
	assumed("--recover-time", "time to start from memory", t->w.recover_s, "s",
		ORIGIN(recover_ms));
	assumed("--repair-time", "time to repair a host, for shrink and spare", t->w.repair_s, "s",
		ORIGIN(repair_ms));
	assumed("--checkpoint-time", "pause for a checkpoint", t->w.checkpoint_s, "s",
		ORIGIN(checkpoint_ms));
	assumed("--spares", "spare hosts", t->w.spares, "", ORIGIN(spares));
}

static void
print_text(const struct training *t)
{
	print_head(t);
	for (int p = 0; p < WHATIF_NPOLICIES; p++)
		if (wanted(t, p))
			print_policy(t, p);
	if (wanted(t, WHATIF_SPARE))
		printf("#\n# spares worth having: %" PRIu32
		       " (most goodput for each host, spares included; the mean of %d seeds)\n",
		       t->best_spares, WHATIF_SEEDS);
	print_kinds(t);
	print_assumed(t);
}

/* ---- as JSON */

static void
print_json(const struct training *t)
{
	struct json j = {stdout, false};

	json_put(&j,
		 "{cluster:%s nranks:%" PRIu32 " hosts:%" PRIu32
		 " days:%.9g step_s:%.9g reduce_s:%.9g exposed_s:%.9g mtbf_s:%.9g failures:%.9g "
		 "interval_s:%.9g best_s:%.9g young_s:%.9g daly_s:%.9g",
		 t->c.name, t->ngpus, t->w.hosts, t->w.seconds / DAY, t->w.step_s, t->reduce_s,
		 t->exposed_s, t->mtbf_s, t->w.seconds / t->mtbf_s, t->w.interval_s, t->best_s,
		 t->young_s, t->daly_s);
	if (wanted(t, WHATIF_SPARE))
		json_put(&j, "spares_worth:%" PRIu32, t->best_spares);
	else
		json_put(&j, "spares_worth:null");
	json_put(&j,
		 "tp:%" PRIu32 " pp:%" PRIu32 " dp:%" PRIu32 " seeds:%d params:%.9g bucket:%" PRIu64
		 " overlap:%.9g seed:%" PRIu64
		 " detect_s:%.9g restart_s:%.9g recover_s:%.9g repair_s:%.9g checkpoint_s:%.9g "
		 "spares:%" PRIu32 " fail_rate:%s policies:[",
		 t->tp, t->pp, t->dp, WHATIF_SEEDS, t->step.params, (uint64_t)t->a->bucket,
		 t->overlap, (uint64_t)t->a->seed, t->w.detect_s, t->w.restart_s, t->w.recover_s,
		 t->w.repair_s, t->w.checkpoint_s, t->w.spares, t->rates.source);
	for (int p = 0; p < WHATIF_NPOLICIES; p++) {
		const struct whatif_answer *a = &t->answer[p];

		if (!wanted(t, p))
			continue;
		json_put(&j,
			 "{policy:%s goodput:%.9g training:%.9g happened:%" PRIu64
			 " lost:{comm:%.9g detect:%.9g restart:%.9g again:%.9g ckpt:%.9g "
			 "hosts:%.9g}",
			 whatif_policy_name((unsigned)p), a->goodput * computing(t), a->goodput,
			 a->happened, a->goodput * (1 - computing(t)), a->lost_detect,
			 a->lost_restart, a->lost_again, a->lost_checkpoint, a->lost_hosts);
		json_put(&j, "kinds:[");
		for (size_t k = 0; k < t->rates.nkinds; k++)
			json_put(&j, "{kind:%s count:%" PRIu64 " lost:%.9g}", t->rates.kind[k].name,
				 a->count_kind[k], a->lost_kind[k]);
		json_put(&j, "]}");
	}
	json_put(&j, "]}\n");
}

/* ---- as a plot: the goodput by the interval and by the number of hosts */

static enum rc
curve(struct training *t, struct plot_panel *panel, int p, bool by_hosts, struct err *err)
{
	struct plot_style s = {
	    .colour = plot_colour((unsigned)p), .shape = (unsigned)p, .mark = "RSPX"[p]};
	struct plot_curve *c;
	struct whatif w = t->w;
	enum rc rc = RC_OK;

	snprintf(s.name, sizeof s.name, "%s", whatif_policy_name((unsigned)p));
	c = plot_curve_add(panel, &s);
	w.policy = (enum whatif_policy)p;
	for (int i = -8; i <= 8 && rc == RC_OK; i++) {
		double factor = pow(2, i / 2.0);
		struct whatif_answer a;

		if (by_hosts) {
			w.hosts = (uint32_t)fmax(1, round(t->w.hosts * factor));
			w.interval_s =
			    whatif_daly(w.checkpoint_s, 1 / whatif_rate(w.rates, w.hosts));
		} else {
			w.interval_s = t->w.interval_s * factor;
		}
		rc = whatif_run(&w, &a, err);
		if (rc == RC_OK)
			plot_point_add(
			    c, by_hosts ? (double)w.hosts * t->c.gpus_per_host : w.interval_s,
			    100 * a.goodput);
	}
	return rc;
}

static enum rc
draw(struct training *t, struct err *err)
{
	struct plot plot = {.title = "training time with failures", .npanels = 2};
	enum rc rc = RC_OK;

	plot.panel[0] =
	    (struct plot_panel){.text = "training time in % over seconds between checkpoints",
				.x = {.label = "work between checkpoints (s)", .log = true},
				.y = {.label = "training time (%)", .from_zero = true}};
	plot.panel[1] = (struct plot_panel){.text = "training time in % over GPUs",
					    .x = {.label = "GPUs", .log = true},
					    .y = {.label = "training time (%)", .from_zero = true}};
	for (int p = 0; p < WHATIF_NPOLICIES && rc == RC_OK; p++)
		for (unsigned k = 0; k < 2 && rc == RC_OK; k++)
			if (wanted(t, p))
				rc = curve(t, &plot.panel[k], p, k == 1, err);
	if (rc == RC_OK && plot_show(&plot, t->a->plot, t->a->json ? stderr : stdout, err) != RC_OK)
		rc = err_prefix(err, "--plot");
	plot_fini(&plot);
	return rc;
}

enum rc
simulate_training(const struct args *a, struct err *err)
{
	struct training *t;
	enum rc rc;

	if (!a->cluster)
		return err_set(err, RC_INVAL, "training: needs --cluster");
	if (a->plot && plot_check(a->plot, err) != RC_OK)
		return err_prefix(err, "--plot");
	t = must_alloc(1, sizeof *t);
	t->a = a;
	t->step.params = a->params;
	t->overlap = a->step.layers && !args_given(a, overlap) ? 0 : a->overlap;
	rc = prepare(t, err);
	if (rc == RC_OK)
		rc = simulate(t, err);
	if (rc == RC_OK)
		(a->json ? print_json : print_text)(t);
	if (rc == RC_OK && a->plot)
		rc = draw(t, err);
	free(t);
	return rc;
}
