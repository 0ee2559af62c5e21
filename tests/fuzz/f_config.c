/* Fuzz gpucoord's configuration file. An accepted file has an address for each device, within its
 * bounds; a rejected one has a reason. */
#include <stdlib.h>
#include <string.h>

#include "../../cmd/gpucoord/options.h"

#include "fuzz.h"

static void
check(const struct options *c)
{
	require(memchr(c->listen, 0, sizeof c->listen) != NULL);
	require(c->ndevices <= OPTIONS_MAX_DEVICES);
	for (size_t i = 0; i < c->ndevices; i++) {
		const struct options_device *d = &c->device[i];
		struct err err = {0};

		require(memchr(d->name, 0, sizeof d->name) != NULL);
		require(net_addr_check(d->address, NET_ANY_HOST, &err) == RC_OK);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct options c = {0};
	struct err err = {0};
	char *text = text_of(data, size); /* option_file rejects a NUL inside */

	if (!text)
		return 0;
	if (options_parse_text(text, "fuzz", &c, &err) == RC_OK)
		check(&c);
	else
		require(err.rc != RC_OK && err.text[0] && !c.device);
	options_fini(&c);
	free(text);
	return 0;
}
