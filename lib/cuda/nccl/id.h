/*
 * id.h - the contents of an ncclUniqueId. Pure.
 *
 *	 0	"gpusim1\0"
 *	 8	gpusim's id: 32 hexadecimal digits and a NUL
 *	41	the coordinator's address and a NUL; empty: the address is too long
 */
#ifndef NCCL_ID_H
#define NCCL_ID_H

#include "base/rc.h"
#include "nccl.h"

#define NCCL_ID_ADDRESS 41
#define NCCL_ID_ROOM	(NCCL_UNIQUE_ID_BYTES - NCCL_ID_ADDRESS)

void nccl_id_make(const struct gpusim_unique_id *id, const char *address, ncclUniqueId *out);

/* RC_INVAL: gpusim did not make it. address: NCCL_ID_ROOM bytes. */
enum rc nccl_id_read(const ncclUniqueId *in, struct gpusim_unique_id *id, char *address,
		     struct err *err);

/* Derive one id from n ids in order. From one id it is the id itself. */
void nccl_id_join(const struct gpusim_unique_id *ids, size_t n, struct gpusim_unique_id *out);

#endif
