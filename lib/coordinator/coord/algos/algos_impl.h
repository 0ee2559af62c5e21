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

/* tune_file.of of a kept algorithm. */
struct kept {
	GpuSim__AlgoInfo info; /* its strings point at the two below */
	char name[TUNE_FILE_NAME], digest[17];
	uint64_t id, schedules; /* schedules: their digest */
	bool recorded;		/* its file is in the recording */
	bool configured;	/* from the configuration, never from a client */
	struct buf *schedule;	/* by rank */
	size_t nbytes;		/* of all schedules */
	struct holder *holder;	/* clients with a lease; none: kept until removed */
	size_t nholders;
};

/* A file that arrives in pieces and then waits for its proof. Its memory grows with the bytes received. */
struct upload {
	uint64_t client; /* 0: none */
	uint64_t nbytes;
	struct buf bytes;
	/* Complete: */
	uint64_t job;
	struct buf ask; /* for coord_prove; empty: the proof is running */
	bool gone;
};

/* An algorithm on its way from a file to here. */
struct coord_proof {
	GpuSim__AlgoPutRequest *ask; /* with the whole file; NULL: no memory */
	struct err err;		     /* RC_OK: verified */
	struct kept *kept;
};

struct algos {
	struct tune_files files; /* sorted by name */
	size_t nbytes;		 /* of all schedules */
	uint64_t last_id, last_job;
	uint64_t proving; /* the job that runs; 0: none */
	struct upload upload[COORD_ALGO_UPLOADS];
};

/* Add *k under its name, in place of one of that name; the room then owns its memory. On RC_BUSY and
 * RC_NOMEM the caller keeps *k. */
enum rc algos_keep(struct coord *c, struct kept *k, struct err *err);
/* Drop the upload. A running proof is freed when it ends. */
void upload_end(struct upload *u);
void kept_free(struct kept *k);
/* Add the client to the holders of the lease; client 0: no lease. False: out of memory. */
bool kept_hold(const struct coord *c, struct kept *k, uint64_t client);
void algo_record(struct coord *c, const struct kept *k);

#endif
