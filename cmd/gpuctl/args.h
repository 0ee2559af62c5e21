/*
 * args.h - the options of all verbs: one table, so that an option means the same everywhere. A verb's row in
 * verbs.inc names the options that it takes.
 */
#ifndef GPUCTL_ARGS_H
#define GPUCTL_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/option.h"
#include "coll/simulate.h"
#include "gpusim.h"
#include "pipeline/pipeline.h"
#include "step/step.h"

#define ARGS_COMMAND (-1) /* as max_rest: options end at the first operand, any number follow */

#define ARGS_MAX_KERNELS 16

enum { PIN_NONE, PIN_AUTO };
enum { PLAN_AS_STEPS, PLAN_AS_TEXT, PLAN_AS_XML };
enum { TRANSPORT_DEFAULT, TRANSPORT_IPC, TRANSPORT_TCP };

/* The values given; a field without a default is 0 until its option comes. Strings are borrowed. */
struct args {
	bool given[OPTION_MAX_ROWS];	/* by row; see args_given */
	const char *device;		/* see cli.h */
	const char *addr, *send, *recv; /* addresses by rank, with commas */
	const char *algo;		/* NULL: the default */
	const char *algo_file;		/* of an algorithm */
	bool deterministic, verify;
	const char *counts, *displs, *recv_displs; /* of parts; or files that have them */
	const char *scalar; /* factors of premulsum by rank, with commas; or one */
	uint64_t comm, count, nbytes, chunk, stream;
	uint32_t rank, peer, root, nranks;
	enum gpusim_dtype dtype; /* of --type or --raw; f64 */
	bool typed;		 /* --type or --raw was given */
	enum gpusim_redop redop;
	bool async, streaming, raw, all, json, batch, once, watch, list, simulate, follow, rewrite,
	    allow_inject, insecure, nccl, memcheck, each, label, torch, replace;
	uint32_t procs, max_restarts;
	int restart_rank;     /* else all ranks */
	const char *inject;   /* faults, as operands of the verb inject */
	uint64_t times;	      /* tables of top; 0: no end */
	uint32_t interval_ms; /* between updates */
	uint64_t min_bytes, max_bytes, factor, iters, warmup;
	const char *baseline, *plot;
	int proto; /* enum cluster_proto; -1: NCCL's choice */
	uint32_t channels;
	bool explain, fit, as_cluster, calibrate;
	const char *kinds; /* of faults, with commas */
	uint64_t seed, ops;
	double rate;	 /* faults per second, or */
	bool rate_by_op; /* per operation */
	double max_slowdown;
	uint64_t mem_bytes, latency_ns, bits_per_s;
	const char *recorder;
	const char *record; /* folder */
	const char *report_dir;
	bool record_data;
	double compute_scale; /* of execution traces */
	const char *mem_file, *http, *grpc;
	uint32_t threads;
	int pin, transport, format;
	uint32_t start_timeout_ms, op_timeout_ms, for_ms, wait_ms;
	enum gpusim_on_failure on_failure; /* else $GPUSIM_ON_FAILURE */
	uint32_t spares;
	const char *kernels[ARGS_MAX_KERNELS]; /* files */
	size_t nkernels;
	const char *keys;
	const char *id;
	const char *grid;
	uint32_t job_ranks;		     /* of --nranks */
	const char *output, *report, *trace; /* files */
	const char *cluster;		     /* file or name */
	uint32_t tries, time_limit_ms;
	/* of simulate training */
	double params, overlap, days;
	uint64_t bucket;
	const char *fail_rate, *checkpoint, *parallel;
	uint32_t step_ms, detect_ms, restart_ms, recover_ms, repair_ms, checkpoint_ms;
	int how; /* enum whatif_policy; -1: all */
	/* of simulate step, and of training in place of a time; tp, pp, dp are in parallel */
	struct step_ask step;
	const char *schedule;
	int model, step_dtype; /* one word; bf16 and f16 cost the same */
	uint32_t last_ms;
	/* of pipeline */
	uint32_t pp, micro, pipe_memory;
	struct pipeline_costs costs;
	bool sends, svg;
	unsigned verbose;
	char **rest; /* operands, NULL-terminated */
	int nrest;
};

struct command;

/* Return true if an option that sets the field was on the command line; for fields where 0 is a value. */
#define args_given(a, field) args_was_given(a, offsetof(struct args, field))
bool args_was_given(const struct args *a, size_t at);

/* The links that --latency and --bandwidth describe. */
struct link_shape args_links(const struct args *a);

enum args_result { ARGS_OK, ARGS_HELP, ARGS_LIST, ARGS_BAD };

/*
 * args_parse - parse what follows a verb.
 *
 *	argv	argv[0] is the verb; NULL-terminated, permuted; *out borrows its strings
 *	without	a required option that may be missing here; NULL: none
 *	out	[out] filled on ARGS_OK
 *
 * ARGS_HELP: -h was among them, ARGS_LIST: --help-options. ARGS_BAD: *err has the error.
 */
enum args_result args_parse(const struct command *cmd, int argc, char **argv, const char *without,
			    struct args *out, struct err *err);

/* The options of a verb, -h last, as a table of their own; it borrows static text. RC_INTERNAL: the verb's
 * row names an unknown option. */
enum rc args_rows(const struct command *cmd, struct option_row rows[OPTION_MAX_ROWS], unsigned *n,
		  struct err *err);

#endif
