/* The descriptors, threads and memory of a daemon, from /proc. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "chaos/chaos_impl.h"

void
chaos_usage(uint32_t pid, struct chaos_usage *out)
{
	unsigned long long kib;
	char path[64], line[256];
	unsigned fds = 0;
	DIR *d;
	FILE *f;

	*out = (struct chaos_usage){.pid = pid};
	snprintf(path, sizeof path, "/proc/%u/fd", pid);
	d = opendir(path);
	while (d && readdir(d))
		fds++;
	if (d)
		closedir(d);
	out->fds = fds > 2 ? fds - 2 : 0;
	snprintf(path, sizeof path, "/proc/%u/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f)) {
		if (sscanf(line, "RssAnon: %llu", &kib) == 1)
			out->kib = kib;
		sscanf(line, "Threads: %u", &out->threads);
	}
	if (f)
		fclose(f);
}
