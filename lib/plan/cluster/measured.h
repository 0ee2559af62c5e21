/*
 * measured.h - tables from nccl-tests, and a cluster's constants fitted to them. Pure.
 */
#ifndef CLUSTER_MEASURED_H
#define CLUSTER_MEASURED_H

#include "cluster/predict.h"

#define MEASURED_MAX_POINTS 256
#define MEASURED_MAX_BYTES  (1u << 20)		/* of a table's text */
#define MEASURED_LARGE	    (16.0 * (1u << 20)) /* sizes from here on are large */

struct measured {
	char name[80];
	enum gpusim_coll coll;
	uint32_t ngpus;
	uint32_t npoints;
	double size[MEASURED_MAX_POINTS], us[MEASURED_MAX_POINTS]; /* out of place */
};

/*
 * measured_read - parse a table of nccl-tests, of any version, or columns size, time, algbw, busbw.
 *
 *	name	of the file; gives the collective if the text does not
 *	ngpus	0: from the text
 *
 * A row is recognised by its numbers: size / time is algbw. The collective is that of the line "#
 * Collective test starting: ..", "# collective: ..", or "# NAME nRanks N"; else of the name; else what
 * type, redop, root and busbw / algbw leave. Errors: RC_BADDATA.
 */
enum rc measured_read(const char *text, const char *name, uint32_t ngpus, struct measured *out,
		      struct err *err);

/*
 * measured_median - of measured / predicted times, or of errors |predicted / measured - 1|, below 16 MiB or
 * from there on.
 *
 *	last	[out] or NULL: the prediction of the last of these sizes
 *
 * NAN: there are no such sizes, or the cluster has too few GPUs.
 */
double measured_median(const struct measured *m, const struct cluster *c, bool large, bool error,
		       struct cluster_answer *last);

enum { MEASURED_CONSTANTS = 7 };

struct measured_constant {
	const char *name, *unit;
	double was, now; /* of latencies those of Simple; those of LL and LL128 change as much */
	bool told;	 /* false: the tables do not determine it; now is was */
};

struct measured_fit {
	struct cluster c;
	struct measured_constant constant[MEASURED_CONSTANTS];
	/* All tables have one number of GPUs: launch and latency cannot be separated */
	bool one_number;
};

/* Errors: RC_INVAL a table has more GPUs than the cluster, or is impossible on it. */
enum rc measured_fit(const struct measured *table, size_t n, const struct cluster *c,
		     struct measured_fit *out, struct err *err);

#endif
