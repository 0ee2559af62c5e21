/* load.c - a cluster by the path of its file, or by the name of a ready one. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/host.h"
#include "base/nearest.h"
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

static bool
there(char path[PATH_MAX], const char *folder, int len, const char *name)
{
	return snprintf(path, PATH_MAX, "%.*s/%s.ini", len, folder, name) < PATH_MAX &&
	       access(path, R_OK) == 0;
}

/* The names "x" of the files "x.ini" in a folder. */
static void
list_folder(const char *folder, void (*offer)(void *arg, const char *name), void *arg)
{
	struct dirent **list;
	int n = scandir(folder, &list, NULL, alphasort);
	size_t len;

	for (int i = 0; i < n; i++) {
		len = strlen(list[i]->d_name);
		if (len > 4 && strcmp(list[i]->d_name + len - 4, ".ini") == 0) {
			list[i]->d_name[len - 4] = '\0';
			offer(arg, list[i]->d_name);
		}
		free(list[i]);
	}
	if (n >= 0)
		free(list);
}

void
cluster_names(const char *kind, void (*offer)(void *arg, const char *name), void *arg)
{
	const char *p = strcmp(kind, "clusters") == 0 ? getenv("GPUSIM_CLUSTERS") : NULL;
	char own[PATH_MAX - 96], folder[PATH_MAX];
	size_t len;

	for (; p && *p; p += len + (p[len] == ':')) {
		len = strcspn(p, ":");
		snprintf(folder, sizeof folder, "%.*s", (int)len, p);
		list_folder(folder, offer, arg);
	}
	if (!host_own_folder(own, sizeof own))
		return;
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		snprintf(folder, sizeof folder, "%s/%s/%s", own, places[i], kind);
		list_folder(folder, offer, arg);
	}
}

static bool
in_environment(char path[PATH_MAX], const char *name)
{
	const char *p = getenv("GPUSIM_CLUSTERS");
	size_t len;

	for (; p && *p; p += len + (p[len] == ':')) {
		len = strcspn(p, ":");
		if (len && there(path, p, (int)len, name))
			return true;
	}
	return false;
}

static bool
find(char path[PATH_MAX], const char *kind, const char *name)
{
	char own[PATH_MAX - 96], folder[PATH_MAX];

	if (strcmp(kind, "clusters") == 0 && in_environment(path, name))
		return true;
	if (!host_own_folder(own, sizeof own))
		return false;
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		snprintf(folder, sizeof folder, "%s/%s/%s", own, places[i], kind);
		if (there(path, folder, (int)strlen(folder), name))
			return true;
	}
	return false;
}

/* The names for a sentence, and the one that a word may stand for. */
struct offered {
	struct buf list;
	struct nearest near;
	char nearest[64];
};

static void
gather(void *arg, const char *name)
{
	struct offered *o = arg;
	const char *before = o->near.name;

	buf_addf(&o->list, "%s%s", o->list.len ? ", " : "", name);
	nearest_offer(&o->near, name);
	if (o->near.name != before) { /* `name` will be gone */
		snprintf(o->nearest, sizeof o->nearest, "%s", name);
		o->near.name = o->nearest;
	}
}

enum rc
cluster_find(const char *kind, const char *word, char path[PATH_MAX], struct err *err)
{
	struct offered names = {.near = nearest_begin(word)};

	if (is_path(word) ? snprintf(path, PATH_MAX, "%s", word) < PATH_MAX
			  : find(path, kind, word))
		return RC_OK;
	cluster_names(kind, gather, &names);
	err_set(err, RC_INVAL,
		"'%.64s' is none of the ready %s%s%s%s; a path has a / or ends with .ini; there "
		"are %.300s",
		word, kind, names.near.name ? ", did you mean '" : "", names.nearest,
		names.near.name ? "'?" : "", names.list.len ? names.list.data : "none");
	buf_fini(&names.list);
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
