#include "nn/cifar10.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "nn/pickle.h"

static enum rc
refuse_label(const char *path, int64_t label, size_t i, struct err *err)
{
	return err_set(err, RC_BADDATA,
		       "%s: label %" PRId64 " of record %zu; labels of CIFAR-10 are 0 to %d", path,
		       label, i, CIFAR10_CLASSES - 1);
}

enum rc
cifar10_records(const char *path, const struct buf *file, struct cifar10_batch *batch,
		struct err *err)
{
	size_t n = file->len / CIFAR10_RECORD;

	if (n == 0 || file->len % CIFAR10_RECORD != 0)
		return err_set(err, RC_BADDATA,
			       "%s: %zu bytes are not a multiple of the record's %d", path,
			       file->len, CIFAR10_RECORD);
	must_reserve(&batch->images, n * CIFAR10_ITEM);
	must_reserve(&batch->labels, n);
	for (size_t i = 0; i < n; i++) {
		const char *record = file->data + i * CIFAR10_RECORD;

		if ((uint8_t)record[0] >= CIFAR10_CLASSES)
			return refuse_label(path, (uint8_t)record[0], i, err);
		must_add(&batch->labels, record, 1);
		must_add(&batch->images, record + 1, CIFAR10_ITEM);
	}
	return RC_OK;
}

/* ---- pickles */

/* The images, [n, 3072] or [n, 3, 32, 32] of bytes; *n [out]. */
static enum rc
take_images(const struct pickle *p, const char *path, struct buf *images, size_t *n,
	    struct err *err)
{
	const struct pickle_value *v = pickle_get(p, "data");
	struct ndarray a;
	uint64_t item = 1;

	if (!v || !pickle_array(p, v, &a))
		return err_set(err, RC_BADDATA, "%s: no array 'data'", path);
	for (uint32_t i = 1; i < a.ndim; i++)
		item *= a.dim[i] <= CIFAR10_ITEM ? a.dim[i] : 0;
	if (a.kind != 'u' || a.size != 1 || (a.ndim != 2 && a.ndim != 4) || a.fortran ||
	    item != CIFAR10_ITEM || (a.ndim == 4 && a.dim[1] != 3) || a.dim[0] == 0)
		return err_set(err, RC_BADDATA,
			       "%s: 'data' is not an array of bytes with one image a row of %d",
			       path, CIFAR10_ITEM);
	*n = (size_t)a.dim[0];
	must_add(images, a.data, *n * CIFAR10_ITEM);
	return RC_OK;
}

static enum rc
add_label(const char *path, struct buf *labels, int64_t label, size_t i, struct err *err)
{
	char byte = (char)label;

	if (label < 0 || label >= CIFAR10_CLASSES)
		return refuse_label(path, label, i, err);
	must_add(labels, &byte, 1);
	return RC_OK;
}

static enum rc
take_label_array(const struct ndarray *a, const char *path, struct buf *labels, struct err *err)
{
	enum rc rc = RC_OK;

	if (a->ndim != 1 || (a->kind != 'u' && a->kind != 'i'))
		return err_set(err, RC_BADDATA, "%s: 'labels' is not a list of numbers", path);
	for (size_t i = 0; rc == RC_OK && i < a->dim[0]; i++)
		rc = add_label(path, labels, (int64_t)ndarray_at(a, i), i, err);
	return rc;
}

/* The labels, a list or an array of n numbers. */
static enum rc
take_labels(const struct pickle *p, const char *path, struct buf *labels, size_t n, struct err *err)
{
	const struct pickle_value *v = pickle_get(p, "labels");
	const struct pickle_cell *c;
	size_t first = labels->len, i = 0;
	struct ndarray a;
	int64_t label;
	enum rc rc = RC_OK;

	if (!v)
		return err_set(err, RC_BADDATA, "%s: no 'labels'%s", path,
			       pickle_get(p, "fine_labels") ? "; CIFAR-100 is not supported" : "");
	if (pickle_array(p, v, &a)) {
		rc = take_label_array(&a, path, labels, err);
	} else {
		for (c = pickle_length(v) == UINT32_MAX ? NULL : pickle_first(p, v);
		     rc == RC_OK && c; c = pickle_next(p, c), i++)
			rc = pickle_number(pickle_item(p, c), &label)
				 ? add_label(path, labels, label, i, err)
				 : err_set(err, RC_BADDATA, "%s: 'labels' is not a list of numbers",
					   path);
	}
	if (rc == RC_OK && labels->len - first != n)
		rc = err_set(err, RC_BADDATA, "%s: %zu labels for %zu images", path,
			     labels->len - first, n);
	return rc;
}

enum rc
cifar10_pickle(const char *path, const struct buf *file, struct cifar10_batch *batch,
	       struct err *err)
{
	struct pickle *p = NULL;
	enum rc rc = pickle_parse(file->data, file->len, path, &p, err);
	size_t n = 0;

	if (rc == RC_OK)
		rc = take_images(p, path, &batch->images, &n, err);
	if (rc == RC_OK)
		rc = take_labels(p, path, &batch->labels, n, err);
	pickle_free(p);
	return rc;
}

/* ---- names */

/* Name i of the classes. */
static enum rc
take_name(const char *path, const char *text, size_t len, size_t i, char **name, struct err *err)
{
	for (size_t k = 0; k < len; k++)
		if ((unsigned char)text[k] < 0x20 || text[k] == 0x7f)
			return err_set(err, RC_BADDATA, "%s: name %zu is not text", path, i);
	if (i >= CIFAR10_CLASSES)
		return RC_OK;
	name[i] = must_strndup(text, len);
	return RC_OK;
}

static enum rc
check_count(const char *path, size_t n, struct err *err)
{
	if (n == CIFAR10_CLASSES)
		return RC_OK;
	return err_set(err, RC_BADDATA, "%s: %zu class names; needs %d", path, n, CIFAR10_CLASSES);
}

enum rc
cifar10_text_names(const char *path, struct buf *file, char **name, struct err *err)
{
	char *text, *line;
	size_t n = 0;
	enum rc rc = RC_OK;

	if (memchr(file->data, 0, file->len))
		return err_set(err, RC_BADDATA, "%s: not text", path);
	must_add(file, "", 1);
	for (text = file->data; rc == RC_OK && (line = strsep(&text, "\n"));) {
		size_t len = strcspn(line, "\r");

		if (len > 0)
			rc = take_name(path, line, len, n++, name, err);
	}
	return rc == RC_OK ? check_count(path, n, err) : rc;
}

enum rc
cifar10_pickle_names(const char *path, const struct buf *file, char **name, struct err *err)
{
	const struct pickle_value *v = NULL;
	const struct pickle_cell *c;
	struct pickle *p = NULL;
	const char *text;
	size_t n = 0, len;
	enum rc rc = pickle_parse(file->data, file->len, path, &p, err);

	if (rc == RC_OK) {
		v = pickle_get(p, "label_names");
		if (!v || pickle_length(v) == UINT32_MAX)
			rc = err_set(err, RC_BADDATA, "%s: no list 'label_names'", path);
	}
	for (c = rc == RC_OK ? pickle_first(p, v) : NULL; rc == RC_OK && c; c = pickle_next(p, c)) {
		if (!pickle_text(pickle_item(p, c), &text, &len) || len == 0)
			rc = err_set(err, RC_BADDATA, "%s: name %zu is not text", path, n);
		else
			rc = take_name(path, text, len, n++, name, err);
	}
	if (rc == RC_OK)
		rc = check_count(path, n, err);
	pickle_free(p);
	return rc;
}
