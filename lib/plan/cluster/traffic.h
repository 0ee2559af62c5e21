/*
 * traffic.h - the time of an algorithm that NCCL's model does not know on a cluster: its messages on the
 * links. Pure.
 *
 * predict.h answers for NCCL's algorithms in closed form. Here plans go through flow.h: of algorithms that
 * gpusim has, of those from files, and of the schemes by which rings and trees are laid over a cluster
 * (scheme.h).
 */
#ifndef CLUSTER_TRAFFIC_H
#define CLUSTER_TRAFFIC_H

#include "cluster/flow.h"
#include "cluster/predict.h"
#include "coll/schedule.h"

#define TRAFFIC_MESSAGE	  (512u << 10) /* a chunk of NCCL's */
#define TRAFFIC_MAX_STEPS (1u << 21)   /* of all ranks that are simulated */

struct traffic_ask {
	enum gpusim_coll coll;
	uint32_t ngpus, root;
	uint64_t nelem;			 /* of the whole vector */
	size_t elem;			 /* bytes of an element */
	bool wide;			 /* partial sums are f32, elements shorter */
	const char *algo;		 /* of plan.h, or of scheme.h */
	const struct schedule *schedule; /* of a file, one a rank, instead of algo; NULL: none */
	enum cluster_proto proto;
	uint32_t channels; /* of a scheme; 0: two a NIC of a host */
};

struct traffic_answer {
	const char *algo;	    /* the caller's, or static; of a file NULL */
	double us, launch_us;	    /* launch_us is a part of us; report.us is the rest */
	uint32_t nranks, simulated; /* ranks; the others are as these */
	uint64_t message_bytes;	    /* the longest message; 0: parts are whole */
	uint32_t channels;
	struct cluster_bound bound; /* us 0: none is known */
	bool extrapolated;	    /* a part of the vector was simulated, and half of it */
	struct links links;	    /* that the report names by number */
};

/* Return true if the messages of this algorithm of the collective can be simulated. */
bool traffic_knows(enum gpusim_coll coll, const char *algo);

/*
 * traffic_time - simulate.
 *
 *	report	[out] or NULL; flow_report_fini releases
 *
 * Parts go whole, or in messages of 512, 128 or 32 KiB: whichever is the fastest. Of many ranks, where that
 * would be too many steps, shorter messages are not tried.
 * Errors: RC_INVAL the cluster has fewer GPUs, no such algorithm, one-sided steps, too many steps;
 * RC_INTERNAL the time is below its bound. (An extrapolated time is at least that.)
 */
enum rc traffic_time(const struct cluster *c, const struct traffic_ask *ask,
		     struct traffic_answer *out, struct flow_report *report, struct err *err);

/*
 * traffic_of_choice - the messages of what NCCL chose: a ring a rail, two trees a pair of channels, sends and
 * receives.
 *
 * Errors: as traffic_time; RC_INVAL switches reduce, which messages of GPUs do not show.
 */
enum rc traffic_of_choice(const struct cluster *c, const struct cluster_ask *ask,
			  const struct tuning_choice *choice, struct traffic_answer *out,
			  struct flow_report *report, struct err *err);

/* As traffic_time, for given plans of all ranks of a cluster, with blocks that share a GPU's reductions. */
enum rc traffic_plans(const struct cluster *c, const struct flow_plans *p, enum cluster_proto proto,
		      struct traffic_answer *out, struct flow_report *report, struct err *err);

#endif
