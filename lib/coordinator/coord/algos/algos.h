/*
 * algos.h - algorithms from files that the coordinator keeps by name, for calls, tuner files and GPUSIM_ALGO.
 *
 * The coordinator parses, verifies and lowers a file when it arrives (lib/plan/algo); clients' files beside the
 * steps, one at a time. It keeps each rank's schedule, packed as a run carries it, which is all that runs,
 * recovery and restarts need.
 */
#ifndef COORD_ALGOS_H
#define COORD_ALGOS_H

#include "coord/core/pending.h"

#define ALGO_KEY "1/algo/" /* followed by the name: the key of a record */

enum rc algos_init(struct coord *c);
void algos_fini(struct coord *c);

/* All algorithms, for tuner_choose. Valid until the step ends. */
const struct tune_files *algos_files(const struct coord *c);
/* A rank's packed schedule (Coll.schedule). Borrowed until the step ends. */
const struct buf *algo_schedule(const struct tune_file *f, uint32_t rank);
/* A number that is never used for another algorithm, nor for an earlier one of the same name. */
uint64_t algo_id(const struct tune_file *f);
/* The size of the largest rank's schedule, in bytes. */
size_t algo_schedule_max(const struct tune_file *f);

/*
 * algos_add_text - add a file of the configuration under the name in it; it replaces one of that name.
 *
 * Errors: RC_BADDATA parse error, or the proof fails; RC_INVAL name not allowed for files, or a limit of
 * core/limits.h; RC_BUSY too many; RC_NOMEM.
 */
enum rc algos_add_text(struct coord *c, const char *bytes, size_t n, const char *path,
		       struct err *err);

/* The proof of a client's file has ended. Takes *proof; NULL: out of memory. */
void algos_proven(struct coord *c, uint64_t job, struct coord_proof *proof);

/* Leased algorithms end when their clients stay disconnected. */
void algos_client_is(struct coord *c, uint64_t client_id, bool gone);
void algos_tick(struct coord *c);

handler on_algo_put, on_algo_remove, on_algo_list;

/* Restore another coordinator's record; start the lease timers of the algorithms' clients. */
restore_record algo_restore;
/* The record is of an algorithm without a lease: it stays after a clean end. */
bool algo_record_stays(const uint8_t *value, size_t n);
void algos_resume(struct coord *c);

#endif
