/* Splits samples into the parts that train, validate and test, by a seeded permutation. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "nn/read.h"
#include "nn/rng.h"

#define NPARTS	   3
#define SPLIT_SALT UINT64_C(0x73706c6974) /* so that no epoch has the order of the split */

struct fractions {
	double part[NPARTS]; /* train, validation, test */
};

/* The samples to deal, those of npools parts one after another, and the number of parts to deal them to. */
struct deal {
	const struct dataset_part *pool[NPARTS];
	uint32_t npools, n;
	uint32_t *order;		       /* [n] */
	uint32_t begin[NPARTS], count[NPARTS]; /* in order */
};

static enum rc
check_fractions(const struct dataset_options *o, struct err *err)
{
	const double f[] = {o->train, o->validation, o->test};
	double sum = 0;

	for (int i = 0; i < NPARTS; i++) {
		if (!(f[i] >= 0 && f[i] <= 1))
			return err_set(err, RC_INVAL, "split: %g is not a fraction from 0 to 1",
				       f[i]);
		sum += f[i];
	}
	if (sum > 1 + 1e-9)
		return err_set(err, RC_INVAL, "split: %g, %g and %g sum to more than 1", f[0], f[1],
			       f[2]);
	return RC_OK;
}

/* The fractions that the options mean, for files with or without a test part. *keep: the files'
 * test part stays. */
static struct fractions
choose(const struct dataset_options *o, bool has_test, bool *keep)
{
	double v = o->validation;

	*keep = has_test && o->test == 0;
	if (o->train == 0 && o->test == 0 && *keep)
		return (struct fractions){{1 - v, v, 0}};
	if (o->train == 0 && o->test == 0)
		return (struct fractions){{0.8 - v, v, 0.2}};
	return (struct fractions){{o->train, v, o->test}};
}

/* Cumulated and rounded down, so that fractions that sum to 1 leave no sample out. */
static void
count_parts(struct deal *d, const struct fractions *f)
{
	double sum = 0;
	uint32_t at = 0, end;

	for (int i = 0; i < NPARTS; i++) {
		sum += f->part[i];
		/* 0.7 + 0.2 + 0.1 is less than 1 by a rounding */
		end = sum <= 0 ? 0 : (uint32_t)floor(fmin(sum * d->n + 1e-6, d->n));
		d->begin[i] = at;
		d->count[i] = end > at ? end - at : 0;
		at += d->count[i];
	}
}

/* Sample i of all pools. */
static const struct dataset_part *
find(const struct deal *d, uint32_t *i)
{
	uint32_t p = 0;

	while (p + 1 < d->npools && *i >= d->pool[p]->nitems)
		*i -= d->pool[p++]->nitems;
	return d->pool[p];
}

/* Part k of the deal, in memory of its own. */
static struct dataset_part
take(const struct deal *d, int k, size_t item, const char *path)
{
	uint32_t n = d->count[k];
	uint8_t *items = must_resize(NULL, n, item);
	struct dataset_part out = {.nitems = n,
				   .items = items,
				   .labels = must_alloc(n + 1, 1),
				   .labels_path = must_strdup(path)};

	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = d->order[d->begin[k] + i];
		const struct dataset_part *from = find(d, &at);

		memcpy(items + (size_t)i * item, (const uint8_t *)from->items + (size_t)at * item,
		       item);
		out.labels[i] = from->labels[at];
	}
	return out;
}

/* The path that stands for all the dealt samples. */
static const char *
path_of(const struct deal *d, const char *path)
{
	for (uint32_t p = 1; p < d->npools; p++)
		if (strcmp(d->pool[p]->labels_path, d->pool[0]->labels_path) != 0)
			return path;
	return d->pool[0]->labels_path;
}

/* Make the order. */
static void
shuffle(struct deal *d, uint64_t seed)
{
	struct rng rng;

	d->order = must_resize(NULL, d->n, sizeof *d->order);
	rng_init(&rng, seed ^ SPLIT_SALT);
	rng_permutation(&rng, d->n, d->order);
}

/* Replace the first nparts of ds's parts. d is counted and has no order yet. */
static void
deal_out(struct dataset *ds, struct deal *d, int nparts, uint64_t seed, const char *path)
{
	struct dataset_part *own[NPARTS] = {&ds->train, &ds->validation, &ds->test};
	struct dataset_part part[NPARTS] = {{0}};

	shuffle(d, seed);
	for (int k = 0; k < nparts; k++)
		if (d->count[k] > 0)
			part[k] = take(d, k, dataset_item_bytes(ds), path_of(d, path));
	free(d->order);
	for (int k = 0; k < nparts; k++) {
		dataset_part_fini(own[k]);
		*own[k] = part[k];
	}
}

/* Choose the parts of ds to deal. RC_BADDATA: more samples than can be counted. */
static enum rc
pool(const struct dataset *ds, int nparts, const char *path, struct deal *d, struct err *err)
{
	const struct dataset_part *part[NPARTS] = {&ds->train, &ds->validation, &ds->test};
	uint64_t n = 0;

	for (int k = 0; k < nparts; k++)
		if (part[k]->nitems > 0) {
			d->pool[d->npools++] = part[k];
			n += part[k]->nitems;
		}
	if (n > UINT32_MAX)
		return err_set(err, RC_BADDATA, "%s: more than %u samples", path, UINT32_MAX);
	d->n = (uint32_t)n;
	return RC_OK;
}

/* Limit the number of samples of a part. */
static void
thin(struct dataset_part *part, uint32_t n, size_t item, uint64_t seed)
{
	struct deal d = {.pool = {part}, .npools = 1, .n = part->nitems, .count = {n}};
	struct dataset_part fewer;

	shuffle(&d, seed);
	fewer = take(&d, 0, item, part->labels_path);
	free(d.order);
	dataset_part_fini(part);
	*part = fewer;
}

/* The parts, before their items are limited, except for those that train. */
static enum rc
make_parts(struct dataset *ds, const char *path, const struct dataset_options *o, struct err *err)
{
	bool keep, as_is;
	struct deal d = {0};
	struct fractions f;
	int nparts;
	enum rc rc = check_fractions(o, err);

	if (rc != RC_OK)
		return rc;
	f = choose(o, ds->test.nitems > 0, &keep);
	as_is = keep && o->train == 0 && o->validation == 0;
	nparts = as_is ? 1 : keep ? 2 : 3;
	rc = pool(ds, nparts, path, &d, err);
	if (rc != RC_OK)
		return rc;
	count_parts(&d, &f);
	if ((d.count[0] == 0 && !o->tests_only) || (!keep && d.count[2] == 0))
		return err_set(err, RC_BADDATA,
			       "%s: the split %g,%g,%g of %" PRIu32 " samples leaves none to %s",
			       path, f.part[0], f.part[1], f.part[2], d.n,
			       d.count[0] == 0 && !o->tests_only ? "train on" : "test with");
	if (as_is && (o->train_items == 0 || o->train_items >= d.n))
		return RC_OK;
	if (o->train_items > 0 && d.count[0] > o->train_items)
		d.count[0] = o->train_items;
	deal_out(ds, &d, nparts, o->seed, path);
	return RC_OK;
}

enum rc
dataset_split(struct dataset *ds, const char *path, const struct dataset_options *o,
	      struct err *err)
{
	enum rc rc = make_parts(ds, path, o, err);

	if (rc == RC_OK && o->test_items > 0 && ds->test.nitems > o->test_items)
		thin(&ds->test, o->test_items, dataset_item_bytes(ds), o->seed);
	return rc;
}
