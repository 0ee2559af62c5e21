/* Fuzz mnist-train's configuration file. An accepted configuration is printed as a file that gives
 * the same again; a rejected one has a reason. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "train/config.h"

#include "fuzz.h"

/* Paths that do not fit in a line of a file are not printed. */
static void
check(const struct train_config *c)
{
	struct train_config again = {0};
	struct buf first = {0}, second = {0};
	struct err err = {0};

	require(c->epochs <= 1000000 && c->batch >= 1 && c->net.nsizes <= NET_MAX_SIZES);
	require(c->nworkers <= CONFIG_MAX_WORKERS);
	if (config_print(c, &first, &err) == RC_OK) {
		require(buf_add(&first, "", 1));
		require(config_parse_text(first.data, "printed", &again, &err) == RC_OK);
		require(config_print(&again, &second, &err) == RC_OK && buf_add(&second, "", 1));
		require(strcmp(first.data, second.data) == 0);
		config_fini(&again);
	} else
		require(err.rc == RC_INVAL && err.text[0]);
	buf_fini(&first);
	buf_fini(&second);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct train_config c = {0};
	struct err err = {0};
	char *text = text_of(data, size); /* config_parse rejects a NUL inside */

	if (!text)
		return 0;
	if (config_parse_text(text, "fuzz", &c, &err) == RC_OK)
		check(&c);
	else
		require(err.rc == RC_INVAL && strncmp(err.text, "fuzz:", 5) == 0);
	config_fini(&c);
	free(text);
	return 0;
}
