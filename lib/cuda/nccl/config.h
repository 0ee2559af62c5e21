/*
 * config.h - reads a program's ncclConfig_t. Pure.
 */
#ifndef NCCL_CONFIG_H
#define NCCL_CONFIG_H

#include <stdbool.h>

#include "base/rc.h"
#include "nccl.h"

#define NCCL_NAME_MAX 64 /* of a communicator in log lines, with the NUL */

struct nccl_config {
	bool blocking;
	bool deterministic;
	char name[NCCL_NAME_MAX]; /* "" */
};

/*
 * nccl_config_take - check a program's configuration.
 *
 *	in of this header's size, or of any version of NVIDIA's: only common fields count. NULL: defaults
 *	parent the values of undefined fields; NULL: blocking, not deterministic, no name
 *	env NCCL_COMM_BLOCKING, which overrides the configuration; or NULL
 *
 * RC_INVAL: the initializer was not used, or a value is out of range.
 */
enum rc nccl_config_take(const ncclConfig_t *in, const struct nccl_config *parent, const char *env,
			 struct nccl_config *out, struct err *err);

/* Check the structure of ncclGroupSimulateEnd in the same way. */
enum rc nccl_sim_info_check(const ncclSimInfo_t *info, struct err *err);

#endif
