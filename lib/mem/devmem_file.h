/*
 * devmem_file.h - what a device's memory file looks like, for its owner (devmem.c) and for those
 * who open it beside the owner (memfile.c, peermem.c).
 *
 * A page of header, then the memory, then as much for the device itself (scratch, and what it
 * shares with its peers), so that nothing of that fails before the memory does. While a device
 * lives it holds a write lock of its open file description (F_OFD_SETLK) on the whole file.
 */
#ifndef MEM_DEVMEM_FILE_H
#define MEM_DEVMEM_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"

#define DEVMEM_PAGE  4096u
#define DEVMEM_MAGIC "gpusimM2"
#define DEVMEM_MOST  (UINT64_C(1) << 46) /* bytes of memory: far from overflow */

/* In the byte order of the host: the file does not travel. */
struct devmem_header {
	char magic[8];
	uint64_t device_id;
	uint64_t nbytes; /* without the header's page */
	uint64_t state;	 /* enum devmem_state */
};

enum devmem_state { DEVMEM_CREATING = 1, DEVMEM_READY = 2 };

/* What comes behind so many bytes of memory, and how long the file is. */
uint64_t devmem_own_bytes(uint64_t nbytes);
uint64_t devmem_file_bytes(uint64_t nbytes);

/* Whether a device has this very file for its memory. One system call. */
bool devmem_file_lives(int fd);

/*
 * devmem_file_check - may a file be trusted to be a device's memory? *h is its header then.
 *
 * RC_BADDATA: not a regular file, not this user's, not the memory of that device. RC_FAILED: no
 * device lives in it.
 */
enum rc devmem_file_check(const char *path, int fd, uint64_t device_id, struct devmem_header *h,
			  struct err *err);

#endif
