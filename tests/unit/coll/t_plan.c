/* Names, parts, arguments, building and showing of plans. */
#include <string.h>

#include "coll/algo.h"
#include "tap.h"

static const char ring_of_four[] =
    "allreduce ring: reduce-scatter, then allgather, on a ring\n"
    "ranks 4, elements 8\n"
    "rounds 6\n"
    "a rank sends at most 6 messages, 12 elements; receives at most 12 elements\n"
    "all ranks send 24 messages, 48 elements\n"
    "\n"
    "rank 0: sends 6 messages, 12 elements\n"
    "  round 0   send         [6,8) of in -> rank 1\n"
    "  round 0   recv-reduce  rank 3 + [4,6) of in -> [4,6) of out\n"
    "  round 1   send         [4,6) of out -> rank 1\n"
    "  round 1   recv-reduce  rank 3 + [2,4) of in -> [2,4) of out\n"
    "  round 2   send         [2,4) of out -> rank 1\n"
    "  round 2   recv-reduce  rank 3 + [0,2) of in -> [0,2) of out\n"
    "  round 2   finish       [0,2) of out\n"
    "  round 3   send         [0,2) of out -> rank 1\n"
    "  round 3   recv         rank 3 -> [6,8) of out\n"
    "  round 4   send         [6,8) of out -> rank 1\n"
    "  round 4   recv         rank 3 -> [4,6) of out\n"
    "  round 5   send         [4,6) of out -> rank 1\n"
    "  round 5   recv         rank 3 -> [2,4) of out\n"
    "\n"
    "rank 1: sends 6 messages, 12 elements\n"
    "  round 0   send         [0,2) of in -> rank 2\n"
    "  round 0   recv-reduce  rank 0 + [6,8) of in -> [6,8) of out\n"
    "  round 1   send         [6,8) of out -> rank 2\n"
    "  round 1   recv-reduce  rank 0 + [4,6) of in -> [4,6) of out\n"
    "  round 2   send         [4,6) of out -> rank 2\n"
    "  round 2   recv-reduce  rank 0 + [2,4) of in -> [2,4) of out\n"
    "  round 2   finish       [2,4) of out\n"
    "  round 3   send         [2,4) of out -> rank 2\n"
    "  round 3   recv         rank 0 -> [0,2) of out\n"
    "  round 4   send         [0,2) of out -> rank 2\n"
    "  round 4   recv         rank 0 -> [6,8) of out\n"
    "  round 5   send         [6,8) of out -> rank 2\n"
    "  round 5   recv         rank 0 -> [4,6) of out\n"
    "\n"
    "rank 2: sends 6 messages, 12 elements\n"
    "  round 0   send         [2,4) of in -> rank 3\n"
    "  round 0   recv-reduce  rank 1 + [0,2) of in -> [0,2) of out\n"
    "  round 1   send         [0,2) of out -> rank 3\n"
    "  round 1   recv-reduce  rank 1 + [6,8) of in -> [6,8) of out\n"
    "  round 2   send         [6,8) of out -> rank 3\n"
    "  round 2   recv-reduce  rank 1 + [4,6) of in -> [4,6) of out\n"
    "  round 2   finish       [4,6) of out\n"
    "  round 3   send         [4,6) of out -> rank 3\n"
    "  round 3   recv         rank 1 -> [2,4) of out\n"
    "  round 4   send         [2,4) of out -> rank 3\n"
    "  round 4   recv         rank 1 -> [0,2) of out\n"
    "  round 5   send         [0,2) of out -> rank 3\n"
    "  round 5   recv         rank 1 -> [6,8) of out\n"
    "\n"
    "rank 3: sends 6 messages, 12 elements\n"
    "  round 0   send         [4,6) of in -> rank 0\n"
    "  round 0   recv-reduce  rank 2 + [2,4) of in -> [2,4) of out\n"
    "  round 1   send         [2,4) of out -> rank 0\n"
    "  round 1   recv-reduce  rank 2 + [0,2) of in -> [0,2) of out\n"
    "  round 2   send         [0,2) of out -> rank 0\n"
    "  round 2   recv-reduce  rank 2 + [6,8) of in -> [6,8) of out\n"
    "  round 2   finish       [6,8) of out\n"
    "  round 3   send         [6,8) of out -> rank 0\n"
    "  round 3   recv         rank 2 -> [4,6) of out\n"
    "  round 4   send         [4,6) of out -> rank 0\n"
    "  round 4   recv         rank 2 -> [2,4) of out\n"
    "  round 5   send         [2,4) of out -> rank 0\n"
    "  round 5   recv         rank 2 -> [0,2) of out\n";

static void
test_names(void)
{
	static const char *const both[][2] = {{"allreduce", "all-reduce"},
					      {"allgather", "all-gather"},
					      {"reduce-scatter", "reducescatter"},
					      {"alltoall", "all-to-all"},
					      {"reduce-scatter", "Reduce_Scatter"}};
	static const char *const wrong[] = {"", "all", "allreduce ", "allreduce2", "reducer"};
	enum gpusim_coll coll = GPUSIM_NCOLLS, other;
	struct err err = {0};
	bool good = true;

	for (int i = 0; i < GPUSIM_NCOLLS && good; i++)
		good = !coll_parse(coll_name((enum gpusim_coll)i), &coll, &err) &&
		       coll == (enum gpusim_coll)i;
	ok(good, "each collective's name parses to it");
	for (size_t i = 0; i < sizeof both / sizeof both[0] && good; i++)
		good = !coll_parse(both[i][0], &coll, &err) &&
		       !coll_parse(both[i][1], &other, &err) && coll == other &&
		       !strcmp(coll_name(coll), both[i][0]);
	ok(good, "with and without the dash");
	coll = GPUSIM_GATHER;
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0] && good; i++)
		good = coll_parse(wrong[i], &coll, &err) == RC_INVAL;
	ok(good && coll == GPUSIM_GATHER, "other words are rejected, the output is unchanged");
	coll_parse("allredcue", &coll, &err);
	ok(strstr(err.text, "'allredcue'") && strstr(err.text, "reduce-scatter, alltoall"),
	   "the message quotes the word and lists the names");
	ok(coll_name(GPUSIM_NCOLLS) && coll_name((enum gpusim_coll)4096),
	   "an unknown collective has a name to print");
}

static bool
finds(enum gpusim_coll coll, const char *name, const char *want)
{
	const struct plan_algo *row = NULL;

	return !plan_algo_find(coll, name, &row, NULL) && row->coll == coll &&
	       !strcmp(row->name, want);
}

static void
test_algos(void)
{
	const struct plan_algo *row = NULL;
	struct err err = {0};
	bool good = true;

	for (int i = GPUSIM_ALLREDUCE; i <= GPUSIM_REDUCESCATTER && good; i++) {
		enum gpusim_coll c = (enum gpusim_coll)i;

		good = finds(c, NULL, "ring") && finds(c, "", "ring") && finds(c, "auto", "ring") &&
		       finds(c, "ring", "ring") && finds(c, "naive", "naive");
	}
	ok(good, "ring is the default of the five large ones, and naive exists");
	ok(finds(GPUSIM_ALLTOALL, NULL, "pairwise") && finds(GPUSIM_GATHER, NULL, "linear") &&
	       finds(GPUSIM_SCATTER, NULL, "linear") &&
	       finds(GPUSIM_BARRIER, NULL, "dissemination") && finds(GPUSIM_SEND, NULL, "direct") &&
	       finds(GPUSIM_RECV, NULL, "direct"),
	   "every other collective has its default");
	ok(finds(GPUSIM_ALLREDUCE, "twoshot", "twoshot") &&
	       finds(GPUSIM_ALLREDUCE, "direct", "twoshot"),
	   "direct is twoshot's old name");
	ok(plan_algo_find(GPUSIM_ALLTOALL, "ring", &row, &err) == RC_INVAL && !row &&
	       !strcmp(err.text,
		       "alltoall: unknown algorithm 'ring': not one of auto, pairwise, bruck"),
	   "an unknown algorithm is rejected with the list");
	ok(plan_algo_find(GPUSIM_NCOLLS, NULL, &row, &err) == RC_INVAL && !row,
	   "so is an unknown collective");
	for (row = plan_algos; row->name; row++)
		good = good && row->build && row->summary && *row->summary;
	ok(good, "every row has a builder and a summary");
}

/* The parts tile the vector in order and differ by at most one; off is floor(r*n/p). */
static bool
tiles(uint64_t n, uint32_t p)
{
	uint64_t end = 0;

	for (uint32_t r = 0; r < p; r++) {
		uint64_t off, count;

		plan_part(n, p, r, &off, &count);
		if (off != end || off != (uint64_t)((unsigned __int128)r * n / p) ||
		    count - n / p > 1) {
			printf("#   n %llu p %u r %u\n", (unsigned long long)n, p, r);
			return false;
		}
		end = off + count;
	}
	return end == n;
}

static void
test_parts(void)
{
	static const uint64_t huge[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX / 2 + 1,
					(1ull << 63) - 25, 1ull << 48};
	static const uint32_t ranks[] = {1, 2, 3, 7, 64, 1000, 65535, PLAN_MAX_RANKS};
	bool good = true;

	for (uint32_t p = 1; p <= 64; p++) {
		for (uint64_t n = 0; n <= 3 * p + 1 && good; n++)
			good = tiles(n, p);
	}
	ok(good, "parts tile the vector, p = 1..64, n = 0..3p+1");
	for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
		for (size_t j = 0; j < sizeof huge / sizeof huge[0] && good; j++)
			good = tiles(huge[j], ranks[i]);
	}
	ok(good, "and huge ones, without overflow");
}

/* Rejected by plan_build and plan_build_all, the plan unchanged, with a message that contains
 * `says`. */
static bool
refused(struct plan_args a, const char *says)
{
	struct plan plan = {.ntmp = 7}, *all = NULL;
	struct err err = {0};
	bool good;

	plan_append(&plan, (struct plan_step){.round = 5});
	good = plan_build(&a, NULL, &plan, &err) == RC_INVAL && strstr(err.text, says) &&
	       plan.nstep == 1 && plan.step[0].round == 5 && plan.ntmp == 7;
	if (!good)
		printf("#   want: %s\n#   got: %s\n", says, err.text);
	plan_fini(&plan);
	if (a.rank < a.nranks && plan_build_all(&a, NULL, &all, NULL) != RC_INVAL) {
		plan_free_all(all, a.nranks);
		return false;
	}
	return good && !all;
}

static void
test_arguments(void)
{
	ok(refused((struct plan_args){.coll = GPUSIM_NCOLLS, .nranks = 2}, "unknown collective 11"),
	   "an unknown collective");
	ok(refused((struct plan_args){.nranks = 0}, "allreduce: 0 ranks"), "no ranks");
	ok(refused((struct plan_args){.nranks = PLAN_MAX_RANKS + 1},
		   "65537 ranks: must be 1..65536"),
	   "too many ranks");
	ok(refused((struct plan_args){.rank = 4, .nranks = 4}, "no rank 4 in 4 ranks"),
	   "a rank past the last");
	ok(refused((struct plan_args){.coll = GPUSIM_BROADCAST, .nranks = 4, .root = 4},
		   "broadcast: no root rank 4") &&
	       refused((struct plan_args){.coll = GPUSIM_REDUCE, .nranks = 1, .root = 1},
		       "reduce: no root rank 1") &&
	       refused((struct plan_args){.coll = GPUSIM_GATHER, .nranks = 4, .root = 9},
		       "gather: no root rank 9") &&
	       refused((struct plan_args){.coll = GPUSIM_SCATTER, .nranks = 4, .root = 4},
		       "scatter: no root rank 4"),
	   "a root past the last");
	ok(refused((struct plan_args){.coll = GPUSIM_SEND, .nranks = 4, .root = 4},
		   "send: no peer rank 4") &&
	       refused((struct plan_args){.coll = GPUSIM_SEND, .rank = 2, .nranks = 4, .root = 2},
		       "send: rank 2 is its own peer") &&
	       refused((struct plan_args){.coll = GPUSIM_RECV, .nranks = 1},
		       "recv: rank 0 is its own peer"),
	   "a peer past the last, or the rank itself");
	ok(refused((struct plan_args){.coll = GPUSIM_ALLTOALL, .nranks = 4, .nelem = 6},
		   "alltoall: 6 elements do not divide by 4 ranks"),
	   "blocks of alltoall that are not equal");
	ok(refused((struct plan_args){.coll = GPUSIM_BARRIER, .nranks = 4, .nelem = 1},
		   "barrier: does not accept elements, got 1"),
	   "a barrier of elements");
	ok(refused((struct plan_args){.nranks = 2, .nelem = UINT64_MAX, .chunk = 1},
		   "allreduce ring: more than 4194304 steps in rank 0"),
	   "more messages than a plan can have");
}

static void
test_build(void)
{
	struct plan_args a = {.rank = 3, .nranks = 5, .root = 9, .nelem = UINT64_MAX};
	struct plan plan = {0};
	struct err err = {0};
	bool good = true;

	ok(!plan_build(&a, NULL, &plan, &err) && plan.nstep == 4 * 4 + 1,
	   "the largest vector; allreduce ignores the root");
	ok(!plan_build(&a, "naive", &plan, &err) && plan.nstep == 4 * 4 + 1 + 2,
	   "a second plan is appended");
	plan_fini(&plan);
	ok(!plan.step && !plan.nstep, "plan_fini leaves an empty plan");
	for (const struct plan_algo *row = plan_algos; row->name; row++) {
		struct plan_args one = {.coll = row->coll, .nranks = 1};
		struct plan_args none = {.coll = row->coll, .nranks = 4, .root = 1};

		if (row->coll != GPUSIM_BARRIER) {
			good = good && !plan_build(&none, row->name, &plan, &err) && !plan.nstep;
			one.nelem = 3;
		}
		if (coll_is_sendrecv(row->coll))
			continue;
		good = good && !plan_build(&one, row->name, &plan, &err) &&
		       plan.nstep == (one.nelem > 0) + (size_t)coll_reduces(row->coll) &&
		       (!plan.nstep || plan.step[0].kind == STEP_COPY);
		if (!good)
			printf("#   %s %s\n", coll_name(row->coll), row->name);
		plan_fini(&plan);
	}
	ok(good, "one rank copies; no elements are no steps");
	plan_free_all(NULL, 3);
}

static bool
shows(struct plan_args a, const char *says)
{
	struct buf out = {0};
	struct err err = {0};
	bool good = !plan_show(&a, NULL, &out, &err) && buf_add(&out, "", 1) &&
		    strstr(out.data, says) != NULL;

	if (!good)
		printf("#   want: %s\n#   got: %s%s\n", says, err.text, out.data ? out.data : "");
	buf_fini(&out);
	return good;
}

static void
test_show(void)
{
	struct plan_args a = {.nranks = 4, .nelem = 8};
	struct buf out = {0};
	struct err err = {0};
	bool good;

	good = !plan_show(&a, "ring", &out, &err) && out.len == sizeof ring_of_four - 1 &&
	       !memcmp(out.data, ring_of_four, out.len);
	if (!ok(good, "the ring of four, as text"))
		printf("%.*s", (int)out.len, out.data ? out.data : "");
	a.nelem = a.nranks = PLAN_MAX_RANKS;
	ok(plan_show(&a, "ring", &out, &err) == RC_INVAL && out.len == sizeof ring_of_four - 1 &&
	       strstr(err.text, "more than 4194304 steps in all 65536 ranks"),
	   "too much to show is rejected, the text is unchanged");
	buf_fini(&out);
	ok(shows((struct plan_args){.coll = GPUSIM_REDUCE, .nranks = 3, .nelem = 7, .chunk = 4},
		 "ranks 3, elements 7, at most 4 in a message\nrounds 3\n") &&
	       shows((struct plan_args){.coll = GPUSIM_REDUCE, .nranks = 3, .nelem = 7, .chunk = 4},
		     "rank 2: sends 2 messages, 7 elements; scratch 7\n"),
	   "chunk and scratch are shown");
	ok(shows((struct plan_args){.coll = GPUSIM_RECV, .rank = 2, .nranks = 3, .nelem = 5},
		 "rank 0: sends 1 messages, 5 elements\n"
		 "  round 0   send         [0,5) of in -> rank 2\n"
		 "\nrank 1: sends 0 messages, 0 elements\n"
		 "\nrank 2: sends 0 messages, 0 elements\n"
		 "  round 0   recv         rank 0 -> [0,5) of out\n"),
	   "recv is shown with the matching send");
	ok(shows((struct plan_args){.coll = GPUSIM_ALLGATHER, .nranks = 1, .nelem = 5},
		 "  round 0   copy         [0,5) of in -> [0,5) of out\n"),
	   "a copy is shown");
}

int
main(void)
{
	test_names();
	test_algos();
	test_parts();
	test_arguments();
	test_build();
	test_show();
	return tap_done();
}
