/* gpuctl events - print the history. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli.h"
#include "table.h"

#define WAIT_MS 500  /* for an event, before checking that our reader still exists */
#define AWAY_MS 5000 /* for a coordinator that may be restarted */

static void
print_json(struct json *j, const struct gpusim_history_event *e)
{
	json_put(j, "{number:%" PRIu64 " at_ms:%" PRIu64 " kind:%s", e->number, e->at_ms,
		 gpusim_history_name(e->kind));
	if (e->device.id)
		json_put(j, "device:%016" PRIx64 " ordinal:%" PRIu32, e->device.id, e->ordinal);
	if (e->comm.id)
		json_put(j, "comm:%" PRIu64, e->comm.id);
	if (e->rank >= 0)
		json_put(j, "rank:%d", e->rank);
	json_put(j, "text:%s}", e->text);
}

static void
print_text(const struct gpusim_history_event *e)
{
	char when[TIME_TEXT];

	printf("%5" PRIu64 "  %s  %-14s  %s\n", e->number, time_text(e->at_ms, when),
	       gpusim_history_name(e->kind), e->text);
}

/* A list is one array; with --follow each event is an object on a line of its own. */
static void
print(const struct gpusim_history_event *v, size_t n, const struct args *a)
{
	bool list = a->json && !a->follow;
	struct json j = {stdout, false};

	if (list)
		json_put(&j, "[");
	for (size_t i = 0; i < n; i++) {
		if (a->json)
			print_json(&j, &v[i]);
		else
			print_text(&v[i]);
		if (a->json && !list)
			json_put(&j, "\n");
	}
	if (list)
		json_put(&j, "]\n");
}

static enum rc
next(struct cli *cli, uint64_t *after, uint32_t wait_ms, const struct args *a, struct err *err)
{
	struct gpusim_history_event *v;
	uint64_t last;
	size_t n;
	enum rc rc = api(gpusim_history(cli->g, *after, wait_ms, &v, &n, &last), err);

	if (rc != RC_OK)
		return rc;
	print(v, n, a);
	free(v);
	/* A coordinator that has lost its state counts from the beginning. */
	*after = last < *after ? 0 : last;
	return RC_OK;
}

static enum rc
follow(struct cli *cli, uint64_t *after, const struct args *a, struct err *err)
{
	uint64_t away_ms = cli->timeout_ms ? cli->timeout_ms : AWAY_MS, until = 0;
	enum rc rc = RC_OK;

	while (rc == RC_OK) {
		cli_end_if_deserted(cli);
		rc = next(cli, after, WAIT_MS, a, err);
		if (rc == RC_OK)
			until = 0;
		else if (rc == RC_UNREACHABLE && until == 0)
			until = deadline_in_ms(away_ms);
		if (rc != RC_UNREACHABLE || deadline_left_ms(until) == 0)
			continue;
		clock_sleep(50 * NS_PER_MS);
		rc = RC_OK;
	}
	return rc;
}

enum rc
run_events(struct cli *cli, const struct args *a, struct err *err)
{
	uint64_t after = 0;
	enum rc rc = cli_open(cli, err);

	if (rc == RC_OK)
		rc = next(cli, &after, 0, a, err);
	return rc == RC_OK && a->follow ? follow(cli, &after, a, err) : rc;
}
