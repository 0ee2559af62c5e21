/*
 * env.h - variables that switch something on.
 */
#ifndef BASE_ENV_H
#define BASE_ENV_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* It is there, and neither empty nor 0: as NCCL reads its own. */
static inline bool
env_is_set(const char *name)
{
	const char *value = getenv(name);

	return value && *value && strcmp(value, "0") != 0;
}

#endif
