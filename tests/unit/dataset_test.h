/*
 * dataset_test.h - rejected data sets, for tests of their readers.
 */
#ifndef DATASET_TEST_H
#define DATASET_TEST_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "folder.h"
#include "nn/dataset.h"

/* Is the data set rejected with want_rc and a message with `want`, and *ds untouched? Errors in
 * data name the path. */
static inline bool
dataset_refused(const char *path, const struct dataset_options *o, enum rc want_rc,
		const char *want)
{
	static const struct dataset untouched = {.rows = 99, .nclasses = 77};
	struct dataset ds = untouched;
	struct err err = {0};
	enum rc rc = dataset_open(path, o, &ds, &err);
	bool good = rc == want_rc && strstr(err.text, want) &&
		    memcmp(&ds, &untouched, sizeof ds) == 0 &&
		    (rc != RC_BADDATA || strncmp(err.text, folder, strlen(folder)) == 0);

	if (!good)
		printf("# rc %d \"%s\", expected \"%s\"\n", (int)rc, err.text, want);
	if (rc == RC_OK)
		dataset_fini(&ds);
	return good;
}

#endif
