/* Recognises addresses of the program's own memory. */
#include "cudart/launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cudart/space.h"

#define LEAST 65536 /* addresses below are not mapped */

/* Search the list of mappings: private, and writable. Called only for values that are addresses. */
static bool
is_private(uint64_t value)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	bool found = false, is = false;

	while (f && !found && fgets(line, sizeof line, f)) {
		uint64_t from, to;
		char mode[8];

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &from, &to, mode) != 3 ||
		    value < from || value >= to)
			continue;
		found = true;
		is = mode[1] == 'w' && mode[3] == 'p';
	}
	if (f)
		fclose(f);
	return is;
}

bool
launch_is_host(uint64_t value)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	unsigned char there;

	if (value < LEAST || value >> 47 || space_find((const void *)(uintptr_t)value) ||
	    space_is_pinned((const void *)(uintptr_t)value))
		return false;
	if (mincore((void *)(uintptr_t)(value / page * page), 1, &there) != 0)
		return false;
	return is_private(value);
}
