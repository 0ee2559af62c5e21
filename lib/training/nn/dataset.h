/*
 * dataset.h - labelled samples in host memory, and each rank's part of them.
 */
#ifndef NN_DATASET_H
#define NN_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "gpusim.h"

enum dataset_format {
	DATASET_AUTO, /* found from the files */
	DATASET_IDX,
	DATASET_CSV,
	DATASET_CIFAR10,
	DATASET_NPZ,	/* arrays of numpy */
	DATASET_FOLDER, /* images, a folder a class */
};

enum dataset_normalize {
	DATASET_UNIT,	  /* u8: 0 to 1; f32: as they are */
	DATASET_STANDARD, /* mean 0 and deviation 1, per channel, over the training part */
	DATASET_RAW,	  /* as they are */
};

struct dataset_options {
	enum dataset_format format;
	enum dataset_normalize normalize;
	const char *label_column;      /* CSV: its name, or "first", "last"; NULL: guessed */
	uint32_t rows, cols, channels; /* folder: what images become; 0: 32 x 32, 3 */
	/* Fractions. All 0: the split of the files, else 0.8, 0, 0.2. validation alone is taken from
	 * training. Where the files have a test part and test is 0, it stays, and the fractions are of the
	 * rest; else they are of all samples. Samples beyond the sum of the fractions are left out. */
	double train, validation, test;
	uint64_t seed;	      /* of the split */
	uint32_t train_items; /* the most training samples to keep; 0: all */
	uint32_t test_items;  /* likewise of the test part */
	bool tests_only;      /* the training part may be empty */
};

/* nitems samples, and one label each. */
struct dataset_part {
	uint32_t nitems;
	void *items;
	uint8_t *labels;
	char *labels_path; /* for messages */
};

struct dataset {
	uint32_t channels, rows, cols; /* of an item; a table of features is [n, 1, 1] */
	enum gpusim_dtype dtype;       /* of items: GPUSIM_U8 or GPUSIM_F32 */
	uint32_t nclasses;	       /* 1..256 */
	char **class_name;	       /* nclasses, or NULL: numbers */
	struct dataset_part train, validation, test; /* validation may be empty */
	float *scale, *shift; /* by channel: the net's input is item * scale + shift */
};

/*
 * dataset_open - read the data set at a path; gpusim-data(5) describes the formats.
 *
 *	path		a folder, or a file of a format that has all in one
 *	o		NULL: all zero
 *	ds		[out] the caller owns it and releases it with dataset_fini; untouched on
 *			error
 *
 * Errors: RC_FAILED a file that is missing or cannot be read; RC_BADDATA the reader rejects the
 * data; RC_INVAL inconsistent fractions.
 * Checked by: tests/unit/nn/t_dataset.c
 */
enum rc dataset_open(const char *path, const struct dataset_options *o, struct dataset *ds,
		     struct err *err);

/* The format's name, for options, messages and configurations; and the format of a name: RC_INVAL. */
const char *dataset_format_name(enum dataset_format format);
const char *dataset_normalize_name(enum dataset_normalize how);

/*
 * "0.8,0.1,0.1" into train, validation and test, which are fractions of all samples; "0.8,0.2" into
 * train and test. RC_INVAL: the text is not such a list, or sums to more than 1.
 */
enum rc dataset_split_parse(const char *text, struct dataset_options *out, struct err *err);

/* Elements of an item, and bytes. */
uint64_t dataset_item_size(const struct dataset *ds);
size_t dataset_item_bytes(const struct dataset *ds);

/* RC_BADDATA, naming file and item, when a label is not below nclasses, as a model has them. */
enum rc dataset_check_labels(const struct dataset *ds, uint32_t nclasses, struct err *err);

/* A checksum of all items, labels, scales and shifts, to distinguish data sets. */
uint32_t dataset_crc(const struct dataset *ds);

/* Release everything and make it {0}. */
void dataset_fini(struct dataset *ds);

/*
 * dataset_share - rank r's part [*begin, *end) = [r*n/p, (r+1)*n/p) of n samples among p ranks.
 *
 * 0 <= rank < nranks, n < 2^32. The parts cover 0..n-1 once, in rank order; their sizes differ
 * by at most one.
 */
void dataset_share(uint32_t n, uint32_t rank, uint32_t nranks, uint32_t *begin, uint32_t *end);

#endif
