/*
 * printf in kernels. All helpers write to one file in memory, each a whole kernel's text at once.
 * The program copies new text to its standard output when it has waited for a stream. So the text
 * is interleaved with the program's own as with a GPU, and a kernel never waits for a reader.
 */
#include "cudart/helper_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cudart/helper.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int file = -1;
static off_t seen;

int
helper_output(struct err *err)
{
	int fd;

	pthread_mutex_lock(&lock);
	fd = atomic_load(&file);
	if (fd < 0) {
		fd = memfd_create("gpusim-kernels", MFD_CLOEXEC);
		if (fd >= 0)
			fcntl(fd, F_SETFL, O_APPEND);
		else
			err_set(err, RC_FAILED, "no memory for the output of kernels: %s",
				strerror(errno));
		atomic_store(&file, fd);
	}
	pthread_mutex_unlock(&lock);
	return fd;
}

void
helper_flush(void)
{
	int fd = atomic_load_explicit(&file, memory_order_relaxed);
	char text[8192];
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return;
	pthread_mutex_lock(&lock);
	if (fstat(fd, &st) == 0 && st.st_size > seen) {
		off_t from = seen;

		while ((n = pread(fd, text, sizeof text, seen)) > 0) {
			fwrite(text, 1, (size_t)n, stdout);
			seen += n;
		}
		/* Give the memory back. */
		fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from / 4096 * 4096,
			  seen / 4096 * 4096 - from / 4096 * 4096);
	}
	pthread_mutex_unlock(&lock);
}
