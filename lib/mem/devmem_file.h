/*
 * devmem_file.h - what a device's memory file looks like, for its owner (devmem.c) and for those
 * who open it beside the owner (memfile.c, peermem.c), or after it (devmem_adopt.c).
 *
 * A page of header, then the memory, then as much for the device itself (scratch, and what it
 * shares with its peers), so that nothing of that fails before the memory does, then the table of
 * allocations. While a device lives it holds a write lock of its open file description
 * (F_OFD_SETLK) on the whole file.
 *
 * Behind the table, at the next page, lies the recorder's area (flight/flight.h), where there is one.
 *
 * The table has a place for each unit of memory (DEVMEM_ALIGN) and each page of the device's own
 * that an allocation can begin at: zero, or the allocation's size and owner with a check. A place
 * is written by one pwrite of its 16 aligned bytes, so to whoever comes after a process that was
 * killed an allocation is there or it is not. What has no allocations is a hole in the file.
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
#define DEVMEM_MOST	       (UINT64_C(1) << 46) /* bytes of memory: far from overflow */

/* In the byte order of the host: the file does not travel. */
struct devmem_header {
	char magic[8];
	uint64_t device_id;
	uint64_t nbytes;      /* without the header's page */
	uint64_t state;	      /* enum devmem_state */
	uint64_t incarnation; /* of the device that has the file, or had it last */
	uint64_t scratch;     /* 1: to be removed when the device has ended */
	char coordinator
	    [DEVMEM_COORDINATOR_MAX]; /* which may wait for the device; "": nobody does */
	uint64_t recorder_bytes; /* of the recorder's area, behind the table; 0: there is none */
};

enum devmem_state { DEVMEM_CREATING = 1, DEVMEM_READY = 2 };

/* What comes behind so many bytes of memory; how much of the file is mapped, which is all but the
 * table; how long the file is without a recorder's area; and where that begins. */
uint64_t devmem_own_bytes(uint64_t nbytes);
uint64_t devmem_map_bytes(uint64_t nbytes);
uint64_t devmem_file_bytes(uint64_t nbytes);
uint64_t devmem_recorder_offset(uint64_t nbytes);

/* Where in the file an address is, of the memory or of the device's own. */
uint64_t devmem_file_offset(uint64_t addr);

/* Whether a device has this very file for its memory. One system call. */
bool devmem_file_lives(int fd);

/*
 * devmem_file_header - is a file a device's memory, whether the device lives or not? *h is its
 * header then.
 *
 * RC_BADDATA: not a regular file, not this user's, not the memory of that device.
 */
enum rc devmem_file_header(const char *path, int fd, uint64_t device_id, struct devmem_header *h,
			   struct err *err);

/* The same, and RC_FAILED when no device lives in it. */
enum rc devmem_file_check(const char *path, int fd, uint64_t device_id, struct devmem_header *h,
			  struct err *err);

/*
 * devmem_file_recorder - where in a device's memory file its recorder's area lies; whether the device lives or not.
 *
 *	offset, nbytes	[out] within the file as it is now
 *
 * Read it by pread: the file may get shorter, and has holes. RC_NOTFOUND: the device does not record.
 * RC_BADDATA: as devmem_file_header.
 */
enum rc devmem_file_recorder(const char *path, int fd, uint64_t device_id, uint64_t *offset,
			     uint64_t *nbytes, struct err *err);

/* An allocation as the table has it. */
struct devmem_entry {
	uint64_t addr;	 /* in the memory, or above it in the device's own */
	uint64_t nbytes; /* whole units, whole pages */
	uint64_t owner;	 /* whose lease it is, or 0; in the device's own: 0 */
};

/* Which table. */
struct devmem_table {
	const char *path; /* for sentences */
	int fd;
	uint64_t nbytes; /* of memory */
};

/* Enter an allocation, or strike it out. RC_NOMEM: no room in the file; RC_FAILED. The table is as
 * it was then. */
enum rc devmem_table_enter(const struct devmem_table *t, const struct devmem_entry *e,
			   struct err *err);
enum rc devmem_table_strike(const struct devmem_table *t, uint64_t addr, struct err *err);

/*
 * devmem_table_scan - what is in the table, by address; stops when fn does not say RC_OK.
 *
 * RC_BADDATA: there are bytes in it that no device wrote. RC_FAILED: it cannot be read. Of entries
 * that overlap it knows nothing.
 */
typedef enum rc (*devmem_table_fn)(void *arg, const struct devmem_entry *e, struct err *err);
enum rc devmem_table_scan(const struct devmem_table *t, devmem_table_fn fn, void *arg,
			  struct err *err);

#endif
