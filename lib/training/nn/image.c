#include "nn/image.h"
#include "base/must.h"

#include <inttypes.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

enum rc
image_check_size(uint64_t rows, uint64_t cols, const char *name, struct err *err)
{
	if (rows == 0 || cols == 0)
		return err_set(err, RC_BADDATA, "%s: the image has no pixels", name);
	if (rows > IMAGE_MAX_LENGTH || cols > IMAGE_MAX_LENGTH || rows > IMAGE_MAX_PIXELS / cols)
		return err_set(err, RC_BADDATA,
			       "%s: an image of %" PRIu64 "x%" PRIu64
			       " pixels; the limits are %u a side and %u in all",
			       name, cols, rows, IMAGE_MAX_LENGTH, IMAGE_MAX_PIXELS);
	return RC_OK;
}

static enum rc
image_decode_png(const void *bytes, size_t nbytes, const char *name, struct image *im,
		 struct err *err)
{
	static const png_color black;
	png_image png = {.version = PNG_IMAGE_VERSION};
	uint8_t *rgb;
	enum rc rc;

	if (!png_image_begin_read_from_memory(&png, bytes, nbytes))
		return err_set(err, RC_BADDATA, "%s: damaged PNG: %s", name, png.message);
	rc = image_check_size(png.height, png.width, name, err);
	if (rc != RC_OK) {
		png_image_free(&png);
		return rc;
	}
	png.format = PNG_FORMAT_RGB;
	png.flags |=
	    PNG_IMAGE_FLAG_16BIT_sRGB; /* treat 16 bits as sRGB, unless the file says otherwise */
	rgb = must_resize(NULL, (size_t)png.height * png.width, 3);
	/* libpng releases its own memory in any case. */
	if (!png_image_finish_read(&png, &black, rgb, 0, NULL)) {
		free(rgb);
		return err_set(err, RC_BADDATA, "%s: damaged PNG: %s", name, png.message);
	}
	*im = (struct image){png.height, png.width, rgb};
	return RC_OK;
}

enum rc
image_decode(const void *bytes, size_t nbytes, const char *name, struct image *im, struct err *err)
{
	if (nbytes == 0)
		return err_set(err, RC_BADDATA, "%s: empty", name);
	if (nbytes >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0)
		return image_decode_png(bytes, nbytes, name, im, err);
	if (nbytes >= 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0)
		return image_decode_jpeg(bytes, nbytes, name, im, err);
	return err_set(err, RC_BADDATA, "%s: neither PNG nor JPEG", name);
}

void
image_fini(struct image *im)
{
	free(im->rgb);
	*im = (struct image){0};
}
