/* load.c - a cluster by the path of its file, or by the name of a ready one. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/host.h"
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

/* Visit the folders that may have ready ones, until one says true. */
static bool
each_folder(const char *kind, bool (*visit)(void *arg, const char *folder), void *arg)
{
	const char *p = strcmp(kind, "clusters") == 0 ? getenv("GPUSIM_CLUSTERS") : NULL;
	char own[PATH_MAX - 96], folder[PATH_MAX];
	size_t len;

	for (; p && *p; p += len + (p[len] == ':')) {
		len = strcspn(p, ":");
		snprintf(folder, sizeof folder, "%.*s", (int)len, p);
		if (len && visit(arg, folder))
			return true;
	}
	for (size_t i = 0; host_own_folder(own, sizeof own) && i < sizeof places / sizeof *places;
	     i++) {
		snprintf(folder, sizeof folder, "%s/%s/%s", own, places[i], kind);
		if (visit(arg, folder))
			return true;
	}
	return false;
}

struct wanted {
	char *path;
	const char *name;
};

static bool
has_wanted(void *arg, const char *folder)
{
	const struct wanted *w = arg;

	return snprintf(w->path, PATH_MAX, "%s/%s.ini", folder, w->name) < PATH_MAX &&
	       access(w->path, R_OK) == 0;
}

/* The names "x" of the files "x.ini", ", " between them. */
static bool
add_names(void *arg, const char *folder)
{
	struct dirent **list;
	int n = scandir(folder, &list, NULL, alphasort);
	struct buf *out = arg;

	for (int i = 0; i < n; i++) {
		const char *name = list[i]->d_name;
		size_t len = strlen(name);

		if (len > 4 && strcmp(name + len - 4, ".ini") == 0)
			buf_addf(out, "%s%.*s", out->len ? ", " : "", (int)len - 4, name);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
	return false;
}

void
cluster_names(const char *kind, struct buf *out)
{
	each_folder(kind, add_names, out);
}

enum rc
cluster_find(const char *kind, const char *word, char path[PATH_MAX], struct err *err)
{
	struct wanted w = {path, word};
	struct buf names = {0};

	if (is_path(word) ? snprintf(path, PATH_MAX, "%s", word) < PATH_MAX
			  : each_folder(kind, has_wanted, &w))
		return RC_OK;
	cluster_names(kind, &names);
	err_set(err, RC_INVAL,
		"'%.64s' is none of the ready %s: %.300s; a path has a / or ends with .ini", word,
		kind, names.len ? names.data : "there are none");
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
