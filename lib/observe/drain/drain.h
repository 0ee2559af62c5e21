/*
 * drain.h - read recorders while they are written, and write a trace.
 *
 * A drain has its own connection. It polls the coordinator for devices, opens their recorders, makes them
 * record all steps, and turns new records into a trace (view/timeline.h). A device that ends is read to its
 * last record. Rings wrap: a drain that is too slow loses records, and counts them.
 */
#ifndef DRAIN_DRAIN_H
#define DRAIN_DRAIN_H

#include <stdint.h>

#include "base/rc.h"
#include "gpusim.h"
#include "view/timeline.h"

struct drain;

/*
 * drain_new - begin, with what is recorded from now on.
 *
 *	coordinator	its address; NULL: as gpusim_open finds it
 *	write		receives the trace as it grows
 *
 * The devices that the coordinator knows record all steps when this returns. Errors: gpusim_open's, the
 * coordinator's.
 */
enum rc drain_new(const char *coordinator, trace_write_fn *write, void *arg, struct drain **out,
		  struct err *err);

/* Read new records once. *idle_ms: the time until the next call. The error of a failed write. */
enum rc drain_turn(struct drain *d, uint32_t *idle_ms, struct err *err);

/* Read the rest and close the trace. sum may be NULL. NULL is legal. */
enum rc drain_end(struct drain *d, struct timeline_sum *sum, struct err *err);

/* ---- into a file */

/*
 * drain_file_open - create the file of a trace. It has all drained records, also if the process is killed.
 *
 * RC_FAILED: it cannot be written.
 */
enum rc drain_file_open(const char *path, int *fd, struct err *err);

/* A trace_write_fn; arg points to the descriptor. */
enum rc drain_file_write(void *fd, const void *data, size_t n, struct err *err);

/* "12 events in FILE; 3 records were lost": for the user. */
void drain_tell(const struct timeline_sum *sum, const char *path, char *out, size_t room);

/* ---- on a thread of its own */

struct drain_thread;

/* Begin as drain_new does, into a file; then drain on a thread. Borrows path. */
enum rc drain_start(const char *coordinator, const char *path, struct drain_thread **out,
		    struct err *err);

/* End it: return the sentence in told, and the first error of writing. NULL is legal, and leaves told
 * empty. */
enum rc drain_stop(struct drain_thread *t, char *told, size_t room, struct err *err);

#endif
