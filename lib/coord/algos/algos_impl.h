/*
 * algos_impl.h - what the files of this room share. Nobody else includes it.
 */
#ifndef COORD_ALGOS_IMPL_H
#define COORD_ALGOS_IMPL_H

#include "algo/algo.h"
#include "coord/algos/algos.h"

/* A client that keeps a leased algorithm here. */
struct holder {
	uint64_t client, gone_ms;
	bool gone;
};

/* tune_file.of of one that is kept. */
struct kept {
	GpuSim__AlgoInfo info; /* its strings are the two below */
	char name[TUNE_FILE_NAME], digest[17];
	uint64_t id, schedules; /* of the schedules: their digest */
	bool recorded;		/* its file is in the recording */
	bool configured;	/* given before the first step, and never by a client */
	struct buf *schedule;	/* by rank */
	size_t nbytes;		/* of those */
	struct holder *holder;	/* none: it stays until it is removed */
	size_t nholders;
};

/* A file that comes in pieces, and then waits for its proof. Its memory grows with what has come. */
struct upload {
	uint64_t client; /* 0: none */
	uint64_t nbytes;
	struct buf bytes;
	/* Complete: */
	uint64_t job;
	struct buf ask; /* for coord_prove; empty: it is at work */
	bool gone;
};

/* An algorithm on its way from a file to here. */
struct coord_proof {
	GpuSim__AlgoPutRequest *ask; /* with the whole file; NULL: no memory */
	struct err err;		     /* RC_OK: it is good */
	struct kept *kept;
};

struct algos {
	struct tune_files files; /* sorted by name */
	size_t nbytes;		 /* of all schedules */
	uint64_t last_id, last_job;
	uint64_t proving; /* that job is at work; 0: none is */
	struct upload upload[COORD_ALGO_UPLOADS];
};

/* Take *k in, under its name and in the place of one that has it; its memory is the room's then. RC_BUSY, RC_NOMEM:
 * *k is the caller's still. */
enum rc algos_keep(struct coord *c, struct kept *k, struct err *err);
/* The upload is not wanted any more. What is at work goes when it is done. */
void upload_end(struct upload *u);
void kept_free(struct kept *k);
/* Add the client to those that keep it; client 0: it stays. False: out of memory. */
bool kept_hold(const struct coord *c, struct kept *k, uint64_t client);
void algo_record(struct coord *c, const struct kept *k);
void algo_unrecord(struct coord *c, const struct kept *k);

#endif
