/* The choice of auto: the model, GPUSIM_ALGO, a tuner file, and their precedence. */
#include <math.h>
#include <string.h>

#include "coll/tune.h"
#include "tap.h"

static struct tune_answer
choose(const struct tuner *t, enum gpusim_coll coll, uint32_t nranks, uint64_t nbytes,
       const char *algo)
{
	struct tune_ask ask = {
	    .args = {.coll = coll, .dtype = GPUSIM_U8, .nranks = nranks, .nelem = nbytes},
	    .algo = algo};
	struct tune_answer out = {0};
	struct err err = {0};

	if (tuner_choose(t, &ask, &out, &err) != RC_OK)
		printf("# %s\n", err.text);
	return out;
}

static bool
chooses(const struct tuner *t, enum gpusim_coll coll, uint64_t nbytes, const char *want)
{
	const char *got = choose(t, coll, 8, nbytes, "auto").algo->name;

	if (strcmp(got, want) == 0)
		return true;
	printf("#   %s of %llu bytes: %s, not %s\n", coll_name(coll), (unsigned long long)nbytes,
	       got, want);
	return false;
}

static void
test_model(void)
{
	struct tuner t;
	struct tune_answer a, b;
	uint64_t rows = 0;
	bool good = true;

	tuner_init(&t);
	ok(chooses(&t, GPUSIM_ALLREDUCE, 8, "recursive-doubling") &&
	       chooses(&t, GPUSIM_ALLREDUCE, 1 << 20, "halving-doubling") &&
	       chooses(&t, GPUSIM_BROADCAST, 8, "tree") &&
	       chooses(&t, GPUSIM_BROADCAST, 64 << 20, "ring") &&
	       chooses(&t, GPUSIM_ALLTOALL, 64, "bruck") &&
	       chooses(&t, GPUSIM_ALLTOALL, 8 << 20, "pairwise"),
	   "few messages for small vectors, few bytes for large ones");
	for (uint32_t p = 1; p <= 70; p++)
		for (uint64_t n = 0; n < 1ull << 34 && good; n = n * 4 + 4)
			for (int c = 0; c < GPUSIM_NCOLLS && good; c++) {
				a = choose(&t, (enum gpusim_coll)c, p, n, NULL);
				b = choose(&t, (enum gpusim_coll)c, p, n, "auto");
				good = a.algo && a.algo == b.algo && (int)a.algo->coll == c &&
				       a.chunk_bytes == b.chunk_bytes &&
				       a.chunk_bytes >= TUNE_MIN_CHUNK_BYTES &&
				       a.chunk_bytes <= TUNE_CHUNK_BYTES &&
				       strcmp(a.algo->name, "naive") != 0;
			}
	ok(good, "always an algorithm of the collective, never the naive one, in messages of 16 to "
		 "256 KiB");
	a = choose(&t, GPUSIM_BROADCAST, 64, 1 << 20, "ring");
	b = choose(&t, GPUSIM_BROADCAST, 64, 1 << 20, "tree");
	ok(a.by == TUNE_BY_CALL && a.chunk_bytes < TUNE_CHUNK_BYTES &&
	       b.chunk_bytes == TUNE_CHUNK_BYTES,
	   "a pipeline gets small messages, other algorithms do not");
	good = chooses(&t, GPUSIM_ALLREDUCE, 128 << 10, "halving-doubling");
	t.model[TUNE_NET].host_us = 1e6;
	ok(good && chooses(&t, GPUSIM_ALLREDUCE, 128 << 10, "recursive-doubling"),
	   "the costs are the caller's: few messages if they are expensive");
	for (const struct plan_algo *row = plan_algos; row->name; row++)
		rows++;
	ok(rows <= 64, "tune_select has a bit for each algorithm");
	tuner_fini(&t);
}

/* If ranks share memory, auto takes the algorithms for that, if they exist. */
static void
test_shared(void)
{
	struct tuner t;
	struct tune_ask ask = {.args = {.dtype = GPUSIM_U8, .nranks = 4, .nelem = 1024},
			       .transport = TUNE_P2P};
	struct tune_answer small, large;
	const struct plan_algo *row;
	bool there;

	tuner_init(&t);
	there = !plan_algo_find(GPUSIM_ALLREDUCE, "oneshot", &row, NULL) &&
		!plan_algo_find(GPUSIM_ALLREDUCE, "twoshot", &row, NULL);
	tuner_choose(&t, &ask, &small, NULL);
	ask.args.nelem = 16 << 20;
	tuner_choose(&t, &ask, &large, NULL);
	ok(small.algo && large.algo &&
	       (!there ||
		(!strcmp(small.algo->name, "oneshot") && !strcmp(large.algo->name, "twoshot"))),
	   "shared memory: oneshot for small vectors, twoshot for large, where they exist");
	ask.transport = TUNE_NET;
	if (there)
		tuner_select(&t, "allreduce:direct,oneshot", NULL); /* twoshot's old name */
	tuner_choose(&t, &ask, &large, NULL);
	ok(!cost_find(GPUSIM_ALLREDUCE, large.algo->name)->shared,
	   "never through sockets, even if GPUSIM_ALGO lists them");
	tuner_fini(&t);
}

/* A communicator that recovers: algorithms that write to other ranks' memory are never chosen, and
 * rejected by name. */
static void
test_stores(void)
{
	struct tuner t;
	struct tune_ask ask = {
	    .args = {.dtype = GPUSIM_U8, .nranks = 4}, .transport = TUNE_P2P, .no_stores = true};
	struct tune_answer a = {0};
	struct err err = {0};
	unsigned nstoring = 0;
	bool good = true;

	tuner_init(&t);
	for (const struct plan_algo *row = plan_algos; row->name; row++)
		nstoring += plan_algo_stores(row);
	for (uint64_t n = 1; n < 1ull << 32; n *= 4)
		for (int c = 0; c < GPUSIM_NCOLLS; c++) {
			ask.args.coll = (enum gpusim_coll)c;
			ask.args.nelem = n;
			good = good && tuner_choose(&t, &ask, &a, NULL) == RC_OK &&
			       !plan_algo_stores(a.algo);
		}
	ok(good && nstoring == 1, "auto never takes the one algorithm that stores");
	ask.args.coll = GPUSIM_ALLREDUCE;
	ask.algo = "twoshot";
	ok(tuner_choose(&t, &ask, &a, &err) == RC_INVAL &&
	       strstr(err.text, "allreduce twoshot writes to other ranks' memory"),
	   "by name it is rejected: %s", err.text);
	ask.args.nranks = 1;
	ok(tuner_choose(&t, &ask, &a, NULL) == RC_OK, "a single rank writes to no other");
	ask.args.nranks = 4;
	ask.algo = "oneshot";
	ok(tuner_choose(&t, &ask, &a, NULL) == RC_OK, "oneshot writes only to its own memory");
	ask.algo = NULL;
	tuner_select(&t, "allreduce:twoshot", NULL);
	tuner_rules(&t, "allreduce,0,-1,twoshot,p2p\n", "conf", NULL);
	ok(tuner_choose(&t, &ask, &a, NULL) == RC_OK && !plan_algo_stores(a.algo),
	   "even if GPUSIM_ALGO and the tuner file name it");
	tuner_fini(&t);
}

static bool
selects(const char *text, enum gpusim_coll coll, const char *want)
{
	struct tuner t;
	struct err err = {0};
	bool good;

	tuner_init(&t);
	good = tuner_select(&t, text, &err) == RC_OK && chooses(&t, coll, 1 << 20, want);
	if (!good)
		printf("#   '%s': %s\n", text, err.text);
	tuner_fini(&t);
	return good;
}

static bool
select_refuses(const char *text, const char *says)
{
	struct tuner t;
	struct err err = {0};
	bool good;

	tuner_init(&t);
	good = tuner_select(&t, text, &err) == RC_INVAL && !strcmp(err.text, says) &&
	       chooses(&t, GPUSIM_ALLREDUCE, 1 << 20, "halving-doubling");
	if (!good)
		printf("#   '%s': %s\n", text, err.text);
	tuner_fini(&t);
	return good;
}

static void
test_select(void)
{
	ok(selects("", GPUSIM_ALLREDUCE, "halving-doubling"), "empty: the model's choice");
	ok(selects("ring", GPUSIM_ALLREDUCE, "ring") &&
	       selects("ring", GPUSIM_BARRIER, "dissemination") &&
	       selects("ring", GPUSIM_ALLTOALL, "pairwise"),
	   "a list applies to all collectives that have one of its algorithms");
	ok(selects("^halving-doubling", GPUSIM_ALLREDUCE, "pairwise"), "all but");
	ok(selects("ring;allreduce:^ring", GPUSIM_ALLREDUCE, "halving-doubling") &&
	       selects("ring;allreduce:^ring", GPUSIM_BROADCAST, "ring"),
	   "a later list for one collective");
	ok(selects("allreduce:tree,naive;all-gather:ring", GPUSIM_ALLREDUCE, "tree") &&
	       selects("allreduce:tree,naive;all-gather:ring", GPUSIM_ALLGATHER, "ring") &&
	       selects("allreduce:naive", GPUSIM_ALLREDUCE, "naive") &&
	       selects("reduce:^ring,tree", GPUSIM_REDUCE, "naive"),
	   "lists of several, and of only the slow one");
	ok(select_refuses("rign", "unknown algorithm 'rign'") &&
	       select_refuses("allreduce:ring,bruck", "allreduce: unknown algorithm 'bruck'") &&
	       select_refuses("ring,", "unknown algorithm ''") &&
	       select_refuses("^", "unknown algorithm ''") &&
	       select_refuses("tree;barrier:^dissemination",
			      "barrier is left without any algorithm"),
	   "a wrong word is quoted, and none of the text is applied");
	ok(select_refuses(
	       "everything:ring",
	       "unknown collective 'everything': not one of allreduce, broadcast, reduce, "
	       "allgather, reduce-scatter, alltoall, gather, scatter, barrier, send, recv"),
	   "so is a wrong collective");
}

static const char file[] = "# written by hand\n"
			   "\n"
			   "allreduce,0,1000,tree\n"
			   " allreduce , 1001 , 64K , ring , net , 2 , 1 , 8 , -1 , -1\r\n"
			   "allreduce,1001,65536,naive,p2p\n"
			   "allreduce,65537,-1,naive,-1,-1,2,-1\n"
			   "broadcast,-1,-1,naive,-1,-1,-1,9";

static void
test_file(void)
{
	struct tuner t;
	struct err err = {0};
	struct tune_answer a;

	tuner_init(&t);
	ok(!tuner_rules(&t, file, "f", &err) && t.nrules == 4,
	   "lines, comments, blanks; a line for two nodes matches nothing");
	a = choose(&t, GPUSIM_ALLREDUCE, 8, 1000, NULL);
	ok(!strcmp(a.algo->name, "tree") && a.by == TUNE_BY_FILE, "a line wins over the model");
	ok(chooses(&t, GPUSIM_ALLREDUCE, 1001, "ring") &&
	       chooses(&t, GPUSIM_ALLREDUCE, 65536, "ring"),
	   "the first that fits, bounds included");
	ok(chooses(&t, GPUSIM_ALLREDUCE, 65537, "recursive-doubling") &&
	       chooses(&t, GPUSIM_BROADCAST, 1000, "tree"),
	   "the model if no line fits");
	a = choose(&t, GPUSIM_ALLREDUCE, 8, 1000, "ring");
	ok(!strcmp(a.algo->name, "ring") && a.by == TUNE_BY_CALL, "the call wins over the file");
	tuner_select(&t, "allreduce:^tree", &err);
	ok(chooses(&t, GPUSIM_ALLREDUCE, 1000, "recursive-doubling"),
	   "GPUSIM_ALGO wins over the file");
	tuner_fini(&t);
}

static bool
file_refuses(const char *text, const char *says)
{
	struct tuner t;
	struct err err = {0};
	bool good;

	tuner_init(&t);
	tuner_rules(&t, "allreduce,0,-1,tree", "first", &err);
	good = tuner_rules(&t, text, "conf", &err) == RC_BADDATA && strstr(err.text, says) &&
	       t.nrules == 1;
	if (!good)
		printf("#   want: %s\n#   got: %s\n", says, err.text);
	tuner_fini(&t);
	return good;
}

/* A file that was written for NCCL on GPUs. */
static void
test_nccl_file(void)
{
	struct tuner t;

	tuner_init(&t);
	ok(!tuner_rules(&t,
			"allreduce,0,65536,nvls,simple,2,1,-1,-1,-1\n"
			"allreduce,0,65536,naive,ll,2,1,-1,-1,-1\n"
			"reducescatter,0,-1,pat,ll128\n"
			"allreduce,65537,-1,tree,ll128,4,1,-1,-1,-1\n",
			"f", NULL) &&
	       t.nrules == 2,
	   "protocols of GPUs mean any; a line with an algorithm of GPUs matches nothing");
	ok(chooses(&t, GPUSIM_ALLREDUCE, 1000, "naive") &&
	       chooses(&t, GPUSIM_ALLREDUCE, 1 << 20, "tree"),
	   "the other lines count");
	tuner_fini(&t);
}

static void
test_bad_file(void)
{
	ok(file_refuses("#\nallreduce,0,1\n", "conf:2: algorithm is missing") &&
	       file_refuses("allreduce,0,1,ring\nallredcue,0,1,ring\n",
			    "conf:2: collType: unknown collective 'allredcue'") &&
	       file_refuses("allreduce,0,x,ring", "conf:1: maxBytes: 'x'") &&
	       file_refuses("allreduce,0,1,bruck",
			    "conf:1: algorithm: allreduce: unknown algorithm") &&
	       file_refuses("allreduce,0,1,auto",
			    "conf:1: algorithm: must name an algorithm, not 'auto'") &&
	       file_refuses("allreduce,0,1,ring,fast",
			    "conf:1: protocol: 'fast' is not net, p2p, ll, ll128, simple or -1") &&
	       file_refuses("allreduce,0,1,ring,-1,-1,-1,0",
			    "conf:1: nRanks: '0' is not 1..65536 or -1") &&
	       file_refuses("allreduce,2,1,ring", "conf:1: minBytes is more than maxBytes") &&
	       file_refuses("allreduce,0,1,ring,-1,-1,-1,-1,-1,-1,7",
			    "conf:1: more than 10 columns") &&
	       file_refuses("allreduce,0,1,"
			    "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr",
			    "conf:1: algorithm: value too long"),
	   "errors are reported with file and line, and the rules are unchanged");
}

/* Return true if a plain tuner that applies the texts of another one answers as that one does. */
static bool
is_shown(const char *algos, const char *rules, uint32_t nranks, struct link_shape links)
{
	struct tuner t, copy;
	struct buf lists = {0}, lines = {0};
	struct err err = {0};
	bool good;

	tuner_init(&t);
	tuner_init(&copy);
	good = tuner_select(&t, algos, &err) == RC_OK &&
	       tuner_rules(&t, rules, "f", &err) == RC_OK && tuner_show_lists(&t, &lists) &&
	       tuner_show_rules(&t, nranks, &links, &lines) && buf_add(&lists, "", 1) &&
	       buf_add(&lines, "", 1) && tuner_select(&copy, lists.data, &err) == RC_OK &&
	       tuner_rules(&copy, lines.data, "g", &err) == RC_OK &&
	       memcmp(copy.select, t.select, sizeof t.select) == 0;
	for (int c = 0; c < GPUSIM_NCOLLS && good; c++)
		for (uint64_t n = 0; n < 1 << 20 && good; n = n * 2 + 1)
			for (int by = 0; by < TUNE_NTRANSPORTS && good; by++) {
				struct tune_ask ask = {.args = {.coll = (enum gpusim_coll)c,
								.dtype = GPUSIM_U8,
								.nranks = nranks,
								.nelem = n},
						       .transport = (enum tune_transport)by};
				struct tune_ask told = ask;
				struct tune_answer a, b;

				told.links = links;
				good = tuner_choose(&t, &told, &a, &err) == RC_OK &&
				       tuner_choose(&copy, &ask, &b, &err) == RC_OK &&
				       a.algo == b.algo && a.chunk_bytes == b.chunk_bytes &&
				       a.by == b.by;
			}
	if (!good)
		printf("# %s: '%s', '%s'\n", err.text, lists.data ? lists.data : "",
		       lines.data ? lines.data : "");
	buf_fini(&lists);
	buf_fini(&lines);
	tuner_fini(&t);
	tuner_fini(&copy);
	return good;
}

static const struct link_shape no_links;

static void
test_shown(void)
{
	struct link_shape slow = {5000, 1e8};

	ok(is_shown("", "", 4, no_links), "a plain tuner is two empty texts");
	ok(is_shown("ring,tree", "", 4, no_links) && is_shown("^ring", "", 3, no_links) &&
	       is_shown("allreduce:naive;broadcast:^tree,ring;barrier:dissemination", "", 8,
			no_links),
	   "lists of GPUSIM_ALGO are shown, also one that names a slow algorithm");
	ok(is_shown("^tree",
		    "allreduce,1,100,tree,net\nallreduce,1,-1,ring,p2p,-1,1,4\n"
		    "alltoall,0,9223372036854775807,bruck\nreduce,3,9,tree,-1,-1,-1,5\n",
		    4, no_links),
	   "so are the lines of a file for this number of ranks");
	ok(is_shown("", "", 4, slow) && is_shown("", "allreduce,1,100,tree,net\n", 8, slow),
	   "so are links that are shaped, as costs");
	ok(is_shown("", "cost,net,alpha_us=7000\ncost,p2p,alpha_us=90\n", 4, no_links) &&
	       is_shown("", "cost,net,alpha_us=7000,beta_ns=9\n", 8, slow),
	   "and the costs of a file, which include the links");
}

/* On slow links auto takes the algorithm that is fastest in the simulation. */
static void
test_slow(void)
{
	struct tune_ask ask = {
	    .args = {.coll = GPUSIM_ALLGATHER, .dtype = GPUSIM_U8, .nranks = 3, .nelem = 4800},
	    .links = {16760, 1382e6}};
	struct tune_answer a;
	struct tuner t;

	tuner_init(&t);
	ok(tuner_choose(&t, &ask, &a, NULL) == RC_OK && strcmp(a.algo->name, "bruck") == 0,
	   "three ranks gather by bruck: neither round waits for the other");
	tuner_fini(&t);
}

/* A file that gpuctl tune --calibrate wrote. */
static void
test_costs(void)
{
	struct link_shape links = {300, 8e9};
	struct cost_model m;
	struct tuner t;

	tuner_init(&t);
	m = tuner_model(&t, TUNE_NET, &links);
	ok(m.alpha_us == t.model[TUNE_NET].alpha_us + 300 &&
	       fabs(m.beta_us - t.model[TUNE_NET].beta_us - 0.001) < 1e-12,
	   "links add latency and bytes");
	m = tuner_model(&t, TUNE_P2P, &links);
	ok(m.alpha_us == t.model[TUNE_P2P].alpha_us, "memory has no links");
	ok(!tuner_rules(&t,
			"# mine\n cost , net, alpha_us=5000, host_us=2e1,beta_ns=8,gamma_ns=0.5\n"
			"allreduce,0,7,ring\n",
			"f", NULL) &&
	       t.nrules == 1,
	   "a line of costs among rules");
	m = tuner_model(&t, TUNE_NET, &links);
	ok(m.alpha_us == 5000 && m.host_us == 20 && fabs(m.beta_us - 0.008) < 1e-12 &&
	       fabs(m.gamma_us - 0.0005) < 1e-12,
	   "measured costs include the links");
	tuner_fini(&t);
	ok(file_refuses("cost\n", "conf:1: the second column must be net or p2p") &&
	       file_refuses("cost,tcp,alpha_us=1", "conf:1: 'tcp' is not net or p2p") &&
	       file_refuses("cost,net,alpha=1", "conf:1: 'alpha=1' is not alpha_us, host_us") &&
	       file_refuses("cost,net,beta_ns", "conf:1: 'beta_ns' is not alpha_us, host_us") &&
	       file_refuses("cost,net,beta_ns=-1", "conf:1: beta_ns: ") &&
	       file_refuses("cost,net,beta_ns=nan", "conf:1: beta_ns: ") &&
	       file_refuses("costs,net,beta_ns=1", "conf:1: collType: unknown collective"),
	   "wrong costs are reported with file and line");
}

int
main(void)
{
	test_model();
	test_shared();
	test_stores();
	test_select();
	test_file();
	test_nccl_file();
	test_bad_file();
	test_shown();
	test_costs();
	test_slow();
	return tap_done();
}
