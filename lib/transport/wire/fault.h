/*
 * fault.h - faults to be injected, as messages.
 */
#ifndef WIRE_FAULT_H
#define WIRE_FAULT_H

#include "base/rc.h"
#include "gpu_sim.pb-c.h"

/* Convert a fault to a message, which borrows nothing. */
void fault_to_wire(const struct gpusim_fault *f, GpuSim__Fault *out);

/* Convert an unpacked message to a fault; its values are not checked. */
void fault_from_wire(const GpuSim__Fault *m, struct gpusim_fault *out);

#endif
