/*
 * log.h - requests as lines of the log.
 */
#ifndef WIRE_LOG_H
#define WIRE_LOG_H

#include "base/log.h"
#include "gpu_sim.pb-c.h"

/* The subsystem that a request belongs to; LOG_CALL where no other fits. */
enum log_subsys wire_request_subsys(const GpuSim__Request *req);

/* For daemons: log the request at LOG_TRACE. Thread-safe. */
void wire_request_log(const GpuSim__Request *req);

#endif
