/*
 * fault_impl.h - the transport's side of faults.
 */
#ifndef XPORT_FAULT_IMPL_H
#define XPORT_FAULT_IMPL_H

#include <stdatomic.h>

#include "xport/fault.h"

struct comm;

#define XPORT_FAULTS 64

struct xport_fault {
	struct gpusim_fault f; /* count: frames left */
	uint64_t chance;       /* state of the seeded numbers */
	uint64_t until_ns;     /* cut */
};

/* Guarded by the xport's lock, except the number, which is read without it. */
struct xport_faults {
	atomic_uint n;
	struct xport_fault v[XPORT_FAULTS];
};

static inline bool
faults_any(const struct xport_faults *s)
{
	return atomic_load_explicit(&s->n, memory_order_relaxed) > 0;
}

enum frame_fate { FRAME_GOES, FRAME_IS_LOST, FRAME_IS_DAMAGED };

/* Lock held. The fate of a frame to the peer; *byte is the index of the changed byte. */
enum frame_fate faults_of_frame(struct xport_faults *s, const struct comm *c, uint32_t peer,
				const struct frame *head, size_t *byte);

/* Lock held. An incoming frame from this peer is lost. */
bool faults_cut_off(struct xport_faults *s, const struct comm *c, uint32_t peer);

#endif
