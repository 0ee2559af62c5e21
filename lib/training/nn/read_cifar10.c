/*
 * CIFAR-10: batches in a folder or in a tar archive. The binary version has data_batch_1.bin and so
 * on; the Python version has pickles, data_batch_1 and so on.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/must.h"
#include "nn/cifar10.h"
#include "nn/input.h"
#include "nn/read.h"
#include "nn/tar.h"

enum { MAX_BATCH = 999, MAX_NAMES_NBYTES = 4096, PREFIX = sizeof "data_batch_" - 1 };

/* The places of the batches in a folder, and the archives that they come in. */
static const char *const inner[] = {".", "cifar-10-batches-bin", "cifar-10-batches-py"};
static const char *const archives[] = {"cifar-10-binary.tar.gz", "cifar-10-python.tar.gz"};

/* A file's kind, by its name. */
struct member {
	enum { MEMBER_NONE, MEMBER_TRAIN, MEMBER_TEST, MEMBER_NAMES } kind;
	uint32_t number; /* of MEMBER_TRAIN, from 1 */
	bool pickle;
};

struct batch {
	char *path; /* for messages; NULL: not found */
	struct cifar10_batch data;
};

struct reading {
	const char *path;
	struct batch train[MAX_BATCH + 1], test;
	uint32_t last;	   /* the largest number of a batch */
	char **class_name; /* NULL: none */
	uint64_t left;	   /* bytes that may still be read */
};

/* A name may end with .gz. */
static struct member
tell(const char *name)
{
	static const struct {
		const char *format, *names;
		bool pickle;
	} versions[] = {{"data_batch_%3" SCNu32 ".bin%n", "batches.meta.txt", false},
			{"data_batch_%3" SCNu32 "%n", "batches.meta", true}};
	static const char *const tests[] = {"test_batch.bin", "test_batch"};
	char base[40];
	size_t len = strlen(name);

	if (len > 3 && strcmp(name + len - 3, ".gz") == 0)
		len -= 3;
	snprintf(base, sizeof base, "%.*s", (int)(len < sizeof base ? len : 0), name);
	for (int v = 0; v < 2; v++) {
		struct member m = {.kind = MEMBER_NONE, .pickle = versions[v].pickle};
		int at = 0;

		if (strcmp(base, tests[v]) == 0)
			m.kind = MEMBER_TEST;
		else if (strcmp(base, versions[v].names) == 0)
			m.kind = MEMBER_NAMES;
		else if (strlen(base) > PREFIX && base[PREFIX] >= '1' && base[PREFIX] <= '9' &&
			 sscanf(base, versions[v].format, &m.number, &at) >= 1 && at > 0 &&
			 !base[at])
			m.kind = MEMBER_TRAIN;
		if (m.kind != MEMBER_NONE)
			return m;
	}
	return (struct member){.kind = MEMBER_NONE};
}

/* A file's bytes: a batch, or the names. */
static enum rc
take(struct reading *r, const struct member *m, const char *path, struct buf *file, struct err *err)
{
	struct batch *b = m->kind == MEMBER_TRAIN ? &r->train[m->number] : &r->test;

	if (m->kind == MEMBER_NAMES ? r->class_name != NULL : b->path != NULL)
		return err_set(err, RC_BADDATA, "%s: the batch exists twice", path);
	if (m->kind == MEMBER_NAMES) {
		r->class_name = must_alloc(CIFAR10_CLASSES, sizeof *r->class_name);
		return m->pickle ? cifar10_pickle_names(path, file, r->class_name, err)
				 : cifar10_text_names(path, file, r->class_name, err);
	}
	b->path = must_strdup(path);
	if (m->number > r->last)
		r->last = m->number;
	r->left -= file->len < r->left ? file->len : r->left;
	return (m->pickle ? cifar10_pickle : cifar10_records)(path, file, &b->data, err);
}

static uint64_t
limit(const struct reading *r, const struct member *m)
{
	return m->kind == MEMBER_NAMES ? MAX_NAMES_NBYTES : r->left;
}

/* ---- folders */

/* The batches of a folder. */
struct content {
	bool any, binary;
	uint32_t last;
};

static struct content
look(const char *dir)
{
	struct content c = {0};
	struct read_list l = {0};

	if (read_list(dir, &l, NULL) != RC_OK)
		return c;
	for (uint32_t i = 0; i < l.n; i++) {
		struct member m = tell(l.entry[i]->d_name);

		if (m.kind != MEMBER_TRAIN && m.kind != MEMBER_TEST)
			continue;
		c.any = true;
		c.binary = c.binary || !m.pickle;
		c.last = m.number > c.last ? m.number : c.last;
	}
	read_list_free(&l);
	return c;
}

/* DIR/NAME, raw or with .gz. RC_FAILED: not found, and `must` is set. */
static enum rc
read_member(struct reading *r, const char *dir, const char *name, bool must, struct err *err)
{
	struct member m = tell(name);
	struct buf file = {0};
	struct stat st;
	char *path = NULL;
	enum rc rc;

	for (int gz = 0; gz < 2; gz++) {
		free(path);
		path = must_printf("%s/%s%s", dir, name, gz ? ".gz" : "");
		if (stat(path, &st) == 0)
			break;
		if (gz) {
			free(path);
			return must ? err_set(err, RC_FAILED, "%s: %s not found, raw or .gz", dir,
					      name)
				    : RC_OK;
		}
	}
	rc = input_file(path, (size_t)limit(r, &m), &file, err);
	if (rc == RC_OK)
		rc = take(r, &m, path, &file, err);
	buf_fini(&file);
	free(path);
	return rc;
}

static enum rc
read_batches(struct reading *r, const char *dir, const struct content *c, struct err *err)
{
	const char *end = c->binary || !c->any ? ".bin" : "";
	char name[40];
	enum rc rc = RC_OK;

	for (uint32_t i = 1; rc == RC_OK && (i == 1 || i <= c->last); i++) {
		snprintf(name, sizeof name, "data_batch_%" PRIu32 "%s", i, end);
		rc = read_member(r, dir, name, true, err);
	}
	snprintf(name, sizeof name, "test_batch%s", end);
	if (rc == RC_OK)
		rc = read_member(r, dir, name, true, err);
	if (rc == RC_OK)
		rc = read_member(r, dir, *end ? "batches.meta.txt" : "batches.meta", false, err);
	return rc;
}

/* The folder itself or the one in it that has batches, malloc'ed; NULL: none. */
static char *
find_folder(const char *dir, struct content *c)
{
	for (size_t i = 0; i < sizeof inner / sizeof inner[0]; i++) {
		char *path = i == 0 ? must_strdup(dir) : must_printf("%s/%s", dir, inner[i]);

		*c = look(path);
		if (c->any)
			return path;
		free(path);
	}
	return NULL;
}

/* ---- archives */

/* Take the archive's current file if it is one of CIFAR-10's. */
static enum rc
read_entry(struct reading *r, struct tar *tar, const struct tar_file *f, struct err *err)
{
	const char *slash = strrchr(f->name, '/');
	struct member m = tell(slash ? slash + 1 : f->name);
	struct buf file = {0};
	char *path;
	enum rc rc;

	if (m.kind == MEMBER_NONE)
		return RC_OK;
	path = must_printf("%s: %s", r->path, slash ? slash + 1 : f->name);
	rc = tar_take(tar, limit(r, &m), &file, err);
	if (rc == RC_OK)
		rc = take(r, &m, path, &file, err);
	buf_fini(&file);
	free(path);
	return rc;
}

/* All files of an archive. */
static enum rc
read_tar(struct reading *r, struct input *in, struct err *err)
{
	struct tar tar = {.in = in};
	struct tar_file f;
	bool more = true;
	enum rc rc = input_begin(in, err);

	if (rc != RC_OK)
		return rc;
	while (rc == RC_OK && more) {
		rc = tar_next(&tar, &f, &more, err);
		if (rc == RC_OK && more)
			rc = read_entry(r, &tar, &f, err);
	}
	input_end(in);
	return rc;
}

static enum rc
read_archive(struct reading *r, const char *path, struct err *err)
{
	struct input in;
	enum rc rc = input_open(&in, path, err);

	if (rc != RC_OK)
		return rc;
	r->path = path;
	rc = read_tar(r, &in, err);
	input_close(&in);
	for (uint32_t i = 1; rc == RC_OK && (i == 1 || i <= r->last); i++)
		if (!r->train[i].path)
			rc = err_set(err, RC_BADDATA,
				     "%s: no data_batch_%" PRIu32 " in the archive", path, i);
	if (rc == RC_OK && !r->test.path)
		rc = err_set(err, RC_BADDATA, "%s: no test_batch in the archive", path);
	return rc;
}

/* An archive in a folder, malloc'ed; NULL: none. */
static char *
find_archive(const char *dir)
{
	struct stat st;
	char *path;

	for (size_t i = 0; i < sizeof archives / sizeof archives[0]; i++) {
		path = must_printf("%s/%s", dir, archives[i]);
		if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
			return path;
		free(path);
	}
	return NULL;
}

/* ---- the data set */

/* Make a part of n batches; their memory becomes the part's, or is released. */
static void
make_part(struct batch *b, uint32_t n, struct dataset_part *part)
{
	struct cifar10_batch all = {{0}, {0}};
	size_t nitems = 0;

	for (uint32_t i = 0; i < n; i++)
		nitems += b[i].data.labels.len;
	if (n > 1) {
		must_reserve(&all.images, nitems * CIFAR10_ITEM);
		must_reserve(&all.labels, nitems);
	}
	for (uint32_t i = 0; i < n; i++) {
		struct cifar10_batch *one = &b[i].data;

		if (n == 1) {
			all = *one;
			*one = (struct cifar10_batch){{0}, {0}};
			break;
		}
		must_add(&all.images, one->images.data, one->images.len);
		must_add(&all.labels, one->labels.data, one->labels.len);
		buf_fini(&one->images);
	}
	*part = (struct dataset_part){.nitems = (uint32_t)nitems,
				      .items = all.images.data,
				      .labels = (uint8_t *)all.labels.data,
				      .labels_path = b[0].path};
	b[0].path = NULL;
}

static void
batch_fini(struct batch *b)
{
	free(b->path);
	buf_fini(&b->data.images);
	buf_fini(&b->data.labels);
}

bool
cifar10_is_here(const char *dir)
{
	struct content c;
	char *path = find_folder(dir, &c);

	bool here;

	if (!path)
		path = find_archive(dir);
	here = path;
	free(path);
	return here;
}

/* Read all batches at the path. */
static enum rc
read_all(struct reading *r, const char *path, struct err *err)
{
	struct content c = {0};
	struct stat st;
	char *found;
	enum rc rc;

	if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
		return read_archive(r, path, err);
	found = find_folder(path, &c);
	if (found) {
		rc = read_batches(r, found, &c, err);
	} else {
		found = find_archive(path);
		rc = found ? read_archive(r, found, err) : read_batches(r, path, &c, err);
	}
	free(found);
	return rc;
}

static void
reading_free(struct reading *r)
{
	for (uint32_t i = 0; i <= MAX_BATCH; i++)
		batch_fini(&r->train[i]);
	batch_fini(&r->test);
	free(r);
}

enum rc
read_cifar10(const char *path, const struct dataset_options *o, struct dataset *ds, struct err *err)
{
	struct reading *r = must_alloc(1, sizeof *r);
	enum rc rc;

	(void)o;
	r->path = path;
	r->left = READ_MAX_NBYTES;
	ds->channels = 3;
	ds->rows = ds->cols = CIFAR10_SIDE;
	ds->dtype = GPUSIM_U8;
	ds->nclasses = CIFAR10_CLASSES;
	rc = read_all(r, path, err);
	ds->class_name = r->class_name;
	if (rc == RC_OK) {
		make_part(r->train + 1, r->last, &ds->train);
		make_part(&r->test, 1, &ds->test);
	}
	reading_free(r);
	return rc;
}

enum rc
cifar10_archive(const struct buf *file, const char *name, struct cifar10_batch *batch,
		struct err *err)
{
	struct input *in = must_alloc(1, sizeof *in);
	struct reading *r = must_alloc(1, sizeof *r);
	struct dataset_part part = {0};
	enum rc rc;

	*in = (struct input){
	    .name = name, .fd = -1, .next = (const uint8_t *)file->data, .avail = file->len};
	r->path = name;
	r->left = READ_MAX_NBYTES;
	rc = read_tar(r, in, err);
	if (rc == RC_OK && !r->test.path && !r->last)
		rc = err_set(err, RC_BADDATA, "%s: no batch of CIFAR-10 in the archive", name);
	if (rc == RC_OK && r->test.path)
		make_part(&r->test, 1, &part);
	else if (rc == RC_OK)
		make_part(r->train + 1, r->last, &part);
	batch->images = (struct buf){.data = part.items,
				     .len = (size_t)part.nitems * CIFAR10_ITEM,
				     .cap = (size_t)part.nitems * CIFAR10_ITEM};
	batch->labels =
	    (struct buf){.data = (char *)part.labels, .len = part.nitems, .cap = part.nitems};
	free(part.labels_path);
	for (uint32_t i = 0; r->class_name && i < CIFAR10_CLASSES; i++)
		free(r->class_name[i]);
	free(r->class_name);
	reading_free(r);
	free(in);
	return rc;
}
