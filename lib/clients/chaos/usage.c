/* The descriptors, threads and memory of a daemon, from /proc. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "chaos/chaos_impl.h"

static unsigned
count_entries(const char *path)
{
	DIR *d = opendir(path);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n > 2 ? n - 2 : 0;
}

void
chaos_usage(uint32_t pid, struct chaos_usage *out)
{
	unsigned long long kib;
	char path[64], line[256];
	FILE *f;

	*out = (struct chaos_usage){.pid = pid};
	snprintf(path, sizeof path, "/proc/%u/fd", pid);
	out->fds = count_entries(path);
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
