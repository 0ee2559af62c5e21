#include "options.h"

#include <string.h>

#include "base/log.h"

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
	enum option_ask ask;
	enum rc rc = config_parse(argc, argv, o, &ask, err);

	if (rc == RC_OK && o->unknown)
		warn(o->unknown);
	return rc == RC_OK && ask != OPTION_RUN ? config_answer(o, ask, err) : rc;
}
