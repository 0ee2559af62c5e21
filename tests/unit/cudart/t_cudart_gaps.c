/* Free parts of a range: against a map of bytes. */
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "cudart/gaps.h"
#include "tap.h"

enum { N = 200 };

static int used[N]; /* the number of the part that has it; 0: free */

/* The first run of n free places; -1: none. */
static int
first_fit(int n)
{
	for (int at = 0; at + n <= N; at++) {
		int k = 0;

		while (k < n && !used[at + k])
			k++;
		if (k == n)
			return at;
	}
	return -1;
}

int
main(void)
{
	struct gaps g = {0};
	int off[N], len[N], n = 0;
	uint64_t seed = 1;
	bool good = gaps_give(&g, 0, N);

	for (int i = 0; i < 20000 && good; i++) {
		if (n < N && xorshift_star(&seed) % 2) {
			int want = 1 + (int)(xorshift_star(&seed) % 9), at = first_fit(want);
			uint64_t got = gaps_take(&g, (uint64_t)want);

			good &= got == (at < 0 ? UINT64_MAX : (uint64_t)at);
			if (at < 0)
				continue;
			for (int k = 0; k < want; k++)
				used[at + k] = 1;
			off[n] = at;
			len[n++] = want;
		} else if (n > 0) {
			int k = (int)(xorshift_star(&seed) % (uint64_t)n);

			memset(&used[off[k]], 0, (size_t)len[k] * sizeof used[0]);
			good &= gaps_give(&g, (uint64_t)off[k], (uint64_t)len[k]);
			off[k] = off[--n];
			len[k] = len[n];
		}
		for (size_t k = 1; k < g.n; k++)
			good &= g.v[k - 1].off + g.v[k - 1].nbytes < g.v[k].off;
	}
	ok(good, "20,000 parts taken and given: the first that fits, and neighbours are joined");
	while (n-- > 0)
		good &= gaps_give(&g, (uint64_t)off[n], (uint64_t)len[n]);
	ok(good && g.n == 1 && g.v[0].off == 0 && g.v[0].nbytes == N, "all given back: one gap");
	ok(gaps_cut(&g, 50, 10) && g.n == 2 && g.v[0].nbytes == 50 && g.v[1].off == 60 &&
	       !gaps_cut(&g, 45, 10) && !gaps_cut(&g, 55, 1) && gaps_cut(&g, 0, 50) && g.n == 1,
	   "a part is cut out, if it is free");
	free(g.v);
	return tap_done();
}
