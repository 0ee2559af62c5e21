/*
 * host.h - which machine this is, and where on it this program lies.
 */
#ifndef BASE_HOST_H
#define BASE_HOST_H

#include <stdbool.h>
#include <stddef.h>

#define HOST_ID_MAX 64 /* with the NUL */

/* $GPUSIM_HOSTID, else $NCCL_HOSTID (a long one, or one with blanks, as its hash), else the boot id,
 * which tells machines apart, and containers of one machine not. Empty when the system does not tell. */
void host_id(char out[HOST_ID_MAX]);

/* Whether an id is this machine's. */
bool host_is_this(const char *id);

/* The folder of this program, without a slash at the end. False and empty when
 * the system does not tell. */
bool host_own_folder(char *out, size_t nbytes);

#endif
