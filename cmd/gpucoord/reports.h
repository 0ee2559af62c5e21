/*
 * reports.h - reports of failures: a file DIR/report.N each, with all that was known when a communicator had failed:
 * status, events, the recorders of its devices, also of those that have ended, and the coordinator's own.
 *
 * Numbers count on over all coordinators that use the folder. The last REPORTS_KEPT are kept. A report that is being
 * written is an empty file until all of it is there. Nothing here fails or holds up the coordinator: what goes wrong is
 * said in the log.
 */
#ifndef GPUCOORD_REPORTS_H
#define GPUCOORD_REPORTS_H

#include "observe.h"
#include "recorder.h"

#define REPORTS_KEPT 16

struct reports;

/*
 * reports_new - has two threads.
 *
 *	dir		NULL: gpusim's folder for state, statedir.h; "none": *out is NULL
 *	observer	that sees the devices; lives as long
 *	recorder	that is told of reports; lives as long, or NULL
 *
 * The folder is made with the first report. RC_INVAL: the path is too long; RC_NOMEM.
 */
enum rc reports_new(const char *dir, struct observer *observer, struct recorder *recorder,
		    struct reports **out, struct err *err);

/* The folder as sentences name it; "" for NULL. */
const char *reports_dir(const struct reports *r);

/* Claim a number and its file, within CLAIM_MS; 0: there is no place for a report. `r` is a struct reports. */
uint64_t reports_claim(void *r);

/* Write what COORD_REPORT says, soon. NULL is legal. */
void reports_write(struct reports *r, const struct coord_action *a);

/* Wait until all are written, at most so many ms, while the coordinator is still there. NULL is legal. */
void reports_finish(struct reports *r, uint32_t timeout_ms);

/* Those that are not written are not any more. NULL is legal. */
void reports_free(struct reports *r);

#endif
