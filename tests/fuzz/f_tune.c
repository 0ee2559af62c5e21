/* Fuzz the tuner's input: the first line is GPUSIM_ALGO, the rest a tuner file. With accepted input
 * every collective has a valid algorithm; rejected input has a reason. */
#include <stdlib.h>
#include <string.h>

#include "coll/tune.h"

#include "fuzz.h"

static void
check(const struct tuner *t)
{
	struct tune_answer out;
	struct err err = {0};

	for (size_t i = 0; i < t->nrules; i++)
		require(t->rule[i].algo && t->rule[i].algo->coll == t->rule[i].coll &&
			t->rule[i].min_bytes <= t->rule[i].max_bytes);
	for (int c = 0; c < GPUSIM_NCOLLS; c++) {
		struct tune_ask ask = {
		    .args = {.coll = (enum gpusim_coll)c, .nranks = 5, .nelem = t->nrules * 125}};

		require(tuner_choose(t, &ask, &out, &err) == RC_OK && (int)out.algo->coll == c &&
			out.chunk_bytes > 0);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tuner t;
	struct err err = {0};
	char *text = text_of(data, size), *file;

	if (!text)
		return 0;
	file = text + strcspn(text, "\n");
	if (*file)
		*file++ = '\0';
	tuner_init(&t);
	require(tuner_select(&t, text, &err) == RC_OK || err.text[0]);
	require(tuner_rules(&t, file, "fuzz", &err) == RC_OK || (err.text[0] && !t.nrules));
	check(&t);
	tuner_fini(&t);
	free(text);
	return 0;
}
