/*
 * config_dims.c - shapes that a file says the data set has: 784, 28x28, (60000, 784).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "train/config_impl.h"

#define SEPARATORS "xX*, \t"

/* Read the digits at *p as a number, and the separator after it. */
static bool
take_dim(const char **p, struct config_dims *dims)
{
	size_t len = strspn(*p, "0123456789");
	char one[16];

	if (!len || len >= sizeof one || dims->n == CONFIG_MAX_DIMS)
		return false;
	memcpy(one, *p, len);
	one[len] = '\0';
	if (parse_u64(one, 1, UINT32_MAX, &dims->dim[dims->n++], NULL) != RC_OK)
		return false;
	*p += len + strspn(*p + len, SEPARATORS);
	return true;
}

static enum rc
take(const struct option_row *o, const char *text, void *target, struct err *err)
{
	char open = *text == '(' || *text == '[' ? *text : '\0';
	const char *p = text + (open != 0);
	struct config_dims dims = {0};
	bool good;

	p += strspn(p, " \t");
	do
		good = take_dim(&p, &dims);
	while (good && *p >= '0' && *p <= '9');
	if (good && open)
		good = *p++ == (open == '(' ? ')' : ']');
	if (!good || *p)
		return err_set(err, RC_INVAL,
			       "'%.64s' is not a shape such as 784, 28x28 or (60000, 784)", text);
	*(struct config_dims *)option_field(o, target) = dims;
	return RC_OK;
}

static void
add(const struct option_row *o, const void *target, struct buf *out)
{
	const struct config_dims *dims = option_value(o, target);

	for (uint32_t i = 0; i < dims->n; i++)
		buf_addf(out, "%s%" PRIu64, i ? "," : "", dims->dim[i]);
}

const struct option_kind config_dims = {"shape", take, add};

/* The product of the dimensions from `first` on; UINT64_MAX: overflow. */
static uint64_t
product(const struct config_dims *dims, uint32_t first)
{
	uint64_t n = 1;

	for (uint32_t i = first; i < dims->n; i++)
		if (__builtin_mul_overflow(n, dims->dim[i], &n))
			return UINT64_MAX;
	return n;
}

/* Is this the number of samples of a data set? */
static bool
counts(const struct train_config *c, const struct dataset *ds, uint64_t n)
{
	const struct dataset_options *o = &c->dataset;
	bool chosen =
	    o->train_items || o->test_items || o->train > 0 || o->validation > 0 || o->test > 0;

	if (!ds)
		return true;
	if (chosen)
		return n >= ds->train.nitems;
	return n == ds->train.nitems ||
	       n == (uint64_t)ds->train.nitems + ds->validation.nitems + ds->test.nitems;
}

static bool
agree(const struct train_config *c, const struct config_dims *dims, uint64_t n,
      const struct dataset *ds)
{
	return dims->n == 0 || product(dims, 0) == n ||
	       (dims->n > 1 && product(dims, 1) == n && counts(c, ds, dims->dim[0]));
}

/* The dimensions as text, for a message. */
static const char *
show(const struct config_dims *dims, char out[128])
{
	size_t len = 0;

	for (uint32_t i = 0; i < dims->n; i++)
		len += (size_t)snprintf(out + len, 128 - len, "%s%" PRIu64, i ? "x" : "",
					dims->dim[i]);
	return out;
}

enum rc
config_check_dims(const struct train_config *c, const char *path, struct net_shape item,
		  uint32_t nclasses, const struct dataset *ds, struct err *err)
{
	char samples[64] = "", shown[128];

	if (ds)
		snprintf(samples, sizeof samples, " (%" PRIu32 " of %" PRIu64 " samples train)",
			 ds->train.nitems,
			 (uint64_t)ds->train.nitems + ds->validation.nitems + ds->test.nitems);
	if (!agree(c, &c->input_dims, net_shape_size(item), ds))
		return err_set(err, RC_BADDATA,
			       "%s: %s, but a sample of %s has %" PRIu64 " values, %" PRIu32
			       "x%" PRIu32 "x%" PRIu32 "%s",
			       c->input_dims.from, show(&c->input_dims, shown), path,
			       net_shape_size(item), item.channels, item.rows, item.cols, samples);
	if (nclasses && !agree(c, &c->label_dims, nclasses, ds))
		return err_set(err, RC_BADDATA, "%s: %s, but %s has %" PRIu32 " classes%s",
			       c->label_dims.from, show(&c->label_dims, shown), path, nclasses,
			       samples);
	return RC_OK;
}
