/*
 * The loss, its gradient and the right answers of logits whose classes are divided over ranks, against softmax_xent and
 * accuracy on the whole logits.
 */
#include "kern_test.h"

#define ROWS	9
#define CLASSES 10
#define RANKS	12 /* at most: more than classes */

static uint64_t whole, labels, loss, grad, count, part[RANKS], top[RANKS], sums[RANKS], own[RANKS],
    share[RANKS], ranks_loss[RANKS];

static float *
at(uint64_t addr)
{
	return kt_at(addr);
}

static uint64_t
smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* A rank's classes: its first, and their number. */
static uint64_t
classes_of(unsigned r, uint64_t each, uint64_t *first)
{
	*first = smaller(r * each, CLASSES);
	return smaller(CLASSES - *first, each);
}

#define LOGITS(r)                                                                         \
	U("logits", part[r]), U("rows", ROWS), U("classes", classes_of(r, each, &first)), \
	    U("cols", each)

/* Do all that n ranks do, and the all-reduces between. */
static bool
divided(unsigned n, double scale)
{
	uint64_t each = (CLASSES + n - 1) / n, first = 0;
	bool good = true;

	for (unsigned r = 0; r < n; r++) {
		uint64_t mine = classes_of(r, each, &first);

		for (uint64_t i = 0; i < ROWS * each; i++) /* further columns hold anything */
			at(part[r])[i] = i % each < mine
					     ? at(whole)[i / each * CLASSES + first + i % each]
					     : 1e30f;
		good = good && kt_run("shard_top", ARGS(LOGITS(r), U("top", top[r]))) == RC_OK;
	}
	for (unsigned i = 0; i < ROWS; i++) {
		float most = -INFINITY;

		for (unsigned r = 0; r < n; r++)
			most = isnan(most) || most > at(top[r])[i] ? most : at(top[r])[i];
		for (unsigned r = 0; r < n; r++)
			at(top[r])[i] = most;
	}
	for (unsigned r = 0; r < n; r++) {
		(void)classes_of(r, each, &first);
		good = good &&
		       kt_run("shard_sums", ARGS(LOGITS(r), U("top", top[r]), U("sums", sums[r]),
						 U("labels", labels), U("first", first))) == RC_OK;
	}
	for (unsigned i = 0; i < 3 * ROWS; i++) {
		float sum = 0;

		for (unsigned r = 0; r < n; r++)
			sum += at(sums[r])[i];
		for (unsigned r = 0; r < n; r++)
			at(sums[r])[i] = sum;
	}
	for (unsigned r = 0; r < n; r++) {
		(void)classes_of(r, each, &first);
		good = good &&
		       kt_run("shard_xent",
			      ARGS(LOGITS(r), U("top", top[r]), U("sums", sums[r]),
				   U("labels", labels), U("first", first), R("scale", scale),
				   U("grad", own[r]), U("loss", ranks_loss[r]))) == RC_OK &&
		       kt_run("shard_hits", ARGS(U("top", top[r]), U("sums", sums[r]),
						 U("rows", ROWS), U("count", share[r]))) == RC_OK;
	}
	return good;
}

/* All ranks have the whole loss and the right answers; their gradients are its parts, and zeros. */
static bool
agrees(unsigned n, double scale)
{
	uint64_t each = (CLASSES + n - 1) / n, first;
	bool good =
	    kt_run("softmax_xent", ARGS(U("logits", whole), U("rows", ROWS), U("classes", CLASSES),
					U("labels", labels), U("loss", loss), U("grad", grad),
					R("grad_scale", scale))) == RC_OK &&
	    kt_run("accuracy", ARGS(U("logits", whole), U("rows", ROWS), U("classes", CLASSES),
				    U("labels", labels), U("count", count))) == RC_OK &&
	    divided(n, scale);

	for (unsigned r = 0; r < n && good; r++) {
		uint64_t mine = classes_of(r, each, &first);

		good = kt_near("loss", r, (double)*at(ranks_loss[r]), (double)*at(loss),
			       1e-6 * fabs((double)*at(loss))) &&
		       kt_near("count", r, (double)*(uint64_t *)kt_at(share[r]),
			       (double)*(uint64_t *)kt_at(count), 0);
		for (uint64_t i = 0; i < ROWS * each && good; i++)
			good =
			    i % each < mine
				? kt_near("grad", i, (double)at(own[r])[i],
					  (double)at(grad)[i / each * CLASSES + first + i % each],
					  1e-6 * scale)
				: at(own[r])[i] == 0;
	}
	return good;
}

static bool
for_all_ranks(void)
{
	bool good = true;

	for (unsigned n = 1; n <= RANKS; n++)
		good = agrees(n, n == 2 ? 1 : 0.125) && good;
	return good;
}

static void
values(void)
{
	for (unsigned i = 0; i < ROWS * CLASSES; i++)
		at(whole)[i] = (float)(4 * kt_real());
	ok(for_all_ranks(), "1 to %d ranks: loss, gradient, right answers", RANKS);
	for (unsigned i = 0; i < ROWS * CLASSES; i++)
		at(whole)[i] = (float)(kt_rnd() % 2) - 2 * (float)(i % 3 == 0);
	ok(for_all_ranks(), "many classes share the largest logit: the first of them counts");
	for (unsigned i = 0; i < ROWS * CLASSES; i++)
		at(whole)[i] = i % 2 ? 0.0f : -0.0f;
	ok(for_all_ranks(), "zeros of both signs are the same");
	for (unsigned i = 0; i < ROWS * CLASSES; i++)
		at(whole)[i] = 30000 * (float)(kt_rnd() % 3) - 30000;
	ok(for_all_ranks(), "large logits do not overflow");
	for (unsigned i = 0; i < CLASSES; i++) {
		for (unsigned k = 0; k < ROWS * CLASSES; k++)
			at(whole)[k] = (float)kt_real();
		for (unsigned r = 0; r < ROWS;
		     r++) /* in some rows before the label, in one at it */
			at(whole)[r * CLASSES + (i + r) % CLASSES] = NAN;
		at(whole)[4 * CLASSES + 9] = NAN;
		ok(for_all_ranks() && isnan(*at(loss)), "a NaN in each row, %u", i);
	}
	for (unsigned k = 0; k < ROWS * CLASSES; k++)
		at(whole)[k] = NAN;
	ok(for_all_ranks(), "nothing but NaN");
}

static void
refusals(void)
{
	uint64_t each = 4, first = 0;

	ok(kt_refuses(RC_INVAL, "shard_top",
		      ARGS(U("logits", part[0]), U("rows", ROWS), U("classes", 5), U("cols", 4),
			   U("top", top[0]))),
	   "more classes than columns");
	ok(kt_sweep("shard_top", NULL, ARGS(LOGITS(0), U("top", top[0]))) &&
	       kt_sweep("shard_hits", NULL,
			ARGS(U("top", top[0]), U("sums", sums[0]), U("rows", ROWS),
			     U("count", share[0]))),
	   "shard_top, shard_hits refuse bad arguments");
	kt_any_count = "first";
	ok(kt_sweep("shard_sums", "labels",
		    ARGS(LOGITS(0), U("top", top[0]), U("sums", sums[0]), U("labels", labels),
			 U("first", first))) &&
	       kt_sweep("shard_xent", "labels",
			ARGS(LOGITS(0), U("top", top[0]), U("sums", sums[0]), U("labels", labels),
			     U("first", first), U("grad", own[0]), U("loss", ranks_loss[0]))),
	   "shard_sums, shard_xent refuse bad arguments");
	ok(kt_refuses(RC_INVAL, "shard_xent",
		      ARGS(LOGITS(0), U("top", top[0]), U("sums", sums[0]), U("labels", labels),
			   U("first", first), U("grad", part[0] + 4), U("loss", ranks_loss[0]))),
	   "a gradient that overlaps the logits, but is not they");
}

int
main(void)
{
	kt_open();
	whole = kt_vector(ROWS * CLASSES, 4);
	grad = kt_vector(ROWS * CLASSES, 4);
	labels = kt_alloc(ROWS);
	loss = kt_alloc(4);
	count = kt_alloc(8);
	for (unsigned i = 0; i < ROWS; i++)
		((uint8_t *)kt_at(labels))[i] = (uint8_t)(i * 7 % CLASSES);
	for (unsigned r = 0; r < RANKS; r++) {
		part[r] = kt_alloc(ROWS * CLASSES * 4);
		own[r] = kt_alloc(ROWS * CLASSES * 4);
		top[r] = kt_alloc(ROWS * 4);
		sums[r] = kt_alloc(3 * ROWS * 4);
		ranks_loss[r] = kt_alloc(4);
		share[r] = kt_alloc(8);
	}
	values();
	refusals();
	kt_close();
	return tap_done();
}
