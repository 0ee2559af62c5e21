/*
 * et.h - Chakra execution traces: the work of a training's ranks as graphs of nodes, one file a rank.
 *
 * A file is messages of Protocol Buffers, the length of each before it as a varint: one GlobalMetadata,
 * then Nodes. The reader uses these fields, by number, of a Node: 1 id, 2 name, 3 type, 4 control and 5
 * data dependencies, 7 duration in microseconds, 10 attributes; of an attribute: 1 name, and its value,
 * whose field number is the type (5, 7 and so on: numbers; 27 a bool, 29 a string). Other fields are
 * skipped. The format is MLCommons' (et_def.proto); the attributes are the ones that ASTRA-sim reads:
 * comm_type, comm_size, comm_src, comm_dst, comm_tag, pg_name, root, num_ops, is_cpu_op.
 */
#ifndef REPLAY_ET_H
#define REPLAY_ET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

#define ET_MAX_NODES (4u << 20) /* of one file */
#define ET_MAX_BYTES (1u << 30)
#define ET_MAX_RANKS 64
#define ET_NAME	     48
#define ET_NONE	     UINT32_MAX

enum et_type {
	ET_INVALID = 0,
	ET_METADATA = 1,
	ET_LOAD = 2,
	ET_STORE = 3,
	ET_COMP = 4,
	ET_SEND = 5,
	ET_RECV = 6,
	ET_COLL = 7,
	ET_NTYPES,
};

struct et_node {
	uint64_t id;
	uint8_t type; /* enum et_type */
	uint8_t coll; /* of ET_COLL: enum gpusim_coll */
	bool on_cpu;
	bool has_size, has_coll;
	uint32_t dep, ndeps; /* in et_trace.dep */
	uint64_t duration_us, num_ops;
	uint64_t nbytes; /* a collective: of a rank's input; send, recv: of the message */
	uint32_t src, dst, tag, root;
	uint32_t group; /* in et_job.group; ET_NONE: all ranks */
	/* collective: of its group; send, recv: of the pair of ranks. Set by et_check */
	uint32_t number;
	char name[ET_NAME];
};

struct et_trace {
	struct et_node *node;
	size_t nnodes;
	uint32_t *dep; /* nodes, by index once et_check has been called */
	uint64_t *dep_id;
	size_t ndeps;
};

struct et_group {
	char name[ET_NAME];
	uint32_t rank[ET_MAX_RANKS], nranks;
};

struct et_job {
	struct et_trace *rank;
	uint32_t nranks;
	struct et_group *group;
	size_t ngroups;
};

/* Read one rank's file from memory. RC_BADDATA with the position. Release with
 * et_job_fini, also after a failure. */
enum rc et_read(struct et_job *job, uint32_t rank, const void *data, size_t nbytes,
		struct err *err);

/*
 * et_check - check that the ranks' traces match; fill in the fields that say so above.
 *
 * RC_BADDATA: two nodes with one id; a dependency on a missing node; a cycle of dependencies;
 * collectives of a group, or sends and receives, that do not match.
 */
enum rc et_check(struct et_job *job, struct err *err);

void et_job_fini(struct et_job *job);

/* "all_reduce (node 5 of rank 2)" */
void et_say(uint32_t rank, const struct et_node *n, char *out, size_t size);

/* ---- playing */

struct et_row { /* a collective, or a send with its receive */
	const struct et_node *node;
	uint32_t rank;		     /* a rank that has the node */
	uint64_t first_ns, last_ns;  /* start of the first and of the last rank */
	uint64_t end_ns;	     /* end of the last rank */
	uint32_t began, ended, want; /* ranks */
};

struct et_config {
	struct gpusim *g;
	const struct gpusim_device *device; /* by rank */
	double compute_scale;
	uint32_t stuck_ms; /* longest time without progress */
};

struct et_result {
	struct et_row *row; /* in the order they began; the caller's to free */
	size_t nrows;
	uint64_t total_ns;
	uint64_t *compute_ns; /* by rank: waited for compute nodes; the caller's to free */
};

/* The size of the largest buffers of one rank, in bytes. */
uint64_t et_room(const struct et_job *job);

/*
 * et_play - run all nodes: collectives, sends and receives on the devices, the others by waiting.
 *
 * RC_FAILED: no progress, naming a node that waits; or a failed operation.
 */
enum rc et_play(const struct et_job *job, const struct et_config *cfg, struct et_result *out,
		struct err *err);

#endif
