/* gpucoord - coordinate simulated GPUs. See gpucoord(8). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/daemon.h"
#include "base/host.h"
#include "base/log.h"
#include "base/rundir.h"
#include "mem/sweep.h"
#include "net/net.h"
#include "options.h"
#include "shell.h"
#include "spawn.h"
#include "algo_files.h"
#include "tuning.h"

#define TICK_MS		  50
#define STOP_WITHIN_SECS  5
#define REPORTS_WITHIN_MS 2000

static enum net_reach
reach_of(const struct options *o)
{
	return o->insecure ? NET_ANY_HOST : NET_LOOPBACK;
}

/* Print the address; the parent may wait for the line, or have ended already. */
static void
print_address(const char *address)
{
	printf("%s\n", address);
	fflush(stdout);
}

/* Fill in the fields that no option sets. */
static enum rc
complete(struct options *o, struct err *err)
{
	struct coord_config *cfg = &o->coord;
	char room[RUNDIR_ADDRESS_MAX], dir[RUNDIR_MAX];
	const char *dflt;

	net_tls_use(&o->tls);
	if (!o->listen[0]) {
		dflt = rundir_coordinator(room, err);
		if (!dflt || rundir_make(dir, err) != RC_OK)
			return err->rc;
		snprintf(o->listen, sizeof o->listen, "%s", dflt);
	}
	cfg->instance = net_random();
	cfg->pid = (uint32_t)getpid();
	cfg->abort_grace_ms = 2000;
	host_id(cfg->host);
	return net_addr_check(o->listen, reach_of(o), err);
}

int
main(int argc, char **argv)
{
	struct options o = {0};
	struct tuner tuner = {0};
	struct recorder *recorder = NULL;
	struct observer *observer = NULL;
	struct reports *reports = NULL;
	struct shell *shell = NULL;
	struct web *web = NULL;
	struct decisions decisions = {0};
	struct daemon dm;
	struct err err = {0};
	enum rc rc;

	log_open("gpucoord", LOG_WARN);
	rc = options_parse(argc, argv, &o, &err);
	log_open("gpucoord", log_verbose(o.verbose));
	if (rc == RC_OK)
		rc = log_check(&err);
	if (rc == RC_OK)
		rc = complete(&o, &err);
	if (rc == RC_OK)
		rc = tuning_init(o.algo, o.tuner, o.calibrate, &tuner, &err);
	o.coord.tuner = &tuner;
	o.coord.records = o.record != NULL;
	if (rc == RC_OK)
		rc = daemon_init(&dm, o.lifeline, o.ndevices, &err);
	if (rc == RC_OK)
		rc = decisions_open(&decisions, o.record, o.record_data, &err);
	if (rc == RC_OK)
		rc = recorder_open(o.listen, o.recorder, o.coord.instance, &recorder, &err);
	if (rc == RC_OK)
		rc = observer_new(o.coord.host, recorder_source(recorder), &observer, &err);
	if (rc == RC_OK)
		rc = reports_new(o.report_dir, observer, recorder, &reports, &err);
	if (rc == RC_OK && reports) {
		o.coord.report_claim = reports_claim;
		o.coord.report_arg = reports;
		snprintf(o.coord.reports, sizeof o.coord.reports, "%s", reports_dir(reports));
	}
	if (rc == RC_OK)
		rc = shell_new(o.listen, o.state, &o.coord, &dm,
			       &(struct shell_sight){observer, recorder, reports}, &shell, &err);
	if (rc == RC_OK)
		rc = algo_files_load(shell_coord(shell), o.algo_files, &decisions, &err);
	if (rc == RC_OK)
		rc = coord_check_tuner(shell_coord(shell), &err);
	for (size_t i = 0; rc == RC_OK && i < o.ndevices; i++)
		rc =
		    coord_add_device(shell_coord(shell), o.device[i].id, o.device[i].address, &err);
	if (rc == RC_OK)
		sweep_folder(SWEEP_FOLDER, net_listens);
	if (rc == RC_OK && o.http) {
		rc = web_start(&(struct web_config){.host = o.http,
						    .reach = reach_of(&o),
						    .names = o.http_names,
						    .observer = observer},
			       &web, &err);
		if (rc != RC_OK)
			err_prefix(&err, "--http");
		else
			shell_serve_models(shell, web);
	}
	if (rc == RC_OK)
		shell_hear_exits(shell, o.exits);
	if (rc == RC_OK && o.grpc) {
		rc = shell_serve_grpc(shell, o.grpc, reach_of(&o), &err);
		if (rc != RC_OK)
			err_prefix(&err, "--grpc");
	}
	if (rc == RC_OK)
		shell_record(shell, &decisions);
	if (rc == RC_OK && o.allow_inject)
		shell_allow_inject(shell);
	if (rc == RC_OK) {
		log_say(LOG_INFO, LOG_INIT, "ready at %s", o.coord.address);
		if (o.print_address)
			print_address(o.coord.address);
		if (web)
			log_say(LOG_WARN, LOG_NET, "live page at %s/, models at %s/model",
				web_address(web), web_address(web));
		if (o.grpc)
			log_say(LOG_INFO, LOG_NET, "gRPC at %s", shell_grpc_address(shell));
		daemon_ready(o.ready_fd);
		while (daemon_wait(&dm, TICK_MS) != DAEMON_END)
			shell_step(shell);
	}
	/* Peers must not block the end, whatever their state. */
	alarm(STOP_WITHIN_SECS);
	reports_finish(reports, REPORTS_WITHIN_MS);
	shell_free(shell, rc == RC_OK);
	web_stop(web);
	reports_free(reports);
	observer_free(observer);
	recorder_close(recorder, rc == RC_OK);
	decisions_close(&decisions);
	tuner_fini(&tuner);
	options_fini(&o);
	if (rc != RC_OK)
		log_line(LOG_ERROR, "%s", err.text);
	fflush(stdout);
	_exit(rc_exit(rc));
}
