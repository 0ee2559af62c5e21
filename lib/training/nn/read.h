/*
 * read.h - the readers of data sets, one a format. Only dataset.c calls them.
 *
 * A reader fills in the shape and type of items, the classes and their names, and the parts.
 * `train` is never empty; another part is empty when the files have none. Readers neither split
 * nor scale. A reader finds *ds zeroed. The caller releases *ds, also after an error.
 */
#ifndef NN_READ_H
#define NN_READ_H

#include <stdbool.h>

#include "nn/dataset.h"

#define READ_MAX_NBYTES	 (UINT64_C(4) << 30) /* of items, in all parts together */
#define READ_HEAD_NBYTES 512

typedef enum rc reader_fn(const char *path, const struct dataset_options *o, struct dataset *ds,
			  struct err *err);

reader_fn read_idx, read_csv, read_cifar10, read_npz, read_folder;

/* Does the path hold files that this reader, and no other, reads? */
bool idx_is_here(const char *path);
bool csv_is_here(const char *path);
bool cifar10_is_here(const char *path);
bool npz_is_here(const char *path);
bool folder_is_here(const char *path);

/* Does a file of this reader's format begin with these unpacked bytes? nbytes: READ_HEAD_NBYTES, or all. */
bool npz_is_file(const void *head, size_t nbytes);

struct buf;
struct ndarray;
struct cifar10_batch;

/* The samples of a .npz in memory, for inference: the test part, else the training part, else
 * its only array. a [out] points into *out, which the caller releases in any case. */
enum rc npz_samples(const void *bytes, size_t nbytes, const char *name, struct buf *out,
		    struct ndarray *a, struct err *err);

/* The test batch of CIFAR-10's archive in memory, else all its batches. The caller releases
 * *batch in any case. */
enum rc cifar10_archive(const struct buf *file, const char *name, struct cifar10_batch *batch,
			struct err *err);

/* The names in a folder, sorted, without hidden ones. {0} is empty; read_list_free releases.
 * RC_FAILED. */
struct read_list {
	struct dirent **entry;
	uint32_t n;
};
enum rc read_list(const char *dir, struct read_list *l, struct err *err);
void read_list_free(struct read_list *l);
bool read_is_dir(const char *path);

#endif
