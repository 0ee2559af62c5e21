/* PNG and JPEG become pixels or are rejected; pixels in another size. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "nn/image.h"
#include "pictures.h"
#include "tap.h"

enum { ROWS = 16, COLS = 24 };

/* A smooth picture, so that JPEG's losses are small. */
static void
paint(uint8_t *rgb)
{
	for (int r = 0; r < ROWS; r++)
		for (int c = 0; c < COLS; c++) {
			uint8_t *p = rgb + (r * COLS + c) * 3;

			p[0] = (uint8_t)(r * 15);
			p[1] = (uint8_t)(c * 10);
			p[2] = (uint8_t)(255 - r * 7 - c * 5);
		}
}

/* Largest difference from the original; 999 if the file cannot be read. */
static int
difference(const struct picture *p, const uint8_t *rgb)
{
	struct image im = {0};
	struct err err = {0};
	int worst = 0;

	if (image_decode(p->bytes, p->nbytes, "x", &im, &err) != RC_OK) {
		printf("# %s\n", err.text);
		return 999;
	}
	if (im.rows != ROWS || im.cols != COLS)
		worst = 999;
	for (int i = 0; worst < 999 && i < ROWS * COLS * 3; i++)
		if (abs(im.rgb[i] - rgb[i]) > worst)
			worst = abs(im.rgb[i] - rgb[i]);
	image_fini(&im);
	return worst;
}

static bool
refused(const void *bytes, size_t nbytes, const char *want)
{
	static const struct image untouched = {.rows = 99};
	struct image im = untouched;
	struct err err = {0};
	enum rc rc = image_decode(bytes, nbytes, "x", &im, &err);
	bool good = rc == RC_BADDATA && strncmp(err.text, "x: ", 3) == 0 &&
		    strstr(err.text, want) && memcmp(&im, &untouched, sizeof im) == 0;

	if (!good)
		printf("# rc %d \"%s\", expected \"%s\"\n", (int)rc, err.text, want);
	if (rc == RC_OK)
		image_fini(&im);
	return good;
}

static void
test_png(void)
{
	uint8_t rgb[ROWS * COLS * 3], other[ROWS * COLS * 4], grey[ROWS * COLS * 3];
	struct picture p;

	paint(rgb);
	p = make_png(ROWS, COLS, PNG_FORMAT_RGB, rgb);
	ok(difference(&p, rgb) == 0, "an RGB PNG");
	free(p.bytes);
	for (int i = 0; i < ROWS * COLS; i++) {
		other[i] = rgb[i * 3];
		grey[i * 3] = grey[i * 3 + 1] = grey[i * 3 + 2] = rgb[i * 3];
	}
	p = make_png(ROWS, COLS, PNG_FORMAT_GRAY, other);
	ok(difference(&p, grey) == 0, "a grey PNG");
	free(p.bytes);
	for (int i = 0; i < ROWS * COLS; i++) {
		memcpy(other + i * 4, rgb + i * 3, 3);
		other[i * 4 + 3] = i % 2 ? 255 : 0;
		for (int k = 0; k < 3; k++)
			grey[i * 3 + k] = i % 2 ? rgb[i * 3 + k] : 0;
	}
	p = make_png(ROWS, COLS, PNG_FORMAT_RGBA, other);
	ok(difference(&p, grey) == 0, "a PNG whose transparent pixels are black");
	free(p.bytes);
}

/* A PNG of two grey pixels with 16 bits each, by libpng's other way to write. */
static struct picture
make_deep_png(uint16_t left, uint16_t right)
{
	const uint8_t row[] = {(uint8_t)(left >> 8), (uint8_t)left, (uint8_t)(right >> 8),
			       (uint8_t)right};
	struct picture p = {NULL, 0};
	png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
	png_infop info = png_create_info_struct(png);
	FILE *f = open_memstream((char **)&p.bytes, &p.nbytes);

	png_init_io(png, f);
	png_set_IHDR(png, info, 2, 1, 16, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
		     PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
	png_write_info(png, info);
	png_write_row(png, row);
	png_write_end(png, info);
	png_destroy_write_struct(&png, &info);
	fclose(f);
	return p;
}

static void
test_deep_png(void)
{
	struct picture p = make_deep_png(0x8080, 0x2020);
	struct image im = {0};
	struct err err = {0};

	ok(image_decode(p.bytes, p.nbytes, "x", &im, &err) == RC_OK && im.cols == 2 &&
	       im.rgb[0] == 0x80 && im.rgb[5] == 0x20,
	   "16 bits become 8 %s", err.text);
	image_fini(&im);
	free(p.bytes);
}

static void
test_jpeg(void)
{
	uint8_t rgb[ROWS * COLS * 3], other[ROWS * COLS * 4], grey[ROWS * COLS * 3];
	struct picture p;
	int d;

	paint(rgb);
	p = make_jpeg(ROWS, COLS, 3, 0, rgb);
	d = difference(&p, rgb);
	ok(d <= 12, "an RGB JPEG, off by %d at most", d);
	free(p.bytes);
	p = make_jpeg(ROWS, COLS, 3, 1, rgb);
	d = difference(&p, rgb);
	ok(d <= 12, "a progressive JPEG, off by %d at most", d);
	free(p.bytes);
	for (int i = 0; i < ROWS * COLS; i++) {
		other[i] = rgb[i * 3];
		grey[i * 3] = grey[i * 3 + 1] = grey[i * 3 + 2] = rgb[i * 3];
	}
	p = make_jpeg(ROWS, COLS, 1, 0, other);
	d = difference(&p, grey);
	ok(d <= 3, "a grey JPEG, off by %d at most", d);
	free(p.bytes);
	memset(other, 100, sizeof other);
	p = make_jpeg(ROWS, COLS, 4, 0, other);
	ok(refused(p.bytes, p.nbytes, "a CMYK JPEG; only grey"), "a CMYK JPEG");
	free(p.bytes);
}

/* Is every prefix of the file rejected? A JPEG may lack the two bytes of its last marker. */
static bool
beginnings_refused(const struct picture *p, size_t most)
{
	bool good = true;

	for (size_t n = 0; n <= most; n++) {
		struct image im = {0};
		struct err err = {0};
		void *copy =
		    malloc(n + 1); /* a separate allocation, so that overreads are detected */

		memcpy(copy, p->bytes, n);
		if (image_decode(copy, n, "x", &im, &err) != RC_BADDATA || !err.text[0]) {
			printf("# %zu of %zu bytes: \"%s\"\n", n, p->nbytes, err.text);
			good = false;
			image_fini(&im);
		}
		free(copy);
	}
	return good;
}

static void
test_damage(void)
{
	uint8_t rgb[ROWS * COLS * 3];
	struct picture p;

	paint(rgb);
	ok(refused("", 0, "empty"), "no bytes");
	ok(refused("GIF89a", 6, "neither PNG nor JPEG"), "a GIF");
	ok(refused("\x89PNG\r\n\x1a\n", 8, "damaged PNG"), "a PNG's first bytes alone");
	ok(refused("\xff\xd8\xff", 3, "damaged JPEG"), "a JPEG's first bytes alone");
	p = make_png(ROWS, COLS, PNG_FORMAT_RGB, rgb);
	ok(beginnings_refused(&p, p.nbytes - 17), "every beginning of a PNG");
	p.bytes[p.nbytes / 2] ^= 0x55;
	ok(refused(p.bytes, p.nbytes, "damaged PNG"), "a byte of a PNG's data");
	p.bytes[p.nbytes / 2] ^= 0x55;
	claim_png(&p, COLS, ROWS + 1);
	ok(refused(p.bytes, p.nbytes, "damaged PNG"), "a PNG with fewer rows than it claims");
	claim_png(&p, 30000, 30000);
	ok(refused(p.bytes, p.nbytes,
		   "an image of 30000x30000 pixels; the limits are 32768 a side"),
	   "a PNG that claims 900 million pixels");
	claim_png(&p, 900000, 1);
	ok(refused(p.bytes, p.nbytes, "an image of 900000x1 pixels"), "one that claims a long row");
	claim_png(&p, 0, 5);
	ok(refused(p.bytes, p.nbytes, "PNG"), "a PNG that claims no pixels");
	free(p.bytes);
	p = make_jpeg(ROWS, COLS, 3, 0, rgb);
	ok(beginnings_refused(&p, p.nbytes - 3), "every beginning of a JPEG");
	claim_jpeg(&p, 65000, 65000);
	ok(refused(p.bytes, p.nbytes, "an image of 65000x65000 pixels"),
	   "a JPEG that claims 4 billion pixels");
	claim_jpeg(&p, COLS, 4 * ROWS);
	ok(refused(p.bytes, p.nbytes, "damaged JPEG"), "a JPEG with fewer rows than it claims");
	free(p.bytes);
	p = make_jpeg(ROWS, COLS, 3, 1, rgb);
	ok(beginnings_refused(&p, p.nbytes - 3), "every beginning of a progressive JPEG");
	free(p.bytes);
}

static void
test_many_scans(void)
{
	uint8_t rgb[ROWS * COLS * 3];
	struct picture p;

	paint(rgb);
	p = make_jpeg(ROWS, COLS, 3, 2, rgb);
	ok(refused(p.bytes, p.nbytes, "damaged JPEG: more than 64 scans"), "a JPEG of 190 scans");
	free(p.bytes);
}

/* The documented result of a resize, in double. Returns the largest difference. */
static double
naive(const struct image *im, uint32_t rows, uint32_t cols, uint32_t channel, const uint8_t *got)
{
	double worst = 0;

	for (uint32_t r = 0; r < rows; r++)
		for (uint32_t c = 0; c < cols; c++) {
			double sum = 0, total = 0;

			for (uint32_t y = 0; y < im->rows; y++)
				for (uint32_t x = 0; x < im->cols; x++) {
					double sy = (double)im->rows / rows,
					       sx = (double)im->cols / cols;
					double cy =
					    fmin(fmax((r + 0.5) * sy - 0.5, 0), im->rows - 1);
					double cx =
					    fmin(fmax((c + 0.5) * sx - 0.5, 0), im->cols - 1);
					double wy = rows < im->rows ? fmin((r + 1) * sy, y + 1) -
									  fmax(r * sy, y)
								    : 1 - fabs(cy - y);
					double wx = cols < im->cols ? fmin((c + 1) * sx, x + 1) -
									  fmax(c * sx, x)
								    : 1 - fabs(cx - x);
					double w = fmax(wy, 0) * fmax(wx, 0);

					sum += w * im->rgb[(y * im->cols + x) * 3 + channel];
					total += w;
				}
			worst = fmax(worst, fabs(sum / total - got[r * cols + c]));
		}
	return worst;
}

static void
test_resize(void)
{
	static const uint32_t sizes[][2] = {{16, 24}, {8, 12}, {5, 7},	 {1, 1},  {32, 48},
					    {17, 25}, {5, 50}, {40, 11}, {100, 3}};
	uint8_t rgb[ROWS * COLS * 3], *out = malloc(3 * 100 * 100);
	struct image im = {ROWS, COLS, rgb};
	double worst;

	for (int i = 0; i < ROWS * COLS * 3; i++)
		rgb[i] = (uint8_t)(i * 7919 >> 3);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		uint32_t rows = sizes[i][0], cols = sizes[i][1];

		image_resize(&im, rows, cols, 3, out);
		worst = 0;
		for (uint32_t c = 0; c < 3; c++)
			worst = fmax(worst, naive(&im, rows, cols, c, out + c * rows * cols));
		ok(worst < 0.52, "to %ux%u, off by %g at most", rows, cols, worst);
	}
	memset(rgb, 255, sizeof rgb);
	image_resize(&im, 13, 100, 3, out);
	ok(out[0] == 255 && memcmp(out, out + 1, 3 * 13 * 100 - 1) == 0, "white stays white");
	rgb[0] = 200;
	rgb[1] = 100;
	rgb[2] = 50;
	image_resize(&im, ROWS, COLS, 1, out);
	ok(out[0] == 124 && out[1] == 255, "grey is 0.299 R + 0.587 G + 0.114 B, rounded");
	free(out);
}

int
main(void)
{
	test_png();
	test_deep_png();
	test_jpeg();
	test_damage();
	test_many_scans();
	test_resize();
	return tap_done();
}
