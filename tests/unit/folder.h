/*
 * folder.h - a test's own folder, and files in it. One a program; folder_end removes everything.
 */
#ifndef FOLDER_H
#define FOLDER_H

#include <ftw.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static char folder[] = "/tmp/gpusim-test.XXXXXX";

/* A path in the folder; valid for the next seven calls. */
static inline const char *
in_folder(const char *name)
{
	static char path[8][PATH_MAX];
	static int next;
	char *p = path[next++ % 8];

	snprintf(p, PATH_MAX, "%s/%s", folder, name);
	return p;
}

static inline int
folder_begin(void)
{
	return mkdtemp(folder) ? 0 : -1;
}

static inline int
folder_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* Remove something in the folder, with its contents. */
static inline void
take_away(const char *name)
{
	nftw(in_folder(name), folder_remove, 8, FTW_DEPTH | FTW_PHYS);
}

static inline int
folder_end(void)
{
	take_away(".");
	return rmdir(folder);
}

static inline void
put_dir(const char *name)
{
	mkdir(in_folder(name), 0700);
}

static inline const char *
put_bytes(const char *name, const void *bytes, size_t nbytes)
{
	const char *path = in_folder(name);
	FILE *f = fopen(path, "wb");

	fwrite(bytes, 1, nbytes, f);
	fclose(f);
	return path;
}

static inline const char *
put_text(const char *name, const char *text)
{
	return put_bytes(name, text, strlen(text));
}

static inline const char *
put_gzip(const char *name, const void *bytes, size_t nbytes)
{
	const char *path = in_folder(name);
	gzFile f = gzopen(path, "wb");

	gzwrite(f, bytes, (unsigned)nbytes);
	gzclose(f);
	return path;
}

#endif
