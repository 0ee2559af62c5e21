#include "nn/image.h"

#include <inttypes.h>
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

#include "base/must.h"

void
image_fini(struct image *im)
{
	free(im->rgb);
	*im = (struct image){0};
}

/* RC_BADDATA if an image of this size is too large; called before any memory is taken. */
static enum rc
check_size(uint64_t rows, uint64_t cols, const char *name, struct err *err)
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

/* The two decoders. The caller has checked the format's first bytes. */
static enum rc
decode_png(const void *bytes, size_t nbytes, const char *name, struct image *im, struct err *err)
{
	static const png_color black;
	png_image png = {.version = PNG_IMAGE_VERSION};
	uint8_t *rgb;
	enum rc rc;

	if (!png_image_begin_read_from_memory(&png, bytes, nbytes))
		return err_set(err, RC_BADDATA, "%s: damaged PNG: %s", name, png.message);
	rc = check_size(png.height, png.width, name, err);
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

/* ---- JPEG */

/*
 * On an error libjpeg calls back and must not be returned to, so a longjmp leaves it. A warning
 * after which libjpeg would invent pixels counts as an error.
 */

/* A progressive file may have any number of scans, each over the whole image; real ones have ten. */
#define MAX_SCANS 64

struct decoder {
	struct jpeg_decompress_struct jpeg; /* first: the callbacks get it */
	struct jpeg_error_mgr errors;
	struct jpeg_progress_mgr progress;
	jmp_buf left;
	char text[JMSG_LENGTH_MAX];
};

static void __attribute__((noreturn)) leave(j_common_ptr jpeg)
{
	struct decoder *d = (struct decoder *)jpeg;

	if (!d->text[0])
		jpeg->err->format_message(jpeg, d->text);
	longjmp(d->left, 1);
}

/* level: -1 a warning, else a trace message. */
static void
on_message(j_common_ptr jpeg, int level)
{
	int code = jpeg->err->msg_code;

	if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM &&
	    code != JWRN_JFIF_MAJOR)
		leave(jpeg);
}

static void
on_progress(j_common_ptr jpeg)
{
	struct decoder *d = (struct decoder *)jpeg;

	if (d->jpeg.input_scan_number > MAX_SCANS) {
		snprintf(d->text, sizeof d->text, "more than %d scans", MAX_SCANS);
		leave(jpeg);
	}
}

static void
say_nothing(j_common_ptr jpeg)
{
	(void)jpeg;
}

static void
begin(struct decoder *d, const void *bytes, size_t nbytes)
{
	d->jpeg.err = jpeg_std_error(&d->errors);
	d->errors.error_exit = leave;
	d->errors.emit_message = on_message;
	d->errors.output_message = say_nothing;
	jpeg_create_decompress(&d->jpeg);
	d->progress.progress_monitor = on_progress;
	d->jpeg.progress = &d->progress;
	jpeg_mem_src(&d->jpeg, bytes, nbytes);
	jpeg_read_header(&d->jpeg, TRUE);
}

/* Decode all rows into rgb, which has room for them. */
static void
read_rows(struct decoder *d, uint8_t *rgb)
{
	while (d->jpeg.output_scanline < d->jpeg.output_height) {
		JSAMPROW row = rgb + (size_t)d->jpeg.output_scanline * d->jpeg.output_width * 3;

		jpeg_read_scanlines(&d->jpeg, &row, 1);
	}
	jpeg_finish_decompress(&d->jpeg);
}

/* Values that change between setjmp and longjmp lie in *d and *im, never in a local variable. */
static enum rc
decode(struct decoder *d, const void *bytes, size_t nbytes, const char *name, struct image *im,
       struct err *err)
{
	enum rc rc;

	if (setjmp(d->left))
		return err_set(err, RC_BADDATA, "%s: damaged JPEG: %s", name, d->text);
	begin(d, bytes, nbytes);
	rc = check_size(d->jpeg.image_height, d->jpeg.image_width, name, err);
	if (rc != RC_OK)
		return rc;
	if (d->jpeg.jpeg_color_space == JCS_CMYK || d->jpeg.jpeg_color_space == JCS_YCCK)
		return err_set(err, RC_BADDATA, "%s: a CMYK JPEG; only grey and RGB are supported",
			       name);
	im->rows = d->jpeg.image_height;
	im->cols = d->jpeg.image_width;
	im->rgb = must_resize(NULL, (size_t)im->rows * im->cols, 3);
	d->jpeg.out_color_space = JCS_RGB;
	d->jpeg.dct_method = JDCT_ISLOW; /* exact, on every machine */
	jpeg_start_decompress(&d->jpeg);
	read_rows(d, im->rgb);
	return RC_OK;
}

static enum rc
decode_jpeg(const void *bytes, size_t nbytes, const char *name, struct image *im, struct err *err)
{
	struct decoder *d = must_alloc(1, sizeof *d);
	struct image tmp = {0};
	enum rc rc;

	rc = decode(d, bytes, nbytes, name, &tmp, err);
	jpeg_destroy_decompress(&d->jpeg);
	free(d);
	if (rc == RC_OK)
		*im = tmp;
	else
		image_fini(&tmp);
	return rc;
}

enum rc
image_decode(const void *bytes, size_t nbytes, const char *name, struct image *im, struct err *err)
{
	if (nbytes == 0)
		return err_set(err, RC_BADDATA, "%s: empty", name);
	if (nbytes >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0)
		return decode_png(bytes, nbytes, name, im, err);
	if (nbytes >= 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0)
		return decode_jpeg(bytes, nbytes, name, im, err);
	return err_set(err, RC_BADDATA, "%s: neither PNG nor JPEG", name);
}
