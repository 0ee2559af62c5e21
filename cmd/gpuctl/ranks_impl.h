/*
 * ranks_impl.h - what ranks.c and ranks_again.c share.
 */
#ifndef GPUCTL_RANKS_IMPL_H
#define GPUCTL_RANKS_IMPL_H

#include "ranks.h"

/* All ranks, each with its vector. */
void ranks_all(struct ranks *r);

/* What is kept by rank, in the order of the ranks there are now, who were r->was. */
void ranks_reorder(struct ranks *r);

/* Free what there is, as far as devices answer. */
void ranks_free_buffers(struct ranks *r);

/* How long a call may take. */
uint32_t ranks_timeout_ms(const struct ranks *r);

/* Say what had to be recovered from; what was said last is not said again. */
void ranks_tell(struct ranks *r, const char *note);

/* Whether a lost device is not the end. */
bool ranks_recover(const struct ranks *r);

/* A communicator of the moment, of r->nleft ranks. */
enum rc ranks_lease(struct ranks *r, struct err *err);

/* An operation begins. */
void ranks_begin(struct ranks *r);

/*
 * ranks_again - it came to rc: may the work begin again?
 *
 * True: *err is empty, and there is a communicator, or ranks_lease will make one. False: *err is what the
 * verb ends with.
 */
bool ranks_again(struct ranks *r, enum rc rc, struct err *err);

#endif
