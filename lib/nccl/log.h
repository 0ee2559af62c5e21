/*
 * log.h - NCCL's log: NCCL_DEBUG, NCCL_DEBUG_FILE; lines as "host:pid:tid [device] NCCL INFO text".
 */
#ifndef NCCL_LOG_H
#define NCCL_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"

enum nccl_level {
	NCCL_LOG_NONE,
	NCCL_LOG_VERSION,
	NCCL_LOG_WARN,
	NCCL_LOG_INFO,
	NCCL_LOG_ABORT,
	NCCL_LOG_TRACE,
};

/* "VERSION", "WARN" ... in any case; NULL, "" and any other word: NCCL_LOG_NONE. */
enum nccl_level nccl_log_parse(const char *text);

/* NCCL_DEBUG_FILE's pattern: %h is the host's name, %p the process id, %% a percent. A path that does not fit is
 * cut. */
void nccl_log_path(char *out, size_t nbytes, const char *pattern, const char *host, int pid);

/* Read the environment again. */
void nccl_log_reset(void);

bool nccl_log_has(enum nccl_level level);

/* A line, if the level has it. device: CUDA's ordinal, -1: none. */
void nccl_log(enum nccl_level level, int device, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A line that users without NCCL_DEBUG see as well, on standard error: that a wait goes on. */
void nccl_log_waiting(int device, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "NCCL version 2.27.7+cuda12.4", once, if the level is VERSION or above. */
void nccl_log_version(void);

#endif
