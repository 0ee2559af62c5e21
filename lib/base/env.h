/*
 * env.h - environment variables that enable something.
 */
#ifndef BASE_ENV_H
#define BASE_ENV_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* It is set, and neither empty nor 0, as NCCL reads its own. */
static inline bool
env_is_set(const char *name)
{
	const char *value = getenv(name);

	return value && *value && strcmp(value, "0") != 0;
}

#endif
