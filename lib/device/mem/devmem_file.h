/*
 * devmem_file.h - the layout of a device's memory file, for its owner (devmem.c), and for others who open
 * it beside the owner (memfile.c, peermem.c) or after it (devmem_adopt.c).
 *
 * A page of header, then the memory, then as much for the device itself (scratch, and data shared with its
 * peers), so that it never runs out before the memory, then the table of allocations. While a device lives
 * it holds a write lock of its open file description (F_OFD_SETLK) on the whole file.
 *
 * The recorder's area (flight/flight.h), if there is one, begins at the next page after the table.
 *
 * The table has a place for each unit of memory (DEVMEM_ALIGN) and each page of the device's own
 * that an allocation can begin at: zero, or the allocation's size and owner with a check. A place
 * is written by one pwrite of its 16 aligned bytes, so after a kill an allocation is whole or absent. Parts
 * of the table without allocations are holes in the file.
 */
#ifndef MEM_DEVMEM_FILE_H
#define MEM_DEVMEM_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"

#define DEVMEM_PAGE	       4096u
#define DEVMEM_FIRST	       0x10000u /* the lowest address; small numbers are mistakes */
#define DEVMEM_MAGIC	       "gpusimM3"
#define DEVMEM_COORDINATOR_MAX 256
#define DEVMEM_MOST	       (UINT64_C(1) << 46) /* most bytes of memory: far from overflow */

/* In the byte order of the host: the file does not travel. */
struct devmem_header {
	char magic[8];
	uint64_t device_id;
	uint64_t nbytes;      /* without the header's page */
	uint64_t state;	      /* enum devmem_state */
	uint64_t incarnation; /* of the device that has the file, or had it last */
	uint64_t scratch;     /* 1: to be removed when the device has ended */
	char coordinator[DEVMEM_COORDINATOR_MAX]; /* may wait for the device; "": none */
	uint64_t recorder_bytes; /* of the recorder's area, after the table; 0: none */
};

enum devmem_state { DEVMEM_CREATING = 1, DEVMEM_READY = 2 };

/* For nbytes of memory: bytes of the device's own part; bytes mapped, all but the table; length of the file
 * without a recorder's area; offset of that area. */
uint64_t devmem_own_bytes(uint64_t nbytes);
uint64_t devmem_map_bytes(uint64_t nbytes);
uint64_t devmem_file_bytes(uint64_t nbytes);
uint64_t devmem_recorder_offset(uint64_t nbytes);

/* The file offset of an address, in the memory or the device's own part. */
uint64_t devmem_file_offset(uint64_t addr);

/* Return true if a live device uses this very file. One system call. */
bool devmem_file_lives(int fd);

/*
 * devmem_file_header - read the header of a device's memory file, also if the device has ended.
 *
 * RC_BADDATA: not a regular file, not this user's, not the memory of that device.
 */
enum rc devmem_file_header(const char *path, int fd, uint64_t device_id, struct devmem_header *h,
			   struct err *err);

/* As devmem_file_header; RC_FAILED: no live device uses it. */
enum rc devmem_file_check(const char *path, int fd, uint64_t device_id, struct devmem_header *h,
			  struct err *err);

/*
 * devmem_file_recorder - find the recorder's area in a device's memory file, also if the device has ended.
 *
 *	offset, nbytes	[out] within the file as it is now
 *
 * Read it by pread: the file may get shorter, and has holes. RC_NOTFOUND: the device does not record.
 * RC_BADDATA: as devmem_file_header.
 */
enum rc devmem_file_recorder(const char *path, int fd, uint64_t device_id, uint64_t *offset,
			     uint64_t *nbytes, struct err *err);

/* An allocation in the table. */
struct devmem_entry {
	uint64_t addr;	 /* in the memory, or above it in the device's own */
	uint64_t nbytes; /* whole units, whole pages */
	uint64_t owner;	 /* holder of its lease, or 0; in the device's own part: 0 */
};

/* A table. */
struct devmem_table {
	const char *path; /* for sentences */
	int fd;
	uint64_t nbytes; /* of memory */
};

/* Enter an allocation, or remove it. RC_NOMEM: no room in the file; RC_FAILED. On error the table is
 * unchanged. */
enum rc devmem_table_enter(const struct devmem_table *t, const struct devmem_entry *e,
			   struct err *err);
enum rc devmem_table_strike(const struct devmem_table *t, uint64_t addr, struct err *err);

/*
 * devmem_table_scan - call fn for each entry, by address; stop if fn does not return RC_OK.
 *
 * RC_BADDATA: it has bytes that no device wrote. RC_FAILED: it cannot be read. Overlapping entries are not
 * detected.
 */
typedef enum rc (*devmem_table_fn)(void *arg, const struct devmem_entry *e, struct err *err);
enum rc devmem_table_scan(const struct devmem_table *t, devmem_table_fn fn, void *arg,
			  struct err *err);

#endif
