/*
 * devmem_impl.h - shared by devmem*.c. Only for lib/device/mem.
 */
#ifndef MEM_DEVMEM_IMPL_H
#define MEM_DEVMEM_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "mem/arena.h"
#include "mem/devmem.h"
#include "mem/devmem_file.h"

#define DEVMEM_BLOCK (UINT64_C(256) << 10) /* of the file, reserved at a time */

/* One of the device's own areas that outlive it. */
struct devmem_persist {
	struct devmem_persist *next;
	uint64_t addr, nbytes;
};

struct devmem {
	char *path;
	int fd;
	unsigned char *map; /* the file without its table */
	uint64_t nbytes, own;
	uint64_t incarnation;
	struct devmem_table table;
	void *recorder; /* its area, mapped; NULL: none */
	uint64_t recorder_bytes;
	pthread_mutex_t lock;
	struct arena arena, own_arena;	/* under lock */
	struct devmem_persist *persist; /* under lock */
	bool adopting;			/* under lock: nothing is allocated */
	atomic_uchar *reserved;		/* by DEVMEM_BLOCK, after the header */
};

/* Open and lock a device's READY file, or make it, and write this incarnation. *created: this call made the
 * file. */
enum rc devmem_file_take(const char *path, bool shared, uint64_t device_id, uint64_t nbytes,
			 uint64_t incarnation, int *fd, bool *created, struct err *err);

/* Return true if path still names the file of fd. */
bool devmem_same_file(const char *path, int fd);

/* Lock held. Allocate at this address, and enter it in the table; undo that. */
enum rc devmem_put(struct devmem *m, const struct devmem_entry *e, struct err *err);
void devmem_take_back(struct devmem *m, uint64_t addr);

#endif
