/* gpuctl status - the coordinator's view of everything. */
#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "cli.h"
#include "table.h"

static void
print_json(const struct gpusim_status *s)
{
	printf("{\"version\":");
	json_string(s->version, stdout);
	printf(",\"address\":");
	json_string(s->address, stdout);
	printf(",\"instance\":\"%016" PRIx64 "\",\"pid\":%" PRIu32 ",\"uptime_ms\":%" PRIu64
	       ",\"waiting\":%" PRIu32 ",\"devices\":[",
	       s->instance, s->pid, s->uptime_ms, s->waiting);
	for (size_t i = 0; i < s->ndevices; i++) {
		fputs(i ? "," : "", stdout);
		json_device(&s->devices[i], i, stdout);
	}
	printf("],\"comms\":[");
	for (size_t i = 0; i < s->ncomms; i++) {
		fputs(i ? "," : "", stdout);
		json_comm(&s->comms[i], NULL, stdout);
	}
	puts("]}");
}

/* Is a rank in an operation? */
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

enum rc
run_status(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_status s;
	enum rc rc = cli_open(cli, err);

	if (rc == RC_OK)
		rc = api(gpusim_status(cli->g, &s), err);
	if (rc != RC_OK)
		return rc;
	if (a->json)
		print_json(&s);
	else
		print_text(&s);
	gpusim_status_fini(&s);
	return RC_OK;
}
