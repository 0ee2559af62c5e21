/* gpuctl status, devices - print the coordinator's state, or its devices alone. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli.h"
#include "table.h"
#include "watch.h"

#define CLEAR	 "\033[H\033[2J"
#define AGAIN_MS 100  /* between tries to reach a coordinator that is away */
#define AWAY_MS	 5000 /* longest time to try */

static void
print_json(const struct gpusim_status *s)
{
	struct json j = {stdout, false};

	json_put(&j,
		 "{version:%s address:%s instance:%016" PRIx64 " pid:%" PRIu32 " uptime_ms:%" PRIu64
		 " waiting:%" PRIu32 " devices:",
		 s->version, s->address, s->instance, s->pid, s->uptime_ms, s->waiting);
	json_devices(&j, s->devices, NULL, s->ndevices);
	json_put(&j, "comms:[");
	for (size_t i = 0; i < s->ncomms; i++)
		json_comm(&j, &s->comms[i], NULL);
	json_put(&j, "]}\n");
}

static bool
is_busy(const struct gpusim_status *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->ncomms; i++)
		n += s->comms[i].nprogress;
	return n > 0;
}

static void
print_text(const struct gpusim_status *s)
{
	printf("gpucoord %s at %s, pid %" PRIu32 ", up %.1f s\n", s->version, s->address, s->pid,
	       (double)s->uptime_ms / 1e3);
	printf("%zu device%s, %zu communicator%s\n", s->ndevices, s->ndevices == 1 ? "" : "s",
	       s->ncomms, s->ncomms == 1 ? "" : "s");
	if (s->waiting)
		printf("%" PRIu32 " request%s for devices in the queue\n", s->waiting,
		       s->waiting == 1 ? "" : "s");
	if (s->ndevices) {
		putchar('\n');
		table_devices(s->devices, s->ndevices, stdout);
	}
	if (s->ncomms) {
		putchar('\n');
		table_comms(s->comms, s->ncomms, stdout);
	}
	if (is_busy(s)) {
		putchar('\n');
		table_progress(s->comms, s->ncomms, stdout);
	}
}

static enum rc
show(struct cli *cli, const struct args *a, struct err *err)
{
	bool screen = isatty(STDOUT_FILENO);
	struct gpusim_status s;
	enum rc rc = api(gpusim_status(cli->g, &s), err);

	if (rc != RC_OK)
		return rc;
	if (a->watch && !a->json && screen)
		fputs(CLEAR, stdout);
	if (a->json)
		print_json(&s);
	else
		print_text(&s);
	if (a->watch && !a->json && !screen)
		putchar('\n');
	gpusim_status_fini(&s);
	return RC_OK;
}

/* Show repeatedly. Wait for a coordinator that is away: it may be restarted. */
static enum rc
show_again(struct cli *cli, const struct args *a, struct err *err)
{
	uint64_t away_ms = cli->timeout_ms ? cli->timeout_ms : AWAY_MS, until = 0;
	struct watch *w;
	enum rc rc = watch_new(cli, &w, err);

	while (rc == RC_OK) {
		rc = show(cli, a, err);
		cli_end_if_deserted(cli);
		if (rc == RC_OK)
			until = 0;
		else if (rc == RC_UNREACHABLE && until == 0)
			until = deadline_in_ms(away_ms);
		if (rc == RC_UNREACHABLE && deadline_left_ms(until) > 0)
			rc = RC_OK;
		if (rc == RC_OK)
			watch_wait(w, until ? AGAIN_MS : a->interval_ms);
	}
	return rc;
}

enum rc
run_status(struct cli *cli, const struct args *a, struct err *err)
{
	enum rc rc = cli_open(cli, err);

	if (rc != RC_OK)
		return rc;
	return a->watch ? show_again(cli, a, err) : show(cli, a, err);
}

/* Print the devices; a line's position is the device's index. */
enum rc
run_devices(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_device_info *list;
	size_t n;
	enum rc rc = cli_open(cli, err);

	if (rc == RC_OK)
		rc = api(gpusim_devices(cli->g, &list, &n), err);
	if (rc != RC_OK)
		return rc;
	if (a->json) {
		json_devices(&(struct json){stdout, false}, list, NULL, n);
		putchar('\n');
	} else {
		table_devices(list, n, stdout);
	}
	free(list);
	return RC_OK;
}
