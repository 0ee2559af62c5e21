/* Fuzz samples for inference: IDX, images, arrays, tables, raw and gzipped, for nets of several
 * inputs. Each sample can be read to its last byte; the samples end, or are rejected with a reason. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nn/samples.h"

#include "fuzz.h"

/* Sum up all bytes: a sanitizer reports any that is not there. */
static void
try_shape(int fd, enum samples_source source, struct net_shape shape)
{
	struct samples *s = NULL;
	struct err err = {0};
	enum rc rc = samples_open(fd, "fuzz", source,
				  &(struct samples_want){shape, SAMPLES_ANY, "so many"}, &s, &err);
	volatile uint8_t sum = 0;
	bool more = rc == RC_OK;
	size_t nbytes = 0;
	uint8_t *item;

	if (rc == RC_OK)
		nbytes = net_shape_size(shape) * (samples_dtype(s) == GPUSIM_F32 ? 4 : 1);
	item = malloc(nbytes + 1);
	while (item && rc == RC_OK && more) {
		require(samples_ready(s) || !samples_ready(s));
		rc = samples_next(s, item, &more, &err);
		for (size_t i = 0; rc == RC_OK && more && i < nbytes; i++)
			sum = (uint8_t)(sum + item[i]);
	}
	require(rc == RC_OK ||
		((rc == RC_BADDATA || rc == RC_NOMEM || rc == RC_FAILED) && err.text[0]));
	free(item);
	samples_close(s);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct net_shape shapes[] = {{1, 2, 3}, {3, 1, 2}, {4, 1, 1}, {3, 32, 32}};
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
		lseek(fd, 0, SEEK_SET);
		try_shape(fd, SAMPLES_STREAM, shapes[i]);
		lseek(fd, 0, SEEK_SET);
		try_shape(fd, SAMPLES_FILE, shapes[i]);
	}
	close(fd);
	return 0;
}
