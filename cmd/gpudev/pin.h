/*
 * pin.h - pin a device to a CPU.
 */
#ifndef GPUDEV_PIN_H
#define GPUDEV_PIN_H

#include <stdint.h>

#include "base/rc.h"

#define PIN_AUTO (-1) /* the ordinal-th of the CPUs that the process may use */
#define PIN_NONE (-2) /* any CPU */

/* Parse "auto", "none" or a number into *pin. RC_INVAL. */
enum rc pin_parse(const char *arg, int *pin, struct err *err);

/*
 * Confine this thread, and the threads that it starts from now on, to one CPU. With PIN_AUTO,
 * devices whose ordinal exceeds the CPUs are not pinned. RC_FAILED: the process may not use the CPU.
 */
enum rc pin_apply(int pin, uint32_t ordinal, struct err *err);

#endif
