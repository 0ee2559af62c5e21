/*
 * synth.h - the search for an algorithm that is fast on given links. Pure.
 *
 * Candidates come from families with parameters (family.h), from a search link by link (greedy.h), and from
 * the built-in algorithms. Each is timed by the simulator of lib/plan/cluster, or on gpusim's own links by that of
 * lib/plan/coll; the fastest are also tried in slices. The best one is written as text, read again, and proven.
 */
#ifndef SYNTH_SYNTH_H
#define SYNTH_SYNTH_H

#include "algo/algo.h"
#include "cluster/links.h"
#include "synth/draft.h"

#define SYNTH_MAX_RANKS	 1024u
#define SYNTH_GREEDY_MAX 24u /* most ranks for the search link by link */

struct synth_ask {
	/* Allreduce, allgather, reducescatter, alltoall, broadcast, reduce */
	enum gpusim_coll coll;
	uint32_t nranks, root;
	uint32_t group;	 /* ranks of a domain; nranks: one domain */
	uint64_t nbytes; /* of the vector, of f32 */
	bool any_chunk;	 /* messages may also be whole; else gpuctl's default size */
	/* Simulate gpusim's devices on equal links, with these costs; NULL: flows on the links of a
	 * cluster. */
	const struct cost_model *device;
	struct link_shape shape; /* of those equal links */
	uint64_t seed;
	uint32_t tries;		  /* of the search link by link */
	bool (*go_on)(void *arg); /* false ends the search; NULL: search to the end */
	void *arg;
};

/* A timed algorithm. */
struct synth_row {
	char name[ALGO_NAME_MAX];
	double us;
	bool builtin;
};

struct synth_result {
	struct synth_row *row; /* built-in ones, and files as they would run; the fastest first */
	size_t nrow, cap;
	size_t tried;			/* drafts */
	struct synth_row best, builtin; /* builtin: the best of them; us INFINITY: there is none */
	struct buf text;		/* the best as a file; it has been proven */
	struct proof proof;
};

/*
 * synth_search - find, time, prove and write an algorithm.
 *
 *	out	[out] to release with synth_fini
 *
 * The same question has the same answer, unless go_on ends it early. Errors: RC_INVAL a collective or a
 * number of ranks that it cannot do; RC_INTERNAL the proof rejects the best one (a defect of this
 * room).
 */
enum rc synth_search(const struct synth_ask *ask, const struct links *links,
		     struct synth_result *out, struct err *err);

/* Return true if a built-in algorithm is faster than all files. The result still has the best file. */
bool synth_builtin_wins(const struct synth_result *r);
void synth_fini(struct synth_result *r);

#endif
