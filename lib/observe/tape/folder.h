/*
 * folder.h - the folder of a recording: a file for each device, and the coordinator's.
 */
#ifndef TAPE_FOLDER_H
#define TAPE_FOLDER_H

#include <stddef.h>

#include "base/rc.h"

/* Create the folder if missing. RC_BUSY: it already has a recording. RC_FAILED. */
enum rc tape_folder_new(const char *dir, struct err *err);

/*
 * tape_folder_list - paths of its files, sorted.
 *
 *	*out	[out] release with tape_folder_free
 *
 * RC_FAILED: it cannot be read, or has no such file. RC_NOMEM.
 */
enum rc tape_folder_list(const char *dir, char ***out, size_t *n, struct err *err);
void tape_folder_free(char **list, size_t n);

/* Remove its files, and the folder if nothing else is in it. */
void tape_folder_clear(const char *dir);

#endif
