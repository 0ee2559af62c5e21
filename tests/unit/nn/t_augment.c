/* Augmentation of training images: a function of seed, epoch and image, spread evenly. */
#include "nn/augment.h"

#include <string.h>

#include "tap.h"

#define N 9000

static struct err err;

static void
test_data(void)
{
	const struct dataset table = {.channels = 30, .rows = 1, .cols = 1};
	const struct dataset tiny = {.channels = 1, .rows = 4, .cols = 9};
	const struct dataset small = {.channels = 3, .rows = 5, .cols = 5};

	ok(augment_check(0, &table, &err) == RC_OK &&
	       augment_check(AUGMENT_FLIP, &table, &err) == RC_INVAL && strstr(err.text, "30x1x1"),
	   "a table has no images");
	ok(augment_check(AUGMENT_CROP, &tiny, &err) == RC_INVAL &&
	       augment_check(AUGMENT_FLIP, &tiny, &err) == RC_OK &&
	       augment_check(3, &small, &err) == RC_OK,
	   "nor may the border be all that is left of them");
}

/* Counts of N images for each row, column and side. */
struct counts {
	unsigned row[2 * AUGMENT_PAD + 1], column[2 * AUGMENT_PAD + 1], flip[2];
};

static bool
count(uint32_t what, uint32_t epoch, struct counts *c)
{
	memset(c, 0, sizeof *c);
	for (uint32_t i = 0; i < N; i++) {
		uint32_t word = augment_draw(what, 5, epoch, i);

		if ((word & 0xff) > 2 * AUGMENT_PAD || (word >> 8 & 0xff) > 2 * AUGMENT_PAD ||
		    word >> 16 > 1)
			return false;
		c->row[word & 0xff]++;
		c->column[word >> 8 & 0xff]++;
		c->flip[word >> 16]++;
	}
	return true;
}

static bool
even(const unsigned *n, unsigned len)
{
	for (unsigned i = 0; i < len; i++)
		if (n[i] < N / len * 9 / 10 || n[i] > N / len * 11 / 10)
			return false;
	return true;
}

static void
test_draws(void)
{
	struct counts c;
	uint32_t items[3] = {8, 2, 7}, draws[3];
	unsigned same[3] = {0};

	ok(count(3, 0, &c) && even(c.row, 9) && even(c.column, 9) && even(c.flip, 2),
	   "each row, column and side as often");
	ok(count(AUGMENT_CROP, 1, &c) && c.flip[0] == N && even(c.row, 9), "moved alone");
	ok(count(AUGMENT_FLIP, 1, &c) && c.row[AUGMENT_PAD] == N && c.column[AUGMENT_PAD] == N &&
	       even(c.flip, 2),
	   "mirrored alone");
	for (uint32_t i = 0; i < N; i++) {
		uint32_t word = augment_draw(3, 5, 1, i);

		same[0] += word == augment_draw(3, 5, 2, i);
		same[1] += word == augment_draw(3, 6, 1, i);
		same[2] += word == augment_draw(3, 5, 1, i + 1);
	}
	for (unsigned k = 0; k < 3; k++) /* of 162 words */
		same[0] = same[k] > same[0] ? same[k] : same[0];
	ok(same[0] < N / 162 * 2, "another epoch, seed or image has words of its own");
	augment_draws(3, 5, 1, items, 3, draws);
	ok(draws[0] == augment_draw(3, 5, 1, 8) && draws[2] == augment_draw(3, 5, 1, 7),
	   "it is the image that counts, not its place");
	/* Resuming a training of an older program relies on it. */
	ok(augment_draw(3, 1, 0, 0) == 0x701, "and it is today what it was");
}

int
main(void)
{
	test_data();
	test_draws();
	return tap_done();
}
