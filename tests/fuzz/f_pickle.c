/* Fuzz pickles: the first byte chooses a batch of CIFAR-10 or its names. Accepted data can be read
 * to the last byte; rejected data have a reason. */
#include "nn/cifar10.h"
#include "nn/pickle.h"

#include "fuzz.h"

static void
try_batch(const struct buf *file)
{
	struct cifar10_batch batch = {{0}, {0}};
	struct err err = {0};
	enum rc rc = cifar10_pickle("fuzz", file, &batch, &err);

	require(rc == RC_OK || ((rc == RC_BADDATA || rc == RC_NOMEM) && err.text[0]));
	if (rc == RC_OK) {
		require(batch.images.len == batch.labels.len * CIFAR10_ITEM);
		read_all(batch.images.data, batch.images.len);
		for (size_t i = 0; i < batch.labels.len; i++)
			require((uint8_t)batch.labels.data[i] < CIFAR10_CLASSES);
	}
	buf_fini(&batch.images);
	buf_fini(&batch.labels);
}

static void
try_names(const struct buf *file)
{
	char *name[CIFAR10_CLASSES] = {NULL};
	struct err err = {0};
	enum rc rc = cifar10_pickle_names("fuzz", file, name, &err);

	require(rc == RC_OK || ((rc == RC_BADDATA || rc == RC_NOMEM) && err.text[0]));
	for (int i = 0; i < CIFAR10_CLASSES; i++) {
		require(rc != RC_OK || name[i]);
		free(name[i]);
	}
}

/* Arrays and keys of any pickle. */
static void
try_any(const struct buf *file)
{
	static const char *const keys[] = {"a", "b", "data", "labels", ""};
	struct pickle *p = NULL;
	struct err err = {0};

	if (pickle_parse(file->data, file->len, "fuzz", &p, &err) != RC_OK)
		return;
	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		const struct pickle_value *v = pickle_get(p, keys[i]);
		struct ndarray a;
		uint64_t n;

		if (v && pickle_array(p, v, &a) && ndarray_nbytes(&a, &n))
			read_all(a.data, (size_t)n);
	}
	pickle_free(p);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf file = {.data = (char *)(uintptr_t)data, .len = size};

	try_batch(&file);
	try_names(&file);
	try_any(&file);
	return 0;
}
