/*
 * Arrays of numpy: a .npz file, or .npy files in a folder. Their names give contents and part:
 * x_train, y_train, x_test, y_test as in Keras's mnist.npz; train_images, train_labels; X, y.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/must.h"
#include "nn/input.h"
#include "nn/npy.h"
#include "nn/read.h"
#include "nn/zip.h"

enum part { PART_TRAIN, PART_VALIDATION, PART_TEST, NPARTS };
enum role { ROLE_ITEMS, ROLE_LABELS, NROLES };

/* An array that was recognised by its name. */
struct found {
	char *name; /* for messages: "mnist.npz: x_train"; NULL: not found */
	struct buf bytes;
	struct ndarray array;
};

struct arrays {
	const char *path;
	struct found found[NPARTS][NROLES];
	uint64_t left; /* bytes that may still be read */
};

/* ---- the meaning of names */

static const char *const item_words[] = {"x", "images", "data", "features", "inputs", NULL};
static const char *const label_words[] = {"y", "labels", "targets", "target", "classes", NULL};
static const struct {
	const char *word;
	enum part part;
} part_words[] = {
    {"train", PART_TRAIN},	     {"training", PART_TRAIN}, {"test", PART_TEST},
    {"testing", PART_TEST},	     {"val", PART_VALIDATION}, {"valid", PART_VALIDATION},
    {"validation", PART_VALIDATION}, {"", PART_TRAIN}};

/* numpy.savez without names: the training part, then the test part. */
static const struct {
	const char *name;
	enum part part;
	enum role role;
} numbered[] = {{"arr0", PART_TRAIN, ROLE_ITEMS},
		{"arr1", PART_TRAIN, ROLE_LABELS},
		{"arr2", PART_TEST, ROLE_ITEMS},
		{"arr3", PART_TEST, ROLE_LABELS}};

static bool
among(const char *word, const char *const *words)
{
	while (*words && strcmp(*words, word) != 0)
		words++;
	return *words;
}

/* Return true if a word is a part and a role, in either order. */
static bool
split_word(const char *word, const char *part, enum role *role)
{
	size_t len = strlen(word), n = strlen(part);
	char rest[32];

	if (len < n)
		return false;
	for (int behind = 0; behind < 2; behind++) {
		if (memcmp(behind ? word + len - n : word, part, n) != 0)
			continue;
		snprintf(rest, sizeof rest, "%.*s", (int)(len - n), behind ? word : word + n);
		*role = among(rest, label_words) ? ROLE_LABELS : ROLE_ITEMS;
		if (*role == ROLE_LABELS || among(rest, item_words))
			return true;
	}
	return false;
}

/* The meaning of a name of `len` bytes, ignoring case, '_', '-' and '.'. False: none. */
static bool
tell(const char *name, size_t len, enum part *part, enum role *role)
{
	char word[32];
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (strchr("_-.", name[i]))
			continue;
		if (n == sizeof word - 1)
			return false;
		word[n++] = (char)tolower((unsigned char)name[i]);
	}
	word[n] = '\0';
	for (size_t i = 0; i < sizeof numbered / sizeof numbered[0]; i++)
		if (strcmp(word, numbered[i].name) == 0) {
			*part = numbered[i].part;
			*role = numbered[i].role;
			return true;
		}
	for (size_t i = 0; i < sizeof part_words / sizeof part_words[0]; i++)
		if (split_word(word, part_words[i].word, role)) {
			*part = part_words[i].part;
			return true;
		}
	return false;
}

/* The length of an array's name without .npy or .npy.gz; 0: it ends with neither. */
static size_t
npy_name(const char *name)
{
	size_t len = strlen(name);

	if (len > 3 && strcmp(name + len - 3, ".gz") == 0)
		len -= 3;
	return len > 4 && memcmp(name + len - 4, ".npy", 4) == 0 ? len - 4 : 0;
}

/* ---- files */

/* The place of an array with that name; `label` is its name in messages. NULL: no place, or it is taken. */
static enum rc
find_place(struct arrays *all, const char *name, const char *label, struct found **out,
	   struct err *err)
{
	enum part part;
	enum role role;
	size_t len = npy_name(name);
	struct found *f;

	*out = NULL;
	if (!len || !tell(name, len, &part, &role))
		return RC_OK;
	f = &all->found[part][role];
	if (f->name)
		return err_set(err, RC_BADDATA, "%s: has the same meaning as %s", label, f->name);
	f->name = must_strdup(label);
	*out = f;
	return RC_OK;
}

static enum rc
take_array(struct arrays *all, struct found *f, struct err *err)
{
	all->left -= f->bytes.len < all->left ? f->bytes.len : all->left;
	return npy_parse(f->bytes.data, f->bytes.len, f->bytes.len, f->name, &f->array, err);
}

/* Take a file of an archive if its name is an array's. */
static enum rc
read_entry(struct arrays *all, const struct zip *zip, const struct zip_file *file, struct err *err)
{
	struct found *f = NULL;
	char *label;
	enum rc rc;

	label = must_printf("%s: %.*s", zip->name, (int)npy_name(file->name), file->name);
	rc = find_place(all, file->name, label, &f, err);
	if (f && file->nbytes > all->left)
		rc = err_set(err, RC_BADDATA, "%s: more than 4 GiB", label);
	if (rc == RC_OK && f)
		rc = zip_take(zip, file, SIZE_MAX, &f->bytes, err);
	if (rc == RC_OK && f)
		rc = take_array(all, f, err);
	free(label);
	return rc;
}

/* Read an archive in memory. */
static enum rc
read_zip(struct arrays *all, const void *bytes, size_t nbytes, const char *name, struct err *err)
{
	struct zip zip = {0};
	enum rc rc = zip_open(bytes, nbytes, name, &zip, err);

	for (size_t i = 0; rc == RC_OK && i < zip.nfiles; i++)
		rc = read_entry(all, &zip, &zip.file[i], err);
	zip_close(&zip);
	return rc;
}

static enum rc
read_archive(struct arrays *all, const char *path, struct err *err)
{
	struct buf file = {0};
	enum rc rc = input_file(path, (size_t)READ_MAX_NBYTES, &file, err);

	if (rc == RC_OK)
		rc = read_zip(all, file.data, file.len, path, err);
	buf_fini(&file);
	return rc;
}

/* Read DIR/NAME if the name is an array's. */
static enum rc
read_member(struct arrays *all, const char *dir, const char *name, struct err *err)
{
	struct found *f = NULL;
	char *path;
	enum rc rc;

	path = must_printf("%s/%s", dir, name);
	rc = find_place(all, name, path, &f, err);
	if (rc == RC_OK && f)
		rc = input_file(path, (size_t)all->left, &f->bytes, err);
	if (rc == RC_OK && f)
		rc = take_array(all, f, err);
	free(path);
	return rc;
}

static enum rc
read_dir(struct arrays *all, const char *dir, struct err *err)
{
	struct read_list l = {0};
	enum rc rc = read_list(dir, &l, err);

	for (uint32_t i = 0; rc == RC_OK && i < l.n; i++)
		rc = read_member(all, dir, l.entry[i]->d_name, err);
	read_list_free(&l);
	return rc;
}

/* The folder that a file is in, malloc'ed. */
static char *
folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? must_strndup(path, slash == path ? 1 : (size_t)(slash - path))
		     : must_strdup(".");
}

/* Read everything at the path. */
static enum rc
find_arrays(struct arrays *all, struct err *err)
{
	const char *path = all->path;
	char *dir;
	enum rc rc;

	if (read_is_dir(path))
		return read_dir(all, path, err);
	if (!npy_name(path))
		return read_archive(all, path, err);
	dir = folder_of(path);
	rc = read_dir(all, dir, err);
	free(dir);
	return rc;
}

/* ---- the data set */

/* The type of all parts' items: bytes only if each part's are. */
static enum rc
agree(struct arrays *all, struct ndarray_items items[NPARTS], struct err *err)
{
	const struct found *train = &all->found[PART_TRAIN][ROLE_ITEMS];
	bool bytes = true;
	enum rc rc = RC_OK;

	for (int p = 0; rc == RC_OK && p < NPARTS; p++) {
		const struct found *f = &all->found[p][ROLE_ITEMS];

		if (!f->name)
			continue;
		rc = ndarray_items(&f->array, f->name, &items[p], err);
		if (rc == RC_OK && (items[p].channels != items[PART_TRAIN].channels ||
				    items[p].rows != items[PART_TRAIN].rows ||
				    items[p].cols != items[PART_TRAIN].cols))
			rc = err_set(err, RC_BADDATA,
				     "%s: its samples are %ux%ux%u, but %s has %ux%ux%u", f->name,
				     items[p].channels, items[p].rows, items[p].cols, train->name,
				     items[PART_TRAIN].channels, items[PART_TRAIN].rows,
				     items[PART_TRAIN].cols);
		bytes = bytes && items[p].dtype == GPUSIM_U8;
	}
	for (int p = 0; p < NPARTS; p++)
		items[p].dtype = bytes ? GPUSIM_U8 : GPUSIM_F32;
	return rc;
}

/* Make one part; its bytes are released on the way. */
static enum rc
take_part(struct found pair[NROLES], const struct ndarray_items *shape, struct dataset *ds,
	  struct dataset_part *part, uint32_t *nclasses, struct err *err)
{
	struct found *items = &pair[ROLE_ITEMS], *labels = &pair[ROLE_LABELS];
	uint64_t n = items->array.dim[0];
	enum rc rc;

	if (labels->array.ndim > 0 && labels->array.dim[0] != n)
		return err_set(err, RC_BADDATA, "%s: %" PRIu64 " labels for %" PRIu64 " samples",
			       labels->name, labels->array.dim[0], n);
	rc = ndarray_labels(&labels->array, labels->name, &part->labels, nclasses, err);
	if (rc != RC_OK)
		return rc;
	part->nitems = (uint32_t)n;
	part->items = must_resize(NULL, n, dataset_item_bytes(ds));
	rc = ndarray_copy(&items->array, items->name, shape, 0, n, part->items, err);
	part->labels_path = labels->name;
	labels->name = NULL;
	buf_fini(&items->bytes);
	buf_fini(&labels->bytes);
	return rc;
}

/* Items and labels go together, and there are some to train on. */
static enum rc
check_pairs(const struct arrays *all, struct err *err)
{
	for (int p = 0; p < NPARTS; p++) {
		const struct found *pair = all->found[p];

		if (p == PART_TRAIN && !pair[ROLE_ITEMS].name && !pair[ROLE_LABELS].name)
			return err_set(err, RC_BADDATA,
				       "%s: no arrays to train on, such as x_train and y_train, or "
				       "images and labels",
				       all->path);
		if (pair[ROLE_ITEMS].name && !pair[ROLE_LABELS].name)
			return err_set(err, RC_BADDATA, "%s: its labels are missing",
				       pair[ROLE_ITEMS].name);
		if (!pair[ROLE_ITEMS].name && pair[ROLE_LABELS].name)
			return err_set(err, RC_BADDATA, "%s: its samples are missing",
				       pair[ROLE_LABELS].name);
	}
	return RC_OK;
}

static enum rc
take_parts(struct arrays *all, struct dataset *ds, struct err *err)
{
	struct dataset_part *part[NPARTS] = {[PART_TRAIN] = &ds->train,
					     [PART_VALIDATION] = &ds->validation,
					     [PART_TEST] = &ds->test};
	struct ndarray_items items[NPARTS] = {{0}};
	enum rc rc = agree(all, items, err);
	uint32_t nclasses;

	if (rc != RC_OK)
		return rc;
	ds->channels = items[0].channels;
	ds->rows = items[0].rows;
	ds->cols = items[0].cols;
	ds->dtype = items[0].dtype;
	for (int p = 0; rc == RC_OK && p < NPARTS; p++) {
		if (!all->found[p][ROLE_ITEMS].name)
			continue;
		rc = take_part(all->found[p], &items[p], ds, part[p], &nclasses, err);
		if (rc != RC_OK)
			break;
		if (p == PART_TRAIN)
			ds->nclasses = nclasses;
		else if (nclasses > ds->nclasses)
			rc = err_set(err, RC_BADDATA,
				     "%s: %" PRIu32 " classes; the training part has %" PRIu32,
				     part[p]->labels_path, nclasses, ds->nclasses);
	}
	return rc;
}

static void
arrays_fini(struct arrays *all)
{
	for (int p = 0; p < NPARTS; p++)
		for (int r = 0; r < NROLES; r++) {
			free(all->found[p][r].name);
			buf_fini(&all->found[p][r].bytes);
		}
}

/* The only array of an archive. */
static enum rc
only_array(const void *bytes, size_t nbytes, const char *name, struct buf *out, struct ndarray *a,
	   struct err *err)
{
	struct zip zip = {0};
	enum rc rc = zip_open(bytes, nbytes, name, &zip, err);

	if (rc == RC_OK && zip.nfiles != 1)
		rc = err_set(err, RC_BADDATA, "%s: no array of samples, such as x_test or images",
			     name);
	if (rc == RC_OK)
		rc = zip_take(&zip, &zip.file[0], SIZE_MAX, out, err);
	zip_close(&zip);
	return rc == RC_OK ? npy_parse(out->data, out->len, out->len, name, a, err) : rc;
}

enum rc
npz_samples(const void *bytes, size_t nbytes, const char *name, struct buf *out, struct ndarray *a,
	    struct err *err)
{
	struct arrays all = {.path = name, .left = READ_MAX_NBYTES};
	struct found *f = &all.found[PART_TEST][ROLE_ITEMS];
	enum rc rc = read_zip(&all, bytes, nbytes, name, err);

	if (!f->name)
		f = &all.found[PART_TRAIN][ROLE_ITEMS];
	if (rc == RC_OK && f->name) {
		*out = f->bytes;
		*a = f->array;
		f->bytes = (struct buf){0};
	} else if (rc == RC_OK) {
		rc = only_array(bytes, nbytes, name, out, a, err);
	}
	arrays_fini(&all);
	return rc;
}

bool
npz_is_here(const char *dir)
{
	bool here = false;
	struct read_list l = {0};
	enum part part;
	enum role role;

	if (read_list(dir, &l, NULL) != RC_OK)
		return false;
	for (uint32_t i = 0; !here && i < l.n; i++) {
		const char *name = l.entry[i]->d_name;

		here = npy_name(name) && tell(name, npy_name(name), &part, &role);
	}
	read_list_free(&l);
	return here;
}

bool
npz_is_file(const void *head, size_t nbytes)
{
	return zip_is(head, nbytes) || npy_is(head, nbytes);
}

enum rc
read_npz(const char *path, const struct dataset_options *o, struct dataset *ds, struct err *err)
{
	struct arrays all = {.path = path, .left = READ_MAX_NBYTES};
	enum rc rc = find_arrays(&all, err);

	(void)o;
	if (rc == RC_OK)
		rc = check_pairs(&all, err);
	if (rc == RC_OK)
		rc = take_parts(&all, ds, err);
	arrays_fini(&all);
	return rc;
}
