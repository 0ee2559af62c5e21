#include "statedir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool
statedir_path(char *out, size_t room)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int n;

	if (state && *state == '/')
		n = snprintf(out, room, "%s/gpusim", state);
	else if (home && *home == '/')
		n = snprintf(out, room, "%s/.local/state/gpusim", home);
	else
		return false;
	return n > 0 && (size_t)n < room;
}

void
statedir_make(const char *path)
{
	char part[1024];

	if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
		return;
	for (char *p = part + 1; *p; p++)
		if (*p == '/') {
			*p = '\0';
			mkdir(part, 0700);
			*p = '/';
		}
	mkdir(part, 0700);
}

void
statedir_show(const char *path, char *out, size_t room)
{
	const char *home = getenv("HOME");
	size_t n = home ? strlen(home) : 0;

	if (n > 1 && strncmp(path, home, n) == 0 && (path[n] == '/' || path[n] == '\0'))
		snprintf(out, room, "~%s", path + n);
	else
		snprintf(out, room, "%s", path);
}
