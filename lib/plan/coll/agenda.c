#include "coll/meet.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

bool
agenda_init(struct agenda *a, uint32_t nthings)
{
	*a = (struct agenda){.due = alloc_zeroed((size_t)nthings + 1, sizeof *a->due),
			     .heap = alloc_zeroed((size_t)nthings + 1, sizeof *a->heap),
			     .place = alloc_zeroed((size_t)nthings + 1, sizeof *a->place)};
	if (!a->due || !a->heap || !a->place)
		return false;
	memset(a->place, 0xff, nthings * sizeof *a->place);
	return true;
}

void
agenda_fini(struct agenda *a)
{
	free(a->due);
	free(a->heap);
	free(a->place);
	*a = (struct agenda){0};
}

static bool
sooner(const struct agenda *a, uint32_t x, uint32_t y)
{
	return a->due[x] < a->due[y] || (a->due[x] == a->due[y] && x < y);
}

static void
put(struct agenda *a, uint32_t at, uint32_t thing)
{
	a->heap[at] = thing;
	a->place[thing] = at;
}

/* Move the thing from place i up or down to its place in the heap. */
static void
sift(struct agenda *a, uint32_t i, uint32_t thing)
{
	uint32_t k;

	for (; i && sooner(a, thing, a->heap[(i - 1) / 2]); i = (i - 1) / 2)
		put(a, i, a->heap[(i - 1) / 2]);
	for (; (k = 2 * i + 1) < a->n; i = k) {
		if (k + 1 < a->n && sooner(a, a->heap[k + 1], a->heap[k]))
			k++;
		if (!sooner(a, a->heap[k], thing))
			break;
		put(a, i, a->heap[k]);
	}
	put(a, i, thing);
}

void
agenda_due(struct agenda *a, uint32_t thing, double at)
{
	uint32_t i = a->place[thing];

	a->due[thing] = at;
	sift(a, i == AGENDA_NONE ? a->n++ : i, thing);
}

void
agenda_not_due(struct agenda *a, uint32_t thing)
{
	uint32_t i = a->place[thing], last;

	if (i == AGENDA_NONE)
		return;
	a->place[thing] = AGENDA_NONE;
	last = a->heap[--a->n];
	if (last != thing)
		sift(a, i, last);
}
