/* Fuzz gpusim's reader of pipeline schedules, and their proof: what is right is right after printing and reading,
 * gets its sends once, ends in time, and can be drawn. */
#include "pipeline/pipeline.h"

#include "fuzz.h"

static struct pipeline_facts facts, again;

static void
same(const struct pipeline *p)
{
	struct pipeline *q = NULL;
	struct buf text = {0}, twice = {0};
	struct err err = {0};

	require(pipeline_print(p, &text));
	require(pipeline_parse(text.data, text.len, &q, &err) == RC_OK &&
		pipeline_print(q, &twice));
	require(text.len == twice.len && memcmp(text.data, twice.data, text.len) == 0);
	require(pipeline_check(q, &again, &err) == RC_OK &&
		memcmp(&facts, &again, sizeof facts) == 0);
	pipeline_free(q);
	buf_fini(&text);
	buf_fini(&twice);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct pipeline_costs costs = {1, 2, 0.5, 0.1};
	struct pipeline_times t = {0};
	struct pipeline *p = NULL;
	struct err err = {0};
	struct buf out = {0};
	enum rc rc = pipeline_parse((const char *)data, size, &p, &err);

	if (rc != RC_OK) {
		require(rc == RC_BADDATA && !p && err.text[0]);
		return 0;
	}
	rc = pipeline_check(p, &facts, &err);
	require(rc == RC_OK || (rc == RC_BADDATA && err.text[0]));
	if (rc == RC_OK) {
		same(p);
		require(pipeline_time(p, &costs, &t, &err) == RC_OK && t.end > 0 && t.bubble >= 0);
		require(pipeline_show_text(p, &t, 80, true, &out));
		pipeline_show_svg(p, &t, &out, &err);
		pipeline_times_fini(&t);
	}
	buf_fini(&out);
	pipeline_free(p);
	return 0;
}
