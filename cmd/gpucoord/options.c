#define OPTION_TARGET struct options

#include "options.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/option_rows.h"
#include "base/parse.h"
#include "wire/wire.h"

/* ---- the table */

/* "8/10": 8 of the last 10. */
static enum rc
take_missed(const struct option_row *row, const char *text, void *target, struct err *err)
{
	struct coord_config *cfg = &((struct options *)target)->coord;
	size_t len = strcspn(text, "/");
	uint32_t n, of;
	char first[8] = "";
	enum rc rc = RC_INVAL;

	(void)row;
	if (text[len] && len < sizeof first) {
		memcpy(first, text, len);
		rc = parse_u32(first, 1, COORD_MAX_BEATS, &n, err);
		if (rc == RC_OK)
			rc = parse_u32(text + len + 1, n, COORD_MAX_BEATS, &of, err);
	}
	if (rc != RC_OK)
		return err_set(err, RC_INVAL, "'%.64s' is not X/Y, such as 8/10, Y at most %d",
			       text, COORD_MAX_BEATS);
	cfg->missed = n;
	cfg->of = of;
	return RC_OK;
}

static void
add_missed(const struct option_row *row, const void *target, struct buf *out)
{
	const struct coord_config *cfg = &((const struct options *)target)->coord;

	(void)row;
	buf_addf(out, "%u/%u", cfg->missed, cfg->of);
}

static const char *
policy_name(unsigned policy)
{
	return wire_policy_name((int)policy);
}

static const struct option_kind missed = {"fraction", take_missed, add_missed};

static const struct option_row rows[] = {
    {"listen", "ADDR", "address: ipc:///path, tcp://host:port or tls+tcp://host:port",
     AS_CHARS(listen), ENV("GPUSIM_COORD"),
     DEFAULT_NOTE("gpucoord.sock in the private directory, see gpusim(7)")},
    {"config", "FILE", "read devices and options from FILE", ASKS(OPTION_FILE), LETTER('c')},
    {"print-config", NULL, "print the options in force as such a file, and exit",
     ASKS(OPTION_PRINT)},
    {"heartbeat", "TIME", "interval of the devices' heartbeats", AS_MS(coord.heartbeat_ms),
     DEFAULT("250ms")},
    {"missed", "X/Y", "a device is lost when X of its last Y heartbeats are missing",
     AS_KIND(missed), DEFAULT("10/12")},
    {"on-failure", "HOW", "recovery policy for a device that is lost outside any communicator",
     AS_NAME(coord.on_failure, policy_name, 0), ENV("GPUSIM_ON_FAILURE"), DEFAULT("abort")},
    {"revive", NULL,
     "start lost devices again, also those whose communicators have failed for good",
     AS_BOOL(coord.revive)},
    {"op-timeout", "TIME", "longest wait without progress inside an operation",
     AS_MS(coord.op_timeout_ms), DEFAULT("30s")},
    {"comm-timeout", "TIME", "longest time of an operation with its recoveries",
     AS_MS(coord.comm_timeout_ms), DEFAULT_NOTE("5m")},
    {"job-timeout", "TIME", "longest time of a run", AS_MS(coord.job_timeout_ms),
     DEFAULT_NOTE("24h")},
    {"state", "WHERE",
     "store the state for a restart in this directory, at etcd://host:port[/prefix], or with TLS "
     "at "
     "etcds://; none: do not store it",
     AS_STRING(state), DEFAULT_NOTE("beside the socket; for tcp, ~/.local/state/gpusim")},
    {"tuner", "FILE", "rules that choose the algorithm when the caller does not",
     AS_ANY_STRING(tuner), ENV("GPUSIM_TUNER_CONFIG_FILE")},
    {"algo-files", "FILE[:FILE]", "algorithms from files, for callers and rules to name",
     AS_ANY_STRING(algo_files), ENV("GPUSIM_ALGO_FILES")},
    {"calibrate", NULL, "choose algorithms by this machine's speed, measured within 3ms",
     AS_BOOL(calibrate)},
    {"report-dir", "DIR",
     "keep reports of the last 16 failures of communicators in DIR; none: keep no reports",
     AS_STRING(report_dir), DEFAULT_NOTE("$XDG_STATE_HOME/gpusim or ~/.local/state/gpusim")},
    {"recorder", "SIZE", "number of the coordinator's own records to keep; 0: none",
     AS_SIZE(recorder), DEFAULT("8K")},
    {"http", "HOST:PORT", "serve a live page, its data and the newest model over HTTP",
     AS_ANY_STRING(http)},
    {"http-host", "NAME[,NAME]", "host names that browsers may use, besides localhost",
     AS_ANY_STRING(http_names)},
    {"grpc", "HOST:PORT", "serve the lab's GPUCoordinator to gRPC clients", AS_ANY_STRING(grpc)},
    {"allow-inject", NULL, "let gpuctl inject faults, to rehearse failure", AS_BOOL(allow_inject)},
    {"record", "DIR", "append each decision to DIR/coordinator.rec", AS_ANY_STRING(record)},
    {"record-data", NULL, "with --record: restarted devices also record inputs",
     AS_BOOL(record_data)},
    {"insecure", NULL, "listen beyond loopback without encryption", AS_BOOL(insecure)},
    {"tls-cert", "FILE", "certificate for tls+tcp addresses", AS_ANY_STRING(tls.cert),
     ENV("GPUSIM_TLS_CERT")},
    {"tls-key", "FILE", "key of the certificate", AS_ANY_STRING(tls.key), ENV("GPUSIM_TLS_KEY")},
    {"tls-ca", "FILE", "CA certificates that sign the peers' certificates", AS_ANY_STRING(tls.ca),
     ENV("GPUSIM_TLS_CA")},
    {"print-address", NULL, "write the address to stdout when ready, with the real port for port 0",
     AS_BOOL(print_address), FLAG_ONLY},
    {NULL, "FD", "write a newline to FD when ready", AS_FD(ready_fd), LETTER('N')},
    {"exits", "FD", "read from FD how device processes ended: \"PID STATUS\"", AS_FD(exits)},
    {"lifeline", "FD", "end when FD reads end-of-file", AS_FD(lifeline)},
    {NULL, NULL, "log more to stderr; twice: even more", AS_COUNT(verbose), LETTER('v')},
    {NULL, NULL, NULL, AS_ANY_STRING(algo), ENV("GPUSIM_ALGO")},
    ROW_VERSION,
    ROW_HELP,
};

/* ---- sections of devices */

/* Return the device of a section, a new one when the section begins. NULL: too many, or out of memory. */
static struct options_device *
section_device(struct options *o, const char *section, struct err *err)
{
	struct options_device *d;

	if (o->ndevices && strcmp(o->section, section) == 0)
		return &o->device[o->ndevices - 1];
	if (o->ndevices == OPTIONS_MAX_DEVICES) {
		err_set(err, RC_INVAL, "more than %d devices", OPTIONS_MAX_DEVICES);
		return NULL;
	}
	d = alloc_resize(o->device, o->ndevices + 1, sizeof *d);
	if (!d) {
		err_set(err, RC_NOMEM, "out of memory");
		return NULL;
	}
	o->device = d;
	d = &o->device[o->ndevices++];
	*d = (struct options_device){0};
	snprintf(d->name, sizeof d->name, "%s", section + strlen("device"));
	return d;
}

static enum rc
set_device(struct options *o, const char *section, const char *key, const char *value,
	   struct err *err)
{
	struct options_device *d = section_device(o, section, err);

	if (!d)
		return err->rc;
	if (strcmp(key, "id") == 0)
		return parse_u64(value, 1, UINT64_MAX, &d->id, err);
	if (strcmp(key, "address") != 0)
		return err_set(err, RC_INVAL, "a device has only an id and an address");
	if (net_addr_check(value, NET_ANY_HOST, err) != RC_OK)
		return err->rc;
	if (strlen(value) >= sizeof d->address)
		return err_set(err, RC_INVAL, "longer than %zu bytes", sizeof d->address - 1);
	memcpy(d->address, value, strlen(value) + 1);
	return RC_OK;
}

static enum rc
in_section(void *target, const char *section, const char *key, const char *value, bool *mine,
	   struct err *err)
{
	struct options *o = target;
	enum rc rc = RC_OK;

	*mine = strcmp(section, "coordinator") == 0;
	if (strcmp(section, "device") == 0 || strncmp(section, "device ", 7) == 0 ||
	    strncmp(section, "device.", 7) == 0)
		rc = set_device(o, section, key, value, err);
	else if (!*mine)
		rc = err_set(err, RC_INVAL,
			     "no section [%s]; must be [coordinator] or [device NAME]", section);
	snprintf(o->section, sizeof o->section, "%s", section);
	return rc;
}

/* Reject a device without an address, and one that is listed twice. */
static enum rc
check_devices(struct option_set *s, const char *name, int rank, struct err *err)
{
	const struct options *o = s->target;

	(void)rank;
	for (size_t i = 0; i < o->ndevices; i++) {
		const struct options_device *a = &o->device[i];

		if (!a->address[0])
			return err_set(err, RC_INVAL, "%s: [device%s] has no address", name,
				       a->name);
		for (const struct options_device *b = o->device; b < a; b++)
			if ((a->id && a->id == b->id) || strcmp(a->address, b->address) == 0)
				return err_set(err, RC_INVAL,
					       "%s: [device%s] and [device%s] are the same device",
					       name, b->name, a->name);
	}
	return RC_OK;
}

/* ---- parsing */

/* Print the options in force and the devices as a file, and end the program. */
static enum rc
print_config(const struct options *o, const struct option_set *set, struct err *err)
{
	struct buf text = {0};
	bool good = buf_addf(&text, "[coordinator]\n");
	enum rc rc = good ? option_print(set, &text, err) : RC_OK;

	for (size_t i = 0; good && i < o->ndevices; i++) {
		const struct options_device *d = &o->device[i];

		good = buf_addf(&text, "\n[device%s]\naddress = %s\n", d->name, d->address) &&
		       (!d->id || buf_addf(&text, "id = 0x%" PRIx64 "\n", d->id));
	}
	if (!good || !buf_add(&text, "", 1))
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK)
		rc = option_say(text.data, err);
	buf_fini(&text);
	return rc;
}

static void
begin(struct options *o, struct option_set *set)
{
	*o = (struct options){.ready_fd = -1, .lifeline = -1, .exits = -1};
	*set = (struct option_set){.usage = "gpucoord [options]",
				   .rows = rows,
				   .n = NROWS(rows),
				   .target = o,
				   .strict = true,
				   .in_section = in_section,
				   .file_read = check_devices};
}

static enum rc
finish(struct options *o, struct option_set *set, struct options *out, enum rc rc)
{
	o->texts = set->texts;
	set->texts = NULL;
	option_fini(set);
	if (rc == RC_OK)
		*out = *o;
	else
		options_fini(o);
	return rc;
}

enum rc
options_parse(int argc, char **argv, struct options *out, struct err *err)
{
	struct option_set set;
	enum option_ask ask;
	struct options o;
	enum rc rc;

	begin(&o, &set);
	rc = option_parse(&set, argc, argv, &ask, err);
	if (rc == RC_OK && ask != OPTION_RUN && ask != OPTION_PRINT)
		rc = option_answer(&set, ask, err);
	if (rc == RC_OK && set.noperands)
		rc = err_set(err, RC_INVAL, "unexpected argument '%s'", set.operands[0]);
	if (rc == RC_OK)
		rc = option_file_check(&set, err);
	if (rc == RC_OK && ask == OPTION_PRINT)
		rc = print_config(&o, &set, err);
	return finish(&o, &set, out, rc);
}

enum rc
options_parse_text(const char *text, const char *name, struct options *out, struct err *err)
{
	struct option_set set;
	struct options o;
	enum rc rc;

	begin(&o, &set);
	rc = option_begin(&set, err);
	if (rc == RC_OK)
		rc = option_file_text(&set, text, name, OPTION_FROM_FILES, err);
	if (rc == RC_OK)
		rc = option_environment(&set, err);
	if (rc == RC_OK)
		rc = option_file_check(&set, err);
	return finish(&o, &set, out, rc);
}

void
options_fini(struct options *o)
{
	free(o->device);
	option_texts_free(o->texts);
	*o = (struct options){0};
}
