/*
 * pin.h - which CPU a device computes on.
 */
#ifndef GPUDEV_PIN_H
#define GPUDEV_PIN_H

#include <stdint.h>

#include "base/rc.h"

#define PIN_AUTO (-1) /* the CPU number `ordinal` of those that the process may use */
#define PIN_NONE (-2) /* any CPU */

/* "auto", "none" or a number: *pin. RC_INVAL. */
enum rc pin_parse(const char *arg, int *pin, struct err *err);

/*
 * Confine this thread, and the threads that it starts from now on, to one CPU. With PIN_AUTO
 * devices whose ordinal is beyond the CPUs are left alone. RC_FAILED: the process may not use it.
 */
enum rc pin_apply(int pin, uint32_t ordinal, struct err *err);

#endif
