/*
 * report.h - tell the coordinator which ranks this device gives up.
 */
#ifndef GPUDEV_REPORT_H
#define GPUDEV_REPORT_H

#include "dev/device.h"

struct reporter;

/* coordinator (NULL: there is none, and nobody is told) and d outlive it. NULL: out of memory. */
struct reporter *reporter_new(const char *coordinator, struct device *d);
void reporter_free(struct reporter *r); /* NULL is legal */

/* Send what the device has to report; never waits. */
void reporter_step(struct reporter *r);

#endif
