/*
 * log_env.h - what a user wants in the log, as NCCL reads it: a level, subsystems, a file.
 *
 * One reader for GPUSIM_DEBUG, GPUSIM_DEBUG_SUBSYS, GPUSIM_DEBUG_FILE and for NCCL's three variables.
 */
#ifndef BASE_LOG_ENV_H
#define BASE_LOG_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

/* NCCL's numbers. LOG_ERROR: the line of a failed command alone (NCCL: NONE); LOG_DEBUG is NCCL's ABORT. */
enum log_level { LOG_ERROR, LOG_VERSION, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };

/* NCCL's subsystems, bit by bit. */
/* clang-format off */
#define LOG_SUBSYSTEMS(X)                                                             \
	X(INIT) X(COLL) X(P2P) X(SHM) X(NET) X(GRAPH) X(TUNING) X(ENV) X(ALLOC) X(CALL) \
	X(PROXY) X(NVLS) X(BOOTSTRAP) X(REG) X(PROFILE) X(RAS)
#define LOG_A_BIT(name) LOG_BIT_##name,
enum log_bit { LOG_SUBSYSTEMS(LOG_A_BIT) LOG_NBITS };
#define LOG_A_MASK(name) LOG_##name = 1 << LOG_BIT_##name,
/* LOG_NONE: of no subsystem: shown whatever they are. */
enum log_subsys { LOG_NONE = 0, LOG_SUBSYSTEMS(LOG_A_MASK) LOG_ALL = (1 << LOG_NBITS) - 1 };
#undef LOG_A_BIT
#undef LOG_A_MASK
/* clang-format on */

/* A level's word: "warn"; a subsystem's: "COLL", "" for LOG_NONE. Static storage. */
const char *log_level_name(enum log_level level);
const char *log_subsys_name(enum log_subsys subsys);

/* error, version, warn, info, debug, trace, in any case, or NCCL's NONE and ABORT. RC_INVAL: none of them. */
enum rc log_parse_level(const char *text, enum log_level *out, struct err *err);

/*
 * Names with commas, in any case; with ^ before the first: all but these. ALL is one.
 *
 *	out	[out] the mask; names that are none are left out
 *
 * RC_INVAL: a name is none; the sentence lists those that are.
 */
enum rc log_parse_subsys(const char *text, uint32_t *out, struct err *err);

/* A file's name from its pattern: %h is the host's name, %p the process id, %% a percent; any other
 * percent stays. RC_INVAL: it does not fit. */
enum rc log_path(char *out, size_t room, const char *pattern, const char *host, int pid,
		 struct err *err);

/* This host's name up to its first dot. */
#define LOG_HOST 64
void log_host(char out[LOG_HOST]);

enum log_open { LOG_APPEND, LOG_TRUNCATE };

/*
 * log_open_file - open what a pattern names for lines of the log, each of them one write.
 *
 *	out	[out] a descriptor that is never waited for: a pipe that is full loses lines
 *
 * RC_INVAL: it cannot be written; the sentence names the file.
 */
enum rc log_open_file(const char *pattern, enum log_open how, int *out, struct err *err);

#endif
