/*
 * devmem_impl.h - what the files of a device's memory share. Only for lib/mem.
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
	unsigned char *map; /* the file but its table */
	uint64_t nbytes, own;
	uint64_t incarnation;
	struct devmem_table table;
	void *recorder; /* its area, mapped; NULL: none */
	uint64_t recorder_bytes;
	pthread_mutex_t lock;
	struct arena arena, own_arena;	/* under lock */
	struct devmem_persist *persist; /* under lock */
	bool adopting;			/* under lock: nothing is allocated */
	atomic_uchar *reserved;		/* by DEVMEM_BLOCK of what is behind the header */
};

/* The locked and READY file of a device, with this incarnation in it; a new one when there was none.
 * *created: this call made the file. */
enum rc devmem_file_take(const char *path, bool shared, uint64_t device_id, uint64_t nbytes,
			 uint64_t incarnation, int *fd, bool *created, struct err *err);

/* Whether path still names the file behind fd. */
bool devmem_same_file(const char *path, int fd);

/* Take what is in the table into the arenas of a device that has just opened its file. The entries of
 * its own are what outlives it. RC_BADDATA: they overlap, or the table is damaged. */
enum rc devmem_load_table(struct devmem *m, struct err *err);

/* Lock held. An allocation at this very address, entered in the table too; and undone. */
enum rc devmem_put(struct devmem *m, const struct devmem_entry *e, struct err *err);
void devmem_take_back(struct devmem *m, uint64_t addr);

#endif
