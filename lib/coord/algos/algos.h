/*
 * algos.h - algorithms from files that the coordinator keeps by name, for calls, tuner files and GPUSIM_ALGO.
 *
 * Each was parsed, proven and lowered when it came (lib/algo): a client's beside the steps, one after the other. What is kept is every rank's schedule, packed as a run
 * carries it: to run, recover and restart need no more.
 */
#ifndef COORD_ALGOS_H
#define COORD_ALGOS_H

#include "coord/core/pending.h"

#define ALGO_KEY "1/algo/" /* and its name: the key of a record */

enum rc algos_init(struct coord *c);
void algos_fini(struct coord *c);

/* All of them, for tuner_choose. Valid until the step ends. */
const struct tune_files *algos_files(const struct coord *c);
/* A rank's packed schedule (Coll.schedule). Borrowed until the step ends. */
const struct buf *algo_schedule(const struct tune_file *f, uint32_t rank);
/* A number that no other algorithm has or had, nor the one before of the same name. */
uint64_t algo_id(const struct tune_file *f);
/* The largest of its ranks' schedules, in bytes. */
size_t algo_schedule_max(const struct tune_file *f);

/*
 * algos_add_text - take in a file of the configuration, under the name in it, in the place of another of its name.
 *
 * Errors: RC_BADDATA it cannot be parsed, or the proof fails; RC_INVAL the name is not free for files, or a limit of
 * core/limits.h; RC_BUSY no room; RC_NOMEM.
 */
enum rc algos_add_text(struct coord *c, const char *bytes, size_t n, const char *path,
		       struct err *err);

/* A client's file has been proven, or not. Takes *proof; NULL: out of memory. */
void algos_proven(struct coord *c, uint64_t job, struct coord_proof *proof);

/* Leased ones end when their clients stay away. */
void algos_client_is(struct coord *c, uint64_t client_id, bool gone);
void algos_tick(struct coord *c);

handler on_algo_put, on_algo_remove, on_algo_list;

/* Another coordinator's record; and the time since which their clients are away. */
restore_record algo_restore;
/* The record of one that a client has added for good: the next coordinator has it too, also after a clean end. */
bool algo_record_stays(const uint8_t *value, size_t n);
void algos_resume(struct coord *c);

#endif
