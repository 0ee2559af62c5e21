/*
 * simulate_table.h - print nccl-tests' table of a simulated cluster, as text or JSON on stdout.
 */
#ifndef GPUCTL_SIMULATE_TABLE_H
#define GPUCTL_SIMULATE_TABLE_H

#include "algo/algo.h"
#include "args.h"
#include "base/json.h"
#include "cluster/predict.h"
#include "cluster/traffic.h"

/* The table, and all that its rows need. */
struct table {
	const struct args *a;
	struct cluster c;
	struct cluster_ask ask; /* for NCCL's model */
	enum gpusim_dtype dtype;
	const char *coll;		 /* its name in the table */
	const char *algo;		 /* simulated on the links; NULL: NCCL's model answers */
	const struct schedule *schedule; /* of the file that `algo` names; NULL: built in */
	/* A file's algorithm that is not of a known collective; else NULL */
	const struct algo *custom;
	uint64_t nrows;
	double busbw;	  /* sum of all rows */
	struct json json; /* with --json */
};

/* One size, timed by NCCL's model or by the links. */
struct row {
	uint64_t size, count;
	double us;
	const char *algo, *proto;
	uint32_t channels;
	struct cluster_bound bound;
	struct cluster_bar bar;	       /* factors of us: the range of about 80 % of measurements */
	struct cluster_answer model;   /* us 0: none */
	struct traffic_answer traffic; /* algo NULL: none */
	struct flow_report report;     /* of traffic */
};

/* Round a size as nccl-tests do: parts are multiples of 16 bytes, vectors of an element. */
uint64_t table_size(const struct table *t, uint64_t nbytes, uint64_t *count);

/* Print a row, and the head before the first one. */
void table_row(struct table *t, const struct row *row);
void table_end(struct table *t);

/* Explain the time of simulated messages: comment lines below the row; keys in its object. */
void explain_traffic(const struct traffic_answer *t, const struct flow_report *r);
void explain_traffic_json(struct json *j, const struct traffic_answer *t,
			  const struct flow_report *r);

#endif
