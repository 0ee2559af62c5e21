#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"

/* Print and end, with an error when standard output is full. */
static enum rc
print_and_end(const struct buf *text, struct err *err)
{
	fwrite(text->data, 1, text->len, stdout);
	if (fflush(stdout) != 0 || close(STDOUT_FILENO) != 0)
		return err_set(err, RC_FAILED, "standard output: %m");
	exit(EXIT_OK);
}

enum rc
options_parse(int argc, char **argv, struct train_config *o, struct err *err)
{
	enum config_wish wish;
	struct buf text = {0};
	enum rc rc = config_parse(argc, argv, o, &wish, err);
	bool good = true;

	if (rc != RC_OK)
		return rc;
	if (wish == CONFIG_HELP)
		good = config_usage(&text);
	else if (wish == CONFIG_VERSION)
		good = buf_addf(&text, "mnist-train %s\n", GPUSIM_VERSION);
	else if (wish == CONFIG_PRINT)
		rc = config_print(o, &text, err);
	if (!good)
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK && wish != CONFIG_TRAIN)
		rc = print_and_end(&text, err);
	buf_fini(&text);
	return rc;
}
