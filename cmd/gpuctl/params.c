/* gpuctl params, version - print the settings in force and their meaning; print the version. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/rundir.h"
#include "cli.h"

static const struct {
	const char *name, *meaning;
} variables[] = {
    {"GPUSIM_COORD", "address of the coordinator; --coordinator overrides it"},
    {"GPUSIM_TIMEOUT", "longest wait for one call; --timeout overrides it"},
    {"GPUSIM_ALGO", "algorithms that gpucoord may choose; read when it starts"},
    {"GPUSIM_TUNER_CONFIG_FILE", "gpucoord's tuner file; its --tuner overrides it"},
    {"GPUSIM_DEBUG", "level of the log on stderr: error version warn info debug trace"},
    {"GPUSIM_DEBUG_SUBSYS", "subsystems that log, as in NCCL_DEBUG_SUBSYS"},
    {"GPUSIM_DEBUG_FILE", "file to log to, instead of stderr; %h is the host, %p the process"},
    {"GPUSIM_DETERMINISTIC", "1: results depend only on inputs and ranks, as with --deterministic"},
    {"GPUSIM_P2P_DISABLE", "1: devices share no memory, and copies go through calls"},
    {"GPUSIM_P2P_LEVEL", "LOC: devices share no memory; SYS: all devices of the host share it"},
    {"GPUSIM_HOSTID", "name of this host, instead of its boot id"},
    {"GPUSIM_NDEVICES", "set by `gpuctl run` for its command: number of devices that it started"},
    {"GPUSIM_DEVICE",
     "set by `gpuctl run --each`: index of the rank's device; --device overrides it"},
    {"GPUSIM_DIR", "set by `gpuctl run` for its command: private folder of the sockets"},
};

/* Print the settings; a variable that is not set is null. */
static void
print_json(const char *coordinator, uint32_t timeout_ms)
{
	struct json j = {stdout, false};

	json_put(&j, "{version:%s coordinator:%s timeout_ms:%" PRIu32 " environment:{",
		 GPUSIM_VERSION, coordinator, timeout_ms ? timeout_ms : 60000);
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
		json_put(&j, "%s:%s", variables[i].name, getenv(variables[i].name));
	json_put(&j, "}}\n");
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
	printf("coordinator=%s  # address of the coordinator\n", coordinator);
	if (cli->timeout_ms)
		printf("timeout=%" PRIu32 "ms  # longest wait for one call\n", cli->timeout_ms);
	else
		printf("timeout=60s  # longest wait for one call; of bench: 600s\n");
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
