/* Fuzz tables: the same bytes as records, as a number, and as a data set with the label guessed,
 * first, and by name. Accepted data are consistent. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nn/csv.h"
#include "nn/dataset.h"
#include "nn/decimal.h"

#include "fuzz.h"

static void
try_records(const uint8_t *data, size_t size)
{
	static struct csv csv;
	struct input in = {.name = "fuzz", .fd = -1, .nstored = size, .next = data, .avail = size};
	struct err err = {0};
	char shown[CSV_SHOW];
	bool more = true;
	uint64_t line = 0;

	if (input_begin(&in, &err) != RC_OK)
		return;
	csv = (struct csv){0};
	if (csv_begin(&csv, &in, &err) == RC_OK)
		while (csv_next(&csv, &more, &err) == RC_OK && more) {
			require(csv.nfields >= 1 && csv.record_line > line);
			line = csv.record_line;
			for (uint32_t i = 0; i < csv.nfields; i++)
				require(strlen(csv_show(&csv.fields[i], shown)) < CSV_SHOW);
		}
	csv_end(&csv);
	input_end(&in);
}

static void
try_number(const uint8_t *data, size_t size)
{
	char text[64];
	float f;

	if (size < sizeof text) {
		memcpy(text, data, size);
		text[size] = '\0';
		if (decimal_f32((const char *)data, size, &f) == DECIMAL_OK)
			require(f == strtof(text, NULL) && isfinite(f));
	}
}

static void
check_part(const struct dataset *ds, const struct dataset_part *p)
{
	size_t nbytes = p->nitems * dataset_item_size(ds);

	for (uint32_t i = 0; i < p->nitems; i++)
		require(p->labels[i] < ds->nclasses);
	if (ds->dtype == GPUSIM_F32)
		for (size_t i = 0; i < nbytes; i++)
			require(isfinite(((const float *)p->items)[i]));
	else if (nbytes > 0)
		require(((const uint8_t *)p->items)[nbytes - 1] <= 255);
}

static void
try_dataset(const char *path, const char *label)
{
	const struct dataset_options o = {.format = DATASET_CSV,
					  .normalize = DATASET_STANDARD,
					  .label_column = label,
					  .train = 0.5,
					  .test = 0.5};
	struct dataset ds = {0};
	struct err err = {0};
	enum rc rc = dataset_open(path, &o, &ds, &err);

	if (rc != RC_OK) {
		require((rc == RC_BADDATA || rc == RC_NOMEM) && err.text[0] && !ds.scale);
		for (const char *s = err.text; *s; s++)
			require((unsigned char)*s >= 0x20);
		return;
	}
	require(ds.nclasses >= 2 && ds.nclasses <= 256);
	for (uint32_t i = 0; ds.class_name && i < ds.nclasses; i++)
		require(ds.class_name[i] && ds.class_name[i][0]);
	for (uint32_t c = 0; c < ds.channels; c++)
		require(isfinite(ds.scale[c]));
	check_part(&ds, &ds.train);
	check_part(&ds, &ds.test);
	dataset_fini(&ds);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[32];
	int fd;

	try_records(data, size);
	try_number(data, size);
	fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0)
		return 0;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (size == 0 || write(fd, data, size) == (ssize_t)size) {
		try_dataset(path, NULL);
		try_dataset(path, "first");
		try_dataset(path, "k");
	}
	close(fd);
	return 0;
}
