/*
 * Images in folders, a folder a class: DIR/CLASS/FILE, or DIR/PART/CLASS/FILE where the parts are
 * train and test, or seg_train and seg_test.
 *
 * All paths are collected and sorted first, so that the same files make the same data set, whatever
 * order the system lists them in. Then the images are unpacked one by one.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/must.h"
#include "nn/classes.h"
#include "nn/image.h"
#include "nn/input.h"
#include "nn/read.h"

enum { DEFAULT_SIDE = 32, DEFAULT_CHANNELS = 3, MAX_IMAGES = 1 << 24 };

bool
read_is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int
is_visible(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

enum rc
read_list(const char *dir, struct read_list *l, struct err *err)
{
	int n = scandir(dir, &l->entry, is_visible, alphasort);

	if (n < 0)
		return err_set(err, RC_FAILED, "%s: %s", dir, strerror(errno));
	l->n = (uint32_t)n;
	return RC_OK;
}

void
read_list_free(struct read_list *l)
{
	for (uint32_t i = 0; i < l->n; i++)
		free(l->entry[i]);
	free(l->entry);
	*l = (struct read_list){0};
}

/* DIR/NAME, malloc'ed. */
static char *
join(const char *dir, const char *name)
{
	return must_printf("%s/%s", dir, name);
}

/* The folder of a part, DIR/NAME, or DIR/NAME/NAME where that exists, malloc'ed; NULL: none of the names
 * exists. */
static char *
find_part(const char *dir, const char *const *names)
{
	char *path, *deeper;

	for (; *names; names++) {
		path = join(dir, *names);
		if (!read_is_dir(path)) {
			free(path);
			continue;
		}
		deeper = join(path, *names);
		if (!read_is_dir(deeper)) {
			free(deeper);
			return path;
		}
		free(path);
		return deeper;
	}
	return NULL;
}

static const char *const train_names[] = {"train", "seg_train", NULL};
static const char *const test_names[] = {"test", "seg_test", NULL};
static const char *const validation_names[] = {"val", "valid", "validation", NULL};

/* A part while it is read. */
struct reading {
	const char *dir;
	struct dataset *ds;
	struct dataset_part *part;
	struct classes *classes;
	uint32_t cap;	/* items there is room for */
	uint64_t *left; /* bytes of items that all parts together may still take */
};

/* Room for one more item. */
static enum rc
make_room(struct reading *r, struct err *err)
{
	size_t item = dataset_item_bytes(r->ds);

	if (item > *r->left || r->part->nitems == MAX_IMAGES)
		return err_set(err, RC_BADDATA,
			       "%s: more than the limit of %d images or %" PRIu64 " bytes", r->dir,
			       MAX_IMAGES, READ_MAX_NBYTES);
	*r->left -= item;
	if (r->part->nitems < r->cap)
		return RC_OK;
	r->cap = r->cap ? r->cap * 2 : 64;
	r->part->items = must_resize(r->part->items, r->cap, item);
	r->part->labels = must_resize(r->part->labels, r->cap, 1);
	return RC_OK;
}

/* One image into its place. */
static enum rc
read_image(struct reading *r, const char *path, uint8_t id, struct err *err)
{
	const struct dataset *ds = r->ds;
	struct buf file = {0};
	struct image im = {0};
	enum rc rc;

	if (read_is_dir(path))
		return err_set(err, RC_BADDATA, "%s: a folder in a class's folder", path);
	rc = input_file(path, IMAGE_MAX_NBYTES, &file, err);
	if (rc == RC_OK)
		rc = image_decode(file.data, file.len, path, &im, err);
	buf_fini(&file);
	if (rc == RC_OK)
		rc = make_room(r, err);
	if (rc == RC_OK) {
		image_resize(&im, ds->rows, ds->cols, ds->channels,
			     (uint8_t *)r->part->items + r->part->nitems * dataset_item_bytes(ds));
		r->part->labels[r->part->nitems++] = id;
	}
	image_fini(&im);
	return rc;
}

/* All images of a class. */
static enum rc
read_class(struct reading *r, const char *dir, uint8_t id, struct err *err)
{
	struct read_list files = {0};
	char *path;
	enum rc rc = read_list(dir, &files, err);

	if (rc == RC_OK && files.n == 0)
		rc = err_set(err, RC_BADDATA, "%s: a class without images", dir);
	for (uint32_t i = 0; i < files.n && rc == RC_OK; i++) {
		path = join(dir, files.entry[i]->d_name);
		rc = read_image(r, path, id, err);
		free(path);
	}
	read_list_free(&files);
	return rc;
}

static bool
has_suffix(const char *name)
{
	static const char *const suffix[] = {".png", ".jpg", ".jpeg"};
	size_t len = strlen(name);

	for (size_t i = 0; i < sizeof suffix / sizeof suffix[0]; i++)
		if (len >= strlen(suffix[i]) &&
		    strcasecmp(name + len - strlen(suffix[i]), suffix[i]) == 0)
			return true;
	return false;
}

/* The id of the class that a folder is named after. known: it must exist already. */
static enum rc
class_id(struct reading *r, const char *name, bool known, uint8_t *id, struct err *err)
{
	uint32_t before = r->classes->n;

	for (const char *s = name; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return err_set(err, RC_BADDATA,
				       "%s: a folder's name has control characters", r->dir);
	switch (classes_id(r->classes, name, strlen(name), id)) {
	case CLASSES_OK:
		break;
	case CLASSES_FULL:
		return err_set(err, RC_BADDATA, "%s: more than %d classes", r->dir, CLASSES_MAX);
	default:
		return err_set(err, RC_BADDATA,
			       "%s/%.40s...: the class's name is longer than %d bytes", r->dir,
			       name, CLASSES_MAX_TEXT);
	}
	if (known && r->classes->n > before)
		return err_set(err, RC_BADDATA, "%s/%s: the training part has no such class",
			       r->dir, name);
	return RC_OK;
}

/* All classes of a part. */
static enum rc
read_part(struct reading *r, bool known, struct err *err)
{
	struct read_list classes = {0};
	enum rc rc = read_list(r->dir, &classes, err);
	uint8_t id;

	for (uint32_t i = 0; i < classes.n && rc == RC_OK; i++) {
		char *path = join(r->dir, classes.entry[i]->d_name);

		if (read_is_dir(path)) {
			rc = class_id(r, classes.entry[i]->d_name, known, &id, err);
			if (rc == RC_OK)
				rc = read_class(r, path, id, err);
		} else if (has_suffix(path)) {
			rc = err_set(err, RC_BADDATA,
				     "%s: the image is not in the folder of a class", path);
		}
		free(path);
	}
	read_list_free(&classes);
	if (rc == RC_OK && r->part->nitems == 0)
		rc = err_set(err, RC_BADDATA, "%s: no folders of images found", r->dir);
	if (rc == RC_OK)
		r->part->labels_path = must_strdup(r->dir);
	return rc;
}

/* The shape that images are resized to. */
static enum rc
choose_shape(struct dataset *ds, const struct dataset_options *o, struct err *err)
{
	ds->dtype = GPUSIM_U8;
	ds->rows = o->rows ? o->rows : DEFAULT_SIDE;
	ds->cols = o->cols ? o->cols : DEFAULT_SIDE;
	ds->channels = o->channels ? o->channels : DEFAULT_CHANNELS;
	if (ds->rows > IMAGE_MAX_SIDE || ds->cols > IMAGE_MAX_SIDE ||
	    (ds->channels != 1 && ds->channels != 3))
		return err_set(err, RC_INVAL,
			       "images cannot be made %" PRIu32 "x%" PRIu32 "x%" PRIu32
			       ": the limits are %dx%d and 1 or 3 channels",
			       ds->rows, ds->cols, ds->channels, IMAGE_MAX_SIDE, IMAGE_MAX_SIDE);
	return RC_OK;
}

/* The names of the classes, which were found in sorted order. */
static enum rc
take_names(const char *dir, struct classes *classes, struct dataset *ds, struct err *err)
{
	if (classes->n < 2)
		return err_set(err, RC_BADDATA, "%s: only one class, '%s'", dir, classes->text[0]);
	ds->class_name = must_alloc(classes->n, sizeof *ds->class_name);
	ds->nclasses = classes->n;
	memcpy(ds->class_name, classes->text, classes->n * sizeof *ds->class_name);
	classes->n = 0;
	return RC_OK;
}

bool
folder_is_here(const char *dir)
{
	struct read_list l = {0};
	bool found = false;

	if (read_list(dir, &l, NULL) != RC_OK)
		l.n = 0;
	for (uint32_t i = 0; i < l.n && !found; i++) {
		char *path = join(dir, l.entry[i]->d_name);

		found = read_is_dir(path);
		free(path);
	}
	read_list_free(&l);
	return found;
}

enum rc
read_folder(const char *dir, const struct dataset_options *o, struct dataset *ds, struct err *err)
{
	const struct {
		const char *const *names;
		struct dataset_part *part;
	} others[] = {{validation_names, &ds->validation}, {test_names, &ds->test}};
	struct classes classes = {0};
	uint64_t left = READ_MAX_NBYTES;
	char *train = find_part(dir, train_names), *path;
	enum rc rc = choose_shape(ds, o, err);

	if (rc == RC_OK) {
		struct reading r = {train ? train : dir, ds, &ds->train, &classes, 0, &left};

		rc = read_part(&r, false, err);
	}
	for (int i = 0; i < 2 && rc == RC_OK && train; i++) {
		path = find_part(dir, others[i].names);
		if (path) {
			struct reading r = {path, ds, others[i].part, &classes, 0, &left};

			rc = read_part(&r, true, err);
		}
		free(path);
	}
	if (rc == RC_OK)
		rc = take_names(dir, &classes, ds, err);
	free(train);
	classes_fini(&classes);
	return rc;
}
