/* Fuzz a device's memory file: a valid header, and then the input as the table and the kept data. A
 * device that takes it over has a table without overlaps, or an error; a second one that adopts it
 * has the same, or an error. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dev/snapshot.h"
#include "mem/devmem.h"
#include "mem/devmem_file.h"

#include "fuzz.h"

#define ID     7
#define NBYTES 65536

/* Pieces of the input: two bytes of offset, one of length, and the bytes. */
static void
scribble(int fd, const uint8_t *data, size_t size)
{
	static const uint64_t table = NBYTES / DEVMEM_ALIGN * 16;

	while (size > 3) {
		uint64_t at = data[0] | (uint64_t)data[1] << 8;
		size_t n = data[2] < size - 3 ? data[2] : size - 3;

		at = at & 1 ? devmem_map_bytes(NBYTES) + at % (table + 256)
			    : DEVMEM_PAGE + NBYTES + at % 8192;
		require(pwrite(fd, data + 3, n, (off_t)at) == (ssize_t)n);
		data += 3 + n;
		size -= 3 + n;
	}
}

/* Every allocation can be freed, and then nothing is left. */
static void
drain(struct devmem *m)
{
	uint64_t n;

	for (uint64_t a = devmem_min(m); a < devmem_max(m); a += DEVMEM_ALIGN)
		devmem_free(m, a, NULL);
	require(devmem_used(m, &n) == 0 && n == 0);
}

static void
adopt(struct devmem *m, const char *path)
{
	struct devmem_source from = {.path = path, .device_id = ID};
	struct stat st;
	struct snapshots *k;
	atomic_bool stop = false;
	struct err err = {0};

	require(stat(path, &st) == 0);
	from.dev = st.st_dev;
	from.inode = st.st_ino;
	if (devmem_adopt(m, &from, &stop, &err) != RC_OK)
		require(err.text[0] && devmem_used(m, NULL) == 0);
	if (snapshots_new(m, &k, &err) == RC_OK) {
		snapshot_drop(k, 0, 0);
		snapshots_free(k);
	}
	drain(m);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[64], other[64];
	struct devmem *m = NULL, *n = NULL;
	struct err err = {0};
	uint64_t addr;
	void *kept;
	int fd;

	snprintf(path, sizeof path, "/dev/shm/f_devmem-%d", (int)getpid());
	snprintf(other, sizeof other, "%s-2", path);
	unlink(path);
	require(devmem_open(path, ID, NBYTES, &m, &err) == RC_OK);
	devmem_alloc_for(m, 1000, 5, &addr, NULL);
	devmem_alloc(m, 5000, &addr, NULL);
	devmem_persist_alloc(m, 5000, &kept, NULL);
	devmem_close(m, DEVMEM_PERSIST_FILE);
	fd = open(path, O_RDWR | O_CLOEXEC);
	require(fd >= 0);
	scribble(fd, data, size);
	close(fd);
	require(devmem_open(other, ID + 1, NBYTES, &n, &err) == RC_OK);
	adopt(n, path);
	devmem_close(n, DEVMEM_UNLINK_FILE);
	if (devmem_open(path, ID, NBYTES, &m, &err) == RC_OK) {
		struct snapshots *k;

		require(snapshots_new(m, &k, &err) == RC_OK);
		snapshots_free(k);
		drain(m);
		devmem_close(m, DEVMEM_UNLINK_FILE);
	} else {
		require(err.text[0]);
		unlink(path);
	}
	return 0;
}
