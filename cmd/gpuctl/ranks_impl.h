/*
 * ranks_impl.h - shared by ranks.c and ranks_again.c.
 */
#ifndef GPUCTL_RANKS_IMPL_H
#define GPUCTL_RANKS_IMPL_H

#include "ranks.h"

/* Reset to all ranks, each with its vector. */
void ranks_all(struct ranks *r);

/* Reorder the arrays by rank: the present rank i was r->was[i]. */
void ranks_reorder(struct ranks *r);

/* Free the memory, on the devices that answer. */
void ranks_free_buffers(struct ranks *r);

/* The longest time of a call. */
uint32_t ranks_timeout_ms(const struct ranks *r);

/* Print the note of a recovery, unless it was the last one printed. */
void ranks_tell(struct ranks *r, const char *note);

/* Return true if the verb continues after the loss of a device. */
bool ranks_recover(const struct ranks *r);

/* Make a communicator of r->nleft ranks, leased. */
enum rc ranks_lease(struct ranks *r, struct err *err);

/* Begin an operation. */
void ranks_begin(struct ranks *r);

/*
 * ranks_again - decide if work that failed with rc may begin again.
 *
 * True: *err is empty, and a communicator exists, or ranks_lease will make one. False: *err is the verb's
 * failure.
 */
bool ranks_again(struct ranks *r, enum rc rc, struct err *err);

#endif
