/*
 * cifar10.h - the contents of CIFAR-10's files: images of 3 x 32 x 32 bytes, plane by plane, and labels.
 *
 * Source: https://www.cs.toronto.edu/~kriz/cifar.html, "Binary version" and "Python version".
 */
#ifndef NN_CIFAR10_H
#define NN_CIFAR10_H

#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"

enum {
	CIFAR10_SIDE = 32,
	CIFAR10_ITEM = 3 * CIFAR10_SIDE * CIFAR10_SIDE,
	CIFAR10_RECORD = 1 + CIFAR10_ITEM,
	CIFAR10_CLASSES = 10
};

/* Images and labels of a batch; released with buf_fini each. */
struct cifar10_batch {
	struct buf images, labels;
};

/* Append the images and labels in a file's bytes: records, or a pickle. RC_BADDATA "PATH: reason". */
enum rc cifar10_records(const char *path, const struct buf *file, struct cifar10_batch *batch,
			struct err *err);
enum rc cifar10_pickle(const char *path, const struct buf *file, struct cifar10_batch *batch,
		       struct err *err);

/* The class names, from a text with one a line (its bytes are changed) or from a pickle.
 * name[CIFAR10_CLASSES]: the caller's, all NULL; each name is malloc'ed. */
enum rc cifar10_text_names(const char *path, struct buf *file, char **name, struct err *err);
enum rc cifar10_pickle_names(const char *path, const struct buf *file, char **name,
			     struct err *err);

#endif
