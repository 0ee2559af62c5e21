/* The shape of a model, and its buckets. */
#include "nn/model.h"

#include <string.h>

#include "tap.h"

static struct model
model(const char *text)
{
	struct model m = {0};
	struct err err = {0};

	if (model_parse(text, &m, &err) != RC_OK)
		printf("# %s: %s\n", text, err.text);
	return m;
}

/* Whole layers from the last one down, each parameter once; every bucket but the last one is full,
 * and was not before its lowest layer. */
static bool
sound(const struct model *m, uint64_t nbytes)
{
	struct model_bucket b[MODEL_MAX_SIZES];
	unsigned n = model_buckets(m, nbytes, b), top = m->nlayers;
	uint64_t end = m->nparams;

	for (unsigned i = 0; i < n; i++) {
		uint64_t size = b[i].count * sizeof(float);

		if (b[i].layer >= top || b[i].first != m->weight[b[i].layer] ||
		    b[i].first + b[i].count != end)
			return false;
		if (i + 1 < n && (nbytes == 0 || size < nbytes))
			return false;
		if (b[i].layer + 1 < top && nbytes != 0 &&
		    (end - m->weight[b[i].layer + 1]) * sizeof(float) >= nbytes)
			return false;
		top = b[i].layer;
		end = b[i].first;
	}
	return end == 0 && top == 0;
}

int
main(void)
{
	static const uint64_t sizes[] = {0, 1, 4, 100, 5000, 5160, 5161, 1u << 20, UINT64_MAX};
	struct model m = model("784,128,10"), deep = model("784,256,256,300,7,10"),
		     flat = model("9,4");
	struct model_bucket b[MODEL_MAX_SIZES];
	bool good = true;

	ok(m.nlayers == 2 && m.nparams == 101770 && m.weight[0] == 0 && m.bias[0] == 100352 &&
	       m.weight[1] == 100480 && m.bias[1] == 101760,
	   "parameters lie layer after layer, weights then biases");
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		good =
		    sound(&m, sizes[i]) && sound(&deep, sizes[i]) && sound(&flat, sizes[i]) && good;
	ok(good, "buckets: whole layers from the last one down, each full, none twice");
	ok(model_buckets(&deep, 0, b) == 1 && b[0].first == 0 && b[0].count == deep.nparams,
	   "buckets: 0 is one of everything");
	ok(model_buckets(&deep, 1, b) == deep.nlayers, "buckets: one byte is one for each layer");
	ok(model_buckets(&m, 5160, b) == 2 && b[0].layer == 1 && b[0].count == 1290 &&
	       b[1].first == 0,
	   "buckets: full with the very last byte");
	ok(model_buckets(&m, 5161, b) == 1, "buckets: one byte short of it goes on");
	return tap_done();
}
