/*
 * devmem_file.h - what a device's memory file looks like, for its owner (devmem.c) and for those
 * who open it beside the owner (memfile.c).
 *
 * A page of header, then the memory. While a device lives it holds a write lock of its open file
 * description (F_OFD_SETLK) on the whole file.
 */
#ifndef MEM_DEVMEM_FILE_H
#define MEM_DEVMEM_FILE_H

#include <stdint.h>

#define DEVMEM_PAGE  4096u
#define DEVMEM_MAGIC "gpusimM1"

/* In the byte order of the host: the file does not travel. */
struct devmem_header {
	char magic[8];
	uint64_t device_id;
	uint64_t nbytes; /* without the header's page */
	uint64_t state;	 /* enum devmem_state */
};

enum devmem_state { DEVMEM_CREATING = 1, DEVMEM_READY = 2 };

#endif
