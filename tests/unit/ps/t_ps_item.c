/* Samples in messages: written and read back, and errors. */
#include <stdlib.h>
#include <string.h>

#include "nn/augment.h"
#include "ps/ps_impl.h"

#include "tap.h"

#define ITEM 6 /* 1x2x3 bytes */
#define N    10

static struct err err;
static uint8_t items[N * ITEM], labels[N];
static const struct train_config config = {.batch = 4, .seed = 7, .augment = AUGMENT_FLIP};
static struct task task = {.config = &config,
			   .data = {.channels = 1,
				    .rows = 2,
				    .cols = 3,
				    .dtype = GPUSIM_U8,
				    .nclasses = 3,
				    .train = {.nitems = N, .items = items, .labels = labels}}};

static void
begin(struct ps *ps)
{
	const struct pool_config c = {.images = N, .batch = 4, .aggregate = 1};

	for (unsigned i = 0; i < sizeof items; i++)
		items[i] = (uint8_t)i;
	for (unsigned i = 0; i < N; i++)
		labels[i] = (uint8_t)(i % 3);
	*ps = (struct ps){.task = &task, .epoch = 2, .order = calloc(N, sizeof *ps->order)};
	if (!ps->order || pool_new(&c, &ps->pool, &err) != RC_OK)
		tap_bail("no pool");
	ps_order(ps);
}

/* The rows of an item follow the epoch's order. */
static bool
same(const struct ps *ps, uint32_t item, const struct minibatch *m)
{
	uint32_t first, rows;

	if (!pool_item(ps->pool, item, &first, &rows) || m->rows != rows)
		return false;
	for (uint32_t i = 0; i < rows; i++) {
		uint32_t k = ps->order[first + i], draw;

		memcpy(&draw, (const uint8_t *)m->draws + i * sizeof draw, sizeof draw);
		if (((const uint8_t *)m->labels)[i] != k % 3 ||
		    draw != augment_draw(AUGMENT_FLIP, 7, 2, k) ||
		    memcmp((const uint8_t *)m->samples + (size_t)i * ITEM, items + k * ITEM,
			   ITEM) != 0)
			return false;
	}
	return true;
}

static void
test_items(void)
{
	struct buf out = {0};
	struct minibatch m;
	struct ps ps;
	bool good = true, refused = true;

	begin(&ps);
	for (uint32_t item = 0; item < 3; item++) {
		uint32_t rows = item < 2 ? 4 : 2;

		out.len = 0;
		good = good && ps_item_put(&ps, item, &out) &&
		       out.len == ps_item_bytes(&task.data, rows) &&
		       ps_item_take(out.data, out.len, &task.data, rows, &m) && same(&ps, item, &m);
		refused = refused && !ps_item_take(out.data, out.len - 1, &task.data, rows, &m) &&
			  !ps_item_take(out.data, out.len, &task.data, rows + 1, &m) &&
			  !ps_item_take(out.data, 0, &task.data, rows, &m) &&
			  !ps_item_take(out.data, out.len, &task.data, UINT32_MAX, &m);
	}
	ok(good, "samples, labels and what becomes of them, in the epoch's order");
	ok(refused, "of another length they are not taken");
	out.len = 0;
	ok(!ps_item_put(&ps, 3, &out) && !ps_item_put(&ps, UINT32_MAX, &out), "no such item");
	buf_fini(&out);
	pool_free(ps.pool);
	free(ps.order);
}

static void
test_bounds(void)
{
	struct train_config large = {.batch = PS_ITEM_MAX / (ITEM + 5)};
	struct task t = task;

	t.config = &large;
	ok(ps_item_check(&t, 1, &err) == RC_OK, "an item that just fits into a message");
	large.batch++;
	ok(ps_item_check(&t, 1, &err) == RC_INVAL && strstr(err.text, "items of 94953 samples: ") &&
	       strstr(err.text, "holds 94952 samples of 11"),
	   "one that does not is refused: %s", err.text);
	t.data.channels = 1u << 20;
	ok(ps_item_check(&t, 1, &err) == RC_INVAL, "nor may a sample be too long");
}

int
main(void)
{
	test_items();
	test_bounds();
	return tap_done();
}
