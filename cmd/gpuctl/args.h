/*
 * args.h - the options of all verbs: one table, so that an option means the same everywhere and
 * parsing, help and completion agree.
 */
#ifndef GPUCTL_ARGS_H
#define GPUCTL_ARGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/rc.h"

enum opt_id {
	OPT_DEVICE,
	OPT_COMM,
	OPT_RANK,
	OPT_PEER,
	OPT_ADDR,
	OPT_SEND,
	OPT_RECV,
	OPT_COUNT,
	OPT_BYTES,
	OPT_TYPE,
	OPT_OP,
	OPT_ALGO,
	OPT_ROOT,
	OPT_CHUNK,
	OPT_CHUNK_ELEMS,
	OPT_STREAM,
	OPT_QUEUE,
	OPT_RANKS,
	OPT_RAW,
	OPT_ALL,
	OPT_JSON,
	OPT_LIST,
	OPT_SIMULATE,
	OPT_MIN_BYTES,
	OPT_MAX_BYTES,
	OPT_FACTOR,
	OPT_ITERS,
	OPT_WARMUP,
	OPT_REWRITE,
	OPT_BASELINE,
	OPT_MAX_SLOWDOWN,
	OPT_MEM,
	OPT_MEM_FILE,
	OPT_LATENCY,
	OPT_BANDWIDTH,
	OPT_TRANSPORT,
	OPT_THREADS,
	OPT_KERNELS,
	OPT_PIN,
	OPT_OP_TIMEOUT,
	OPT_START_TIMEOUT,
	OPT_VERBOSE,
	OPT_ALLOW_INJECT,
	OPT_HTTP,
	OPT_GRPC,
	OPT_SEED,
	OPT_FOR,
	OPT_RATE,
	OPT_KINDS,
	OPT_OPS,
	OPT_ON_FAILURE,
	OPT_SPARES,
	OPT_KEYS,
	OPT_ID,
	OPT_NRANKS,
	OPT_WAIT,
	OPT_STREAMING, /* --stream without a number */
	OPT_FOLLOW,
	OPT_NUMBER, /* how many there are */
};

#define OPT(name)    (UINT64_C(1) << OPT_##name)
#define ARGS_COMMAND (-1) /* as max_rest: options end at the first operand, any number follow */

#define ARGS_MAX_KERNELS 16

/* What was given; every field holds its default until its option comes. Strings are borrowed. */
struct args {
	uint64_t given;			/* OPT() of what came */
	const char *device;		/* see target.h */
	const char *addr, *send, *recv; /* addresses by rank, with commas */
	const char *algo;		/* NULL: the default */
	uint64_t comm, count, nbytes, chunk, stream;
	uint32_t rank, peer, root, nranks;
	enum gpusim_dtype dtype; /* of --type or --raw; f64 */
	enum gpusim_redop redop; /* sum */
	uint64_t min_bytes, max_bytes, factor, iters, warmup;
	const char *baseline;
	const char *kinds; /* of faults, with commas */
	uint64_t seed, ops;
	double rate;	 /* faults a second, or */
	bool rate_by_op; /* an operation */
	double max_slowdown;
	const char *mem, *mem_file, *latency, *bandwidth, *transport, *threads, *pin, *op_timeout,
	    *http, *grpc;
	uint32_t start_timeout_ms, op_timeout_ms, for_ms, wait_ms; /* 0: not given */
	enum gpusim_on_failure on_failure;			   /* see cli_config */
	uint32_t spares;
	const char *kernels[ARGS_MAX_KERNELS]; /* files */
	size_t nkernels;
	const char *keys;
	const char *id;
	uint32_t job_ranks; /* of --nranks */
	unsigned verbose;
	char **rest; /* operands, NULL-terminated */
	int nrest;
};

struct command;

static inline bool
args_has(const struct args *a, uint64_t opts)
{
	return (a->given & opts) != 0;
}

enum args_result { ARGS_OK, ARGS_HELP, ARGS_BAD };

/*
 * args_parse - what follows a verb.
 *
 *	argv	argv[0] is the verb; NULL-terminated, permuted; what *out borrows
 *	without	OPT() of needed options that may be missing after all
 *	out	[out] filled on ARGS_OK
 *
 * ARGS_HELP: -h was among them. ARGS_BAD: *err says what is wrong.
 */
enum args_result args_parse(const struct command *cmd, int argc, char **argv, uint64_t without,
			    struct args *out, struct err *err);

/* The name of a policy; RC_INVAL. */
enum rc on_failure_parse(const char *text, enum gpusim_on_failure *out, struct err *err);

/* One line an option: what it is and means, to f. */
void args_help(uint64_t options, FILE *f);

struct args_option {
	char word[32];	   /* as it is typed: "--device", "-n" */
	const char *value; /* what the table calls its value: "DEVICE"; NULL: it has none */
	const char *help;
};

/* The next option of the set from *i on, which moves behind it; begin with 0. False: there is no more. */
bool args_option(uint64_t options, int *i, struct args_option *out);

#endif
