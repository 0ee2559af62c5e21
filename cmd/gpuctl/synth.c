/* gpuctl synth - search for an algorithm that is fast on a cluster, verify it, and write it as a file. */
#include "synth/synth.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "algo/algo.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/must.h"
#include "cli.h"
#include "coll/tune.h"

#define SHOWN 10u /* most candidates that are printed */

/* Make the links that the options describe: a cluster's, or equal ones. */
static enum rc
read_links(const struct args *a, struct synth_ask *ask, struct links *links,
	   struct cost_model *device, struct err *err)
{
	struct cluster cluster;
	struct tuner t;
	enum rc rc;

	ask->group = ask->nranks;
	if (!args_given(a, cluster)) {
		tuner_init(&t);
		ask->shape = args_links(a);
		*device = tuner_model(&t, TUNE_NET, &ask->shape);
		tuner_fini(&t);
		ask->device = device;
		*links = links_flat(ask->nranks, device);
		return RC_OK;
	}
	if (args_given(a, latency_ns) || args_given(a, bits_per_s))
		return err_set(
		    err, RC_INVAL,
		    "--latency and --bandwidth: only for equal links, not with --cluster");
	rc = cluster_load(a->cluster, &cluster, err);
	if (rc)
		return rc;
	if (ask->nranks > cluster_gpus(&cluster))
		rc = err_set(err, RC_INVAL, "%s has %" PRIu32 " GPUs, not %" PRIu32, a->cluster,
			     cluster_gpus(&cluster), ask->nranks);
	*links = links_of_cluster(&cluster, ask->nranks, CLUSTER_SIMPLE);
	if (cluster.domain < ask->nranks)
		ask->group = cluster.domain;
	return rc;
}

static bool
before_deadline(void *arg)
{
	return clock_now_ns() < *(const uint64_t *)arg;
}

static bool
is_xml(const char *path)
{
	size_t n = strlen(path);

	return n > 4 && strcmp(path + n - 4, ".xml") == 0;
}

/* Write the text, or MSCCL's XML for it. */
static enum rc
write_file(const char *path, const struct synth_result *r, struct err *err)
{
	struct algo *algo = NULL;
	struct buf xml = {0};
	enum rc rc;

	if (!is_xml(path))
		return file_replace(path, r->text.data, r->text.len, err);
	rc = algo_parse(r->text.data, r->text.len, path, NULL, &algo, err);
	if (!rc) {
		must(msccl_print(algo, &xml));
		rc = file_replace(path, xml.data, xml.len, err);
	}
	algo_free(algo);
	buf_fini(&xml);
	return rc;
}

static void
print_rows(const struct synth_result *r, bool json)
{
	size_t n = r->nrow < SHOWN ? r->nrow : SHOWN;
	struct json j = {stdout, false};

	if (json)
		json_put(&j, "{tried:%zu min_slots:%" PRIu32 " steps:%zu candidates:[", r->tried,
			 r->proof.min_slots, r->proof.nsteps);
	else
		printf("%-32s  %12s\n", "candidate", "simulated us");
	for (size_t i = 0; i < r->nrow; i++) {
		const struct synth_row *row = &r->row[i];
		bool best_builtin = row->builtin && strcmp(row->name, r->builtin.name) == 0;

		if (i >= n && !best_builtin)
			continue;
		if (json)
			json_put(&j, "{name:%s simulated_us:%.9g builtin:%hhu}", row->name, row->us,
				 row->builtin);
		else
			printf("%-32s  %12.1f%s\n", row->name, row->us,
			       row->builtin ? "  built-in" : "");
	}
	if (json)
		json_put(&j, "] builtin_wins:%hhu}\n", synth_builtin_wins(r));
	else {
		if (synth_builtin_wins(r))
			printf("%s, built-in, is faster than the best file: --algo %s\n",
			       r->builtin.name, r->builtin.name);
		printf("%zu drafts; verified: %zu steps, %" PRIu32 " %s per connection\n", r->tried,
		       r->proof.nsteps, r->proof.min_slots,
		       r->proof.min_slots == 1 ? "slot" : "slots");
	}
}

enum rc
run_synth(struct cli *cli, const struct args *a, struct err *err)
{
	struct synth_ask ask = {.nranks = a->nranks,
				.root = a->root,
				.nbytes = args_given(a, nbytes) ? a->nbytes : 1u << 20,
				.seed = a->seed,
				.any_chunk = args_given(a, cluster),
				.tries = a->tries};
	struct synth_result r = {0};
	struct links links;
	struct cost_model device;
	uint64_t deadline;
	bool to_file = a->output && strcmp(a->output, "-") != 0;
	enum rc rc;

	(void)cli;
	if (a->nrest < 1)
		return err_set(err, RC_INVAL, "a collective is missing");
	if (!a->nranks)
		return err_set(err, RC_INVAL, "the number of ranks is missing: use -n N");
	if (args_given(a, time_limit_ms)) {
		deadline = deadline_in_ms(a->time_limit_ms);
		ask.go_on = before_deadline;
		ask.arg = &deadline;
	}
	rc = coll_parse(a->rest[0], &ask.coll, err);
	if (!rc)
		rc = read_links(a, &ask, &links, &device, err);
	if (!rc && to_file)
		rc = file_new_check(a->output, err);
	if (!rc)
		rc = synth_search(&ask, &links, &r, err);
	if (!rc && to_file)
		rc = write_file(a->output, &r, err);
	if (!rc && to_file)
		print_rows(&r, a->json);
	else if (!rc)
		fwrite(r.text.data, 1, r.text.len, stdout);
	synth_fini(&r);
	return rc;
}
