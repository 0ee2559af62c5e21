/* Fuzz pictures: PNG and JPEG, made larger and smaller. Accepted pictures can be read to the last byte. */
#include <stdlib.h>

#include "nn/image.h"

#include "fuzz.h"

static void
try_size(const struct image *im, uint32_t rows, uint32_t cols, uint32_t channels)
{
	uint8_t *dst = malloc((size_t)rows * cols * channels);

	if (!dst)
		return;
	image_resize(im, rows, cols, channels, dst);
	read_all(dst, (size_t)rows * cols * channels);
	free(dst);
}

static void
try_picture(const uint8_t *data, size_t size)
{
	struct image im = {0};
	struct err err = {0};
	enum rc rc = image_decode(data, size, "fuzz", &im, &err);

	if (rc != RC_OK) {
		require((rc == RC_BADDATA || rc == RC_NOMEM) && err.text[0] && !im.rgb);
		return;
	}
	require(im.rows >= 1 && im.cols >= 1 && (uint64_t)im.rows * im.cols <= IMAGE_MAX_PIXELS);
	read_all(im.rgb, (size_t)im.rows * im.cols * 3);
	if ((uint64_t)im.rows * im.cols <= 1u << 20) {
		try_size(&im, 32, 32, 3);
		try_size(&im, 1 + size % 64, 1 + size / 3 % 64, 1);
	}
	image_fini(&im);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_picture(data, size);
	return 0;
}
