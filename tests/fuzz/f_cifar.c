/* Fuzz the binary version of CIFAR-10: the same bytes are its batches, and, if the first byte is
 * odd, the rest are also the names of the classes. The files are links to memory. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nn/dataset.h"

#include "fuzz.h"

static char dir[] = "/tmp/gpusim-fuzz.XXXXXX";
static const char *const names[] = {"data_batch_1.bin", "test_batch.bin", "batches.meta.txt"};

static void
in_dir(char path[128], int i)
{
	snprintf(path, 128, "%s/%s", dir, names[i]);
}

static void
take_away(void)
{
	char path[128];

	for (int i = 0; i < 3; i++) {
		in_dir(path, i);
		unlink(path);
	}
	rmdir(dir);
}

static void
write_to(int fd, const uint8_t *data, size_t size)
{
	require(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
}

/* The files: links to descriptors of this process. */
static void
open_files(int fd[3])
{
	char path[128], target[32];

	require(mkdtemp(dir) != NULL);
	atexit(take_away);
	for (int i = 0; i < 3; i++) {
		fd[i] = memfd_create("fuzz", MFD_CLOEXEC);
		require(fd[i] >= 0);
		snprintf(target, sizeof target, "/proc/self/fd/%d", fd[i]);
		in_dir(path, i);
		require(symlink(target, path) == 0);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t good[3073] = {7};
	static int fd[3], opened;
	struct dataset ds = {0};
	struct err err = {0};
	bool is_names = size > 0 && data[0] % 2 == 1;
	enum rc rc;

	if (!opened)
		open_files(fd);
	opened = 1;
	write_to(fd[0], is_names ? good : data, is_names ? sizeof good : size);
	write_to(fd[1], good, sizeof good);
	write_to(fd[2], is_names ? data + 1 : (const uint8_t *)"0\n1\n2\n3\n4\n5\n6\n7\n8\n9",
		 is_names ? size - 1 : 19);
	rc = dataset_open(dir, NULL, &ds, &err);
	if (rc != RC_OK) {
		require((rc == RC_BADDATA || rc == RC_NOMEM) && err.text[0] && !ds.scale);
		return 0;
	}
	require(ds.nclasses == 10 && ds.train.nitems >= 1 && ds.test.nitems == 1);
	for (uint32_t i = 0; i < ds.train.nitems; i++)
		require(ds.train.labels[i] < 10);
	for (int i = 0; i < 10; i++)
		require(strlen(ds.class_name[i]) > 0);
	dataset_fini(&ds);
	return 0;
}
