#include "algo/cells.h"

#include <stdio.h>

#include "base/buf.h"

struct cell_name
cell_name(const struct algo *a, uint32_t rank, const struct algo_step *s, uint32_t cell)
{
	struct cells w = step_writes(a, rank, s);
	bool is_dst = cells_have(w, cell);
	unsigned buf = is_dst ? s->dst : s->src;
	struct cell_name n;

	snprintf(n.text, sizeof n.text, "%s %u", algo_buf_word(buf),
		 cell - cell_of(a, rank, buf, 0));
	return n;
}

bool
cell_read(struct accesses *a, struct cell *c, access_step step)
{
	uint32_t at = a->spare;

	for (uint32_t i = c->readers; i; i = a->reader[i - 1].next)
		if (a->reader[i - 1].step >> 32 == step >> 32) {
			a->reader[i - 1].step = step;
			return true;
		}
	if (at) {
		a->spare = a->reader[at - 1].next;
	} else {
		if (!alloc_room(&a->reader, a->n, &a->cap, sizeof *a->reader))
			return false;
		at = (uint32_t)++a->n;
	}
	a->reader[at - 1] = (struct cell_reader){step, c->readers};
	c->readers = at;
	return true;
}

void
cell_written(struct accesses *a, struct cell *c, access_step step)
{
	while (c->readers) {
		uint32_t at = c->readers;

		c->readers = a->reader[at - 1].next;
		a->reader[at - 1].next = a->spare;
		a->spare = at;
	}
	c->writer = step;
}
