#include "cudart/cuda_impl.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The device that an entry of len characters names; n: none. */
static size_t
named(const char *entry, size_t len, const char (*uuid)[VISIBLE_UUID], size_t n)
{
	size_t found = n, number = 0;

	if (len >= 4 && strncasecmp(entry, "GPU-", 4) == 0) {
		for (size_t i = 0; i < n; i++)
			if (strncasecmp(uuid[i], entry, len) == 0) {
				if (found < n)
					return n; /* it matches two */
				found = i;
			}
		return found;
	}
	for (size_t i = 0; i < len; i++) {
		if (!isdigit((unsigned char)entry[i]) || number > n)
			return n;
		number = number * 10 + (size_t)(entry[i] - '0');
	}
	return len && number < n ? number : n;
}

static size_t
all(size_t n, size_t *index)
{
	for (size_t i = 0; i < n; i++)
		index[i] = i;
	return n;
}

size_t
visible_parse(const char *list, const char (*uuid)[VISIBLE_UUID], size_t n, size_t *index)
{
	size_t count = 0;

	if (!list)
		return all(n, index);
	for (;;) {
		size_t len, which;

		list += strspn(list, " \t");
		len = strcspn(list, ", \t");
		which = named(list, len, uuid, n);
		if (which == n)
			return count;
		for (size_t i = 0; i < count; i++)
			if (index[i] == which)
				return 0;
		index[count++] = which;
		list += len;
		list += strspn(list, " \t");
		if (*list != ',')
			return count;
		list++;
	}
}
