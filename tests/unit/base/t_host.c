/* The host's id: the machine's own, or a name that the user gives it. */
#include <stdlib.h>
#include <string.h>

#include "base/host.h"

#include "tap.h"

static bool
is(const char *gpusim, const char *nccl, const char *want)
{
	char id[HOST_ID_MAX];

	setenv("GPUSIM_HOSTID", gpusim, 1);
	setenv("NCCL_HOSTID", nccl, 1);
	host_id(id);
	return strcmp(id, want) == 0;
}

int
main(void)
{
	char own[HOST_ID_MAX], one[HOST_ID_MAX], other[HOST_ID_MAX], name[200];

	unsetenv("GPUSIM_HOSTID");
	unsetenv("NCCL_HOSTID");
	host_id(own);
	ok(strlen(own) == 36, "the machine's own: a boot id");
	ok(is("", "", own), "empty names are none");
	ok(is("b", "a", "b") && is("", "a", "a"), "GPUSIM_HOSTID, else NCCL_HOSTID");
	memset(name, 'x', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	is(name, "", "");
	host_id(one);
	name[150] = 'y';
	is(name, "", "");
	host_id(other);
	ok(strlen(one) < HOST_ID_MAX && strcmp(one, other) != 0, "long names differ");
	is("node 1", "", "");
	host_id(one);
	ok(!strchr(one, ' ') && !is("node 2", "", one), "so do names with blanks");
	name[HOST_ID_MAX - 1] = '\0';
	ok(is(name, "", name), "%d bytes are taken as they are", HOST_ID_MAX - 1);
	return tap_done();
}
