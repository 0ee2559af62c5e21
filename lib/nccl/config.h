/*
 * config.h - what a program's ncclConfig_t says. Pure.
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
 *	in	of this header's size, or of NVIDIA's, of any version: then the fields count that both have. NULL: defaults
 *	parent	what an undefined field means; NULL: blocking, not deterministic, no name
 *	env	NCCL_COMM_BLOCKING, which wins; or NULL
 *
 * RC_INVAL: the initializer was not used, or a value is out of its range.
 */
enum rc nccl_config_take(const ncclConfig_t *in, const struct nccl_config *parent, const char *env,
			 struct nccl_config *out, struct err *err);

/* The same for the structure of ncclGroupSimulateEnd. */
enum rc nccl_sim_info_check(const ncclSimInfo_t *info, struct err *err);

#endif
