/* CIFAR-10's binary version: places of the files, their contents, errors. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "dataset_test.h"
#include "pickles.h"
#include "tap.h"
#include "tars.h"

enum { ITEM = 3072, RECORD = 3073 };

/* n records; record i has label (first + i) % 10, and byte k of its image is first + i + k / 1024. */
static uint8_t *
make_records(uint32_t n, uint32_t first)
{
	uint8_t *b = malloc((size_t)n * RECORD);

	for (uint32_t i = 0; i < n; i++) {
		b[i * RECORD] = (uint8_t)((first + i) % 10);
		for (uint32_t k = 0; k < ITEM; k++)
			b[i * RECORD + 1 + k] = (uint8_t)(first + i + k / 1024);
	}
	return b;
}

static void
put_records(const char *name, uint32_t n, uint32_t first)
{
	uint8_t *b = make_records(n, first);

	put_bytes(name, b, (size_t)n * RECORD);
	free(b);
}

static void
put_all(void)
{
	put_records("c/data_batch_1.bin", 3, 0);
	put_records("c/data_batch_2.bin", 2, 3);
	put_records("c/test_batch.bin", 2, 100);
}

static bool
is_all(const struct dataset *ds)
{
	bool good = ds->dtype == GPUSIM_U8 && ds->channels == 3 && ds->rows == 32 &&
		    ds->cols == 32 && ds->nclasses == 10 && ds->train.nitems == 5 &&
		    ds->test.nitems == 2;

	for (uint32_t i = 0; good && i < 7; i++) {
		const struct dataset_part *p = i < 5 ? &ds->train : &ds->test;
		uint32_t at = i < 5 ? i : i - 5, first = i < 5 ? i : 100 + at;
		const uint8_t *item = (uint8_t *)p->items + at * ITEM;

		good &= p->labels[at] == first % 10 && item[0] == first &&
			item[1024] == first + 1 && item[ITEM - 1] == first + 2;
	}
	return good;
}

static bool
refused(enum rc want_rc, const char *want)
{
	return dataset_refused(in_folder("c"), NULL, want_rc, want);
}

static void
test_reads(void)
{
	static const char *const names =
	    "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\r\n"
	    "ship\ntruck\n\n";
	struct dataset ds = {0};
	struct err err = {0};
	uint8_t *b;

	put_all();
	ok(dataset_open(in_folder("c"), NULL, &ds, &err) == RC_OK && is_all(&ds) && !ds.class_name,
	   "two batches and a test batch %s", err.text);
	dataset_fini(&ds);
	put_text("c/batches.meta.txt", names);
	b = make_records(3, 0);
	take_away("c/data_batch_1.bin");
	put_gzip("c/data_batch_1.bin.gz", b, 3 * RECORD);
	free(b);
	ok(dataset_open(in_folder("c"), NULL, &ds, &err) == RC_OK && is_all(&ds) && ds.class_name &&
	       strcmp(ds.class_name[7], "horse") == 0 && strcmp(ds.class_name[9], "truck") == 0,
	   "a gzipped batch, and the names of the classes %s", err.text);
	dataset_fini(&ds);
	put_dir("outer");
	rename(in_folder("c"), in_folder("outer/cifar-10-batches-bin"));
	ok(dataset_open(in_folder("outer"), NULL, &ds, &err) == RC_OK && is_all(&ds),
	   "as its archive unpacks %s", err.text);
	dataset_fini(&ds);
	rename(in_folder("outer/cifar-10-batches-bin"), in_folder("c"));
	take_away("c/data_batch_1.bin.gz");
	put_text("c/data_batch_3.bin.txt", "none of it");
	put_text("c/data_batch_x.bin", "none of it");
	put_all();
	ok(dataset_open(in_folder("c"), NULL, &ds, &err) == RC_OK && is_all(&ds),
	   "what is not called so is left alone %s", err.text);
	dataset_fini(&ds);
}

static void
test_refusals(void)
{
	uint8_t *b;

	put_all();
	put_records("c/data_batch_4.bin", 1, 0);
	ok(refused(RC_FAILED, "data_batch_3.bin not found"),
	   "a batch that is missing between others");
	take_away("c/data_batch_4.bin");
	take_away("c/test_batch.bin");
	ok(refused(RC_FAILED, "test_batch.bin not found"), "no test batch");
	put_all();
	take_away("c/data_batch_1.bin");
	ok(refused(RC_FAILED, "data_batch_1.bin not found"), "no first batch");
	put_text("c/data_batch_1.bin", "");
	ok(refused(RC_BADDATA, "data_batch_1.bin: 0 bytes are not a multiple of the record's 3073"),
	   "an empty batch");
	put_all();
	ok(truncate(in_folder("c/data_batch_2.bin"), 2 * RECORD - 1) == 0 &&
	       refused(RC_BADDATA, "data_batch_2.bin: 6145 bytes are not a multiple"),
	   "a batch truncated");
	put_all();
	ok(truncate(in_folder("c/test_batch.bin"), 2 * RECORD + 1) == 0 &&
	       refused(RC_BADDATA, "test_batch.bin: 6147 bytes are not a multiple"),
	   "a byte too many");
	put_all();
	b = make_records(2, 3);
	b[RECORD] = 10;
	put_bytes("c/data_batch_2.bin", b, 2 * RECORD);
	free(b);
	ok(refused(RC_BADDATA,
		   "data_batch_2.bin: label 10 of record 1; labels of CIFAR-10 are 0 to 9"),
	   "a label of 10, as CIFAR-100 has");
	put_all();
	put_text("c/batches.meta.txt", "cat\ndog\n");
	ok(refused(RC_BADDATA, "batches.meta.txt: 2 class names; needs 10"), "two names");
	put_text("c/batches.meta.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n");
	ok(refused(RC_BADDATA, "batches.meta.txt: 11 class names; needs 10"), "eleven names");
	put_text("c/batches.meta.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n\x1b[2J\n");
	ok(refused(RC_BADDATA, "batches.meta.txt: name 9 is not text"), "a name that is none");
	put_bytes("c/batches.meta.txt", "a\0b", 3);
	ok(refused(RC_BADDATA, "batches.meta.txt: not text"), "a NUL");
	b = calloc(1, 4097);
	put_bytes("c/batches.meta.txt", b, 4097);
	free(b);
	ok(refused(RC_BADDATA, "batches.meta.txt: more than the limit of 4096 bytes"),
	   "long names");
	take_away("c/batches.meta.txt");
	take_away("c/data_batch_1.bin");
	put_dir("c/data_batch_1.bin");
	ok(refused(RC_FAILED, "data_batch_1.bin: Is a directory"), "a folder for a batch");
	take_away("c/data_batch_1.bin");
}

/* ---- the Python version */

/* The same samples as a pickle. */
static void
make_pickle(struct buf *b, uint16_t n, uint32_t first)
{
	uint8_t *records = make_records(n, first), labels[8], *images = malloc((size_t)n * ITEM);

	for (uint32_t i = 0; i < n; i++) {
		labels[i] = records[i * RECORD];
		memcpy(images + i * ITEM, records + i * RECORD + 1, ITEM);
	}
	b->len = 0;
	put_batch(b, n, images, labels);
	free(records);
	free(images);
}

/* put_batch, as file or in an archive. */
static void
put_pickle(const char *name, uint16_t n, uint32_t first, struct buf *tar)
{
	struct buf b = {0};

	make_pickle(&b, n, first);
	if (tar)
		tar_add(tar, name, '0', b.data, b.len);
	else
		put_bytes(name, b.data, b.len);
	buf_fini(&b);
}

static void
make_names(struct buf *b)
{
	b->len = 0;
	PUT(b, "\x80\2}U\x0blabel_names](U\x08"
	       "airplaneU\nautomobileU\4birdU\3catU\4deerU\3dogU\4frog"
	       "U\5horseU\4shipU\5trucke"
	       "s.");
}

static void
test_pickles(void)
{
	struct dataset ds = {0};
	struct err err = {0};
	struct buf b = {0};

	take_away("c");
	put_dir("c");
	put_dir("c/cifar-10-batches-py");
	put_pickle("c/cifar-10-batches-py/data_batch_1", 3, 0, NULL);
	put_pickle("c/cifar-10-batches-py/data_batch_2", 2, 3, NULL);
	put_pickle("c/cifar-10-batches-py/test_batch", 2, 100, NULL);
	ok(dataset_open(in_folder("c"), NULL, &ds, &err) == RC_OK && is_all(&ds) && !ds.class_name,
	   "pickles as their archive unpacks %s", err.text);
	dataset_fini(&ds);
	make_names(&b);
	put_bytes("c/cifar-10-batches-py/batches.meta", b.data, b.len);
	ok(dataset_open(in_folder("c/cifar-10-batches-py"), NULL, &ds, &err) == RC_OK &&
	       is_all(&ds) && ds.class_name && strcmp(ds.class_name[0], "airplane") == 0 &&
	       strcmp(ds.class_name[9], "truck") == 0,
	   "... with the names of the classes %s", err.text);
	dataset_fini(&ds);
	rename(in_folder("c/cifar-10-batches-py"), in_folder("d"));
	take_away("c");
	rename(in_folder("d"), in_folder("c"));

	put_text("c/batches.meta", "\x80\2N.");
	ok(refused(RC_BADDATA, "batches.meta: no list 'label_names'"), "no names");
	put_text("c/batches.meta", "\x80\2}U\x0blabel_names](U\3catU\3doges.");
	ok(refused(RC_BADDATA, "batches.meta: 2 class names; needs 10"), "two names");
	put_text("c/batches.meta", "\x80\2}U\x0blabel_names](NU\3doges.");
	ok(refused(RC_BADDATA, "batches.meta: name 0 is not text"), "a name that is none");
	take_away("c/batches.meta");
	put_text("c/test_batch", "cos\nsystem\n(S'true'\ntR.");
	ok(refused(RC_BADDATA, "test_batch: not a pickle of protocol 2"), "another protocol");
	put_text("c/test_batch", "\x80\2cos\nsystem\n(U\4truetR.");
	ok(refused(RC_BADDATA, "test_batch: the pickle calls os.system; only arrays of numpy"),
	   "a pickle that calls something");
	put_text("c/test_batch", "\x80\2}.");
	ok(refused(RC_BADDATA, "test_batch: no array 'data'"), "an empty dictionary");
	put_text("c/test_batch", "\x80\2].");
	ok(refused(RC_BADDATA, "test_batch: no array 'data'"), "no dictionary");
	make_pickle(&b, 2, 100);
	memcpy(memmem(b.data, b.len, "labels", 6), "fine_l", 6);
	put_bytes("c/test_batch", b.data, b.len);
	ok(refused(RC_BADDATA, "test_batch: no 'labels'"), "no labels");
	make_pickle(&b, 2, 100);
	((char *)memmem(b.data, b.len, "(K\0K\1e", 6))[2] = 10;
	put_bytes("c/test_batch", b.data, b.len);
	ok(refused(RC_BADDATA, "test_batch: label 10 of record 0; labels of CIFAR-10 are 0 to 9"),
	   "a label of 10");
	make_pickle(&b, 2, 100);
	memcpy(memmem(b.data, b.len, "(K\0K\1e", 6), "(M\0\0Ne", 6);
	put_bytes("c/test_batch", b.data, b.len);
	ok(refused(RC_BADDATA, "test_batch: 'labels' is not a list of numbers"), "not a number");
	b.len = 0;
	PUT(&b, "\x80\2}(U\6labels](K\1K\2eU\4data");
	put_array(&b, 1, 3072, (char[3072]){0});
	PUT(&b, "u.");
	put_bytes("c/test_batch", b.data, b.len);
	ok(refused(RC_BADDATA, "test_batch: 2 labels for 1 images"), "more labels than images");
	b.len = 0;
	PUT(&b, "\x80\2}(U\6labels](K\1eU\4data");
	put_array(&b, 1, 3071, (char[3072]){0});
	PUT(&b, "u.");
	put_bytes("c/test_batch", b.data, b.len);
	ok(refused(RC_BADDATA,
		   "test_batch: 'data' is not an array of bytes with one image a row of 3072"),
	   "images of another size");
	take_away("c/test_batch");
	ok(refused(RC_FAILED, "test_batch not found"), "no test batch");
	put_pickle("c/data_batch_4", 1, 0, NULL);
	ok(refused(RC_FAILED, "data_batch_3 not found"), "a batch that is missing");
	put_text("c/data_batch_-1", "x");
	put_text("c/data_batch_1000", "x");
	put_text("c/data_batch_ 7", "x");
	ok(refused(RC_FAILED, "data_batch_3 not found"), "names that are no batch's");
	buf_fini(&b);
}

static void
test_archives(void)
{
	struct dataset ds = {0};
	struct err err = {0};
	struct buf b = {0}, names = {0};
	uint8_t *records;

	make_names(&names);
	tar_add(&b, "cifar-10-batches-py/", '5', "", 0);
	put_pickle("cifar-10-batches-py/test_batch", 2, 100, &b);
	put_pickle("cifar-10-batches-py/data_batch_2", 2, 3, &b);
	tar_add(&b, "cifar-10-batches-py/batches.meta", '0', names.data, names.len);
	tar_add(&b, "cifar-10-batches-py/readme.html", '0', "<html>", 6);
	put_pickle("cifar-10-batches-py/data_batch_1", 3, 0, &b);
	tar_end(&b);
	put_gzip("t.tar.gz", b.data, b.len);
	put_bytes("t.tar", b.data, b.len);
	ok(dataset_open(in_folder("t.tar.gz"), NULL, &ds, &err) == RC_OK && is_all(&ds) &&
	       ds.class_name,
	   "an archive, in whatever order its files are %s", err.text);
	dataset_fini(&ds);
	ok(dataset_open(in_folder("t.tar"), NULL, &ds, &err) == RC_OK && is_all(&ds),
	   "... not packed %s", err.text);
	dataset_fini(&ds);
	put_dir("data");
	rename(in_folder("t.tar.gz"), in_folder("data/cifar-10-python.tar.gz"));
	ok(dataset_open(in_folder("data"), NULL, &ds, &err) == RC_OK && is_all(&ds),
	   "... by its folder %s", err.text);
	dataset_fini(&ds);
	put_pickle("data_batch_1", 3, 0, &b);
	put_bytes("t.tar", b.data, b.len);
	ok(dataset_open(in_folder("t.tar"), NULL, &ds, &err) == RC_OK && is_all(&ds),
	   "what is behind the end is not looked at %s", err.text);
	dataset_fini(&ds);
	b.len = 0;
	put_pickle("data_batch_1", 3, 0, &b);
	put_pickle("x/data_batch_1", 3, 0, &b);
	put_bytes("t.tar", b.data, b.len);
	ok(dataset_refused(in_folder("t.tar"), NULL, RC_BADDATA,
			   "t.tar: data_batch_1: the batch exists twice"),
	   "a batch twice");
	b.len = 0;
	put_pickle("data_batch_1", 3, 0, &b);
	put_pickle("data_batch_3", 3, 0, &b);
	put_bytes("t.tar", b.data, b.len);
	ok(dataset_refused(in_folder("t.tar"), NULL, RC_BADDATA,
			   "t.tar: no data_batch_2 in the archive"),
	   "a batch that is missing");
	b.len -= 5000;
	put_bytes("t.tar", b.data, b.len);
	ok(dataset_refused(in_folder("t.tar"), NULL, RC_BADDATA,
			   "t.tar: the tar archive is truncated"),
	   "truncated");
	b.len = 0;
	put_pickle("data_batch_1", 3, 0, &b);
	put_bytes("t.tar", b.data, b.len);
	ok(dataset_refused(in_folder("t.tar"), NULL, RC_BADDATA, "t.tar: no test_batch in the"),
	   "no test batch");
	b.len = 0;
	tar_add(&b, "a.txt", '0', "hello", 5);
	put_bytes("t.tar", b.data, b.len);
	ok(dataset_refused(in_folder("t.tar"), NULL, RC_BADDATA, "t.tar: no data_batch_1 in the"),
	   "another archive");
	b.len = 0;
	records = make_records(3, 0);
	tar_add(&b, "d/data_batch_1.bin", '0', records, 3 * RECORD);
	free(records);
	records = make_records(2, 3);
	tar_add(&b, "d/data_batch_2.bin", '0', records, 2 * RECORD);
	free(records);
	records = make_records(2, 100);
	tar_add(&b, "d/test_batch.bin", '0', records, 2 * RECORD);
	free(records);
	put_gzip("t.tar.gz", b.data, b.len);
	ok(dataset_open(in_folder("t.tar.gz"), NULL, &ds, &err) == RC_OK && is_all(&ds),
	   "the binary version's %s", err.text);
	dataset_fini(&ds);
	buf_fini(&b);
	buf_fini(&names);
}

int
main(void)
{
	if (folder_begin() != 0) {
		ok(false, "a folder for the files");
		return tap_done();
	}
	put_dir("c");
	test_reads();
	test_refusals();
	test_pickles();
	test_archives();
	ok(folder_end() == 0, "the folder is gone");
	return tap_done();
}
