/*
 * idx_to_cifar10 IMAGES LABELS - write grey images of IDX files as CIFAR-10 records to stdout.
 *
 *	idx_to_cifar10 train-images-idx3-ubyte train-labels-idx1-ubyte >data_batch_1.bin
 *
 * Images of at most 32 x 32 are placed in the middle of black ones, and are the same in red, green and blue.
 * The files are raw IDX; tools/make-cifar10 makes a whole data set, of gzipped ones too.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIDE  32
#define PLANE (SIDE * SIDE)

static int
refuse(const char *path, const char *reason)
{
	fprintf(stderr, "idx_to_cifar10: %s: %s\n", path, reason);
	return 5;
}

/* Read the header of an IDX file of bytes with ndim dimensions; 0: not such a file. */
static int
read_header(FILE *f, int ndim, uint32_t *dim)
{
	unsigned char h[16];

	if (fread(h, 1, 4 + 4 * (size_t)ndim, f) != 4 + 4 * (size_t)ndim ||
	    memcmp(h, (const unsigned char[]){0, 0, 8, (unsigned char)ndim}, 4) != 0)
		return 0;
	for (int i = 0; i < ndim; i++) {
		const unsigned char *b = h + 4 + 4 * i;

		dim[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
	}
	return 1;
}

/* Write one image and its label as a record. 0: a file has ended. */
static int
write_record(FILE *images, FILE *labels, const uint32_t dim[3])
{
	unsigned char record[1 + 3 * PLANE] = {0}, *plane = record + 1;
	uint32_t top = (SIDE - dim[1]) / 2, left = (SIDE - dim[2]) / 2;

	if (fread(record, 1, 1, labels) != 1)
		return 0;
	for (uint32_t r = 0; r < dim[1]; r++)
		if (fread(plane + (top + r) * SIDE + left, 1, dim[2], images) != dim[2])
			return 0;
	memcpy(plane + PLANE, plane, PLANE);
	memcpy(plane + 2 * PLANE, plane, PLANE);
	fwrite(record, 1, sizeof record, stdout);
	return 1;
}

int
main(int argc, char **argv)
{
	uint32_t dim[3], nlabels;
	FILE *images, *labels;

	if (argc != 3) {
		fprintf(stderr, "usage: idx_to_cifar10 IMAGES LABELS >FILE\n");
		return 2;
	}
	images = fopen(argv[1], "rb");
	labels = fopen(argv[2], "rb");
	if (!images || !labels) {
		fprintf(stderr, "idx_to_cifar10: cannot open %s\n", images ? argv[2] : argv[1]);
		return 1;
	}
	if (!read_header(images, 3, dim))
		return refuse(argv[1], "no IDX file of images");
	if (dim[1] < 1 || dim[1] > SIDE || dim[2] < 1 || dim[2] > SIDE)
		return refuse(argv[1], "the images are not 1x1 to 32x32");
	if (!read_header(labels, 1, &nlabels))
		return refuse(argv[2], "no IDX file of labels");
	if (nlabels != dim[0])
		return refuse(argv[2], "not as many labels as there are images");
	for (uint32_t i = 0; i < nlabels; i++)
		if (!write_record(images, labels, dim))
			return refuse(argv[1], "truncated, or its labels are");
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "idx_to_cifar10: the output cannot be written\n");
		return 1;
	}
	fclose(images);
	fclose(labels);
	return 0;
}
