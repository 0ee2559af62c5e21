/* gpuctl simulate --fit - fit the constants of a cluster file to measured tables. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/must.h"
#include "cluster/measured.h"
#include "simulate_training.h"

#define SLOW 1.7 /* a system that takes this many times the predicted time is called degraded */

static const char *
coll_word(const struct measured *m)
{
	return coll_is_sendrecv(m->coll) ? "sendrecv" : coll_name(m->coll);
}

static enum rc
read_tables(const struct args *a, struct measured *t, struct err *err)
{
	enum rc rc = RC_OK;

	for (int i = 0; i < a->nrest && rc == RC_OK; i++) {
		struct buf text = {0};

		rc = file_text_upto(a->rest[i], "a table of nccl-tests", MEASURED_MAX_BYTES, &text,
				    err);
		if (rc == RC_OK)
			rc = measured_read(text.data, a->rest[i], a->nranks, &t[i], err);
		buf_fini(&text);
	}
	return rc;
}

/* The part of the system to check, by what limits the sizes. */
static const char *
look_at(const struct cluster_answer *a, bool large, bool several)
{
	if (!large)
		return "the path of small messages: GPUDirect, NUMA binding and frequency of the "
		       "processors, NCCL_PROTO";
	if (a->limit == CLUSTER_BY_LEVEL)
		return "the switches: congestion, adaptive routing, oversubscription";
	if (a->limit == CLUSTER_BY_NVLS)
		return "NVSwitch: fabric manager, NVLS in NCCL's log, errors of NVLinks";
	if (a->limit == CLUSTER_BY_NIC || several)
		return "the NICs: how many NCCL found (NCCL_DEBUG=INFO), their rate, GPUDirect "
		       "RDMA, PCIe ACS";
	return "the paths between GPUs: NVLinks that are down, peer-to-peer over PCIe, memory "
	       "clocks";
}

/* Report a table that is much slower, or faster, than the cluster as described. */
static void
judge(const struct measured *m, const struct cluster *c)
{
	for (int large = 0; large < 2; large++) {
		struct cluster_answer a;
		double slower = measured_median(m, c, large, false, &a);

		if (slower >= SLOW)
			printf("# %s: %s 16 MiB %.1f times slower than this cluster should be: "
			       "check %s\n",
			       m->name, large ? "from" : "below", slower,
			       look_at(&a, large, m->ngpus > c->domain));
		else if (slower <= 1 / SLOW)
			printf(
			    "# %s: %s 16 MiB %.1f times faster than this cluster should be: check "
			    "the cluster file\n",
			    m->name, large ? "from" : "below", 1 / slower);
	}
}

static void
print_error(const struct measured *m, const struct cluster *c)
{
	for (int large = 0; large < 2; large++) {
		double e = measured_median(m, c, large, true, NULL);

		if (isnan(e))
			printf("  %8s", "-");
		else
			printf("  %7.1f%%", 100 * e);
	}
}

static void
print_text(const struct measured_fit *f, const struct measured *t, int n, const struct cluster *was)
{
	printf("# %-24s  %10s  %10s\n", "constant", "was", "fitted");
	for (int k = 0; k < MEASURED_CONSTANTS; k++) {
		const struct measured_constant *c = &f->constant[k];

		if (c->told)
			printf("  %-24s  %10.4g  %10.4g %s\n", c->name, c->was, c->now, c->unit);
		else
			printf("  %-24s  %10.4g  %10s %s; these tables do not determine it\n",
			       c->name, c->was, "-", c->unit);
	}
	if (f->one_number)
		puts("# All tables are for the same number of GPUs: only the sum of launch and "
		     "latencies is "
		     "determined, and the growth\n"
		     "# of times with the number of GPUs is the model's.");
	printf("#\n# %-24s  %12s  %5s  %18s  %18s\n# %-24s  %12s  %5s  %8s  %8s  %8s  %8s\n",
	       "median |error|", "collective", "GPUs", "as it was", "fitted", "", "", "",
	       "< 16 MiB", ">= 16", "< 16 MiB", ">= 16");
	for (int i = 0; i < n; i++) {
		printf("  %-24.24s  %12s  %5u", t[i].name, coll_word(&t[i]), t[i].ngpus);
		print_error(&t[i], was);
		print_error(&t[i], &f->c);
		putchar('\n');
	}
	for (int i = 0; i < n; i++)
		judge(&t[i], was);
}

static void
print_json(const struct measured_fit *f, const struct measured *t, int n, const struct cluster *was)
{
	static const char *const keys[] = {"small_slower", "large_slower", "small_was",
					   "large_was",	   "small",	   "large"};
	struct json j = {stdout, false};

	json_put(&j, "{constants:[");
	for (int k = 0; k < MEASURED_CONSTANTS; k++) {
		const struct measured_constant *c = &f->constant[k];

		json_put(&j, "{name:%s was:%.6g now:%.6g told:%hhu}", c->name, c->was, c->now,
			 c->told);
	}
	json_put(&j, "] one_number:%hhu tables:[", f->one_number);
	for (int i = 0; i < n; i++) {
		json_put(&j, "{name:%s collective:%s nranks:%u", t[i].name, coll_word(&t[i]),
			 t[i].ngpus);
		for (int k = 0; k < 6; k++)
			json_put(&j, "%s:%.6g", keys[k],
				 measured_median(&t[i], k < 4 ? was : &f->c, k % 2, k > 1, NULL));
		json_put(&j, "}");
	}
	json_put(&j, "]}\n");
}

static enum rc
write_cluster(const struct args *a, const struct cluster *c, struct err *err)
{
	struct buf text = {0};
	enum rc rc;

	must_addf(&text, "# Fitted by gpuctl simulate --fit to");
	for (int i = 0; i < a->nrest; i++)
		must_addf(&text, " %s", a->rest[i]);
	/* A name is one line. */
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] < ' ')
			text.data[i] = ' ';
	must_addf(&text, "\n");
	rc = cluster_print(c, &text, err);
	if (rc == RC_OK)
		rc = file_replace(a->output, text.data, text.len, err);
	buf_fini(&text);
	return rc;
}

enum rc
simulate_fit(const struct args *a, struct err *err)
{
	bool to_file = a->output && strcmp(a->output, "-") != 0;
	struct measured *t;
	struct measured_fit fit;
	struct cluster c;
	enum rc rc;

	if (!a->cluster)
		return err_set(err, RC_INVAL,
			       "--fit: needs --cluster, the hardware that was measured");
	t = must_alloc((size_t)a->nrest, sizeof *t);
	rc = cluster_load(a->cluster, &c, err);
	if (rc == RC_OK)
		rc = read_tables(a, t, err);
	if (rc == RC_OK)
		rc = measured_fit(t, (size_t)a->nrest, &c, &fit, err);
	if (rc == RC_OK && to_file)
		rc = write_cluster(a, &fit.c, err);
	if (rc == RC_OK)
		(a->json ? print_json : print_text)(&fit, t, a->nrest, &c);
	free(t);
	return rc;
}
