/* Models that come piece by piece: the newest that is whole, and nothing else is ever seen. */
#include "coord/models.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

static enum rc
put(struct models *m, uint64_t client, uint64_t training, uint64_t version, const char *text,
    size_t from, size_t n)
{
	struct model_piece p = {.client = client,
				.training = training,
				.version = version,
				.nbytes = strlen(text),
				.offset = from,
				.data = text + from,
				.ndata = n};
	struct err err = {0};

	return models_put(m, &p, &err);
}

static bool
is(struct models *m, uint64_t version, const char *text)
{
	struct model *model = models_hold(m);
	bool good = model && model->version == version && model->bytes.len == strlen(text) &&
		    memcmp(model->bytes.data, text, model->bytes.len) == 0;

	models_release(m, model);
	return good;
}

static void
test_pieces(void)
{
	struct models *m = models_new();
	struct model *held;

	ok(!models_hold(m), "at first there is none");
	ok(put(m, 1, 9, 1, "abcdef", 0, 4) == RC_OK && !models_hold(m), "half of one is none");
	ok(put(m, 1, 9, 1, "abcdef", 4, 2) == RC_OK && is(m, 1, "abcdef"), "a whole one");
	held = models_hold(m);
	ok(put(m, 2, 9, 2, "xyz", 0, 3) == RC_OK && is(m, 2, "xyz"), "a newer one");
	ok(memcmp(held->bytes.data, "abcdef", 6) == 0, "who holds the one before has it still");
	models_release(m, held);
	ok(put(m, 1, 9, 2, "old", 0, 3) == RC_INVAL && is(m, 2, "xyz"),
	   "a version never goes back");
	ok(put(m, 1, 7, 1, "other", 0, 5) == RC_OK && is(m, 1, "other"), "another training's");
	ok(put(m, 1, 9, 1, "older", 0, 5) == RC_INVAL, "versions are remembered by training");
	ok(put(m, 1, 9, 3, "one", 0, 2) == RC_OK && put(m, 2, 9, 4, "two", 0, 3) == RC_OK &&
	       put(m, 1, 9, 3, "one", 2, 1) == RC_INVAL && is(m, 4, "two"),
	   "one that was overtaken");
	models_free(m);
	models_free(NULL);
}

static void
test_refused(void)
{
	struct models *m = models_new();
	struct model_piece huge = {
	    .client = 1, .training = 1, .version = 1, .data = "a", .ndata = 1};
	struct err err = {0};
	bool good = true;

	ok(put(m, 1, 9, 1, "abcdef", 2, 2) == RC_INVAL, "a piece before the first");
	put(m, 1, 9, 1, "abcdef", 0, 2);
	ok(put(m, 1, 9, 1, "abcdef", 3, 2) == RC_INVAL &&
	       put(m, 1, 9, 1, "abcdef", 2, 4) == RC_INVAL,
	   "a gap: the upload is dropped");
	put(m, 1, 9, 1, "abcdef", 0, 2);
	ok(put(m, 1, 9, 2, "abcdef", 2, 4) == RC_INVAL, "another version in the middle");
	put(m, 1, 9, 1, "abcdef", 0, 2);
	ok(put(m, 1, 9, 1, "abcdef", 2, 5) == RC_INVAL, "more than was said");
	put(m, 1, 9, 1, "abcdef", 0, 2);
	ok(put(m, 1, 9, 1, "abcdef", 2, 0) == RC_INVAL, "a piece of nothing");
	ok(put(m, 1, 0, 1, "abcdef", 0, 6) == RC_INVAL, "training 0");
	ok(put(m, 0, 9, 1, "abcdef", 0, 6) == RC_INVAL, "client 0");
	huge.nbytes = MODELS_MAX_BYTES + 1;
	ok(models_put(m, &huge, &err) == RC_INVAL, "too large: %s", err.text);
	put(m, 1, 9, 1, "abcdef", 0, 2);
	models_gone(m, 1);
	ok(put(m, 1, 9, 1, "abcdef", 2, 4) == RC_INVAL && !models_hold(m), "a client that is gone");
	huge.nbytes = MODELS_MAX_BYTES;
	for (huge.client = 1; huge.client <= 4; huge.client++)
		good = good && models_put(m, &huge, &err) == RC_OK;
	ok(good && models_put(m, &huge, &err) == RC_BUSY, "too much at a time");
	for (uint64_t c = 1; c <= 4; c++)
		models_gone(m, c);
	for (uint64_t c = 1; c <= MODELS_MAX_UPLOADS; c++)
		good = good && put(m, c, 9, 1, "abcdef", 0, 2) == RC_OK;
	ok(good && put(m, 99, 9, 1, "abcdef", 0, 2) == RC_BUSY, "too many at a time");
	ok(put(m, 3, 9, 1, "abcdef", 2, 4) == RC_OK && is(m, 1, "abcdef"), "and yet one comes");
	models_free(m);
}

int
main(void)
{
	test_pieces();
	test_refused();
	return tap_done();
}
