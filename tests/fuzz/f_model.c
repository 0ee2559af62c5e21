/* Fuzz the description in a model's file: its net, up to the first byte of 0, and after that the names of
 * its classes. An accepted description has a net with classes, each with a name or a number. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "train/model.h"

#include "fuzz.h"

static void
check_model(const struct model *m)
{
	char number[16];

	require(m->task.net.nclasses >= 1 && m->task.net.nnodes >= 1 && m->params);
	for (uint32_t k = 0; k < m->task.net.nclasses; k++)
		require(model_class(m, k, number) != NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct train_config none = {.eval = true};
	static const float weight[4], bias[2], ones[1] = {1};
	const uint8_t *names = memchr(data, 0, size);
	size_t about = names ? (size_t)(names - data) : size;
	const struct npz_array arrays[] = {
	    {"fc1.weight", NPZ_F32, 2, {2, 2}, weight},
	    {"fc1.bias", NPZ_F32, 1, {2}, bias},
	    {"input.scale", NPZ_F32, 1, {1}, ones},
	    {"input.shift", NPZ_F32, 1, {1}, ones},
	    {"gpusim.net", NPZ_U8, 1, {about}, data},
	    {"gpusim.classes", NPZ_U8, 1, {names ? size - about - 1 : 0}, data + about + !!names},
	};
	struct buf bytes = {0};
	struct model m = {0};
	struct err err = {0};
	bool known = false;
	char path[32];
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	enum rc rc;

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (npz_pack(arrays, names ? 6 : 5, &bytes, &err) != RC_OK ||
	    write(fd, bytes.data, bytes.len) != (ssize_t)bytes.len)
		abort();
	rc = model_load(path, &none, &known, &m, &err);
	if (rc == RC_OK)
		check_model(&m);
	else
		require((rc == RC_BADDATA || rc == RC_NOMEM) && err.text[0] && !m.params);
	model_fini(&m);
	buf_fini(&bytes);
	close(fd);
	return 0;
}
