#include "options.h"

#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/option.h"

/* A warning for each line. */
static void
warn(const char *sentences)
{
	for (size_t len; *sentences; sentences += len + (sentences[len] == '\n')) {
		len = strcspn(sentences, "\n");
		log_line(LOG_WARN, "ignored: %.*s", (int)len, sentences);
	}
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
	if (o->unknown)
		warn(o->unknown);
	if (wish == CONFIG_HELP)
		good = config_usage(&text);
	else if (wish == CONFIG_VERSION)
		good = buf_addf(&text, "mnist-train %s\n", GPUSIM_VERSION);
	else if (wish == CONFIG_PRINT)
		rc = config_print(o, &text, err);
	if (!good || !buf_add(&text, "", 1))
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc == RC_OK && wish != CONFIG_TRAIN)
		rc = option_answer(text.data, err);
	buf_fini(&text);
	return rc;
}
