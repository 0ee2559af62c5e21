/*
 * fault.h - frames that are lost or damaged, and peers that are cut off, on purpose.
 *
 * A fault applies to this device's frames as soon as it is set. Without any, a frame costs one
 * relaxed load more.
 */
#ifndef XPORT_FAULT_H
#define XPORT_FAULT_H

#include "xport/xport.h"

/*
 * Drop or corrupt frames on their way out, or cut (enum gpusim_fault_kind), in f->comm (0: any); the
 * fault is due, its point has passed.
 *
 * Drop loses frames of any kind. Corrupt changes one byte of the payload of a chunk's frame, or of
 * the place that it names, after the checksum was made. A cut closes the connections to and from the
 * peers, and for f->for_ns loses all frames both ways.
 *
 * RC_INVAL: the ranks meant are reached by mapped memory, where there are no frames to lose; RC_BUSY:
 * too many are set. With GPUSIM_SEND or GPUSIM_RECV as f->coll mapped memory does not matter: they
 * use frames in any case.
 */
enum rc xport_fault_set(struct xport *x, const struct gpusim_fault *f, struct err *err);

/* The same check, for a fault that is not due yet. */
enum rc xport_fault_check(struct xport *x, const struct gpusim_fault *f, struct err *err);

void xport_fault_clear(struct xport *x);

/* List the faults that are set, at most max. Returns how many. */
size_t xport_fault_list(struct xport *x, struct gpusim_fault *out, size_t max);

#endif
