/*
 * log.h - NCCL's log: NCCL_DEBUG, NCCL_DEBUG_SUBSYS, NCCL_DEBUG_FILE; lines as "host:pid:tid
 * [device] NCCL INFO text".
 */
#ifndef NCCL_LOG_H
#define NCCL_LOG_H

#include <stdbool.h>

#include "base/log_env.h"

/* Read the environment again. */
void nccl_log_reset(void);

/* Log a line, if level and subsystem are enabled. device: CUDA's ordinal, -1: none. */
void nccl_log(enum log_level level, enum log_subsys subsys, int device, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Log a line that users see even without NCCL_DEBUG, on standard error: a wait that goes on. */
void nccl_log_waiting(int device, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "NCCL version 2.27.7+cuda12.4", once, if the level is VERSION or above. */
void nccl_log_version(void);

#endif
