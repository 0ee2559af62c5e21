/*
 * statedir.h - the folder where this user's programs keep what outlives them: $XDG_STATE_HOME/gpusim, else
 * ~/.local/state/gpusim.
 */
#ifndef GPUCOORD_STATEDIR_H
#define GPUCOORD_STATEDIR_H

#include <stdbool.h>
#include <stddef.h>

/* Its path; false: there is none, or no room for it. It is not made. */
bool statedir_path(char *out, size_t room);

/* Make a folder, private, and those above it. Errors show when it is used. */
void statedir_make(const char *path);

/* A path as people read it: with ~ for the home. */
void statedir_show(const char *path, char *out, size_t room);

#endif
