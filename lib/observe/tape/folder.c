#include "tape/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "tape/tape.h"

static int
is_ours(const struct dirent *d)
{
	size_t n = strlen(d->d_name), suffix = strlen(TAPE_SUFFIX);

	return n > suffix && strcmp(d->d_name + n - suffix, TAPE_SUFFIX) == 0;
}

static void
free_entries(struct dirent **list, int n)
{
	for (int i = 0; i < n; i++)
		free(list[i]);
	if (n >= 0)
		free(list);
}

enum rc
tape_folder_new(const char *dir, struct err *err)
{
	struct dirent **list;
	int n;

	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return err_set(err, RC_FAILED, "%s: %s", dir, strerror(errno));
	n = scandir(dir, &list, is_ours, NULL);
	if (n < 0)
		return err_set(err, RC_FAILED, "%s: %s", dir, strerror(errno));
	free_entries(list, n);
	return n ? err_set(err, RC_BUSY, "%s: already has a recording", dir) : RC_OK;
}

void
tape_folder_free(char **list, size_t n)
{
	for (size_t i = 0; list && i < n; i++)
		free(list[i]);
	free(list);
}

enum rc
tape_folder_list(const char *dir, char ***out, size_t *n, struct err *err)
{
	struct dirent **list;
	struct buf b = {0};
	char **paths;
	int k = scandir(dir, &list, is_ours, versionsort);
	bool good = true;

	if (k < 0)
		return err_set(err, RC_FAILED, "%s: %s", dir, strerror(errno));
	paths = alloc_zeroed((size_t)k + 1, sizeof *paths);
	for (int i = 0; paths && good && i < k; i++) {
		b = (struct buf){0};
		good = buf_addf(&b, "%s/%s", dir, list[i]->d_name);
		paths[i] = b.data;
	}
	free_entries(list, k);
	if (!paths || !good) {
		tape_folder_free(paths, (size_t)k);
		return err_set(err, RC_NOMEM, "out of memory");
	}
	if (k == 0) {
		free(paths);
		return err_set(err, RC_FAILED, "%s: not a recording: no file ends in %s", dir,
			       TAPE_SUFFIX);
	}
	*out = paths;
	*n = (size_t)k;
	return RC_OK;
}

void
tape_folder_clear(const char *dir)
{
	char **list;
	size_t n;
	struct err err;

	if (tape_folder_list(dir, &list, &n, &err) == RC_OK) {
		for (size_t i = 0; i < n; i++)
			unlink(list[i]);
		tape_folder_free(list, n);
	}
	rmdir(dir);
}
