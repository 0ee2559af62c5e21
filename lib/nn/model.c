#include "nn/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/rng.h"

enum rc
model_parse(const char *text, struct model *out, struct err *err)
{
	struct model m = {0};
	const char *p = text;
	unsigned n = 0;

	for (;; p++) {
		char *end;
		unsigned long long v = strtoull(p, &end, 10);

		if (*p < '0' || *p > '9' || v == 0 || v > MODEL_MAX_WIDTH)
			return err_set(err, RC_INVAL,
				       "'%.64s': layer sizes are 1 to %d, separated by commas",
				       text, MODEL_MAX_WIDTH);
		if (n == MODEL_MAX_SIZES)
			return err_set(err, RC_INVAL, "'%.64s': more than %d layer sizes", text,
				       MODEL_MAX_SIZES);
		m.size[n++] = v;
		p = end;
		if (*p == '\0')
			break;
		if (*p != ',')
			return err_set(err, RC_INVAL,
				       "'%.64s': layer sizes are separated by commas", text);
	}
	if (n < 2)
		return err_set(err, RC_INVAL,
			       "'%.64s': at least an input and an output size are due", text);
	m.nlayers = n - 1;
	for (unsigned l = 0; l < m.nlayers; l++) {
		m.weight[l] = m.nparams;
		m.bias[l] = m.nparams + m.size[l] * m.size[l + 1];
		m.nparams = m.bias[l] + m.size[l + 1];
	}
	*out = m;
	return RC_OK;
}

void
model_init(const struct model *m, uint64_t seed, float *params)
{
	struct rng rng;

	rng_init(&rng, seed);
	for (unsigned l = 0; l < m->nlayers; l++) {
		float bound = 1.0f / sqrtf((float)m->size[l]);
		uint64_t end = m->bias[l] + m->size[l + 1];

		for (uint64_t i = m->weight[l]; i < end; i++)
			params[i] = rng_uniform(&rng, -bound, bound);
	}
}

unsigned
model_buckets(const struct model *m, uint64_t nbytes, struct model_bucket out[MODEL_MAX_SIZES])
{
	uint64_t end = m->nparams;
	unsigned n = 0;

	for (unsigned l = m->nlayers; l-- > 0;) {
		uint64_t count = end - m->weight[l];

		if (l > 0 && (nbytes == 0 || count * sizeof(float) < nbytes))
			continue;
		out[n++] = (struct model_bucket){l, m->weight[l], count};
		end = m->weight[l];
	}
	return n;
}

void
model_arrays(const struct model *m, const float *params, struct npz_array out[2 * MODEL_MAX_SIZES])
{
	for (unsigned l = 0; l < m->nlayers; l++) {
		struct npz_array *w = &out[2 * l], *b = w + 1;

		*w = (struct npz_array){.type = NPZ_F32,
					.ndim = 2,
					.dim = {m->size[l + 1], m->size[l]},
					.data = params + m->weight[l]};
		*b = (struct npz_array){.type = NPZ_F32,
					.ndim = 1,
					.dim = {m->size[l + 1]},
					.data = params + m->bias[l]};
		snprintf(w->name, sizeof w->name, "fc%u.weight", l + 1);
		snprintf(b->name, sizeof b->name, "fc%u.bias", l + 1);
	}
}
