#define OPTION_TARGET struct args

#include "args.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/option_rows.h"
#include "base/parse.h"
#include "cluster/cluster.h"
#include "coll/plan.h"
#include "command.h"
#include "launch/launch.h"
#include "mem/dtype.h"
#include "mem/redop.h"
#include "pipeline/pipeline.h"
#include "whatif/whatif.h"

#define MAX_ITERS 1000000 /* of a bench */

/* ---- types of one option alone */

/* --raw and --type name one type. */
static enum rc
take_type(const struct option_row *row, const char *text, void *target, struct err *err)
{
	struct args *a = target;
	enum gpusim_dtype t;
	enum rc rc = dtype_parse(text, &t, err);

	if (rc != RC_OK)
		return rc;
	if (a->typed && t != a->dtype)
		return err_set(err, RC_INVAL, "%s: conflicts with the earlier %s", dtype_name(t),
			       dtype_name(a->dtype));
	a->dtype = t;
	a->typed = true;
	a->raw = a->raw || strcmp(row->name, "raw") == 0;
	return RC_OK;
}

static enum rc
take_redop(const struct option_row *row, const char *text, void *target, struct err *err)
{
	(void)row;
	return redop_parse(text, &((struct args *)target)->redop, err);
}

/* The devices check the contents; a missing file is rejected once, here. */
static enum rc
take_kernels(const struct option_row *row, const char *path, void *target, struct err *err)
{
	struct args *a = target;

	(void)row;
	if (a->nkernels == ARGS_MAX_KERNELS)
		return err_set(err, RC_INVAL, "more than %d files", ARGS_MAX_KERNELS);
	if (access(path, R_OK) != 0)
		return err_set(err, RC_INVAL, "%.200s: %s", path, strerror(errno));
	a->kernels[a->nkernels++] = path;
	return RC_OK;
}

/* With a number, --stream names a stream; without one, the filter continues block after block. */
static enum rc
take_streaming(const struct option_row *row, const char *text, void *target, struct err *err)
{
	if (*text)
		return option_u64.parse(row, text, target, err);
	((struct args *)target)->streaming = true;
	return RC_OK;
}

/* "0.5/s", "0.1/op"; a bare number is per second. */
static enum rc
take_rate(const struct option_row *row, const char *arg, void *target, struct err *err)
{
	struct args *a = target;
	char number[32];
	size_t n = strcspn(arg, "/");

	(void)row;
	if (n >= sizeof number ||
	    (arg[n] && strcmp(arg + n, "/s") != 0 && strcmp(arg + n, "/op") != 0))
		return err_set(err, RC_INVAL, "'%.64s' is not a rate like 0.5/s or 0.1/op", arg);
	memcpy(number, arg, n);
	number[n] = '\0';
	a->rate_by_op = strcmp(arg + n, "/op") == 0;
	return parse_double(number, 0, 1000, &a->rate, err);
}

static const char *
policy_name(unsigned policy)
{
	return gpusim_on_failure_name((int)policy);
}

static const struct option_kind type = {"word", take_type, NULL},
				redop = {"word", take_redop, NULL},
				kernels = {"path", take_kernels, NULL},
				streaming = {"number", take_streaming, NULL},
				rate = {"rate", take_rate, NULL};

static const struct option_word pins[] = {{"auto", PIN_AUTO}, {"none", PIN_NONE}, {NULL, 0}};
static const struct option_word formats[] = {
    {"steps", PLAN_AS_STEPS}, {"text", PLAN_AS_TEXT}, {"xml", PLAN_AS_XML}, {NULL, 0}};
static const struct option_word transports[] = {
    {"ipc", TRANSPORT_IPC}, {"tcp", TRANSPORT_TCP}, {NULL, 0}};

static const struct option_word restarts[] = {{"all", false}, {"rank", true}, {NULL, 0}};

static const struct option_word protos[] = {
    {"auto", -1}, {"ll", 0}, {"ll128", 1}, {"simple", 2}, {NULL, 0}};

static const struct option_word policies[] = {{"restart", WHATIF_RESTART},
					      {"shrink", WHATIF_SHRINK},
					      {"respawn", WHATIF_RESPAWN},
					      {"spare", WHATIF_SPARE},
					      {"all", -1},
					      {NULL, 0}};

static const struct option_word models[] = {{"gpt", 0}, {NULL, 0}};
static const struct option_word recomputes[] = {{"none", STEP_RECOMPUTE_NONE},
						{"selective", STEP_RECOMPUTE_SELECTIVE},
						{"full", STEP_RECOMPUTE_FULL},
						{NULL, 0}};
static const struct option_word halves[] = {{"bf16", GPUSIM_BF16}, {"f16", GPUSIM_F16}, {NULL, 0}};

#define NAMES_OF_TYPES	.names = dtype_name, .hi = GPUSIM_NDTYPES
#define NAMES_OF_REDOPS .names = redop_name, .hi = GPUSIM_NREDOPS

/* ---- the table */

static const struct option_row table[] = {
    {"device", "DEVICE", "index in `gpuctl devices`, or id; or --comm ID --rank RANK",
     AS_ANY_STRING(device)},
    {"comm", "ID", "id of the communicator", AS_U64(comm, 1, 0)},
    {"rank", "RANK", "rank in the communicator", AS_U32(rank, 0, UINT32_MAX)},
    {"peer", "RANK", "the other rank", AS_U32(peer, 0, UINT32_MAX)},
    {"addr", "ADDR[,...]", "buffer; for collectives one per rank, used in place",
     AS_ANY_STRING(addr)},
    {"send", "ADDR,...", "input buffers by rank; 0: the rank has none", AS_ANY_STRING(send)},
    {"recv", "ADDR,...", "output buffers by rank; 0: the rank has none", AS_ANY_STRING(recv)},
    {"count", "N", "number of elements; of one part where a vector has parts, as in NCCL",
     AS_U64(count, 0, 0)},
    {"counts", "N,...", "elements of each rank's part (alltoallv: matrix by rows), or a file",
     AS_ANY_STRING(counts)},
    {"displs", "N,...", "offset of each part in elements (default: after the previous part)",
     AS_ANY_STRING(displs)},
    {"recv-displs", "N,...", "offset of each received part in elements",
     AS_ANY_STRING(recv_displs)},
    {"bytes", "SIZE", "bytes to transfer, such as 4096 or 64K", AS_SIZE(nbytes)},
    {"type", "TYPE", "element type", AS_KIND(type), AT(dtype), NAMES_OF_TYPES},
    {"op", "OP", "reduction operation", AS_KIND(redop), AT(redop), NAMES_OF_REDOPS, DEFAULT("sum")},
    {"scalar", "X[,...]", "premulsum: the factor of each rank, or one for all",
     AS_ANY_STRING(scalar)},
    {"algo", "ALGO", "algorithm; `gpuctl plan --list` lists them", AS_ANY_STRING(algo)},
    {"algo-file", "FILE", "algorithm from a file, see gpusim-algo(5)", AS_ANY_STRING(algo_file)},
    {"replace", NULL, "replace an algorithm of the same name", AS_BOOL(replace)},
    {"deterministic", NULL, "give the same bits with every transport, algorithm and message size",
     AS_BOOL(deterministic)},
    {"verify", NULL, "recompute the results from the inputs, and report a wrong rank",
     AS_BOOL(verify)},
    {"root", "RANK", "root rank", AS_U32(root, 0, UINT32_MAX), DEFAULT("0")},
    {"chunk", "SIZE", "largest message in bytes, such as 64K", AS_BYTES(chunk)},
    {"chunk", "N", "largest message in elements", AS_U64(chunk, 1, 0), KEY("chunk-elems")},
    {"stream", "STREAM", "stream", AS_U64(stream, 0, 0), DEFAULT("0")},
    {"stream", "[STREAM]",
     "stream (default 0); without a number: process block after block until stdin ends",
     AS_KIND(streaming), AT(stream), .number_follows = true, KEY("streaming")},
    {"async", NULL, "return when the operation is queued; see `gpuctl wait`, `sync`",
     AS_BOOL(async), WAS("queue")},
    {NULL, "N", "number of devices or ranks", AS_U32(nranks, 1, LAUNCH_MAX_DEVICES), LETTER('n')},
    {NULL, "N", "number of ranks", AS_U32(nranks, 1, PLAN_MAX_RANKS), LETTER('n'), KEY("ranks")},
    {"raw", "TYPE", "read and write binary elements of this type, one rank after another",
     AS_KIND(type), AT(raw), NAMES_OF_TYPES},
    {"all", NULL, "print every rank's result; topo: all pairs", AS_BOOL(all)},
    {"json", NULL, "print one JSON object", AS_BOOL(json)},
    {"batch", NULL, "print one table after another as plain text", AS_BOOL(batch)},
    {"once", NULL, "print one table and exit", AS_BOOL(once)},
    {NULL, "N", "print N tables as plain text", AS_U64(times, 1, 0), LETTER('n'), KEY("tables")},
    {"interval", "TIME", "time between updates", AS_MS(interval_ms), LETTER('d'), DEFAULT("1s")},
    {"watch", NULL, "update when something happens, and at each interval", AS_BOOL(watch)},
    {"list", NULL, "list the possible names", AS_BOOL(list)},
    {"format", "FORM", "print steps, or a gpusim-algo(5) file as text or XML",
     AS_WORD(format, formats), DEFAULT("steps")},
    {"cluster", NULL, "print a cluster file that describes these devices instead",
     AS_BOOL(as_cluster), KEY("as-cluster")},
    {"calibrate", NULL, "print the measured cost of messages between these devices instead",
     AS_BOOL(calibrate)},
    {"gpus", "N", "number of the cluster's GPUs to use (default all)",
     AS_U32(nranks, 1, CLUSTER_MAX_GPUS), LETTER('n')},
    {"proto", "PROTOCOL", "NCCL protocol; auto: NCCL's choice", AS_WORD(proto, protos),
     DEFAULT("auto")},
    {"channels", "N", "number of NCCL channels (default: NCCL's choice)", AS_U32(channels, 1, 64)},
    {"explain", NULL, "show where the time goes", AS_BOOL(explain)},
    {"fit", NULL, "fit the cluster's constants to nccl-tests' tables, given as operands",
     AS_BOOL(fit)},
    {"simulate", NULL, "predict the time of each algorithm, in virtual time", AS_BOOL(simulate)},
    {NULL, "SIZE", "smallest size", AS_SIZE(min_bytes), LETTER('b'), DEFAULT("8")},
    {NULL, "SIZE", "largest size", AS_SIZE(max_bytes), LETTER('e'), DEFAULT("128M"),
     DEFAULT_NOTE("less if that does not fit")},
    {NULL, "N", "factor between sizes", AS_U64(factor, 2, 1u << 20), LETTER('f'), DEFAULT("2")},
    {"iters", "N", "timed operations per size", AS_U64(iters, 1, MAX_ITERS), DEFAULT("20")},
    {"warmup", "N", "warm-up operations per size", AS_U64(warmup, 0, MAX_ITERS), DEFAULT("5")},
    /* tune: enough to distinguish algorithms, within seconds */
    {NULL, "SIZE", "smallest size", AS_SIZE(min_bytes), LETTER('b'), DEFAULT("256"), KEY("tune-b")},
    {NULL, "SIZE", "largest size", AS_SIZE(max_bytes), LETTER('e'), DEFAULT("4M"), KEY("tune-e")},
    {NULL, "N", "factor between sizes", AS_U64(factor, 2, 1u << 20), LETTER('f'), DEFAULT("8"),
     KEY("tune-f")},
    {"iters", "N", "timed operations per size", AS_U64(iters, 1, MAX_ITERS), DEFAULT("10"),
     KEY("tune-iters")},
    {"warmup", "N", "warm-up operations per size", AS_U64(warmup, 0, MAX_ITERS), DEFAULT("3"),
     KEY("tune-warmup")},
    {"algo", "ALGO[,...]", "algorithms, measured one after another", AS_ANY_STRING(algo),
     KEY("algos")},
    {"plot", "FILE", "plot the bus bandwidth to FILE.svg or FILE.png; -: as text",
     AS_ANY_STRING(plot)},
    {"rewrite", NULL, "rewrite the inputs before each operation, outside the measured time",
     AS_BOOL(rewrite)},
    {"baseline", "FILE", "compare with an earlier output of --json", AS_ANY_STRING(baseline)},
    {"max-slowdown", "X", "exit with status 7 if a time exceeds X times the baseline's",
     AS_DOUBLE(max_slowdown, 0.001, 1e6)},
    {"each", NULL, "run the command once for each device, as its rank, as torchrun does",
     AS_BOOL(each)},
    {"torch", NULL,
     "as --each, and programs of torch.distributed use gpusim, also those that name gloo or nccl",
     AS_BOOL(torch)},
    {"procs", "1", "with --torch: one process, for a program that starts its ranks itself",
     AS_U32(procs, 1, 1)},
    {"max-restarts", "K", "after a failure start ranks again, up to K times",
     AS_U32(max_restarts, 0, 1000000)},
    {"restart", "WHO", "with --max-restarts: start all ranks again, or only the failed one",
     AS_WORD(restart_rank, restarts), DEFAULT("all")},
    {"inject", "FAULT", "inject faults, as `gpuctl inject` does, before the command starts",
     AS_ANY_STRING(inject)},
    {"label", NULL, "with --each: begin each line of output with \"RANK: \"", AS_BOOL(label)},
    {"nccl", NULL,
     "let programs written for NCCL find gpusim's libnccl and CUDA runtime; see gpusim-nccl(7)",
     AS_BOOL(nccl)},
    {"memcheck", NULL,
     "with --nccl: report wrong use of device memory, and exit with status 1 if there is any; "
     "with --json as one JSON object for each finding",
     AS_BOOL(memcheck)},
    {"mem", "SIZE", "memory of each device (default 256M; with --nccl 4G)", AS_BYTES(mem_bytes)},
    {"mem-file", "BASE", "keep the memory of device K in the file BASE.K", AS_ANY_STRING(mem_file)},
    {"recorder", "SIZE", "number of records kept for each stream of a device; 0: none",
     AS_STRING(recorder)},
    {"latency", "TIME", "delay of messages between devices, such as 5ms", AS_NS(latency_ns)},
    {"bandwidth", "RATE", "bits per second in and out of a device, such as 1Gb",
     AS_RATE(bits_per_s)},
    {"transport", "SOCKETS", "send data through sockets, not through shared memory",
     AS_WORD(transport, transports)},
    {"threads", "N", "BLAS threads of each device (default 1)", AS_U32(threads, 1, 1024)},
    {"kernels", "FILE", "load kernels from a shared object into all devices; may be repeated",
     AS_KIND(kernels)},
    {"pin", "CPUS", "give each device a CPU of its own", AS_WORD(pin, pins), DEFAULT("none")},
    {"op-timeout", "TIME", "longest wait without progress (default 30s)", AS_MS(op_timeout_ms)},
    {"start-timeout", "TIME", "longest wait until all devices are ready (default 10s)",
     AS_MS(start_timeout_ms)},
    {"http", "HOST:PORT",
     "address at which the coordinator serves its live page and the newest model",
     AS_ANY_STRING(http)},
    {"grpc", "HOST:PORT", "address of the lab's services; device K at PORT+1+K",
     AS_ANY_STRING(grpc)},
    {"insecure", NULL, "let --http and --grpc listen beyond loopback, without encryption",
     AS_BOOL(insecure)},
    {"allow-inject", NULL, "let `gpuctl inject` inject faults", AS_BOOL(allow_inject)},
    {"report-dir", "DIR", "keep failure reports in DIR (default ~/.local/state/gpusim), or none",
     AS_STRING(report_dir)},
    {"record", "DIR", "record into DIR everything that gpuctl replay needs", AS_ANY_STRING(record)},
    {"record-data", NULL, "with --record: record all inputs too, for bit-identical results",
     AS_BOOL(record_data)},
    {"trace", "FILE", "write a timeline of all operations and steps, as gpuctl trace does",
     AS_ANY_STRING(trace)},
    {"output", "FILE", "file to write; -: stdout", AS_ANY_STRING(output), LETTER('o'),
     DEFAULT("-")},
    {"report", "FILE", "use a report of the coordinator, not the current state",
     AS_ANY_STRING(report)},
    {"last", "TIME", "only records of the last TIME, such as 5s (default: all records)",
     AS_MS(last_ms)},
    {"compute-scale", "FACTOR", "execution traces: scale the time of compute nodes by FACTOR",
     AS_DOUBLE(compute_scale, 0, 1e6), DEFAULT("1")},
    {"seed", "N", "seed of random choices", AS_U64(seed, 0, 0), DEFAULT("1")},
    {"for", "TIME", "duration, such as 60s", AS_MS(for_ms)},
    {"cluster", "CLUSTER", "cluster file, or the name of a built-in cluster; see gpusim-cluster(5)",
     AS_STRING(cluster), LETTER('c')},
    {"params", "N", "training: parameters of the model, such as 8e9", AS_DOUBLE(params, 1, 1e15),
     DEFAULT("8e9")},
    {"parallel", "tp=T,pp=P,dp=D", "tensor-, pipeline- and data-parallel ranks",
     AS_ANY_STRING(parallel)},
    {"model", "MODEL", "step: the kind of model", AS_WORD(model, models), DEFAULT("gpt")},
    {"layers", "N", "step: transformer layers", AS_U32(step.layers, 1, 1000000)},
    {"hidden", "N", "step: size of the hidden state", AS_U32(step.hidden, 1, 10000000)},
    {"heads", "N", "step: attention heads", AS_U32(step.heads, 1, 1000000)},
    {"seq", "N", "step: tokens of a sequence", AS_U32(step.seq, 1, 100000000), DEFAULT("2048")},
    {"vocab", "N", "step: tokens of the vocabulary", AS_U32(step.vocab, 1, 100000000),
     DEFAULT("51200")},
    {"batch", "N", "step: sequences of the global batch", AS_U32(step.batch, 1, 1000000000),
     KEY("step-batch")},
    {"micro-batch", "N", "step: sequences of a microbatch", AS_U32(step.micro, 1, 1000000),
     DEFAULT("1")},
    {"interleave", "V", "step: stages of each pipeline rank", AS_U32(step.interleave, 1, 4096),
     DEFAULT("1")},
    {"schedule", "SCHEDULE",
     "step: the pipeline's schedule: a name of gpuctl pipeline make, or a file",
     AS_STRING(schedule), DEFAULT("1f1b")},
    {"zero", "STAGE", "step: sharded over dp: 1 optimizer state, 2 and gradients, 3 and parameters",
     AS_U32(step.zero, 0, 3), DEFAULT("0")},
    {"flat-gather", NULL, "step: ZeRO 3 with one flat collective a layer, as FSDP",
     AS_BOOL(step.flat)},
    {"recompute", "WHAT", "step: activations that are computed again, not kept",
     AS_WORD(step.recompute, recomputes), DEFAULT("full")},
    {"sequence-parallel", NULL, "step: split what lies between the tensor-parallel parts",
     AS_BOOL(step.sequence_parallel)},
    {"dtype", "TYPE", "step: type of parameters, gradients and activations",
     AS_WORD(step_dtype, halves), DEFAULT("bf16")},
    {"step-time", "TIME", "training: time of a step without communication", AS_MS(step_ms),
     DEFAULT("4s")},
    {"bucket", "SIZE", "training: bytes of gradients in one all-reduce", AS_BYTES(bucket),
     DEFAULT("25M")},
    {"overlap", "X", "fraction of communication that overlaps with computation (step: default 0)",
     AS_DOUBLE(overlap, 0, 1), DEFAULT("0.8")},
    {"fail-rate", "FILE", "training: failure rates: a file, or llama3 or rsc1",
     AS_STRING(fail_rate), DEFAULT("llama3")},
    {"detect-time", "TIME", "training: time from a failure to its detection", AS_MS(detect_ms),
     DEFAULT("30s")},
    {"restart-time", "TIME", "training: time from detection to the first step, from a checkpoint",
     AS_MS(restart_ms), DEFAULT("10m")},
    {"recover-time", "TIME", "training: the same, from the other ranks' memory", AS_MS(recover_ms),
     DEFAULT("30s")},
    {"repair-time", "TIME", "training: time to repair a failed host", AS_MS(repair_ms),
     DEFAULT("24h")},
    {"checkpoint-time", "TIME", "training: pause for each checkpoint", AS_MS(checkpoint_ms),
     DEFAULT("10s")},
    {"checkpoint", "TIME", "training: working time between checkpoints; auto: the best",
     AS_STRING(checkpoint), DEFAULT("auto")},
    {"policy", "POLICY", "training: recovery after a failure", AS_WORD(how, policies),
     DEFAULT("all")},
    {"spares", "K", "training: spare hosts that replace failed ones", AS_U32(spares, 0, 4000),
     DEFAULT("4"), KEY("spare-hosts")},
    {"days", "N", "training: duration in days", AS_DOUBLE(days, 0.01, 3650), DEFAULT("54")},
    {"plot", "FILE", "training: plot the goodput to FILE.svg or FILE.png; -: as text",
     AS_ANY_STRING(plot), KEY("plot-goodput")},
    {"tries", "N", "number of link-by-link searches", AS_U32(tries, 0, 1000), DEFAULT("8")},
    {"time-limit", "TIME", "stop the search after TIME, and use the best algorithm so far",
     AS_MS(time_limit_ms)},
    {NULL, "P", "number of ranks of the pipeline", AS_U32(pp, 1, PIPELINE_MAX_RANKS), LETTER('p')},
    {NULL, "M", "number of microbatches", AS_U32(micro, 1, PIPELINE_MAX_MICRO), LETTER('m')},
    {"memory", "K", "most microbatches in progress on a rank (default P)",
     AS_U32(pipe_memory, 1, PIPELINE_MAX_MICRO)},
    {"f", "TIME", "time of a forward pass, in any unit", AS_DOUBLE(costs.f, 0, 1e6), DEFAULT("1"),
     KEY("cost-f")},
    {"b", "TIME", "time of the gradient of a stage's input", AS_DOUBLE(costs.b, 0, 1e6),
     DEFAULT("1"), KEY("cost-b")},
    {"w", "TIME", "time of the gradients of a stage's weights", AS_DOUBLE(costs.w, 0, 1e6),
     DEFAULT("1"), KEY("cost-w")},
    {"comm", "TIME", "time from the end of a pass to the use of its value on another rank",
     AS_DOUBLE(costs.comm, 0, 1e6), DEFAULT("0"), KEY("cost-comm")},
    {"sends", NULL, "write sends and receives too", AS_BOOL(sends)},
    {"svg", NULL, "draw an SVG", AS_BOOL(svg)},
    {"rate", "RATE", "faults per second (0.5/s) or per operation (0.1/op)", AS_KIND(rate),
     AT(rate)},
    {"kinds", "KIND,...", "kinds of faults (default all)", AS_ANY_STRING(kinds)},
    {"ops", "N", "number of operations, instead of --for", AS_U64(ops, 1, UINT32_MAX)},
    {NULL, NULL, "daemons log more to stderr; twice: even more", AS_COUNT(verbose), LETTER('v')},
    {"grid", "dp=N,tp=N,pp=N", "the ranks as a grid, for topo, explain and the page",
     AS_STRING(grid)},
    {"on-failure", "POLICY", "recovery policy when a rank is lost",
     AS_NAME(on_failure, policy_name, GPUSIM_ON_FAILURE_SPARE + 1), DEFAULT("abort"),
     ENV("GPUSIM_ON_FAILURE")},
    {"spares", "K", "start K more devices, to replace lost ones", AS_U32(spares, 0, UINT32_MAX)},
    {"keys", "K,...", "sort key of each rank within its color (default 0)", AS_ANY_STRING(keys)},
    {"id", "ID", "id that `gpuctl unique-id` printed, the same for every rank", AS_ANY_STRING(id)},
    {"nranks", "N", "number of ranks that join with the id", AS_U32(job_ranks, 1, UINT32_MAX)},
    {"follow", NULL, "print new events as they happen", AS_BOOL(follow)},
    {"wait", "TIME", "wait up to TIME for devices that are in use", AS_MS(wait_ms)},
    ROW_HELP,
};
_Static_assert(NROWS(table) <= OPTION_MAX_ROWS, "OPTION_MAX_ROWS is too small");

static const struct option_set all = {.rows = table, .n = NROWS(table)};

bool
args_was_given(const struct args *a, size_t at)
{
	for (unsigned i = 0; i < all.n; i++)
		if (a->given[i] && table[i].at == at)
			return true;
	return false;
}

struct link_shape
args_links(const struct args *a)
{
	return (struct link_shape){(double)a->latency_ns / 1e3, (double)a->bits_per_s};
}

/* Find the rows that a verb's list of keys names; "!" after a key: the option is required. */
static enum rc
choose(const struct command *cmd, bool takes[], bool needs[], struct err *err)
{
	size_t len;

	for (const char *p = cmd->options; *p; p += len + strspn(p + len, "! ")) {
		char key[24];
		unsigned i;

		len = strcspn(p, "! ");
		snprintf(key, sizeof key, "%.*s", (int)len, p);
		i = option_row(&all, key);
		if (i == all.n)
			return err_set(err, RC_INTERNAL, "%s: '%s' is not a row of options",
				       cmd->name, key);
		takes[i] = true;
		needs[i] = p[len] == '!';
	}
	takes[all.n - 1] = true; /* -h */
	return RC_OK;
}

enum rc
args_rows(const struct command *cmd, struct option_row rows[OPTION_MAX_ROWS], unsigned *n,
	  struct err *err)
{
	bool takes[NROWS(table)] = {0}, needs[NROWS(table)] = {0};
	enum rc rc = choose(cmd, takes, needs, err);

	*n = 0;
	for (unsigned i = 0; i < all.n; i++)
		if (takes[i])
			rows[(*n)++] = table[i];
	return rc;
}

static enum rc
check(const struct command *cmd, const bool needs[], const char *without, const struct args *a,
      struct err *err)
{
	char word[48];

	for (unsigned i = 0; i < all.n; i++)
		if (needs[i] && !a->given[i] &&
		    (!without || !table[i].name || strcmp(table[i].name, without) != 0))
			return err_set(err, RC_INVAL, "%s %s is missing; usage: gpuctl %s %s",
				       option_spelled(&table[i], word), table[i].arg, cmd->name,
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
args_parse(const struct command *cmd, int argc, char **argv, const char *without, struct args *out,
	   struct err *err)
{
	bool takes[NROWS(table)] = {0}, needs[NROWS(table)] = {0};
	struct option_row rows[NROWS(table)];
	struct args a = {0};
	struct option_set set = {
	    .rows = rows, .n = all.n, .target = &a, .stops = cmd->max_rest == ARGS_COMMAND};
	enum option_ask ask;

	if (choose(cmd, takes, needs, err) != RC_OK)
		return ARGS_BAD;
	/* A row that the verb does not take sets its default, unless another row of its field is taken. */
	for (unsigned i = 0; i < all.n; i++) {
		rows[i] = table[i];
		if (!takes[i])
			rows[i].help = rows[i].env = NULL;
		for (unsigned k = 0; !takes[i] && k < all.n; k++)
			if (takes[k] && table[k].at == table[i].at)
				rows[i].dflt = NULL;
	}
	if (option_parse(&set, argc, argv, &ask, err) != RC_OK)
		return ARGS_BAD;
	if (ask != OPTION_RUN)
		return ask == OPTION_LIST ? ARGS_LIST : ARGS_HELP;
	for (unsigned i = 0; i < all.n; i++)
		a.given[i] = set.from[i].rank == OPTION_FROM_FLAGS;
	a.rest = set.operands;
	a.nrest = set.noperands;
	if (check(cmd, needs, without, &a, err) != RC_OK)
		return ARGS_BAD;
	*out = a;
	return ARGS_OK;
}
