#include "algo_files.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"

static enum rc
load(struct coord *c, const char *path, struct err *err)
{
	struct buf text = {0};
	enum rc rc = file_text(path, "an algorithm's file", &text, err);

	if (rc == RC_OK && coord_add_algo(c, text.data, strlen(text.data), path, err) != RC_OK)
		rc = err->rc;
	buf_fini(&text);
	return rc;
}

enum rc
algo_files_load(struct coord *c, const char *list, struct err *err)
{
	enum rc rc = RC_OK;
	char path[4096];

	for (const char *p = list ? list : ""; *p && rc == RC_OK;) {
		size_t n = strcspn(p, ":");

		if (n >= sizeof path)
			return err_set(err, RC_INVAL, "--algo-files: a path of %zu bytes", n);
		snprintf(path, sizeof path, "%.*s", (int)n, p);
		if (n)
			rc = load(c, path, err);
		p += n + (p[n] == ':');
	}
	return rc == RC_OK ? rc : err_prefix(err, "--algo-files");
}
