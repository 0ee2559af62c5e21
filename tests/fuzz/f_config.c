/* Fuzz gpucoord's configuration file. What is accepted has an address for each device, within its
 * bounds; what is refused is refused with a reason. */
#include <stdlib.h>
#include <string.h>

#include "../../cmd/gpucoord/config.h"

#include "fuzz.h"

static void
check(const struct config *c)
{
	require(memchr(c->listen, 0, sizeof c->listen) != NULL);
	require(c->ndevices <= CONFIG_MAX_DEVICES);
	for (size_t i = 0; i < c->ndevices; i++) {
		const struct config_device *d = &c->device[i];
		struct err err = {0};

		require(memchr(d->name, 0, sizeof d->name) != NULL);
		require(net_addr_check(d->address, NET_ANY_HOST, &err) == RC_OK);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config c = {0};
	struct err err = {0};
	char *text = text_of(data, size); /* config_read refuses a NUL inside */

	if (!text)
		return 0;
	if (config_parse(text, "fuzz", &c, &err) == RC_OK)
		check(&c);
	else
		require(err.rc != RC_OK && err.text[0] && !c.device);
	config_fini(&c);
	free(text);
	return 0;
}
