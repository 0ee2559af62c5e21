/* Samples of sums: right ones pass, and one that differs is named. */
#include "train/verify.h"

#include <string.h>

#include "tap.h"

#define N 3

int
main(void)
{
	static int64_t in[N][VERIFY_SAMPLES], out[N][VERIFY_SAMPLES];
	uint32_t index[VERIFY_SAMPLES], again[VERIFY_SAMPLES], culprit = 99;
	struct err err = {0};
	bool good = true;

	verify_choose(5, 1000, index);
	verify_choose(5, 1000, again);
	for (unsigned i = 0; i < VERIFY_SAMPLES; i++)
		good = good && index[i] < 1000 && index[i] == again[i];
	ok(good && index[VERIFY_SAMPLES - 1] == 999, "elements by the seed, and the last one");
	for (unsigned i = 0; i < VERIFY_SAMPLES; i++)
		for (uint32_t r = 0; r < N; r++) {
			in[r][i] = ((int64_t)i - 100) * (r ? 7 : INT64_C(1) << 50);
			for (uint32_t q = 0; q < N; q++)
				out[q][i] += in[r][i];
		}
	ok(verify_sums(in[0], N, out[0], N, index, &culprit, &err) == RC_OK && culprit == 99,
	   "right sums");
	good = true;
	for (uint32_t r = 0; r < N; r++)
		for (unsigned i = 0; i < VERIFY_SAMPLES; i += 51) {
			char rank[16];

			snprintf(rank, sizeof rank, "rank %u: ", r);
			out[r][i] ^= INT64_C(1) << (i % 63);
			good =
			    good &&
			    verify_sums(in[0], N, out[0], N, index, &culprit, &err) == RC_BADDATA &&
			    culprit == r && strncmp(err.text, rank, strlen(rank)) == 0;
			out[r][i] ^= INT64_C(1) << (i % 63);
		}
	ok(good, "one bit of one rank is found, and the rank is named");
	for (uint32_t r = 0; r < N; r++)
		out[r][17]++;
	ok(verify_sums(in[0], N, out[0], N, index, &culprit, &err) == RC_BADDATA && culprit == N &&
	       strstr(err.text, "on all ranks"),
	   "the same wrong number on all ranks");
	ok(verify_sums(in[0], N, out[0], 1, index, &culprit, &err) == RC_BADDATA && culprit == 0,
	   "the one rank that has the sum");
	verify_choose(9, 3, index);
	ok(index[0] == 0 && index[1] == 1 && index[2] == 2, "all elements where they are few");
	verify_choose(9, 256000, index);
	good = true;
	for (unsigned i = 0; i < VERIFY_SAMPLES; i++)
		good = good && index[i] / 1000 == i;
	ok(good, "else one of each part");
	ok(verify_equal((uint64_t[]){7, 7, 7}, 3, "gradients' sums", &culprit, &err) == RC_OK,
	   "the same sums");
	ok(verify_equal((uint64_t[]){7, 8, 7}, 3, "gradients' sums", &culprit, &err) ==
		   RC_BADDATA &&
	       culprit == 1 && strncmp(err.text, "rank 1: ", 8) == 0,
	   "the rank whose sums are others is named");
	ok(verify_equal((uint64_t[]){8, 7, 7}, 3, "gradients' sums", &culprit, &err) ==
		   RC_BADDATA &&
	       culprit == 0,
	   "also the first");
	ok(verify_equal((uint64_t[]){7, 8}, 2, "gradients' sums", &culprit, &err) == RC_BADDATA &&
	       culprit == 2 && strstr(err.text, "rank 0 and rank 1"),
	   "of two, both");
	return tap_done();
}
