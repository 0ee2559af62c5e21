/*
 * fault.h - injected faults: lost or damaged frames, and peers that are cut off.
 *
 * A fault applies to this device's frames as soon as it is set. Without faults, a frame costs one relaxed
 * load.
 */
#ifndef XPORT_FAULT_H
#define XPORT_FAULT_H

#include "xport/xport.h"

/*
 * Drop or corrupt outgoing frames, or cut (enum gpusim_fault_kind), in f->comm (0: any). The fault is
 * due: its point has passed.
 *
 * Drop loses frames of any kind. Corrupt changes one byte of a chunk's payload, or of the place that the
 * frame names, after the checksum. A cut closes the connections to and from the peers, and for f->for_ns
 * loses all frames in both directions.
 *
 * RC_INVAL: the ranks are reached by peer memory, without frames; RC_BUSY: too many are set. With
 * GPUSIM_SEND or GPUSIM_RECV as f->coll peer memory does not matter: they always use frames.
 */
enum rc xport_fault_set(struct xport *x, const struct gpusim_fault *f, struct err *err);

/* The same check, for a fault that is not due yet. */
enum rc xport_fault_check(struct xport *x, const struct gpusim_fault *f, struct err *err);

void xport_fault_clear(struct xport *x);

/* List at most max faults. Returns their number. */
size_t xport_fault_list(struct xport *x, struct gpusim_fault *out, size_t max);

#endif
