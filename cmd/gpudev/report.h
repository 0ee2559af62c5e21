/*
 * report.h - report to the coordinator the ranks that this device gives up.
 */
#ifndef GPUDEV_REPORT_H
#define GPUDEV_REPORT_H

#include "dev/device.h"

struct reporter;

/* coordinator (NULL: none, and nothing is sent) and d outlive the reporter. NULL: out of memory. */
struct reporter *reporter_new(const char *coordinator, struct device *d);
void reporter_free(struct reporter *r); /* NULL is legal */

/* Send the device's reports; never waits. */
void reporter_step(struct reporter *r);

#endif
