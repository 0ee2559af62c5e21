/*
 * pictures.h - PNG and JPEG files in memory, for tests.
 */
#ifndef PICTURES_H
#define PICTURES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>
#include <zlib.h>

/* A file; free() it. */
struct picture {
	unsigned char *bytes;
	size_t nbytes;
};

/* A PNG of pixels in one of PNG_FORMAT_*. */
static inline struct picture
make_png(uint32_t rows, uint32_t cols, uint32_t format, const void *pixels)
{
	png_image png = {
	    .version = PNG_IMAGE_VERSION, .width = cols, .height = rows, .format = format};
	struct picture p = {NULL, 0};
	png_alloc_size_t n = PNG_IMAGE_PNG_SIZE_MAX(png);

	p.bytes = malloc(n);
	if (!png_image_write_to_memory(&png, p.bytes, &n, 0, pixels, 0, NULL))
		abort();
	p.nbytes = n;
	return p;
}

/* Change a PNG's width and height, and the checksum over them. */
static inline void
claim_png(struct picture *p, uint32_t cols, uint32_t rows)
{
	uint32_t crc;

	for (int i = 0; i < 4; i++) {
		p->bytes[16 + i] = (unsigned char)(cols >> (24 - 8 * i));
		p->bytes[20 + i] = (unsigned char)(rows >> (24 - 8 * i));
	}
	crc = (uint32_t)crc32(0, p->bytes + 12, 17);
	for (int i = 0; i < 4; i++)
		p->bytes[29 + i] = (unsigned char)(crc >> (24 - 8 * i));
}

/* A scan a coefficient: 64 for each of three channels. */
static inline void
script_scans(struct jpeg_compress_struct *jpeg)
{
	static jpeg_scan_info scan[190];
	int n = 0;

	for (int k = 0; k < 64; k++)
		for (int c = 0; c < (k ? 3 : 1); c++)
			scan[n++] = (jpeg_scan_info){k ? 1 : 3, {c, 1, 2}, k, k, 0, 0};
	jpeg->scan_info = scan;
	jpeg->num_scans = n;
}

/*
 * A JPEG of interleaved pixels: 1 channel grey, 3 RGB, 4 CMYK; best quality. progressive: 1 as
 * usual, 2 with the most possible scans.
 */
static inline struct picture
make_jpeg(uint32_t rows, uint32_t cols, int channels, int progressive, const uint8_t *pixels)
{
	struct jpeg_compress_struct jpeg;
	struct jpeg_error_mgr errors;
	struct picture p = {NULL, 0};
	unsigned long n = 0;

	jpeg.err = jpeg_std_error(&errors);
	jpeg_create_compress(&jpeg);
	jpeg_mem_dest(&jpeg, &p.bytes, &n);
	jpeg.image_width = cols;
	jpeg.image_height = rows;
	jpeg.input_components = channels;
	jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
	jpeg_set_defaults(&jpeg);
	jpeg_set_quality(&jpeg, 100, TRUE);
	if (progressive == 1)
		jpeg_simple_progression(&jpeg);
	if (progressive == 2)
		script_scans(&jpeg);
	jpeg_start_compress(&jpeg, TRUE);
	while (jpeg.next_scanline < rows) {
		JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + (size_t)jpeg.next_scanline * cols *
								  (size_t)channels);

		jpeg_write_scanlines(&jpeg, &row, 1);
	}
	jpeg_finish_compress(&jpeg);
	jpeg_destroy_compress(&jpeg);
	p.nbytes = n;
	return p;
}

/* Change a JPEG's width and height. */
static inline void
claim_jpeg(struct picture *p, uint32_t cols, uint32_t rows)
{
	for (size_t i = 2; i + 9 < p->nbytes; i++)
		if (p->bytes[i] == 0xff && (p->bytes[i + 1] == 0xc0 || p->bytes[i + 1] == 0xc2)) {
			p->bytes[i + 5] = (unsigned char)(rows >> 8);
			p->bytes[i + 6] = (unsigned char)rows;
			p->bytes[i + 7] = (unsigned char)(cols >> 8);
			p->bytes[i + 8] = (unsigned char)cols;
			return;
		}
	abort();
}

#endif
