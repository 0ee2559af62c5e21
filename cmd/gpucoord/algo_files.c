#include "algo_files.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

/* Return true for a file that could block, such as a FIFO. */
static bool
waits(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

static enum rc
load(struct coord *c, const char *path, const struct decisions *record, struct err *err)
{
	struct coord_actions actions = {0};
	struct buf text = {0};
	enum rc rc = waits(path) ? err_set(err, RC_FAILED, "%s: not a regular file", path)
				 : file_text(path, "an algorithm's file", &text, err);

	if (rc == RC_OK)
		rc = coord_add_algo(c, text.data, strlen(text.data), path, &actions, err);
	for (size_t i = 0; i < actions.n; i++)
		decisions_note(record, &actions.v[i]);
	coord_actions_fini(&actions);
	buf_fini(&text);
	return rc;
}

enum rc
algo_files_load(struct coord *c, const char *list, const struct decisions *record, struct err *err)
{
	enum rc rc = RC_OK;
	char path[4096];

	for (const char *p = list ? list : ""; *p && rc == RC_OK;) {
		size_t n = strcspn(p, ":");

		if (n >= sizeof path)
			return err_set(err, RC_INVAL, "--algo-files: path of %zu bytes is too long",
				       n);
		snprintf(path, sizeof path, "%.*s", (int)n, p);
		if (n)
			rc = load(c, path, record, err);
		p += n + (p[n] == ':');
	}
	return rc == RC_OK ? rc : err_prefix(err, "--algo-files");
}
