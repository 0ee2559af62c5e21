/*
 * peermem.h - another device's memory file, mapped, for the transport between devices. It stays
 * mapped when that device ends and removes the file.
 */
#ifndef MEM_PEERMEM_H
#define MEM_PEERMEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"

struct peermem;

struct peermem_id {
	const char *path;
	uint64_t dev, inode; /* as devmem_inode said there */
	uint64_t device_id;
	uint64_t incarnation; /* from devmem_incarnation there; 0: any */
	uint32_t user;	      /* effective user id there, + 1; 0: unknown */
};

/* Return true if it is expected to open here: it is next to this device's own file, in the same file
 * system, of the same user. */
bool peermem_is_near(const struct peermem_id *own, const struct peermem_id *id);

/* RC_NOTFOUND: no such file here; RC_BADDATA: another file, another user's, not that memory, or another
 * process has it. */
enum rc peermem_open(const struct peermem_id *id, struct peermem **out, struct err *err);
void peermem_close(struct peermem *p); /* NULL is legal */

/* A range of the file after its header; NULL: out of range. */
void *peermem_at(const struct peermem *p, uint64_t offset, uint64_t nbytes);

#endif
