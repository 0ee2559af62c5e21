/* gpuctl chaos - run random collectives under random faults, and check each result. */
#include "chaos/chaos.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli.h"
#include "coll/fault.h"
#include "launch/launch.h"
#include "tape/folder.h"

#define DEFAULT_MS     60000
#define DEFAULT_BOUND  60000 /* ms */
#define OP_TIMEOUT_MS  4000
#define RECORDED_RANKS 4
#define RATE_SECOND    0.5
#define RATE_OP	       0.1

/* With --json, sentences go to stderr, beside the JSON object. */
static void
say(void *arg, enum chaos_event event, const char *sentence)
{
	const struct args *a = arg;
	bool aside = a->json || event >= CHAOS_DETAIL;

	if (event == CHAOS_ALARM || a->verbose > (event == CHAOS_DETAIL))
		fprintf(aside ? stderr : stdout, "%s\n", sentence);
}

static void
print_usage(const struct chaos_report *r)
{
	printf("%-16s %8s %13s %13s %17s\n", "daemon", "pid", "descriptors", "threads",
	       "memory (KiB)");
	for (size_t i = 0; i < r->ndaemons; i++) {
		const struct chaos_usage *b = &r->daemons[i].before, *u = &r->daemons[i].after;
		char name[24] = "coordinator";

		if (r->daemons[i].device.id)
			snprintf(name, sizeof name, "%016" PRIx64, r->daemons[i].device.id);
		printf("%-16s %8u %6u %6u %6u %6u %8" PRIu64 " %8" PRIu64 "%s\n", name, b->pid,
		       b->fds, u->fds, b->threads, u->threads, b->kib, u->kib,
		       u->pid == 0	  ? "  ended"
		       : b->pid != u->pid ? "  started again"
					  : "");
	}
}

static void
print_text(const struct chaos_config *c, const struct chaos_report *r)
{
	printf("seed %" PRIu64 ", on failure %s: %" PRIu64 " operations, %" PRIu64
	       " right, %" PRIu64 " failed; %" PRIu64 " wrong, %" PRIu64 " stuck\n",
	       c->seed, gpusim_on_failure_name((int)c->comm.on_failure), r->ops, r->good, r->failed,
	       r->wrong, r->stuck);
	printf("faults:");
	for (int k = 0; k < CHAOS_NKINDS; k++)
		printf(" %s %" PRIu64 ",", fault_name((enum gpusim_fault_kind)k), r->did[k]);
	printf(" missed %" PRIu64 ", skipped %" PRIu64 "\n", r->missed, r->skipped);
	printf("recoveries: %" PRIu64 "; communicators: %" PRIu64
	       "; slowest operation: %.3fs of at most %.0fs\n",
	       r->recovered, r->ncomms, (double)r->slowest_ns / 1e9, (double)c->bound_ms / 1e3);
	print_usage(r);
}

static void
print_json(const struct chaos_config *c, const struct chaos_report *r)
{
	struct json j = {stdout, false};

	json_put(&j,
		 "{seed:%" PRIu64 " on_failure:%s operations:%" PRIu64 " right:%" PRIu64
		 " failed:%" PRIu64 " wrong:%" PRIu64 " stuck:%" PRIu64 " faults:{",
		 c->seed, gpusim_on_failure_name((int)c->comm.on_failure), r->ops, r->good,
		 r->failed, r->wrong, r->stuck);
	for (int k = 0; k < CHAOS_NKINDS; k++)
		json_put(&j, "%s:%" PRIu64, fault_name((enum gpusim_fault_kind)k), r->did[k]);
	json_put(&j,
		 "} missed:%" PRIu64 " skipped:%" PRIu64 " recoveries:%" PRIu64
		 " communicators:%" PRIu64 " slowest_ms:%" PRIu64 " daemons:[",
		 r->missed, r->skipped, r->recovered, r->ncomms,
		 (uint64_t)(r->slowest_ns / NS_PER_MS));
	for (size_t i = 0; i < r->ndaemons; i++) {
		const struct chaos_usage *b = &r->daemons[i].before, *u = &r->daemons[i].after;

		json_put(&j,
			 "{device:%016" PRIx64
			 " pid:[%u %u] fds:[%u %u] threads:[%u %u] kib:[%" PRIu64 " %" PRIu64 "]}",
			 r->daemons[i].device.id, b->pid, u->pid, b->fds, u->fds, b->threads,
			 u->threads, b->kib, u->kib);
	}
	json_put(&j, "]}\n");
}

/* Parse kinds of faults, separated by commas; NULL: all. */
static enum rc
parse_kinds(const char *text, unsigned *kinds, struct err *err)
{
	struct gpusim_fault f;
	char word[16];

	*kinds = text ? 0 : CHAOS_ALL_KINDS;
	while (text && *text) {
		size_t n = strcspn(text, ",");

		snprintf(word, sizeof word, "%.*s", n < sizeof word ? (int)n : 0, text);
		if (!fault_kind_parse(word, &f) || f.kind >= CHAOS_NKINDS)
			return err_set(
			    err, RC_INVAL,
			    "--kinds: '%.32s' is not one of kill, stop, slow, drop, corrupt, cut",
			    text);
		*kinds |= 1u << f.kind;
		text += n + (text[n] == ',');
	}
	return *kinds ? RC_OK : err_set(err, RC_INVAL, "--kinds: needs a kind");
}

static enum rc
configure(const struct args *a, struct chaos_config *c, struct err *err)
{
	enum rc rc = parse_kinds(a->kinds, &c->kinds, err);

	if (rc == RC_OK && a->for_ms && a->ops)
		rc = err_set(err, RC_INVAL, "--for: cannot be combined with --ops");
	if (rc == RC_OK && a->nranks > CHAOS_MAX_RANKS)
		rc = err_set(err, RC_INVAL, "-n: %u exceeds the limit of %d", a->nranks,
			     CHAOS_MAX_RANKS);
	if (rc == RC_OK && a->nranks && a->nranks < 2)
		rc = err_set(err, RC_INVAL, "-n: must be at least 2");
	c->comm = cli_config(a, GPUSIM_LEASE);
	if (!a->op_timeout_ms)
		c->comm.op_timeout_ms = OP_TIMEOUT_MS;
	c->seed = a->seed;
	c->nops = a->ops;
	c->for_ms = a->for_ms ? a->for_ms : DEFAULT_MS;
	c->rate_by_op = args_given(a, rate) ? a->rate_by_op : a->ops;
	c->rate = args_given(a, rate) ? a->rate : c->rate_by_op ? RATE_OP : RATE_SECOND;
	return rc;
}

/* With --record: a private cluster, whose daemons record. */
struct recorded {
	struct launch *launch; /* NULL: none */
	char dir[PATH_MAX];
};

static void
say_launch(enum log_level level, const char *sentence)
{
	if (level == LOG_ERROR)
		fprintf(stderr, "gpuctl: chaos: %s\n", sentence);
}

static enum rc
begin_recorded(struct cli *cli, const struct args *a, struct recorded *r, struct err *err)
{
	const char *words[] = {"--allow-inject", "--record", r->dir, "--record-data"};
	struct launch_config cfg = {.ndevices = a->nranks ? (int)a->nranks : RECORDED_RANKS,
				    .dev_args = words,
				    .ndev_args = 3 + a->record_data,
				    .coord_args = words,
				    .ncoord_args = 3 + a->record_data,
				    .say = say_launch};
	enum rc rc = RC_OK;

	if (!a->record && a->record_data)
		return err_set(err, RC_INVAL, "--record-data: needs --record");
	if (!a->record)
		return RC_OK;
	if (tape_folder_new(a->record, err) != RC_OK)
		return err_prefix(err, "--record");
	if (!realpath(a->record, r->dir))
		return err_set(err, RC_FAILED, "--record: %s: %s", a->record, strerror(errno));
	rc = launch_start(&cfg, &r->launch, err);
	if (rc == RC_OK)
		cli->coordinator = launch_coordinator(r->launch);
	return rc;
}

/* Keep the recording only of a run that failed. */
static void
end_recorded(const struct args *a, struct recorded *r, bool failed)
{
	bool began = r->launch != NULL;

	launch_end(r->launch);
	if (!began)
		return;
	if (failed)
		fprintf(stderr, "gpuctl: chaos: replay this run with: gpuctl replay %s\n",
			a->record);
	else
		tape_folder_clear(r->dir);
}

static enum rc
run_with(struct cli *cli, const struct args *a, struct err *err)
{
	struct chaos_config c = {.say = say, .arg = (void *)a};
	struct chaos_report r = {0};
	enum rc rc = configure(a, &c, err);

	c.bound_ms = cli->timeout_ms;
	if (rc == RC_OK)
		rc = cli_open(cli, err);
	if (rc == RC_OK)
		rc = api(gpusim_open(cli->coordinator, &c.side), err);
	if (rc == RC_OK)
		rc = cli_nranks_or_all(cli, a, &c.nranks, err);
	if (c.nranks > CHAOS_MAX_RANKS)
		c.nranks = CHAOS_MAX_RANKS;
	c.g = cli->g;
	if (rc == RC_OK)
		rc = chaos_run(&c, &r, err);
	if (r.ndaemons && a->json)
		print_json(&c, &r);
	else if (r.ndaemons)
		print_text(&c, &r);
	if (rc == RC_OK && (r.wrong || r.stuck))
		rc = err_set(err, RC_FAILED,
			     "%" PRIu64 " wrong results, %" PRIu64 " stuck operations", r.wrong,
			     r.stuck);
	chaos_report_fini(&r);
	gpusim_close(c.side);
	return rc;
}

enum rc
run_chaos(struct cli *cli, const struct args *a, struct err *err)
{
	struct recorded recorded = {.launch = NULL};
	enum rc rc;

	if (!cli->timeout_ms)
		cli->timeout_ms = DEFAULT_BOUND;
	rc = begin_recorded(cli, a, &recorded, err);
	if (rc == RC_OK)
		rc = run_with(cli, a, err);
	if (recorded.launch) {
		gpusim_close(cli->g);
		cli->g = NULL;
	}
	end_recorded(a, &recorded, rc != RC_OK);
	return rc;
}
