/* CIFAR-10's binary version: where the files may lie, what is in them, what is refused. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "dataset_test.h"
#include "tap.h"

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
	ok(refused(RC_FAILED, "no data_batch_3.bin here"),
	   "a batch that is missing between others");
	take_away("c/data_batch_4.bin");
	take_away("c/test_batch.bin");
	ok(refused(RC_FAILED, "no test_batch.bin here"), "no test batch");
	put_all();
	take_away("c/data_batch_1.bin");
	ok(refused(RC_FAILED, "no data_batch_1.bin here"), "no first batch");
	put_text("c/data_batch_1.bin", "");
	ok(refused(RC_BADDATA, "data_batch_1.bin: 0 bytes are no whole number of records of 3073"),
	   "an empty batch");
	put_all();
	ok(truncate(in_folder("c/data_batch_2.bin"), 2 * RECORD - 1) == 0 &&
	       refused(RC_BADDATA, "data_batch_2.bin: 6145 bytes are no whole number"),
	   "a batch cut short");
	put_all();
	ok(truncate(in_folder("c/test_batch.bin"), 2 * RECORD + 1) == 0 &&
	       refused(RC_BADDATA, "test_batch.bin: 6147 bytes are no whole number"),
	   "a byte too many");
	put_all();
	b = make_records(2, 3);
	b[RECORD] = 10;
	put_bytes("c/data_batch_2.bin", b, 2 * RECORD);
	free(b);
	ok(refused(RC_BADDATA, "data_batch_2.bin: label 10 of record 1, CIFAR-10 has 0 to 9"),
	   "a label of 10, as CIFAR-100 has");
	put_all();
	put_text("c/batches.meta.txt", "cat\ndog\n");
	ok(refused(RC_BADDATA, "batches.meta.txt: 2 names of classes, not 10"), "two names");
	put_text("c/batches.meta.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n");
	ok(refused(RC_BADDATA, "batches.meta.txt: 11 names of classes, not 10"), "eleven names");
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
	ok(folder_end() == 0, "the folder is gone");
	return tap_done();
}
