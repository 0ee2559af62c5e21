/*
 * whatif.h - a training on a cluster whose devices fail, in virtual time. Pure.
 *
 * Times are seconds. Failures of a kind come at random and independently, at a rate for each host; one
 * stops the training. The training then detects it, continues by its policy, and repeats the lost work.
 */
#ifndef WHATIF_WHATIF_H
#define WHATIF_WHATIF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

#define WHATIF_MAX_KINDS 32
#define WHATIF_NAME	 40
#define WHATIF_SEEDS	 8 /* from the given one on, over which a search takes the mean */

/* A kind of failure and its rate. */
struct whatif_kind {
	char name[WHATIF_NAME];
	double per_host_day; /* failures of one host in a day */
};

struct whatif_rates {
	char name[WHATIF_NAME];
	char source[200]; /* for display */
	struct whatif_kind kind[WHATIF_MAX_KINDS];
	size_t nkinds;
};

/*
 * How a training continues.
 *
 *	restart	all ranks start again from the last checkpoint
 *	shrink	without the failed host, from memory, until it is repaired
 *	respawn	the failed host's processes start again on it; state comes from the other ranks' memory
 *	spare	a spare host takes its place, if there is one; else as restart, when a host has been repaired
 */
enum whatif_policy {
	WHATIF_RESTART,
	WHATIF_SHRINK,
	WHATIF_RESPAWN,
	WHATIF_SPARE,
	WHATIF_NPOLICIES
};

struct whatif {
	const struct whatif_rates *rates;
	uint32_t hosts;
	double seconds; /* of the clock */
	double step_s;	/* of a training's step; failures lose the step that they interrupt */
	/* From a failure to its detection; from there to the first step of a restart. */
	double detect_s, restart_s;
	double recover_s;    /* likewise for a recovery from memory: shrink, respawn, spare */
	double checkpoint_s; /* the training is stopped for a checkpoint */
	double interval_s;   /* of work between checkpoints; 0: the best one by Daly */
	double repair_s;     /* of a host */
	enum whatif_policy policy;
	uint32_t spares;
	uint64_t seed;
};

struct whatif_answer {
	double interval_s;
	double failures, mtbf_s; /* expected */
	uint64_t happened;	 /* in the simulation */
	double goodput; /* useful time of all hosts, as a share of the clock, as are the next */
	double lost_detect, lost_restart, lost_again, lost_checkpoint, lost_hosts;
	double lost_kind[WHATIF_MAX_KINDS]; /* of failures of a kind, shares */
	uint64_t count_kind[WHATIF_MAX_KINDS];
};

/* "restart" ...; NULL: no such policy. */
const char *whatif_policy_name(unsigned policy);

/*
 * whatif_rates_read - parse a file of rates: INI with
 *
 *	source = words
 *	[failures]			a kind and its number, in hosts x days:
 *	hosts = 2048
 *	days = 54
 *	faulty GPU = 148
 *
 * Errors: RC_INVAL "FILE:LINE: reason".
 */
enum rc whatif_rates_read(const char *text, const char *name, struct whatif_rates *out,
			  struct err *err);

/* Failures a second of all hosts. */
double whatif_rate(const struct whatif_rates *r, uint32_t hosts);

/* The best interval of work between checkpoints: Young 1974, Daly 2006 (doi:10.1016/j.future.2004.11.016). */
double whatif_young(double checkpoint_s, double mtbf_s);
double whatif_daly(double checkpoint_s, double mtbf_s);

/* Run it. The same arguments give the same answer. RC_INVAL an invalid time. */
enum rc whatif_run(const struct whatif *w, struct whatif_answer *out, struct err *err);

/* The interval with the most goodput under restart, within a quarter of a doubling; w->interval_s is
 * ignored. */
enum rc whatif_best_interval(const struct whatif *w, double *interval_s, struct err *err);

/* The number of spares with the most goodput per paid host, including spares; w->spares is ignored. Tries
 * up to the number of hosts that can be away at a time. */
enum rc whatif_best_spares(const struct whatif *w, uint32_t *spares, struct err *err);

#endif
