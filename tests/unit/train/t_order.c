/* The order of samples: none is left out, none used twice, for any number of workers. */
#include "train/order.h"

#include <stdlib.h>
#include <string.h>

#include "nn/dataset.h"
#include "tap.h"

/* Step s of all workers together is the s-th global batch of the order, as a set in rank order. */
static bool
dealt(uint32_t n, uint64_t global, uint32_t whole, uint32_t nworkers)
{
	const struct order_steps steps = {global, whole, nworkers};
	uint32_t *order = calloc(n + 1, sizeof *order);
	uint32_t *mine = calloc(n + 1, sizeof *mine), *seen = calloc(n + 1, sizeof *seen);
	uint64_t most = order_most(n, &steps), total = 0;
	bool good = true;

	order_epoch(3, 1, n, order);
	for (uint32_t q = 0; q < nworkers; q++) {
		uint64_t k = 0, count = order_deal(order, n, &steps, q, mine);

		good = good && count <= most;
		total += count;
		for (uint64_t first = 0; first < n; first += global) {
			uint64_t rows = n - first < global ? n - first : global;
			uint64_t begin, end;

			order_share(rows, whole, q, nworkers, &begin, &end);
			good = good && begin % whole == 0 && (end % whole == 0 || end == rows);
			good = good && end - begin <= order_most_rows(n, &steps);
			for (uint64_t i = begin; i < end; i++, k++) {
				good = good && mine[k] == order[first + i];
				seen[mine[k]]++;
			}
		}
		good = good && k == count;
	}
	for (uint32_t i = 0; i < n; i++)
		good = good && seen[i] == 1;
	if (!good || total != n)
		printf("# n %u, global %llu, %u workers\n", n, (unsigned long long)global,
		       nworkers);
	free(order);
	free(mine);
	free(seen);
	return good && total == n;
}

int
main(void)
{
	static const uint32_t sizes[] = {1, 2, 7, 64, 100, 513};
	uint32_t a[100], b[100];
	bool good = true;

	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		for (uint64_t global = 1; global < 600; global = global * 3 + 1)
			for (uint32_t p = 1; p < 20; p += 3)
				for (uint32_t whole = 1; whole < 40; whole = whole * 5 + 1)
					good = dealt(sizes[i], global, whole, p) && good;
	ok(good, "every sample once an epoch, each step its global batch");
	order_epoch(1, 0, 100, a);
	order_epoch(1, 0, 100, b);
	ok(memcmp(a, b, sizeof a) == 0, "the same seed and epoch, the same order");
	order_epoch(1, 1, 100, b);
	ok(memcmp(a, b, sizeof a) != 0, "another epoch, another order");
	order_epoch(2, 0, 100, b);
	ok(memcmp(a, b, sizeof a) != 0, "another seed, another order");
	return tap_done();
}
