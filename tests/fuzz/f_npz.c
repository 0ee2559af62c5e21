/* Fuzz arrays of numpy: a .npz by its bytes, else a .npy. Accepted data can be read to the last
 * byte; rejected data have a reason. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nn/dataset.h"
#include "nn/npy.h"

#include "fuzz.h"

/* Samples and labels of one array. */
static void
try_array(const uint8_t *data, size_t size)
{
	struct ndarray_items items;
	struct ndarray a;
	struct err err = {0};
	uint32_t nclasses = 0;
	uint8_t *labels = NULL;
	enum rc rc = npy_parse(data, size, size, "fuzz", &a, &err);

	require(rc == RC_OK || (rc == RC_BADDATA && err.text[0]));
	if (rc != RC_OK)
		return;
	rc = ndarray_labels(&a, "fuzz", &labels, &nclasses, &err);
	require(rc == RC_OK || ((rc == RC_BADDATA || rc == RC_NOMEM) && err.text[0]));
	if (rc == RC_OK) {
		for (uint64_t i = 0; i < a.dim[0]; i++)
			require(labels[i] < nclasses);
		free(labels);
	}
	if (ndarray_items(&a, "fuzz", &items, &err) == RC_OK) {
		size_t n = (size_t)a.dim[0] * items.channels * items.rows * items.cols *
			   (items.dtype == GPUSIM_F32 ? 4 : 1);
		void *out = malloc(n);

		if (out && ndarray_copy(&a, "fuzz", &items, 0, a.dim[0], out, &err) == RC_OK)
			read_all(out, n);
		free(out);
	}
}

static void
try_archive(const uint8_t *data, size_t size)
{
	const struct dataset_options o = {.format = DATASET_NPZ};
	struct dataset ds = {0};
	struct err err = {0};
	char path[64];
	enum rc rc;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	rc = dataset_open(path, &o, &ds, &err);
	require(rc == RC_OK || ((rc == RC_BADDATA || rc == RC_NOMEM) && err.text[0]));
	if (rc == RC_OK) {
		read_all(ds.train.items, ds.train.nitems * dataset_item_bytes(&ds));
		read_all(ds.test.items, ds.test.nitems * dataset_item_bytes(&ds));
	}
	dataset_fini(&ds);
	close(fd);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_array(data, size);
	try_archive(data, size);
	return 0;
}
