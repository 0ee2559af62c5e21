/* gpucoord - coordinate simulated GPUs. See gpucoord(8). */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/daemon.h"
#include "base/file.h"
#include "base/host.h"
#include "base/log.h"
#include "base/rundir.h"
#include "mem/sweep.h"
#include "net/net.h"
#include "options.h"
#include "shell.h"
#include "spawn.h"
#include "decisions.h"
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

/* Return true for a file that could block, such as a FIFO. */
static bool
waits(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

static enum rc
load_algo(struct coord *c, const char *path, const struct decisions *record, struct err *err)
{
	struct coord_actions actions = {0};
	struct buf text = {0};
	enum rc rc = waits(path) ? err_set(err, RC_FAILED, "%s: not a regular file", path)
				 : file_text(path, "an algorithm's file", &text, err);

	if (rc == RC_OK)
		rc = coord_add_algo(c, text.data, strlen(text.data), path, &actions, err);
	for (size_t i = 0; i < actions.n; i++)
		decisions_note(record, &actions.v[i]);
	coord_actions_fini(&actions);
	buf_fini(&text);
	return rc;
}

/*
 * Add the algorithm of each file of a list "FILE:FILE", replacing that of a former process. Errors, with the file's
 * path: those of file_text and of coord_add_algo.
 */
static enum rc
load_algos(struct coord *c, const char *list, const struct decisions *record, struct err *err)
{
	enum rc rc = RC_OK;
	char path[4096];

	for (const char *p = list ? list : ""; *p && rc == RC_OK;) {
		size_t n = strcspn(p, ":");

		if (n >= sizeof path)
			return err_set(err, RC_INVAL, "--algo-files: path of %zu bytes is too long",
				       n);
		snprintf(path, sizeof path, "%.*s", (int)n, p);
		if (n)
			rc = load_algo(c, path, record, err);
		p += n + (p[n] == ':');
	}
	return rc == RC_OK ? rc : err_prefix(err, "--algo-files");
}

/* What lives as long as the coordinator. */
struct parts {
	struct options o;
	struct tuner tuner;
	struct recorder *recorder;
	struct observer *observer;
	struct reports *reports;
	struct shell *shell;
	struct web *web;
	struct decisions decisions;
	struct daemon dm;
};

/* What sees all that happens, and the state machine, which continues from its records. */
static enum rc
begin(struct parts *p, struct err *err)
{
	struct coord_config *cfg = &p->o.coord;
	enum rc rc = tuning_init(p->o.algo, p->o.tuner, p->o.calibrate, &p->tuner, err);

	cfg->tuner = &p->tuner;
	cfg->records = p->o.record != NULL;
	if (rc == RC_OK)
		rc = daemon_init(&p->dm, p->o.lifeline, p->o.ndevices, err);
	if (rc == RC_OK)
		rc = decisions_open(&p->decisions, p->o.record, p->o.record_data, err);
	if (rc == RC_OK)
		rc = recorder_open(p->o.listen, p->o.recorder, cfg->instance, &p->recorder, err);
	if (rc == RC_OK)
		rc = observer_new(cfg->host, recorder_source(p->recorder), &p->observer, err);
	if (rc == RC_OK)
		rc = reports_new(p->o.report_dir, p->observer, p->recorder, &p->reports, err);
	if (rc == RC_OK && p->reports) {
		cfg->report_claim = reports_claim;
		cfg->report_arg = p->reports;
		snprintf(cfg->reports, sizeof cfg->reports, "%s", reports_dir(p->reports));
	}
	if (rc == RC_OK)
		rc = shell_new(p->o.listen, p->o.state, cfg, &p->dm,
			       &(struct shell_sight){p->observer, p->recorder, p->reports},
			       &p->shell, err);
	if (rc == RC_OK)
		rc = load_algos(shell_coord(p->shell), p->o.algo_files, &p->decisions, err);
	if (rc == RC_OK)
		rc = coord_check_tuner(shell_coord(p->shell), err);
	for (size_t i = 0; rc == RC_OK && i < p->o.ndevices; i++)
		rc = coord_add_device(shell_coord(p->shell), p->o.device[i].id,
				      p->o.device[i].address, err);
	return rc;
}

/* Its other doors: the web page, gRPC, and the ends of processes. */
static enum rc
open_doors(struct parts *p, struct err *err)
{
	const struct options *o = &p->o;

	sweep_folder(SWEEP_FOLDER, net_listens);
	if (o->http) {
		if (web_start(&(struct web_config){.host = o->http,
						   .reach = reach_of(o),
						   .names = o->http_names,
						   .observer = p->observer},
			      &p->web, err) != RC_OK)
			return err_prefix(err, "--http");
		shell_serve_models(p->shell, p->web);
	}
	shell_hear_exits(p->shell, o->exits);
	if (o->grpc && shell_serve_grpc(p->shell, o->grpc, reach_of(o), err) != RC_OK)
		return err_prefix(err, "--grpc");
	shell_record(p->shell, &p->decisions);
	if (o->allow_inject)
		shell_allow_inject(p->shell);
	return RC_OK;
}

int
main(int argc, char **argv)
{
	struct parts p = {0};
	struct err err = {0};
	enum rc rc;

	log_open("gpucoord", LOG_WARN);
	rc = options_parse(argc, argv, &p.o, &err);
	log_open("gpucoord", log_verbose(p.o.verbose));
	if (rc == RC_OK)
		rc = log_check(&err);
	if (rc == RC_OK)
		rc = complete(&p.o, &err);
	if (rc == RC_OK)
		rc = begin(&p, &err);
	if (rc == RC_OK)
		rc = open_doors(&p, &err);
	if (rc == RC_OK) {
		log_say(LOG_INFO, LOG_INIT, "ready at %s", p.o.coord.address);
		if (p.o.print_address)
			print_address(p.o.coord.address);
		if (p.web)
			log_say(LOG_WARN, LOG_NET, "live page at %s/, models at %s/model",
				web_address(p.web), web_address(p.web));
		if (p.o.grpc)
			log_say(LOG_INFO, LOG_NET, "gRPC at %s", shell_grpc_address(p.shell));
		daemon_ready(p.o.ready_fd);
		while (daemon_wait(&p.dm, TICK_MS) != DAEMON_END)
			shell_step(p.shell);
	}
	/* Peers must not block the end, whatever their state. */
	alarm(STOP_WITHIN_SECS);
	reports_finish(p.reports, REPORTS_WITHIN_MS);
	shell_free(p.shell, rc == RC_OK);
	web_stop(p.web);
	reports_free(p.reports);
	observer_free(p.observer);
	recorder_close(p.recorder, rc == RC_OK);
	decisions_close(&p.decisions);
	tuner_fini(&p.tuner);
	options_fini(&p.o);
	if (rc != RC_OK)
		log_line(LOG_ERROR, "%s", err.text);
	fflush(stdout);
	_exit(rc_exit(rc));
}
