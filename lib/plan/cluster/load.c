/* load.c - a cluster by the path of its file, or the name of a built-in one. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/host.h"
#include "base/must.h"
#include "cluster/cluster.h"

/* From the program's folder: installed; of a source tree, which is built in build or in a folder of it. */
static const char *const places[] = {"../share/gpusim", "../../examples", "../../../examples",
				     "../../../../examples"};

static bool
is_path(const char *word)
{
	size_t n = strlen(word);

	return strchr(word, '/') || (n > 4 && strcmp(word + n - 4, ".ini") == 0);
}

/* The i-th folder that may have built-in files; false: no more. */
static bool
folder(const char *kind, size_t i, char out[PATH_MAX])
{
	const char *p = strcmp(kind, "clusters") == 0 ? getenv("GPUSIM_CLUSTERS") : NULL;
	char own[PATH_MAX - 96];

	for (; p && *p; p += strspn(p, ":")) {
		size_t len = strcspn(p, ":");

		if (len && i-- == 0)
			return snprintf(out, PATH_MAX, "%.*s", (int)len, p) >= 0;
		p += len;
	}
	return i < sizeof places / sizeof *places && host_own_folder(own, sizeof own) &&
	       snprintf(out, PATH_MAX, "%s/%s/%s", own, places[i], kind) >= 0;
}

void
cluster_names(const char *kind, struct buf *out)
{
	char at[PATH_MAX];
	struct dirent **list;

	for (size_t k = 0; folder(kind, k, at); k++) {
		int n = scandir(at, &list, NULL, alphasort);

		for (int i = 0; i < n; i++) {
			const char *name = list[i]->d_name;

			if (is_path(name))
				must_addf(out, "%s%.*s", out->len ? ", " : "",
					  (int)strlen(name) - 4, name);
			free(list[i]);
		}
		if (n >= 0)
			free(list);
	}
}

enum rc
cluster_find(const char *kind, const char *word, char path[PATH_MAX], struct err *err)
{
	struct buf names = {0};
	char at[PATH_MAX];

	if (is_path(word) && snprintf(path, PATH_MAX, "%s", word) < PATH_MAX)
		return RC_OK;
	for (size_t i = 0; !is_path(word) && folder(kind, i, at); i++)
		if (snprintf(path, PATH_MAX, "%s/%s.ini", at, word) < PATH_MAX &&
		    access(path, R_OK) == 0)
			return RC_OK;
	cluster_names(kind, &names);
	err_set(err, RC_INVAL,
		"'%.64s' is not one of the built-in %s: %.300s; a path has a / or ends with .ini",
		word, kind, names.len ? names.data : "there are none");
	buf_fini(&names);
	return RC_INVAL;
}

enum rc
cluster_load(const char *word, struct cluster *out, struct err *err)
{
	char path[PATH_MAX];
	struct buf text = {0};
	enum rc rc = cluster_find("clusters", word, path, err);

	if (rc == RC_OK)
		rc = file_text(path, "a cluster", &text, err);
	if (rc == RC_OK)
		rc = cluster_read(text.data, path, out, err);
	buf_fini(&text);
	return rc;
}
