#include "args.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "command.h"
#include "getopts.h"
#include "mem/dtype.h"
#include "mem/redop.h"

#define LONG_ONLY 256	  /* getopt's value of option i without a letter is LONG_ONLY + i */
#define MAX_ITERS 1000000 /* of a bench */

static const struct {
	const char *name;  /* long; NULL: letter only */
	char letter;	   /* 0: none */
	const char *value; /* what follows; NULL: nothing */
	const char *help;
} table[OPT_NUMBER] = {
    [OPT_DEVICE] = {"device", 0, "DEVICE",
		    "index in `gpuctl devices`, or id; or --comm ID --rank RANK"},
    [OPT_COMM] = {"comm", 0, "ID", "communicator"},
    [OPT_RANK] = {"rank", 0, "RANK", "rank in the communicator"},
    [OPT_PEER] = {"peer", 0, "RANK", "the other rank"},
    [OPT_ADDR] = {"addr", 0, "ADDR[,...]", "buffer; collectives: one for each rank, in place"},
    [OPT_SEND] = {"send", 0, "ADDR,...", "input buffers by rank; 0 for a rank without"},
    [OPT_RECV] = {"recv", 0, "ADDR,...", "output buffers by rank; 0 for a rank without"},
    [OPT_COUNT] = {"count", 0, "N", "elements; of one part where a vector has parts, as in NCCL"},
    [OPT_BYTES] = {"bytes", 0, "SIZE", "bytes to transfer, such as 4096 or 64K"},
    [OPT_TYPE] = {"type", 0, "TYPE", "one of" DTYPE_NAMES},
    [OPT_OP] = {"op", 0, "OP", "one of" REDOP_NAMES ", by default sum"},
    [OPT_ALGO] = {"algo", 0, "ALGO", "algorithm; `gpuctl plan --list` lists them"},
    [OPT_ROOT] = {"root", 0, "RANK", "root rank (default 0)"},
    [OPT_CHUNK] = {"chunk", 0, "SIZE", "largest message in bytes, such as 64K"},
    [OPT_CHUNK_ELEMS] = {"chunk", 0, "N", "most elements in one message"},
    [OPT_STREAM] = {"stream", 0, "STREAM", "stream (default 0)"},
    [OPT_QUEUE] = {"queue", 0, NULL, "return when it is queued; see `gpuctl wait`, `sync`"},
    [OPT_RANKS] = {NULL, 'n', "N", "how many devices or ranks"},
    [OPT_RAW] = {"raw", 0, "TYPE", "binary on stdin and stdout, ranks one after the other"},
    [OPT_ALL] = {"all", 0, NULL, "print every rank's result"},
    [OPT_JSON] = {"json", 0, NULL, "print one JSON object"},
    [OPT_LIST] = {"list", 0, NULL, "list what there is to name here"},
    [OPT_SIMULATE] = {"simulate", 0, NULL, "how long each algorithm would take, in virtual time"},
    [OPT_MIN_BYTES] = {NULL, 'b', "SIZE", "smallest size (default 8)"},
    [OPT_MAX_BYTES] = {NULL, 'e', "SIZE", "largest size (default 128M, or what fits)"},
    [OPT_FACTOR] = {NULL, 'f', "N", "from size to size (default 2)"},
    [OPT_ITERS] = {"iters", 0, "N", "timed operations a size (default 20)"},
    [OPT_WARMUP] = {"warmup", 0, "N", "operations before them (default 5)"},
    [OPT_REWRITE] = {"rewrite", 0, NULL, "write the inputs anew before each, which is not timed"},
    [OPT_BASELINE] = {"baseline", 0, "FILE", "compare with what --json printed before"},
    [OPT_MAX_SLOWDOWN] = {"max-slowdown", 0, "X",
			  "exit 7 if a time is over X times the baseline's"},
    [OPT_MEM] = {"mem", 0, "SIZE", "memory of a device (default 256M)"},
    [OPT_MEM_FILE] = {"mem-file", 0, "BASE", "keep the memory of device K in the file BASE.K"},
    [OPT_LATENCY] = {"latency", 0, "TIME", "delay of messages between devices, such as 5ms"},
    [OPT_BANDWIDTH] = {"bandwidth", 0, "RATE", "bits a second in and out of a device, such as 1Gb"},
    [OPT_TRANSPORT] = {"transport", 0, "SOCKETS",
		       "ipc or tcp: data go through sockets, not through shared memory"},
    [OPT_THREADS] = {"threads", 0, "N", "BLAS threads of a device (default 1)"},
    [OPT_KERNELS] = {"kernels", 0, "FILE",
		     "kernels of one's own, for all devices; may be repeated"},
    [OPT_PIN] = {"pin", 0, "CPUS", "auto: each device on a CPU of its own; none (the default)"},
    [OPT_OP_TIMEOUT] = {"op-timeout", 0, "TIME", "longest wait without progress (default 30s)"},
    [OPT_START_TIMEOUT] = {"start-timeout", 0, "TIME", "until all are ready (default 10s)"},
    [OPT_HTTP] = {"http", 0, "HOST:PORT", "the coordinator's; models for whoever asks"},
    [OPT_GRPC] = {"grpc", 0, "HOST:PORT", "the lab's services; device K's at PORT+1+K"},
    [OPT_ALLOW_INJECT] = {"allow-inject", 0, NULL, "faults may be injected; see `gpuctl inject`"},
    [OPT_SEED] = {"seed", 0, "N", "of what is drawn by chance (default 1)"},
    [OPT_FOR] = {"for", 0, "TIME", "how long, such as 60s"},
    [OPT_RATE] = {"rate", 0, "RATE", "faults: so many a second (0.5/s), or an operation (0.1/op)"},
    [OPT_KINDS] = {"kinds", 0, "KIND,...", "kinds of faults (default all)"},
    [OPT_OPS] = {"ops", 0, "N", "how many operations, instead of how long"},
    [OPT_VERBOSE] = {NULL, 'v', NULL, "daemons say more on stderr; twice: still more"},
    [OPT_ON_FAILURE] = {"on-failure", 0, "POLICY",
			"when a rank is lost: abort (the default) shrink respawn spare"},
    [OPT_SPARES] = {"spares", 0, "K", "so many devices more, to take the place of lost ones"},
    [OPT_KEYS] = {"keys", 0, "K,...", "by rank: ranks of a color are sorted by it (default 0)"},
    [OPT_ID] = {"id", 0, "ID", "what `gpuctl unique-id` printed, the same for each rank"},
    [OPT_NRANKS] = {"nranks", 0, "N", "how many ranks meet by the id"},
    [OPT_STREAMING] = {"stream", 0, NULL,
		       "without a number: go on, block after block, until stdin ends"},
    [OPT_FOLLOW] = {"follow", 0, NULL, "go on with what happens"},
    [OPT_WAIT] = {"wait", 0, "TIME", "wait for devices that are in use, so long"},
};

/* Of an option's argument, or $GPUSIM_ON_FAILURE's value. */
enum rc
on_failure_parse(const char *text, enum gpusim_on_failure *out, struct err *err)
{
	enum gpusim_rc rc = gpusim_on_failure_parse(text, out);

	return rc == GPUSIM_OK ? RC_OK : err_set(err, (enum rc)rc, "%s", gpusim_error());
}

/* --raw and --type name one type. */
static enum rc
set_type(enum opt_id id, const char *arg, struct args *a, struct err *err)
{
	enum gpusim_dtype t;
	enum rc rc = dtype_parse(arg, &t, err);

	if (rc != RC_OK)
		return rc;
	if (args_has(a, (OPT(TYPE) | OPT(RAW)) & ~(UINT64_C(1) << id)) && t != a->dtype)
		return err_set(err, RC_INVAL, "%s, but %s was said before", dtype_name(t),
			       dtype_name(a->dtype));
	a->dtype = t;
	return RC_OK;
}

/* Values that gpuctl only hands on are checked all the same: its message names the option. */
static enum rc
set_checked(enum opt_id id, const char *arg, struct args *a, struct err *err)
{
	uint64_t unused;
	uint32_t n;

	switch (id) {
	case OPT_MEM:
		a->mem = arg;
		return parse_bytes(arg, &unused, err);
	case OPT_LATENCY:
		a->latency = arg;
		return parse_duration(arg, &unused, err);
	case OPT_BANDWIDTH:
		a->bandwidth = arg;
		return parse_rate(arg, &unused, err);
	case OPT_PIN:
		a->pin = arg;
		return strcmp(arg, "auto") == 0 || strcmp(arg, "none") == 0
			   ? RC_OK
			   : err_set(err, RC_INVAL, "'%.64s' is neither auto nor none", arg);
	case OPT_TRANSPORT:
		a->transport = arg;
		if (strcmp(arg, "ipc") != 0 && strcmp(arg, "tcp") != 0)
			return err_set(err, RC_INVAL, "'%s' is neither ipc nor tcp", arg);
		return RC_OK;
	case OPT_OP_TIMEOUT:
		a->op_timeout = arg;
		return parse_ms(arg, &a->op_timeout_ms, err);
	default:
		a->threads = arg;
		return parse_u32(arg, 1, 1024, &n, err);
	}
}

/* The devices look inside; one that is not there is not to be said by each of them. */
static enum rc
add_kernels(const char *path, struct args *a, struct err *err)
{
	if (a->nkernels == ARGS_MAX_KERNELS)
		return err_set(err, RC_INVAL, "more than %d files", ARGS_MAX_KERNELS);
	if (access(path, R_OK) != 0)
		return err_set(err, RC_INVAL, "%.200s: %s", path, strerror(errno));
	a->kernels[a->nkernels++] = path;
	return RC_OK;
}

/* "0.5/s", "0.1/op"; a bare number is a second. */
static enum rc
set_rate(const char *arg, struct args *a, struct err *err)
{
	char number[32];
	size_t n = strcspn(arg, "/");

	if (n >= sizeof number ||
	    (arg[n] && strcmp(arg + n, "/s") != 0 && strcmp(arg + n, "/op") != 0))
		return err_set(err, RC_INVAL, "'%.64s' is no rate, such as 0.5/s or 0.1/op", arg);
	memcpy(number, arg, n);
	number[n] = '\0';
	a->rate_by_op = strcmp(arg + n, "/op") == 0;
	return parse_double(number, 0, 1000, &a->rate, err);
}

static enum rc
set_number(enum opt_id id, const char *arg, struct args *a, struct err *err)
{
	switch (id) {
	case OPT_COMM:
		return parse_u64(arg, 1, UINT64_MAX, &a->comm, err);
	case OPT_RANK:
		return parse_u32(arg, 0, UINT32_MAX, &a->rank, err);
	case OPT_PEER:
		return parse_u32(arg, 0, UINT32_MAX, &a->peer, err);
	case OPT_ROOT:
		return parse_u32(arg, 0, UINT32_MAX, &a->root, err);
	case OPT_SPARES:
		return parse_u32(arg, 0, UINT32_MAX, &a->spares, err);
	case OPT_RANKS:
		return parse_u32(arg, 1, UINT32_MAX, &a->nranks, err);
	case OPT_NRANKS:
		return parse_u32(arg, 1, UINT32_MAX, &a->job_ranks, err);
	case OPT_COUNT:
		return parse_u64(arg, 0, UINT64_MAX, &a->count, err);
	case OPT_SEED:
		return parse_u64(arg, 0, UINT64_MAX, &a->seed, err);
	case OPT_OPS:
		return parse_u64(arg, 1, UINT32_MAX, &a->ops, err);
	case OPT_FOR:
		return parse_ms(arg, &a->for_ms, err);
	case OPT_RATE:
		return set_rate(arg, a, err);
	case OPT_CHUNK_ELEMS:
		return parse_u64(arg, 1, UINT64_MAX, &a->chunk, err);
	case OPT_STREAM:
		return parse_u64(arg, 0, UINT64_MAX, &a->stream, err);
	case OPT_FACTOR:
		return parse_u64(arg, 2, 1u << 20, &a->factor, err);
	case OPT_ITERS:
		return parse_u64(arg, 1, MAX_ITERS, &a->iters, err);
	case OPT_WARMUP:
		return parse_u64(arg, 0, MAX_ITERS, &a->warmup, err);
	case OPT_BYTES:
		return parse_size(arg, &a->nbytes, err);
	case OPT_CHUNK:
		return parse_bytes(arg, &a->chunk, err);
	case OPT_MIN_BYTES:
		return parse_size(arg, &a->min_bytes, err);
	default:
		return parse_size(arg, &a->max_bytes, err);
	}
}

static enum rc
apply(enum opt_id id, const char *arg, struct args *a, struct err *err)
{
	switch (id) {
	case OPT_DEVICE:
		a->device = arg;
		return RC_OK;
	case OPT_ADDR:
		a->addr = arg;
		return RC_OK;
	case OPT_SEND:
		a->send = arg;
		return RC_OK;
	case OPT_RECV:
		a->recv = arg;
		return RC_OK;
	case OPT_ALGO:
		a->algo = arg;
		return RC_OK;
	case OPT_MEM_FILE:
		a->mem_file = arg;
		return RC_OK;
	case OPT_KERNELS:
		return add_kernels(arg, a, err);
	case OPT_TYPE:
	case OPT_RAW:
		return set_type(id, arg, a, err);
	case OPT_ON_FAILURE:
		return on_failure_parse(arg, &a->on_failure, err);
	case OPT_KEYS:
		a->keys = arg;
		return RC_OK;
	case OPT_ID:
		a->id = arg;
		return RC_OK;
	case OPT_OP:
		return redop_parse(arg, &a->redop, err);
	case OPT_START_TIMEOUT:
		return parse_ms(arg, &a->start_timeout_ms, err);
	case OPT_WAIT:
		return parse_ms(arg, &a->wait_ms, err);
	case OPT_VERBOSE:
		a->verbose++;
		return RC_OK;
	case OPT_STREAMING:
	case OPT_FOLLOW:
	case OPT_QUEUE:
	case OPT_ALL:
	case OPT_JSON:
	case OPT_LIST:
	case OPT_REWRITE:
	case OPT_ALLOW_INJECT:
	case OPT_SIMULATE:
		return RC_OK;
	case OPT_KINDS:
		a->kinds = arg;
		return RC_OK;
	case OPT_HTTP:
		a->http = arg;
		return RC_OK;
	case OPT_GRPC:
		a->grpc = arg;
		return RC_OK;
	case OPT_BASELINE:
		a->baseline = arg;
		return RC_OK;
	case OPT_MAX_SLOWDOWN:
		return parse_double(arg, 0.001, 1e6, &a->max_slowdown, err);
	case OPT_MEM:
	case OPT_TRANSPORT:
	case OPT_LATENCY:
	case OPT_BANDWIDTH:
	case OPT_OP_TIMEOUT:
	case OPT_THREADS:
	case OPT_PIN:
		return set_checked(id, arg, a, err);
	default:
		return set_number(id, arg, a, err);
	}
}

/* What follows an option, as getopt calls it; of --stream see find_stream. */
static int
follows(uint64_t options, int i)
{
	if (i == OPT_STREAM && options >> OPT_STREAMING & 1)
		return optional_argument;
	return table[i].value ? required_argument : no_argument;
}

/* getopt's two descriptions of the options in a set; longs has room for OPT_NUMBER + 2. */
static void
describe(uint64_t options, char *shorts, struct option *longs)
{
	for (int i = 0; i < OPT_NUMBER; i++) {
		if (!(options >> i & 1) || i == OPT_STREAMING)
			continue;
		if (table[i].letter) {
			*shorts++ = table[i].letter;
			if (table[i].value)
				*shorts++ = ':';
		}
		if (table[i].name)
			*longs++ =
			    (struct option){table[i].name, follows(options, i), NULL,
					    table[i].letter ? table[i].letter : LONG_ONLY + i};
	}
	*shorts++ = 'h';
	*shorts = '\0';
	*longs++ = (struct option){"help", 0, NULL, 'h'};
	*longs = (struct option){0};
}

static enum opt_id
identify(int opt)
{
	int i = opt - LONG_ONLY;

	if (opt < LONG_ONLY)
		for (i = 0; table[i].letter != opt; i++)
			continue;
	return (enum opt_id)i;
}

/* Of --stream the number, if a number is the next word; else it is the other option of that name. */
static enum opt_id
find_stream(const char *next)
{
	if (!optarg && next && *next >= '0' && *next <= '9') {
		optarg = (char *)next;
		optind++;
	}
	return optarg ? OPT_STREAM : OPT_STREAMING;
}

static const char *
spelled(enum opt_id id, char out[32])
{
	if (table[id].name)
		snprintf(out, 32, "--%s", table[id].name);
	else
		snprintf(out, 32, "-%c", table[id].letter);
	return out;
}

/* Nothing missing, nothing left over. */
static enum rc
check(const struct command *cmd, uint64_t without, const struct args *a, struct err *err)
{
	uint64_t missing = cmd->needs & ~a->given & ~without;
	char word[32];

	for (int i = 0; i < OPT_NUMBER; i++)
		if (missing >> i & 1)
			return err_set(err, RC_INVAL, "%s %s is missing; usage: gpuctl %s %s",
				       spelled((enum opt_id)i, word), table[i].value, cmd->name,
				       cmd->synopsis);
	if (a->nrest < cmd->min_rest)
		return err_set(err, RC_INVAL, "an operand is missing; usage: gpuctl %s %s",
			       cmd->name, cmd->synopsis);
	if (cmd->max_rest != ARGS_COMMAND && a->nrest > cmd->max_rest)
		return err_set(err, RC_INVAL, "unexpected operand '%.64s'; usage: gpuctl %s %s",
			       a->rest[cmd->max_rest], cmd->name, cmd->synopsis);
	return RC_OK;
}

enum args_result
args_parse(const struct command *cmd, int argc, char **argv, uint64_t without, struct args *out,
	   struct err *err)
{
	struct args a = {.min_bytes = 8,
			 .max_bytes = 128u << 20,
			 .factor = 2,
			 .iters = 20,
			 .warmup = 5,
			 .seed = 1};
	struct option longs[OPT_NUMBER + 2];
	char shorts[2 * OPT_NUMBER + 4];
	enum opt_id id;
	int opt;

	shorts[0] = '+';
	describe(cmd->options, shorts + 1, longs);
	optind = 0; /* start anew */
	while ((opt = getopts_next(argc, argv, shorts + (cmd->max_rest != ARGS_COMMAND), longs,
				   err)) != -1) {
		if (opt == '?')
			return ARGS_BAD;
		if (opt == 'h')
			return ARGS_HELP;
		id = identify(opt);
		if (id == OPT_STREAM)
			id = find_stream(argv[optind]);
		if (apply(id, optarg, &a, err) != RC_OK) {
			getopts_err(longs, opt, err);
			return ARGS_BAD;
		}
		a.given |= UINT64_C(1) << id;
	}
	a.rest = argv + optind;
	a.nrest = argc - optind;
	if (check(cmd, without, &a, err) != RC_OK)
		return ARGS_BAD;
	*out = a;
	return ARGS_OK;
}

void
args_help(uint64_t options, FILE *f)
{
	char word[32], text[64];

	for (int i = 0; i < OPT_NUMBER; i++) {
		if (!(options >> i & 1))
			continue;
		snprintf(text, sizeof text, "%s%s%s", spelled((enum opt_id)i, word),
			 table[i].value ? " " : "", table[i].value ? table[i].value : "");
		fprintf(f, "  %-20s  %s\n", text, table[i].help);
	}
	fprintf(f, "  %-20s  %s\n", "-h", "print this");
}

bool
args_option(uint64_t options, int *i, struct args_option *out)
{
	while (*i < OPT_NUMBER && (!(options >> *i & 1) || *i == OPT_STREAMING))
		++*i;
	if (*i >= OPT_NUMBER)
		return false;
	spelled((enum opt_id) * i, out->word);
	out->value = table[*i].value;
	out->help = table[*i].help;
	++*i;
	return true;
}
