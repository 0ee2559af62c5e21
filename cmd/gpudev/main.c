/* gpudev - serve one simulated GPU. See gpudev(8). */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/daemon.h"
#include "base/launcher.h"
#include "base/log.h"
#include "base/option.h"
#include "base/parse.h"
#include "base/rundir.h"
#include "dev/blas.h"
#include "dev/device.h"
#include "dev/kernel.h"
#include "dev/load.h"
#include "grpc/server.h"
#include "mem/sweep.h"
#include "net/net.h"
#include "pin.h"
#include "register.h"

#define TICK_MS		 100
#define STOP_WITHIN_SECS 5

static const char usage_text[] =
    "usage: gpudev [options]\n"
    "  --listen ADDR       control address, ipc:///path, tcp://host:port or\n"
    "                      tls+tcp://host:port (default gpudev-PID.sock in the\n"
    "                      private directory, see gpusim(7)); the host *: the one\n"
    "                      that the coordinator sees\n"
    "  --data ADDR         data address (default beside the control address)\n"
    "  --grpc HOST:PORT    serve the lab's GPUDevice to clients of gRPC\n"
    "  --coordinator ADDR  register there (default $GPUSIM_COORD, else gpucoord.sock in\n"
    "                      the private directory); none: stand alone\n"
    "  --id ID             device id (default: the memory file's, else random)\n"
    "  --ordinal N         place in lists of devices (default: the rank that mpirun or\n"
    "                      srun gives, else 0)\n"
    "  --rank N            the same\n"
    "  -m, --mem SIZE      memory, such as 256M (the default) or 1G\n"
    "  --client-mem SIZE   what one client may lease of it (default all)\n"
    "  --mem-file PATH     keep the memory in this file (default: under /dev/shm, removed)\n"
    "  --mem-scratch PATH  as --mem-file, but remove the file at the end\n"
    "  --threads N         BLAS threads (default 1)\n"
    "  --pin CPU           compute on this CPU; auto: by ordinal, none (the default)\n"
    "  --kernels FILE      load kernels of one's own; may be repeated\n"
    "  --list-kernels[=json]  print the kernels with their arguments, and end\n"
    "  --latency TIME      delay of everything received, such as 5ms\n"
    "  --bandwidth RATE    bits a second in and out, such as 1Gb\n"
    "  --spare             wait to take a lost device's place\n"
    "  --join              offer it to communicators that grow\n"
    "  --supervised        who starts it starts it again when it is killed: the\n"
    "                      coordinator waits for that\n"
    "  --allow-inject      let gpuctl inject faults, to rehearse failure\n"
    "  --insecure          listen beyond loopback without encryption\n"
    "  --tls-cert FILE     certificate for tls+tcp addresses (default $GPUSIM_TLS_CERT)\n"
    "  --tls-key FILE      its key (default $GPUSIM_TLS_KEY)\n"
    "  --tls-ca FILE       who signs peers' certificates (default $GPUSIM_TLS_CA)\n"
    "  -N FD               write a newline to FD when ready\n"
    "  --lifeline FD       end when FD reads end-of-file\n"
    "  -v                  say more on stderr\n"
    "  -V                  print the version\n"
    "  -h                  print this\n";

struct options {
	struct device_config device;
	char listen[NET_ADDR_MAX], data[NET_ADDR_MAX];
	const char *coordinator; /* NULL: stand alone */
	const char *grpc;	 /* NULL: not served */
	char default_coordinator[RUNDIR_ADDRESS_MAX];
	enum net_reach reach;
	struct net_tls_files tls;
	bool ordinal;					  /* was given */
	enum { LIST_NOTHING, LIST_TEXT, LIST_JSON } list; /* of kernels */
	int pin;
	int ready_fd, lifeline;
	enum log_level level;
};

enum {
	OPT_LISTEN = 256,
	OPT_DATA,
	OPT_GRPC,
	OPT_COORDINATOR,
	OPT_ID,
	OPT_ORDINAL,
	OPT_RANK,
	OPT_CLIENT_MEM,
	OPT_MEM_FILE,
	OPT_MEM_SCRATCH,
	OPT_THREADS,
	OPT_PIN,
	OPT_KERNELS,
	OPT_LIST_KERNELS,
	OPT_LATENCY,
	OPT_BANDWIDTH,
	OPT_SPARE,
	OPT_JOIN,
	OPT_SUPERVISED,
	OPT_ALLOW_INJECT,
	OPT_INSECURE,
	OPT_TLS_CERT,
	OPT_TLS_KEY,
	OPT_TLS_CA,
	OPT_LIFELINE,
};

static const struct option longopts[] = {{"listen", 1, NULL, OPT_LISTEN},
					 {"data", 1, NULL, OPT_DATA},
					 {"grpc", 1, NULL, OPT_GRPC},
					 {"coordinator", 1, NULL, OPT_COORDINATOR},
					 {"id", 1, NULL, OPT_ID},
					 {"ordinal", 1, NULL, OPT_ORDINAL},
					 {"rank", 1, NULL, OPT_RANK},
					 {"mem", 1, NULL, 'm'},
					 {"client-mem", 1, NULL, OPT_CLIENT_MEM},
					 {"mem-file", 1, NULL, OPT_MEM_FILE},
					 {"mem-scratch", 1, NULL, OPT_MEM_SCRATCH},
					 {"threads", 1, NULL, OPT_THREADS},
					 {"pin", 1, NULL, OPT_PIN},
					 {"kernels", 1, NULL, OPT_KERNELS},
					 {"list-kernels", 2, NULL, OPT_LIST_KERNELS},
					 {"latency", 1, NULL, OPT_LATENCY},
					 {"bandwidth", 1, NULL, OPT_BANDWIDTH},
					 {"spare", 0, NULL, OPT_SPARE},
					 {"join", 0, NULL, OPT_JOIN},
					 {"supervised", 0, NULL, OPT_SUPERVISED},
					 {"allow-inject", 0, NULL, OPT_ALLOW_INJECT},
					 {"insecure", 0, NULL, OPT_INSECURE},
					 {"tls-cert", 1, NULL, OPT_TLS_CERT},
					 {"tls-key", 1, NULL, OPT_TLS_KEY},
					 {"tls-ca", 1, NULL, OPT_TLS_CA},
					 {"lifeline", 1, NULL, OPT_LIFELINE},
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
	case OPT_DATA:
		return option_string(arg, o->data, sizeof o->data, err);
	case OPT_GRPC:
		o->grpc = arg;
		return RC_OK;
	case OPT_COORDINATOR:
		o->coordinator = arg;
		return RC_OK;
	case OPT_ID:
		return parse_u64(arg, 1, UINT64_MAX, &o->device.id, err);
	case OPT_ORDINAL:
	case OPT_RANK:
		o->ordinal = true;
		return option_u32(arg, 0, UINT32_MAX, &o->device.ordinal, err);
	case 'm':
		return option_bytes(arg, &o->device.mem_bytes, err);
	case OPT_CLIENT_MEM:
		return option_bytes(arg, &o->device.client_bytes, err);
	case OPT_MEM_FILE:
	case OPT_MEM_SCRATCH:
		o->device.mem_path = arg;
		o->device.mem_fate = opt == OPT_MEM_FILE ? DEVMEM_PERSIST_FILE : DEVMEM_UNLINK_FILE;
		return RC_OK;
	case OPT_THREADS:
		return option_u32(arg, 1, 1024, &o->device.threads, err);
	case OPT_PIN:
		return pin_parse(arg, &o->pin, err);
	case OPT_KERNELS:
		return load_kernels(arg, err);
	case OPT_LIST_KERNELS:
		if (arg && strcmp(arg, "json") != 0)
			return err_set(err, RC_INVAL, "'%.64s' is not json", arg);
		o->list = arg ? LIST_JSON : LIST_TEXT;
		return RC_OK;
	case OPT_LATENCY:
		return parse_duration(arg, &o->device.latency_ns, err);
	case OPT_BANDWIDTH:
		return parse_rate(arg, &o->device.bits_per_s, err);
	case OPT_SPARE:
		o->device.spare = true;
		return RC_OK;
	case OPT_JOIN:
		o->device.join = true;
		return RC_OK;
	case OPT_SUPERVISED:
		o->device.supervised = true;
		return RC_OK;
	case OPT_ALLOW_INJECT:
		o->device.allow_inject = true;
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
	case OPT_LIFELINE:
		return option_fd(arg, &o->lifeline, err);
	case 'v':
		o->level = o->level == LOG_WARN ? LOG_INFO : LOG_DEBUG;
		return RC_OK;
	case 'V':
		return option_answer("gpudev " GPUSIM_VERSION "\n", err);
	default:
		return option_answer(usage_text, err);
	}
}

/* What the device wants somebody to read. */
static void
say(const char *line)
{
	log_line(LOG_WARN, "%s", line);
}

static void
tell(const char *line)
{
	log_line(LOG_INFO, "%s", line);
}

/* NCCL's two variables: whether peers may map the memory. */
static enum rc
apply_p2p(struct options *o, struct err *err)
{
	const char *disable = getenv("GPUSIM_P2P_DISABLE"), *level = getenv("GPUSIM_P2P_LEVEL");

	if (disable && *disable && strcmp(disable, "0") != 0) {
		if (strcmp(disable, "1") != 0)
			return err_set(err, RC_INVAL, "GPUSIM_P2P_DISABLE: '%s' is not 0 or 1",
				       disable);
		o->device.mem_private = "GPUSIM_P2P_DISABLE=1";
	}
	if (level && *level && strcmp(level, "SYS") != 0) {
		if (strcmp(level, "LOC") != 0)
			return err_set(err, RC_INVAL, "GPUSIM_P2P_LEVEL: '%s' is not LOC or SYS",
				       level);
		o->device.mem_private = "GPUSIM_P2P_LEVEL=LOC";
	}
	return RC_OK;
}

/* Kernels that the environment names, beside those of options. */
static enum rc
apply_kernels(struct err *err)
{
	const char *list = getenv("GPUSIM_KERNELS");
	enum rc rc = list ? load_kernels_list(list, err) : RC_OK;

	return rc == RC_OK ? rc : err_prefix(err, "GPUSIM_KERNELS");
}

/* Where to listen when that is not said: in the private directory. */
static enum rc
default_address(struct options *o, struct err *err)
{
	char dir[RUNDIR_MAX];
	enum rc rc = rundir_make(dir, err);

	if (rc == RC_OK)
		snprintf(o->listen, sizeof o->listen, "ipc://%s/gpudev-%d.sock", dir,
			 (int)getpid());
	return rc;
}

/* What --coordinator said, or what stands in for it. */
static enum rc
find_coordinator(struct options *o, struct err *err)
{
	if (!o->coordinator)
		o->coordinator = rundir_coordinator(o->default_coordinator, err);
	if (!o->coordinator)
		return err->rc;
	if (!*o->coordinator || strcmp(o->coordinator, "none") == 0)
		o->coordinator = NULL;
	return RC_OK;
}

/* Complete the addresses. */
static enum rc
check_addresses(struct options *o, struct err *err)
{
	enum rc rc = find_coordinator(o, err);

	if (rc == RC_OK && !o->listen[0])
		rc = default_address(o, err);
	if (rc == RC_OK && o->coordinator)
		rc = net_addr_check(o->coordinator, NET_ANY_HOST, err);
	if (rc == RC_OK && o->coordinator)
		rc = net_addr_own(o->listen, o->coordinator, err);
	if (rc == RC_OK && o->coordinator)
		rc = net_addr_own(o->data, o->coordinator, err);
	if (rc == RC_OK)
		rc = net_addr_check(o->listen, o->reach, err);
	if (rc == RC_OK && !o->data[0])
		rc = net_addr_data(o->listen, o->data, err);
	else if (rc == RC_OK)
		rc = net_addr_check(o->data, o->reach, err);
	o->device.data_addr = o->data;
	o->device.coordinator = o->coordinator;
	return rc;
}

static enum rc
parse_options(int argc, char **argv, struct options *o, struct err *err)
{
	enum rc rc = RC_OK;
	int opt;

	while (rc == RC_OK && (opt = option_next(argc, argv, "m:N:vVh", longopts, err)) != -1) {
		if (opt == '?')
			return err->rc;
		rc = apply(o, opt, optarg, err);
		if (rc != RC_OK)
			return option_err(longopts, opt, err);
	}
	if (rc == RC_OK && optind < argc)
		rc = err_set(err, RC_INVAL, "unexpected argument '%s'", argv[optind]);
	net_tls_use(&o->tls);
	if (rc == RC_OK && !o->ordinal)
		rc = launcher_rank(&o->device.ordinal, err);
	if (rc == RC_OK)
		rc = check_addresses(o, err);
	if (rc == RC_OK)
		rc = apply_p2p(o, err);
	return rc == RC_OK ? apply_kernels(err) : rc;
}

/* To standard output. */
static enum rc
list_kernels(const struct options *o, struct err *err)
{
	if (o->list == LIST_JSON)
		kernel_list_json(stdout);
	else
		kernel_list(stdout);
	return option_answer("", err);
}

/* Serve until told to end. */
static enum rc
serve(struct daemon *dm, struct device *d, const char *addr, const struct options *o,
      struct err *err)
{
	struct registration *reg = NULL;
	bool ready = false;
	enum rc rc = RC_OK;

	if (o->coordinator)
		rc = registration_new(o->coordinator,
				      o->coordinator == o->default_coordinator ? REGISTER_IF_THERE
									       : REGISTER_WITH_IT,
				      d, dm, &reg, err);
	while (rc == RC_OK) {
		if (reg)
			rc = registration_step(reg, err);
		if (rc == RC_OK && !ready && (!reg || registration_done(reg))) {
			log_line(LOG_INFO, "device %016" PRIx64 " is ready at %s", device_id(d),
				 addr);
			daemon_ready(o->ready_fd);
			ready = true;
		}
		if (rc == RC_OK && daemon_wait(dm, reg ? registration_wait_ms(reg, TICK_MS)
						       : TICK_MS) == DAEMON_END)
			break;
		device_tick(d);
	}
	/* Cleaning up must not take for ever, whatever state the peers are in. */
	alarm(STOP_WITHIN_SECS);
	registration_free(reg);
	return rc;
}

/* Serve gRPC's clients too. */
static enum rc
serve_grpc(const struct options *o, struct device *d, struct rpc_handler *handler,
	   struct grpc_server **out, struct err *err)
{
	enum rc rc = grpc_server_start(o->grpc, o->reach, GRPC_DEVICE, handler, out, err);

	if (rc != RC_OK)
		return err_prefix(err, "--grpc");
	device_set_grpc(d, grpc_server_address(*out));
	log_line(LOG_INFO, "gRPC at %s", grpc_server_address(*out));
	return RC_OK;
}

int
main(int argc, char **argv)
{
	struct options o = {.device = {.mem_bytes = 256u << 20,
				       .mem_fate = DEVMEM_UNLINK_FILE,
				       .threads = 1,
				       .say = say},
			    .pin = PIN_NONE,
			    .ready_fd = -1,
			    .lifeline = -1,
			    .level = LOG_WARN};
	struct rpc_handler handler = {.call = device_call, .gone = device_gone};
	struct rpc_server *server = NULL;
	struct grpc_server *grpc = NULL;
	struct device *d = NULL;
	struct daemon dm;
	struct err err = {0};
	enum rc rc;

	blas_reload(argv);
	log_open("gpudev", LOG_WARN);
	rc = parse_options(argc, argv, &o, &err);
	log_open("gpudev", o.level);
	if (rc == RC_OK)
		rc = log_check(&err);
	if (log_operations())
		o.device.tell = tell;
	if (rc == RC_OK && o.list != LIST_NOTHING)
		rc = list_kernels(&o, &err);
	if (rc == RC_OK)
		rc = daemon_init(&dm, o.lifeline, &err);
	if (rc == RC_OK)
		rc = pin_apply(o.pin, o.device.ordinal, &err);
	if (rc == RC_OK) {
		blas_set_threads(o.device.threads);
		rc = device_new(&o.device, &d, &err);
	}
	if (rc == RC_OK && !o.device.mem_path) /* launchers do it once for all */
		sweep_folder(SWEEP_FOLDER, net_listens);
	if (rc == RC_OK) {
		handler.arg = d;
		rc = rpc_server_start(o.listen, &handler, &server, &err);
	}
	if (rc == RC_OK && o.grpc)
		rc = serve_grpc(&o, d, &handler, &grpc, &err);
	if (rc == RC_OK) {
		device_set_address(d, rpc_server_address(server));
		rc = serve(&dm, d, rpc_server_address(server), &o, &err);
		device_stop(d);
		rpc_server_stop(server);
		grpc_server_stop(grpc);
	}
	device_free(d);
	if (rc != RC_OK)
		log_line(LOG_ERROR, "%s", err.text);
	fflush(stdout);
	_exit(rc_exit(rc));
}
