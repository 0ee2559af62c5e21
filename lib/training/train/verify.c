#include "train/verify.h"

#include <inttypes.h>

#include "nn/rng.h"

void
verify_choose(uint64_t seed, uint64_t n, uint32_t *index)
{
	struct rng rng;

	rng_init(&rng, seed ^ 0x766572696679u);
	for (uint64_t i = 0; i < VERIFY_SAMPLES; i++) {
		uint64_t begin = i * n / VERIFY_SAMPLES, end = (i + 1) * n / VERIFY_SAMPLES;

		index[i] = (uint32_t)(n <= VERIFY_SAMPLES
					  ? i % n
					  : begin + rng_below(&rng, (uint32_t)(end - begin)));
	}
	index[VERIFY_SAMPLES - 1] = (uint32_t)n - 1;
}

enum rc
verify_equal(const uint64_t *crc, uint32_t n, const char *what, uint32_t *culprit, struct err *err)
{
	uint32_t most = 0, of = 0, odd = n;

	for (uint32_t r = 0; r < n; r++) {
		uint32_t same = 0;

		for (uint32_t q = 0; q < n; q++)
			same += crc[q] == crc[r];
		if (same > most) {
			most = same;
			of = r;
		}
	}
	if (most == n)
		return RC_OK;
	for (uint32_t r = n; r-- > 0;)
		odd = crc[r] != crc[of] ? r : odd;
	*culprit = 2 * most > n ? odd : n;
	if (*culprit == n)
		return err_set(err, RC_BADDATA,
			       "the %s of rank %" PRIu32 " and rank %" PRIu32
			       " differ, and no other rank can decide which are right",
			       what, of, odd);
	return err_set(err, RC_BADDATA, "rank %" PRIu32 ": the %s differ from the other ranks'",
		       odd, what);
}

/* Wrap around, as the sums on the devices would. */
static int64_t
add_up(const int64_t *in, uint32_t nranks, unsigned sample)
{
	uint64_t sum = 0;

	for (uint32_t r = 0; r < nranks; r++)
		sum += (uint64_t)in[(uint64_t)r * VERIFY_SAMPLES + sample];
	return (int64_t)sum;
}

enum rc
verify_sums(const int64_t *in, uint32_t nranks, const int64_t *out, uint32_t nholders,
	    const uint32_t *index, uint32_t *culprit, struct err *err)
{
	for (unsigned i = 0; i < VERIFY_SAMPLES; i++) {
		int64_t want = add_up(in, nranks, i);
		uint32_t wrong = nholders, nwrong = 0;

		for (uint32_t r = nholders; r-- > 0;)
			if (out[(uint64_t)r * VERIFY_SAMPLES + i] != want) {
				wrong = r;
				nwrong++;
			}
		if (nwrong == 0)
			continue;
		*culprit = nwrong == nholders && nholders > 1 ? nranks : wrong;
		if (*culprit == nranks)
			return err_set(err, RC_BADDATA,
				       "element %" PRIu32 " of the gradients' sums is %" PRId64
				       " on all ranks, but their inputs sum to %" PRId64,
				       index[i], out[(uint64_t)wrong * VERIFY_SAMPLES + i], want);
		return err_set(err, RC_BADDATA,
			       "rank %" PRIu32 ": element %" PRIu32
			       " of the gradients' sums is %" PRId64
			       ", but the ranks' inputs sum to %" PRId64,
			       wrong, index[i], out[(uint64_t)wrong * VERIFY_SAMPLES + i], want);
	}
	return RC_OK;
}
