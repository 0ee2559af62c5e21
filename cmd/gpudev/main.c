/* gpudev - serve one simulated GPU. See gpudev(8). */
#define OPTION_TARGET struct options

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/daemon.h"
#include "base/launcher.h"
#include "base/log.h"
#include "base/option_rows.h"
#include "base/parse.h"
#include "base/rundir.h"
#include "kern/blas.h"
#include "dev/device.h"
#include "kern/kernel.h"
#include "dev/device_recorder.h"
#include "dev/taping.h"
#include "grpc/server.h"
#include "mem/sweep.h"
#include "net/net.h"
#include "pin.h"
#include "register.h"
#include "report.h"
#include "wire/wire.h"

#define TICK_MS		 100
#define STOP_WITHIN_SECS 5

struct options {
	struct device_config device;
	char listen[NET_ADDR_MAX], data[NET_ADDR_MAX];
	const char *coordinator; /* NULL: none */
	const char *grpc;	 /* NULL: not served */
	const char *record;	 /* folder; NULL: nothing is recorded */
	bool record_data;
	char default_coordinator[RUNDIR_ADDRESS_MAX];
	struct net_tls_files tls;
	bool insecure;
	int p2p_disable, p2p_level; /* NCCL's variables: peers may not map the memory */
	enum { LIST_NOTHING, LIST_TEXT, LIST_JSON } list; /* of kernels */
	int pin;
	int ready_fd, lifeline;
	unsigned verbose;
};

static const struct option_word p2p_disable_words[] = {{"0", 0}, {"1", 1}, {NULL, 0}};
static const struct option_word p2p_level_words[] = {{"SYS", 0}, {"LOC", 1}, {NULL, 0}};

static enum rc
take_mem_file(const struct option_row *row, const char *text, void *target, struct err *err)
{
	struct options *o = target;

	(void)err;
	o->device.mem_path = text;
	o->device.mem_fate =
	    strcmp(row->name, "mem-file") == 0 ? DEVMEM_PERSIST_FILE : DEVMEM_UNLINK_FILE;
	return RC_OK;
}

static enum rc
take_pin(const struct option_row *row, const char *text, void *target, struct err *err)
{
	(void)row;
	return pin_parse(text, &((struct options *)target)->pin, err);
}

static enum rc
take_kernels(const struct option_row *row, const char *text, void *target, struct err *err)
{
	(void)target;
	return row->env ? load_kernels_list(text, err) : load_kernels(text, err);
}

static enum rc
take_recorder(const struct option_row *row, const char *text, void *target, struct err *err)
{
	uint64_t n;
	enum rc rc = parse_size(text, &n, err);

	(void)row;
	if (rc == RC_OK && n != 0 && (n < FLIGHT_RECORDS_MIN || n > FLIGHT_RECORDS_MAX))
		rc = err_set(err, RC_INVAL, "'%.64s' is neither 0 nor 256 to 1M records", text);
	if (rc == RC_OK)
		((struct options *)target)->device.nrecords = (uint32_t)n;
	return rc;
}

static enum rc
take_list(const struct option_row *row, const char *text, void *target, struct err *err)
{
	(void)row;
	if (*text && strcmp(text, "json") != 0)
		return err_set(err, RC_INVAL, "'%.64s' is not json", text);
	((struct options *)target)->list = *text ? LIST_JSON : LIST_TEXT;
	return RC_OK;
}

static const struct option_kind mem_file = {"path", take_mem_file, NULL},
				pin_cpu = {"cpu", take_pin, NULL},
				kernels = {"path", take_kernels, NULL},
				recorder = {"size", take_recorder, NULL},
				list_format = {"word", take_list, NULL};

#define LISTENS "ipc:///path, tcp://host:port or tls+tcp://host:port"

static const struct option_row rows[] = {
    {"listen", "ADDR",
     "control address: " LISTENS "; host *: the address that the coordinator sees",
     AS_CHARS(listen), DEFAULT_NOTE("gpudev-PID.sock in the private directory, see gpusim(7)")},
    {"data", "ADDR", "data address", AS_CHARS(data), DEFAULT_NOTE("beside the control address")},
    {"grpc", "HOST:PORT", "serve the lab's GPUDevice to gRPC clients", AS_ANY_STRING(grpc)},
    {"coordinator", "ADDR", "coordinator to register with; none: run without one",
     AS_ANY_STRING(coordinator), ENV("GPUSIM_COORD"),
     DEFAULT_NOTE("gpucoord.sock in the private directory")},
    {"id", "ID", "device id", AS_U64(device.id, 1, 0),
     DEFAULT_NOTE("the memory file's, else random")},
    {"ordinal", "N", "position in lists of devices", AS_U32(device.ordinal, 0, UINT32_MAX),
     DEFAULT_NOTE("the rank that mpirun or srun gives, else 0")},
    {"rank", "N", "same as --ordinal", AS_U32(device.ordinal, 0, UINT32_MAX)},
    {"mem", "SIZE", "device memory", AS_BYTES(device.mem_bytes), LETTER('m'), DEFAULT("256M")},
    {"client-mem", "SIZE", "most memory that one client may lease", AS_BYTES(device.client_bytes),
     DEFAULT_NOTE("all")},
    {"mem-file", "PATH", "keep the memory in this file", AS_KIND(mem_file),
     DEFAULT_NOTE("under /dev/shm, removed at the end")},
    {"mem-scratch", "PATH", "as --mem-file, but remove the file at the end", AS_KIND(mem_file)},
    {"recorder", "SIZE", "number of records to keep for each stream; 0: none", AS_KIND(recorder),
     DEFAULT("4K")},
    {"threads", "N", "BLAS threads", AS_U32(device.threads, 1, 1024), DEFAULT("1")},
    {"pin", "CPU", "compute on this CPU; auto: by ordinal; none: on any", AS_KIND(pin_cpu),
     DEFAULT("none")},
    {"kernels", "FILE", "load kernels from a shared object; may be repeated", AS_KIND(kernels)},
    {"list-kernels", "[=json]", "print the kernels with their arguments, and exit",
     AS_KIND(list_format)},
    {"latency", "TIME", "delay all received messages, such as 5ms", AS_NS(device.latency_ns)},
    {"bandwidth", "RATE", "bits per second in and out, such as 1Gb", AS_RATE(device.bits_per_s)},
    {"spare", NULL, "wait to replace a lost device", AS_BOOL(device.spare)},
    {"join", NULL, "offer the device to communicators that grow", AS_BOOL(device.join)},
    {"supervised", NULL,
     "tell the coordinator that a supervisor restarts this device when it is killed",
     AS_BOOL(device.supervised)},
    {"allow-inject", NULL, "let gpuctl inject faults, to rehearse failure",
     AS_BOOL(device.allow_inject)},
    {"record", "DIR", "append each operation between ranks to DIR/device-ORDINAL.rec",
     AS_ANY_STRING(record)},
    {"record-data", NULL, "with --record: record the inputs too, not only their checksums",
     AS_BOOL(record_data)},
    {"insecure", NULL, "listen beyond loopback without encryption", AS_BOOL(insecure)},
    {"tls-cert", "FILE", "certificate for tls+tcp addresses", AS_ANY_STRING(tls.cert),
     ENV("GPUSIM_TLS_CERT")},
    {"tls-key", "FILE", "key of the certificate", AS_ANY_STRING(tls.key), ENV("GPUSIM_TLS_KEY")},
    {"tls-ca", "FILE", "CA certificates that sign the peers' certificates", AS_ANY_STRING(tls.ca),
     ENV("GPUSIM_TLS_CA")},
    {NULL, "FD", "write a newline to FD when ready", AS_FD(ready_fd), LETTER('N')},
    {"lifeline", "FD", "end when FD reads end-of-file", AS_FD(lifeline)},
    {NULL, NULL, "log more to stderr; twice: even more", AS_COUNT(verbose), LETTER('v')},
    {NULL, NULL, NULL, AS_WORD(p2p_disable, p2p_disable_words), ENV("GPUSIM_P2P_DISABLE")},
    {NULL, NULL, NULL, AS_WORD(p2p_level, p2p_level_words), ENV("GPUSIM_P2P_LEVEL")},
    {NULL, NULL, NULL, AS_KIND(kernels), ENV("GPUSIM_KERNELS")},
    ROW_VERSION,
    ROW_HELP,
};

static enum net_reach
reach_of(const struct options *o)
{
	return o->insecure ? NET_ANY_HOST : NET_LOOPBACK;
}

static void
say(const char *line)
{
	log_line(LOG_WARN, "%s", line);
}

static void
wake(void *dm)
{
	daemon_wake(dm);
}

static void
tell(const char *line)
{
	log_say(LOG_INFO, LOG_COLL, "%s", line);
}

static void
on_call(void *device, struct rpc_call *call)
{
	wire_request_log(rpc_request(call));
	device_call(device, call);
}

/* The default address, in the private directory. */
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

/* The coordinator of --coordinator, else the default; NULL: none. */
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

static enum rc
check_addresses(struct options *o, struct err *err)
{
	enum net_reach reach = reach_of(o);
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
		rc = net_addr_check(o->listen, reach, err);
	if (rc == RC_OK && !o->data[0])
		rc = net_addr_data(o->listen, o->data, err);
	else if (rc == RC_OK)
		rc = net_addr_check(o->data, reach, err);
	o->device.data_addr = o->data;
	o->device.coordinator = o->coordinator;
	return rc;
}

static enum rc
parse_options(int argc, char **argv, struct options *o, struct err *err)
{
	struct option_set set = {
	    .usage = "gpudev [options]", .rows = rows, .n = NROWS(rows), .target = o};
	enum option_ask ask;
	enum rc rc = option_parse(&set, argc, argv, &ask, err);

	if (rc == RC_OK && ask != OPTION_RUN)
		return option_answer(&set, ask, err);
	if (rc == RC_OK && set.noperands)
		rc = err_set(err, RC_INVAL, "unexpected argument '%s'", set.operands[0]);
	net_tls_use(&o->tls);
	if (rc == RC_OK && !option_from(&set, "ordinal")->rank && !option_from(&set, "rank")->rank)
		rc = launcher_rank(&o->device.ordinal, err);
	if (rc == RC_OK)
		rc = check_addresses(o, err);
	if (o->p2p_disable || o->p2p_level)
		o->device.mem_private =
		    o->p2p_level ? "GPUSIM_P2P_LEVEL=LOC" : "GPUSIM_P2P_DISABLE=1";
	return rc;
}

static enum rc
list_kernels(const struct options *o, struct err *err)
{
	if (o->list == LIST_JSON)
		kernel_list_json(stdout);
	else
		kernel_list(stdout);
	return option_say("", err);
}

static enum rc
serve(struct daemon *dm, struct device *d, const char *addr, const struct options *o,
      struct err *err)
{
	struct registration *reg = NULL;
	struct reporter *reporter = reporter_new(o->coordinator, d);
	bool ready = false;
	enum rc rc = reporter ? RC_OK : err_set(err, RC_NOMEM, "out of memory");

	if (rc == RC_OK && o->coordinator)
		rc = registration_new(o->coordinator,
				      o->coordinator == o->default_coordinator ? REGISTER_IF_THERE
									       : REGISTER_WITH_IT,
				      d, dm, &reg, err);
	while (rc == RC_OK) {
		if (reg)
			rc = registration_step(reg, err);
		if (rc == RC_OK && !ready && (!reg || registration_done(reg))) {
			log_say(LOG_INFO, LOG_INIT, "device %016" PRIx64 " is ready at %s",
				device_own_id(d), addr);
			daemon_ready(o->ready_fd);
			ready = true;
		}
		if (rc == RC_OK && daemon_wait(dm, reg ? registration_wait_ms(reg, TICK_MS)
						       : TICK_MS) == DAEMON_END)
			break;
		reporter_step(reporter);
		device_tick(d);
	}
	/* Peers must not block the end, whatever their state. */
	alarm(STOP_WITHIN_SECS);
	reporter_free(reporter);
	registration_free(reg);
	return rc;
}

static enum rc
serve_grpc(const struct options *o, struct device *d, struct rpc_handler *handler,
	   struct grpc_server **out, struct err *err)
{
	enum rc rc = grpc_server_start(o->grpc, reach_of(o), GRPC_DEVICE, handler, out, err);

	if (rc != RC_OK)
		return err_prefix(err, "--grpc");
	device_set_grpc(d, grpc_server_address(*out));
	log_say(LOG_INFO, LOG_NET, "gRPC at %s", grpc_server_address(*out));
	return RC_OK;
}

static enum rc
open_tape(struct options *o, struct err *err)
{
	char name[32];

	if (!o->record && o->record_data)
		return err_set(err, RC_INVAL, "--record-data: needs --record");
	if (!o->record)
		return RC_OK;
	snprintf(name, sizeof name, "device-%" PRIu32, o->device.ordinal);
	if (tape_open(o->record, name, o->record_data, say, &o->device.tape, err) != RC_OK)
		err_prefix(err, "--record");
	return err->rc;
}

static void
begin_tape(struct device *d, struct tape *t)
{
	struct device_room room;
	GpuSim__DeviceMetadata m;

	device_metadata(d, &m, &room);
	taping_device(t, &m);
}

int
main(int argc, char **argv)
{
	struct options o = {
	    .device = {.mem_fate = DEVMEM_UNLINK_FILE, .say = say}, .ready_fd = -1, .lifeline = -1};
	struct rpc_handler handler = {.call = on_call, .gone = device_gone};
	struct rpc_server *server = NULL;
	struct grpc_server *grpc = NULL;
	struct device *d = NULL;
	struct daemon dm;
	struct err err = {0};
	enum rc rc;

	blas_reload(argv);
	log_open("gpudev", LOG_WARN);
	rc = parse_options(argc, argv, &o, &err);
	log_open("gpudev", log_verbose(o.verbose));
	if (rc == RC_OK)
		rc = log_check(&err);
	if (log_has(LOG_INFO, LOG_COLL))
		o.device.tell = tell;
	if (rc == RC_OK && o.list != LIST_NOTHING)
		rc = list_kernels(&o, &err);
	/* All threads inherit it, so that a shaped link's times are not rounded up by 50 us each. */
	if (o.device.latency_ns || o.device.bits_per_s)
		prctl(PR_SET_TIMERSLACK, 1UL);
	if (rc == RC_OK)
		rc = daemon_init(&dm, o.lifeline, 0, &err);
	if (rc == RC_OK)
		rc = pin_apply(o.pin, o.device.ordinal, &err);
	if (rc == RC_OK) {
		blas_set_threads(o.device.threads);
		o.device.wake = wake;
		o.device.wake_arg = &dm;
		rc = open_tape(&o, &err);
	}
	if (rc == RC_OK) {
		rc = device_new(&o.device, &d, &err);
	}
	if (rc == RC_OK && o.device.tape)
		begin_tape(d, o.device.tape);
	if (rc == RC_OK && !o.device.mem_path) /* with a path, the launcher has swept already */
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
	device_end(d);
	tape_close(o.device.tape);
	if (rc != RC_OK)
		log_line(LOG_ERROR, "%s", err.text);
	fflush(stdout);
	_exit(rc_exit(rc));
}
