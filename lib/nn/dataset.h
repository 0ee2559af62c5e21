/*
 * dataset.h - a folder of labelled images in host memory, and who trains on which.
 */
#ifndef NN_DATASET_H
#define NN_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

/* nitems images of rows x cols bytes (0 background, 255 ink), and one label each. */
struct dataset_part {
	uint32_t nitems;
	uint8_t *images, *labels;
	char *labels_path; /* for sentences */
};

struct dataset {
	uint32_t rows, cols;
	uint32_t nclasses; /* largest label of both parts + 1; 1..256 */
	struct dataset_part train, test;
};

/*
 * dataset_open_dir - read the four files of an MNIST-like folder.
 *
 *	dir		holds train-images-idx3-ubyte, train-labels-idx1-ubyte and the same of
 *			t10k; each may end in .gz, or be spelled train-images.idx3-ubyte. When a
 *			file is there in several spellings the first in this order is read.
 *	ds		[out] the caller owns it and releases it with dataset_fini; untouched on
 *			error
 *
 * Errors: RC_FAILED a file that is missing or cannot be read; RC_BADDATA a file that idx_read
 * refuses, images where labels are due (or the reverse), images and labels that differ in
 * number, train and test images that differ in size; RC_NOMEM.
 * Checked by: tests/unit/t_dataset.c
 */
enum rc dataset_open_dir(const char *dir, struct dataset *ds, struct err *err);

/* RC_BADDATA, naming file and item, when a label is not below nclasses, as a model has them. */
enum rc dataset_check_labels(const struct dataset *ds, uint32_t nclasses, struct err *err);

/* A checksum of all images and labels, to tell one data set from another. */
uint32_t dataset_crc(const struct dataset *ds);

/* Release everything and make it {0}. */
void dataset_fini(struct dataset *ds);

/*
 * dataset_share - the part [*begin, *end) = [r*n/p, (r+1)*n/p) of n samples that is rank r's of p.
 *
 * 0 <= rank < nranks, n < 2^32. The parts cover 0..n-1 once, in rank order; their sizes differ
 * by at most one.
 */
void dataset_share(uint32_t n, uint32_t rank, uint32_t nranks, uint32_t *begin, uint32_t *end);

#endif
