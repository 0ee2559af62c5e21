/*
 * run.h - operations: submit, number, run on all ranks, repeat after a recovery.
 */
#ifndef COORD_RUN_H
#define COORD_RUN_H

#include "coord/comm/comm.h"

enum rc runs_init(struct coord *c);
void runs_fini(struct coord *c);
extern const struct comm_hooks run_comm_hooks;

/* Requests wait for the end of a run, by its id; for a graph to be made or dropped. */
extern const struct wait wait_run, wait_graph;

/* Submit, or append to the client's open group. wait: the request may wait for the end; else answer it with
 * *operation, the first operation's number. */
enum rc comm_submit(struct coord *c, struct comm *comm, const GpuSim__SubmitRequest *s,
		    struct pending *p, bool wait, uint64_t *operation, struct err *err);
/* The number of a communicator's collectives so far. */
uint64_t runs_operations(const struct comm *comm);
/* A client has disconnected, or connected again: its open groups wait for it for a limited time. */
void groups_client_is(struct coord *c, uint64_t client_id, bool gone);
void groups_tick(struct coord *c);

/* ---- gist.c: summarize operations that wait or run into s, as far as they fit */

struct work_room {
	GpuSim__Work **work; /* nwork of them, of which n are used */
	size_t n, nwork;
	uint32_t *rank; /* the same for ranks */
	size_t k, nrank;
};

void work_show(const struct coord *c, const struct comm *comm, struct work_room *room,
	       GpuSim__CommSummary *s);

/* ---- records */

/* Store changes of a communicator's operations, except runs. */
void runs_record(struct coord *c, struct comm *comm);
/* Reserved numbers: of a communicator's collectives; of runs and graphs. */
uint64_t runs_reserve(const struct comm *comm);
void runs_reserve_numbers(struct coord *c, uint64_t *last_number, uint64_t *last_graph);
/* From records. */
void runs_restore_numbers(struct coord *c, uint64_t last_number, uint64_t last_graph);
void runs_restore_seq(struct comm *comm, uint64_t next_seq);
restore_record ops_restore, pairs_restore, graph_restore, run_restore;
/* After a restart: for a recovering communicator, before comm_resume; for a live one, after it. */
void runs_resume_failed(struct comm *comm);
void runs_resume_live(struct coord *c, struct comm *comm);

handler on_submit, on_group_start, on_group_end, on_graph_create, on_graph_launch, on_graph_destroy;

#endif
