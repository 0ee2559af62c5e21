#include "base/host.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void
host_id(char out[HOST_ID_MAX])
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (!f || !fgets(out, HOST_ID_MAX, f))
		out[0] = '\0';
	out[strcspn(out, "\n")] = '\0';
	if (f)
		fclose(f);
}

bool
host_own_folder(char *out, size_t nbytes)
{
	ssize_t n = readlink("/proc/self/exe", out, nbytes - 1);
	char *slash;

	out[n > 0 ? n : 0] = '\0';
	slash = strrchr(out, '/');
	if (slash)
		*slash = '\0';
	return slash != NULL;
}
