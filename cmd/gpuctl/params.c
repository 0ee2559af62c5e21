/* gpuctl params, version - the parameters in force and their possible values; this version. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/rundir.h"
#include "cli.h"

static const struct {
	const char *name, *meaning;
} variables[] = {
    {"GPUSIM_COORD", "where the coordinator is; --coordinator wins"},
    {"GPUSIM_TIMEOUT", "longest wait of one call; --timeout wins"},
    {"GPUSIM_ALGO", "which algorithms gpucoord may choose; read when it starts"},
    {"GPUSIM_TUNER_CONFIG_FILE", "gpucoord's tuner file; its --tuner wins"},
    {"GPUSIM_DEBUG", "what programs log on stderr: error version warn info debug trace"},
    {"GPUSIM_DEBUG_SUBSYS", "of which parts, as in NCCL_DEBUG_SUBSYS"},
    {"GPUSIM_DEBUG_FILE", "where to, instead of stderr; %h is the host, %p the process"},
    {"GPUSIM_DETERMINISTIC",
     "1: results depend on inputs and ranks alone, as with --deterministic"},
    {"GPUSIM_P2P_DISABLE", "1: devices share no memory, and copies are calls"},
    {"GPUSIM_P2P_LEVEL", "LOC: the same; SYS: with all devices of the host"},
    {"GPUSIM_HOSTID", "a name for this host, in place of its boot id"},
    {"GPUSIM_NDEVICES", "set by `gpuctl run` for its command: how many devices it started"},
    {"GPUSIM_DEVICE", "set by `gpuctl run --each`: the rank's device; --device wins"},
    {"GPUSIM_DIR", "set by `gpuctl run` for its command: the private folder of the sockets"},
};

/* A variable that is not set is null. */
static void
print_json(const char *coordinator, uint32_t timeout_ms)
{
	printf("{\"version\":\"%s\"", GPUSIM_VERSION);
	json_member("coordinator", coordinator, stdout);
	printf(",\"timeout_ms\":%" PRIu32 ",\"environment\":{", timeout_ms ? timeout_ms : 60000);
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
		const char *value = getenv(variables[i].name);

		printf("%s\"%s\":", i ? "," : "", variables[i].name);
		if (value)
			json_string(value, stdout);
		else
			fputs("null", stdout);
	}
	puts("}}");
}

enum rc
run_params(struct cli *cli, const struct args *a, struct err *err)
{
	char room[RUNDIR_ADDRESS_MAX];
	const char *coordinator =
	    cli->coordinator ? cli->coordinator : rundir_coordinator(room, err);

	if (!coordinator)
		return err->rc;
	if (a->json) {
		print_json(coordinator, cli->timeout_ms);
		return RC_OK;
	}
	printf("version=%s  # of gpuctl\n", GPUSIM_VERSION);
	printf("coordinator=%s  # asked for everything\n", coordinator);
	if (cli->timeout_ms)
		printf("timeout=%" PRIu32 "ms  # longest wait of one call\n", cli->timeout_ms);
	else
		printf("timeout=60s  # longest wait of one call; of bench: 600s\n");
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
		const char *value = getenv(variables[i].name);

		printf("%s=%s  # %s\n", variables[i].name, value ? value : "",
		       variables[i].meaning);
	}
	return RC_OK;
}

enum rc
run_version(struct cli *cli, const struct args *a, struct err *err)
{
	(void)cli;
	(void)err;
	puts(a->json ? "{\"program\":\"gpuctl\",\"version\":\"" GPUSIM_VERSION "\"}"
		     : "gpuctl " GPUSIM_VERSION);
	return RC_OK;
}
