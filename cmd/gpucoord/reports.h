/*
 * reports.h - failure reports: a file DIR/report.N each, with all that was known when a communicator had
 * failed: status, events, the recorders of its devices, including ended ones, and the coordinator's own.
 *
 * All coordinators that use the folder share the numbers. The last REPORTS_KEPT are kept. A report that is
 * being written is an empty file until it is complete. Nothing here fails or delays the coordinator:
 * problems are logged.
 */
#ifndef GPUCOORD_REPORTS_H
#define GPUCOORD_REPORTS_H

#include "observe.h"
#include "recorder.h"

#define REPORTS_KEPT 16

struct reports;

/*
 * reports_new - start two threads.
 *
 *	dir		NULL: gpusim's folder for state, statedir.h; "none": *out is NULL
 *	observer	observes the devices; outlives the reports
 *	recorder	records reports; outlives them; or NULL
 *
 * The folder is made with the first report. RC_INVAL: the path is too long; RC_NOMEM.
 */
enum rc reports_new(const char *dir, struct observer *observer, struct recorder *recorder,
		    struct reports **out, struct err *err);

/* The folder as messages show it; "" for NULL. */
const char *reports_dir(const struct reports *r);

/* Claim a number and its file, within CLAIM_MS; 0: no report can be written. `r` is a struct reports. */
uint64_t reports_claim(void *r);

/* Queue the report of a COORD_REPORT action. NULL is legal. */
void reports_write(struct reports *r, const struct coord_action *a);

/* Wait until all reports are written, at most timeout_ms, while the coordinator still answers. NULL is
 * legal. */
void reports_finish(struct reports *r, uint32_t timeout_ms);

/* End the threads; unwritten reports are dropped. NULL is legal. */
void reports_free(struct reports *r);

#endif
