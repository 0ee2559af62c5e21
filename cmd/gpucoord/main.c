/* gpucoord - coordinate simulated GPUs. See gpucoord(8). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/daemon.h"
#include "base/host.h"
#include "base/log.h"
#include "base/option.h"
#include "base/parse.h"
#include "base/rundir.h"
#include "config.h"
#include "mem/sweep.h"
#include "net/net.h"
#include "shell.h"
#include "spawn.h"
#include "tuning.h"
#include "wire/wire.h"

#define TICK_MS		 50
#define STOP_WITHIN_SECS 5

static const char usage_text[] =
    "usage: gpucoord [options]\n"
    "  --listen ADDR       address, ipc:///path, tcp://host:port or tls+tcp://host:port\n"
    "                      (default $GPUSIM_COORD, else gpucoord.sock in the\n"
    "                      private directory, see gpusim(7))\n"
    "  -c, --config FILE   read devices and settings from FILE\n"
    "  --heartbeat TIME    how often devices say that they live (default 250ms)\n"
    "  --missed X/Y        a device is lost that missed X of its last Y (default 10/12)\n"
    "  --on-failure HOW    of a device that is lost while no communicator has it: abort, shrink\n"
    "                      (it stays lost), respawn, spare (default $GPUSIM_ON_FAILURE,\n"
    "                      else abort)\n"
    "  --op-timeout TIME   longest wait without progress inside an operation (default 30s)\n"
    "  --comm-timeout TIME longest an operation takes with its recoveries (default 5m)\n"
    "  --job-timeout TIME  longest a run takes (default 24h)\n"
    "  --state WHERE       what a restart goes on from: a directory, etcd://host:port[/prefix],\n"
    "                      etcds:// with TLS, or none (default: beside the socket; of\n"
    "                      tcp addresses in ~/.local/state/gpusim)\n"
    "  --tuner FILE        which algorithm when callers leave it open\n"
    "                      (default $GPUSIM_TUNER_CONFIG_FILE)\n"
    "  --calibrate         let that depend on this machine's speed, measured in 3ms\n"
    "  --http HOST:PORT    give the newest model of whoever trains to whoever asks for it over "
    "HTTP\n"
    "  --grpc HOST:PORT    serve the lab's GPUCoordinator to clients of gRPC\n"
    "  --allow-inject      let gpuctl inject faults, to rehearse failure\n"
    "  --insecure          listen beyond loopback without encryption\n"
    "  --tls-cert FILE     certificate for tls+tcp addresses (default $GPUSIM_TLS_CERT)\n"
    "  --tls-key FILE      its key (default $GPUSIM_TLS_KEY)\n"
    "  --tls-ca FILE       who signs peers' certificates (default $GPUSIM_TLS_CA)\n"
    "  --print-address     write the address to stdout when ready, a line; of port 0\n"
    "                      with the port that was taken\n"
    "  -N FD               write a newline to FD when ready\n"
    "  --exits FD          read from FD how processes of devices have ended: \"PID STATUS\"\n"
    "  --lifeline FD       end when FD reads end-of-file\n"
    "  -v                  say more on stderr\n"
    "  -V                  print the version\n"
    "  -h                  print this\n";

struct options {
	char listen[NET_ADDR_MAX];
	const char *config, *tuner, *state, *http, *grpc;
	bool calibrate, allow_inject, print_address;
	uint32_t heartbeat_ms, op_timeout_ms, comm_timeout_ms, job_timeout_ms; /* 0: not given */
	struct config_missed missed;
	enum net_reach reach;
	struct net_tls_files tls;
	int on_failure; /* enum gpusim_on_failure; -1: not given */
	int ready_fd, lifeline, exits;
	enum log_level level;
};

enum {
	OPT_LISTEN = 256,
	OPT_HEARTBEAT,
	OPT_MISSED,
	OPT_ON_FAILURE,
	OPT_OP_TIMEOUT,
	OPT_COMM_TIMEOUT,
	OPT_JOB_TIMEOUT,
	OPT_STATE,
	OPT_TUNER,
	OPT_CALIBRATE,
	OPT_HTTP,
	OPT_GRPC,
	OPT_ALLOW_INJECT,
	OPT_INSECURE,
	OPT_TLS_CERT,
	OPT_TLS_KEY,
	OPT_TLS_CA,
	OPT_EXITS,
	OPT_LIFELINE,
	OPT_PRINT_ADDRESS,
};

static const struct option longopts[] = {{"listen", 1, NULL, OPT_LISTEN},
					 {"config", 1, NULL, 'c'},
					 {"heartbeat", 1, NULL, OPT_HEARTBEAT},
					 {"missed", 1, NULL, OPT_MISSED},
					 {"on-failure", 1, NULL, OPT_ON_FAILURE},
					 {"op-timeout", 1, NULL, OPT_OP_TIMEOUT},
					 {"comm-timeout", 1, NULL, OPT_COMM_TIMEOUT},
					 {"job-timeout", 1, NULL, OPT_JOB_TIMEOUT},
					 {"state", 1, NULL, OPT_STATE},
					 {"tuner", 1, NULL, OPT_TUNER},
					 {"calibrate", 0, NULL, OPT_CALIBRATE},
					 {"http", 1, NULL, OPT_HTTP},
					 {"grpc", 1, NULL, OPT_GRPC},
					 {"allow-inject", 0, NULL, OPT_ALLOW_INJECT},
					 {"insecure", 0, NULL, OPT_INSECURE},
					 {"tls-cert", 1, NULL, OPT_TLS_CERT},
					 {"tls-key", 1, NULL, OPT_TLS_KEY},
					 {"tls-ca", 1, NULL, OPT_TLS_CA},
					 {"exits", 1, NULL, OPT_EXITS},
					 {"lifeline", 1, NULL, OPT_LIFELINE},
					 {"print-address", 0, NULL, OPT_PRINT_ADDRESS},
					 {"help", 0, NULL, 'h'},
					 {"version", 0, NULL, 'V'},
					 {NULL, 0, NULL, 0}};

/* Apply one option; ends the program for -h and -V. */
static enum rc
apply(struct options *o, int opt, const char *arg, struct err *err)
{
	switch (opt) {
	case OPT_LISTEN:
		return option_string(arg, o->listen, sizeof o->listen, err);
	case 'c':
		o->config = arg;
		return RC_OK;
	case OPT_HEARTBEAT:
		return option_ms(arg, &o->heartbeat_ms, err);
	case OPT_MISSED:
		return config_missed(arg, &o->missed, err);
	case OPT_ON_FAILURE:
		return wire_policy_parse(arg, &o->on_failure, err);
	case OPT_OP_TIMEOUT:
		return option_ms(arg, &o->op_timeout_ms, err);
	case OPT_COMM_TIMEOUT:
		return option_ms(arg, &o->comm_timeout_ms, err);
	case OPT_JOB_TIMEOUT:
		return option_ms(arg, &o->job_timeout_ms, err);
	case OPT_STATE:
		if (!*arg)
			return err_set(err, RC_INVAL, "'' is no directory");
		o->state = arg;
		return RC_OK;
	case OPT_TUNER:
		o->tuner = arg;
		return RC_OK;
	case OPT_CALIBRATE:
		o->calibrate = true;
		return RC_OK;
	case OPT_HTTP:
		o->http = arg;
		return RC_OK;
	case OPT_GRPC:
		o->grpc = arg;
		return RC_OK;
	case OPT_ALLOW_INJECT:
		o->allow_inject = true;
		return RC_OK;
	case OPT_PRINT_ADDRESS:
		o->print_address = true;
		return RC_OK;
	case OPT_INSECURE:
		o->reach = NET_ANY_HOST;
		return RC_OK;
	case OPT_TLS_CERT:
		o->tls.cert = arg;
		return RC_OK;
	case OPT_TLS_KEY:
		o->tls.key = arg;
		return RC_OK;
	case OPT_TLS_CA:
		o->tls.ca = arg;
		return RC_OK;
	case 'N':
		return option_fd(arg, &o->ready_fd, err);
	case OPT_EXITS:
		return option_fd(arg, &o->exits, err);
	case OPT_LIFELINE:
		return option_fd(arg, &o->lifeline, err);
	case 'v':
		o->level = o->level == LOG_WARN ? LOG_INFO : LOG_DEBUG;
		return RC_OK;
	case 'V':
		return option_answer("gpucoord " GPUSIM_VERSION "\n", err);
	default:
		return option_answer(usage_text, err);
	}
}

/* Who started us may wait for the line, or not be there any more. */
static void
print_address(const char *address)
{
	printf("%s\n", address);
	fflush(stdout);
}

static enum rc
parse_options(int argc, char **argv, struct options *o, struct err *err)
{
	enum rc rc = RC_OK;
	int opt;

	while ((opt = option_next(argc, argv, "c:N:vVh", longopts, err)) != -1) {
		if (opt == '?')
			return err->rc;
		rc = apply(o, opt, optarg, err);
		if (rc != RC_OK)
			return option_err(longopts, opt, err);
	}
	if (optind < argc)
		rc = err_set(err, RC_INVAL, "unexpected argument '%s'", argv[optind]);
	net_tls_use(&o->tls);
	return rc;
}

/* The first that is set. */
static uint32_t
choose_ms(uint32_t option, uint32_t config, uint32_t dflt)
{
	return option ? option : config ? config : dflt;
}

/* Of devices that are lost while no communicator has them. */
static enum rc
choose_policy(const struct options *o, const struct config *file, uint32_t *out, struct err *err)
{
	const char *env = getenv("GPUSIM_ON_FAILURE");
	int policy = o->on_failure >= 0 ? o->on_failure : file->on_failure;

	if (o->on_failure < 0 && !file->on_failure && env && *env &&
	    wire_policy_parse(env, &policy, err) != RC_OK)
		return err_prefix(err, "GPUSIM_ON_FAILURE");
	*out = (uint32_t)policy;
	return RC_OK;
}

/* Options win over the file, the file over the environment, that over the defaults. */
static enum rc
choose(struct options *o, const struct config *file, struct coord_config *cfg, struct err *err)
{
	struct config_missed missed = {10, 12};
	char room[RUNDIR_ADDRESS_MAX], dir[RUNDIR_MAX];
	const char *dflt;

	if (!o->listen[0] && file->listen[0])
		snprintf(o->listen, sizeof o->listen, "%s", file->listen);
	if (!o->listen[0]) {
		dflt = rundir_coordinator(room, err);
		if (!dflt || (dflt == room && rundir_make(dir, err) != RC_OK))
			return err->rc;
		snprintf(o->listen, sizeof o->listen, "%s", dflt);
	}
	cfg->instance = net_random();
	cfg->pid = (uint32_t)getpid();
	cfg->heartbeat_ms = choose_ms(o->heartbeat_ms, file->heartbeat_ms, 250);
	missed = o->missed.of ? o->missed : file->missed.of ? file->missed : missed;
	cfg->missed = missed.n;
	cfg->of = missed.of;
	cfg->op_timeout_ms = choose_ms(o->op_timeout_ms, file->op_timeout_ms, 30000);
	cfg->comm_timeout_ms = choose_ms(o->comm_timeout_ms, file->comm_timeout_ms, 0);
	cfg->job_timeout_ms = choose_ms(o->job_timeout_ms, file->job_timeout_ms, 0);
	cfg->abort_grace_ms = 2000;
	host_id(cfg->host);
	if (choose_policy(o, file, &cfg->on_failure, err) != RC_OK)
		return err->rc;
	return net_addr_check(o->listen, o->reach, err);
}

int
main(int argc, char **argv)
{
	struct options o = {
	    .ready_fd = -1, .lifeline = -1, .exits = -1, .on_failure = -1, .level = LOG_WARN};
	struct coord_config cfg = {0};
	struct config file = {0};
	struct tuner tuner = {0};
	struct shell *shell = NULL;
	struct web *web = NULL;
	struct daemon dm;
	struct err err = {0};
	enum rc rc;

	log_open("gpucoord", LOG_WARN);
	rc = parse_options(argc, argv, &o, &err);
	log_open("gpucoord", o.level);
	if (rc == RC_OK)
		rc = log_check(&err);
	if (rc == RC_OK && o.config)
		rc = config_read(o.config, &file, &err);
	if (rc == RC_OK)
		rc = choose(&o, &file, &cfg, &err);
	if (rc == RC_OK)
		rc = tuning_init(o.tuner, o.calibrate, &tuner, &err);
	cfg.tuner = &tuner;
	if (rc == RC_OK)
		rc = daemon_init(&dm, o.lifeline, &err);
	if (rc == RC_OK)
		rc = shell_new(o.listen, o.state, &cfg, &dm, &shell, &err);
	for (size_t i = 0; rc == RC_OK && i < file.ndevices; i++)
		rc = coord_add_device(shell_coord(shell), file.device[i].id, file.device[i].address,
				      &err);
	config_fini(&file);
	if (rc == RC_OK)
		sweep_folder(SWEEP_FOLDER, net_listens);
	if (rc == RC_OK && o.http) {
		rc = web_start(o.http, o.reach, &web, &err);
		if (rc != RC_OK)
			err_prefix(&err, "--http");
		else
			shell_serve_models(shell, web);
	}
	if (rc == RC_OK)
		shell_hear_exits(shell, o.exits);
	if (rc == RC_OK && o.grpc) {
		rc = shell_serve_grpc(shell, o.grpc, o.reach, &err);
		if (rc != RC_OK)
			err_prefix(&err, "--grpc");
	}
	if (rc == RC_OK && o.allow_inject)
		shell_allow_inject(shell);
	if (rc == RC_OK) {
		log_line(LOG_INFO, "ready at %s", cfg.address);
		if (o.print_address)
			print_address(cfg.address);
		if (web)
			log_line(LOG_INFO, "models at %s/model", web_address(web));
		if (o.grpc)
			log_line(LOG_INFO, "gRPC at %s", shell_grpc_address(shell));
		daemon_ready(o.ready_fd);
		while (daemon_wait(&dm, TICK_MS) != DAEMON_END)
			shell_step(shell);
	}
	/* Cleaning up must not take for ever, whatever state the peers are in. */
	alarm(STOP_WITHIN_SECS);
	shell_free(shell, rc == RC_OK);
	web_stop(web);
	tuner_fini(&tuner);
	if (rc != RC_OK)
		log_line(LOG_ERROR, "%s", err.text);
	fflush(stdout);
	_exit(rc_exit(rc));
}
