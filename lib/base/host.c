#include "base/host.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The name that the user gives this host; NULL: none. */
static const char *
given_id(void)
{
	static const char *const variables[] = {"GPUSIM_HOSTID", "NCCL_HOSTID"};

	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
		const char *id = getenv(variables[i]);

		if (id && *id)
			return id;
	}
	return NULL;
}

/* A name of any bytes and length as an id. */
static void
take_id(const char *name, char out[HOST_ID_MAX])
{
	uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */
	size_t len = strlen(name), plain = 0;

	while (plain < len && name[plain] > ' ' && name[plain] < 0x7f)
		plain++;
	if (plain == len && len < HOST_ID_MAX) {
		memcpy(out, name, len + 1);
		return;
	}
	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 0x100000001b3;
	snprintf(out, HOST_ID_MAX, "named-%016" PRIx64, hash);
}

void
host_id(char out[HOST_ID_MAX])
{
	const char *given = given_id();
	FILE *f;

	if (given) {
		take_id(given, out);
		return;
	}
	f = fopen("/proc/sys/kernel/random/boot_id", "re");
	if (!f || !fgets(out, HOST_ID_MAX, f))
		out[0] = '\0';
	out[strcspn(out, "\n")] = '\0';
	if (f)
		fclose(f);
}

bool
host_is_this(const char *id)
{
	char mine[HOST_ID_MAX];

	host_id(mine);
	return *mine && strcmp(mine, id) == 0;
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
