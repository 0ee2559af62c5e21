/*
 * chaos.h - random collectives under random faults, each result compared with one computed on the host.
 *
 * Operations and faults depend on the seed and their number alone, so a seed repeats the schedule; the
 * state that a fault meets may differ.
 */
#ifndef CHAOS_CHAOS_H
#define CHAOS_CHAOS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

#define CHAOS_MAX_RANKS 64
#define CHAOS_NKINDS	GPUSIM_FAULT_FLIP /* without flip, which makes wrong results */
#define CHAOS_ALL_KINDS ((1u << CHAOS_NKINDS) - 1)

enum chaos_event {
	CHAOS_OPERATION, /* an operation begins */
	CHAOS_FAULT,	 /* a fault was injected, skipped or missed */
	CHAOS_DETAIL,	 /* a recovery, a failure, a fault without effect */
	CHAOS_ALARM,	 /* a wrong result, or an operation that was stuck */
};

/* Borrowed until chaos_run returns. */
struct chaos_config {
	struct gpusim *g;    /* for operations; its timeout is bound_ms */
	struct gpusim *side; /* for faults and memory; chaos_run shortens its timeout */
	struct gpusim_comm_config comm;
	uint32_t nranks; /* 2..CHAOS_MAX_RANKS, fewer when devices are lost */
	unsigned kinds;	 /* 1 << enum gpusim_fault_kind, at least one */
	uint64_t seed;
	uint64_t nops; /* 0: by time */
	uint64_t for_ms;
	double rate; /* faults a second, or, rate_by_op, an operation */
	bool rate_by_op;
	uint64_t bound_ms; /* an operation that takes longer is stuck */
	/* A sentence without a newline, from one thread at a time. NULL: no reports. */
	void (*say)(void *arg, enum chaos_event event, const char *sentence);
	void *arg;
};

/* The resources of a daemon of this host; all zero when they cannot be read. */
struct chaos_usage {
	uint32_t pid; /* 0: ended */
	unsigned fds, threads;
	uint64_t kib; /* private memory */
};

struct chaos_daemon {
	struct gpusim_device device; /* 0: the coordinator */
	struct chaos_usage before, after;
};

struct chaos_report {
	uint64_t ops, good, failed, wrong, stuck, recovered, ncomms;
	uint64_t did[GPUSIM_NFAULTS]; /* faults injected */
	uint64_t missed,
	    skipped; /* faults without a victim; that would have left fewer than 2 devices */
	uint64_t slowest_ns;
	struct chaos_daemon *daemons;
	size_t ndaemons;
};

/*
 * chaos_run - operations under faults, nops of them or for for_ms.
 *
 *	out	[out] release with chaos_report_fini; also filled on failure, as far as it came
 *
 * Wrong results and stuck operations are counted; they are not errors. RC_INVAL: counts, kinds.
 * RC_FAILED: daemons that are not injectable, fewer than two devices that answer.
 */
enum rc chaos_run(const struct chaos_config *cfg, struct chaos_report *out, struct err *err);
void chaos_report_fini(struct chaos_report *r);

#endif
