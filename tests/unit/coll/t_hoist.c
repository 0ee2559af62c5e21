/* Sends may be posted early exactly as far as the data allow. */
#include <stdlib.h>

#include "coll/hoist.h"
#include "tap.h"

#define ELEM 4

/* Return true if any step in [from, to) writes a byte that send j reads. By bytes, slowly. */
static bool
written_between(const struct plan *p, unsigned char *const base[PLAN_NBUFS], size_t from, size_t to,
		size_t j)
{
	const struct plan_step *s = &p->step[j];
	const unsigned char *lo = base[s->src] + s->src_off * ELEM, *hi = lo + s->count * ELEM;

	for (size_t k = from; k < to; k++) {
		const struct plan_step *w = &p->step[k];

		if (w->kind == STEP_SEND)
			continue;
		for (const unsigned char *b = base[w->dst] + w->dst_off * ELEM;
		     b < base[w->dst] + (w->dst_off + w->count) * ELEM; b++)
			if (b >= lo && b < hi)
				return true;
	}
	return false;
}

/* Check every send of a plan, in place or not; count those that may move. */
static bool
check(const struct plan_args *a, const char *algo, bool in_place, size_t *moved)
{
	static unsigned char in[4096], out[4096], tmp[4096];
	unsigned char *base[PLAN_NBUFS] = {in_place ? out : in, out, tmp};
	struct plan p = {0};
	uint32_t *after;
	bool good = plan_build(a, algo, &p, NULL) == RC_OK;

	after = hoist_compute(&p, base, ELEM);
	for (size_t j = 0; good && j < p.nstep; j++) {
		size_t k = after[j];

		if (p.step[j].kind != STEP_SEND)
			continue;
		good = k <= j && !written_between(&p, base, k, j, j) &&
		       (k == 0 || written_between(&p, base, k - 1, k, j));
		*moved += k < j;
	}
	free(after);
	plan_fini(&p);
	return good;
}

int
main(void)
{
	static const char *const algos[] = {"ring", "naive"};
	static const enum gpusim_coll colls[] = {GPUSIM_ALLREDUCE, GPUSIM_BROADCAST, GPUSIM_REDUCE};

	for (size_t c = 0; c < 3; c++)
		for (size_t g = 0; g < 2; g++) {
			size_t moved = 0;
			bool good = true;

			for (uint32_t n = 2; n <= 5; n++)
				for (uint32_t r = 0; r < n; r++)
					for (uint64_t chunk = 0; chunk <= 3; chunk++)
						for (int in_place = 0; in_place < 2; in_place++) {
							struct plan_args a = {.coll = colls[c],
									      .rank = r,
									      .nranks = n,
									      .nelem = 29,
									      .chunk = chunk};

							good &=
							    check(&a, algos[g], in_place, &moved);
						}
			ok(good && moved > 0,
			   "%s %s: %zu sends may move, each exactly as far as it may",
			   coll_name(colls[c]), algos[g], moved);
		}
	{
		struct plan_step far = {.kind = STEP_RECV, .dst = PLAN_TMP, .count = 1},
				 send = {.kind = STEP_SEND, .src = PLAN_OUT, .count = 1};
		unsigned char *base[PLAN_NBUFS] = {NULL, (unsigned char *)"out",
						   (unsigned char *)"elsewhere"};
		struct plan p = {0};
		uint32_t *after;

		for (int i = 0; i < HOIST_LOOKBACK + 10; i++)
			plan_append(&p, far);
		plan_append(&p, send);
		after = hoist_compute(&p, base, 1);
		ok(after && after[HOIST_LOOKBACK + 10] == 10,
		   "no send looks back further than it may");
		free(after);
		plan_fini(&p);
	}
	return tap_done();
}
