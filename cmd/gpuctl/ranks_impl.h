/*
 * ranks_impl.h - shared by ranks.c and ranks_again.c.
 */
#ifndef GPUCTL_RANKS_IMPL_H
#define GPUCTL_RANKS_IMPL_H

#include "ranks.h"

/* All ranks, each with its vector. */
void ranks_all(struct ranks *r);

/* Reorder the arrays by rank: rank i of now was r->was[i]. */
void ranks_reorder(struct ranks *r);

/* Free the memory, on the devices that answer. */
void ranks_free_buffers(struct ranks *r);

/* How long a call may take. */
uint32_t ranks_timeout_ms(const struct ranks *r);

/* Print the note of a recovery, unless it was the last one printed. */
void ranks_tell(struct ranks *r, const char *note);

/* Whether the verb goes on after a lost device. */
bool ranks_recover(const struct ranks *r);

/* Make a communicator of r->nleft ranks, leased. */
enum rc ranks_lease(struct ranks *r, struct err *err);

/* An operation begins. */
void ranks_begin(struct ranks *r);

/*
 * ranks_again - the work failed with rc: may it begin again?
 *
 * True: *err is empty, and there is a communicator, or ranks_lease will make one. False: *err is the verb's
 * failure.
 */
bool ranks_again(struct ranks *r, enum rc rc, struct err *err);

#endif
