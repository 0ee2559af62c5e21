/*
 * statedir.h - the folder for state that outlives this user's programs: $XDG_STATE_HOME/gpusim, else
 * ~/.local/state/gpusim.
 */
#ifndef GPUCOORD_STATEDIR_H
#define GPUCOORD_STATEDIR_H

#include <stdbool.h>
#include <stddef.h>

/* Get its path; false: none, or no room for it. The folder is not made. */
bool statedir_path(char *out, size_t room);

/* Make a private folder and those above it. Errors show when it is used. */
void statedir_make(const char *path);

/* A path for people: with ~ for the home directory. */
void statedir_show(const char *path, char *out, size_t room);

#endif
