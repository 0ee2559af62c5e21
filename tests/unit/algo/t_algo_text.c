/* Our text form of algorithms: what a person writes, what is printed, what is refused and in which words. */
#include <string.h>

#include "algo/algo.h"
#include "tap.h"

static enum rc
parse(const char *text, struct algo **out, struct err *err)
{
	return algo_parse(text, strlen(text), "f", NULL, out, err);
}

#define HEAD "collective allreduce\nranks 4\nchunks 4\n"

static void
test_transfers(void)
{
	struct err err = {0};
	struct algo *a = NULL;
	const struct algo_block *b;

	if (!ok(parse("# a comment\nalgorithm two\n" HEAD "\n"
		      "for r in 1..ranks - 1 # all but the first\n"
		      "  let half = chunks / 2\n"
		      "  copy r.data[half:half] -> 0.scratch[half * (r - 1)]\n"
		      "  reduce 0.scratch[half * (r - 1):half] -> 0.data[half]\n"
		      "end\n"
		      "copy 0.data[2:2] -> 3.data[2] channel 5\n",
		      &a, &err) == RC_OK,
		"transfers are read %s", err.text))
		return;
	ok(strcmp(a->name, "two") == 0 && a->coll == GPUSIM_ALLREDUCE && a->nranks == 4 &&
	       a->in_place && a->out_of_place && a->nchunks == 4 && a->nchannels == 6,
	   "data is one buffer, and the algorithm can be called in both ways");
	ok(algo_chunks(a, 0, ALGO_SCRATCH) == 6 && algo_chunks(a, 1, ALGO_SCRATCH) == 0,
	   "scratch grows with its use");
	ok(a->rank[0].nblock == 5 && a->rank[3].nblock == 2 && a->rank[1].block[0].send == 0,
	   "a block for each peer and channel, and one for what is local");
	b = &a->rank[0].block[1]; /* local */
	ok(b->send == ALGO_NONE && b->nstep == 3 && b->step[0].kind == ALGO_REDUCE &&
	       b->step[0].count == 2 && b->step[0].dep_block == 0 && b->step[0].dep_step == 0 &&
	       b->step[1].dep_block == 2,
	   "a reduction waits for what it reads");
	b = &a->rank[0].block[4];
	ok(b->send == 3 && b->channel == 5 && b->step[0].dep_block == 1 &&
	       b->step[0].dep_step == 2 && b->step[0].line == 12,
	   "a send waits for what wrote it last, once");
	algo_free(a);
}

static void
test_hazards(void)
{
	struct err err = {0};
	struct algo *a = NULL;
	const struct algo_block *b;

	if (!ok(parse(HEAD "copy 0.data[0] -> 1.scratch[0]\n"
			   "copy 0.data[0] -> 2.scratch[0]\n"
			   "copy 3.data[0] -> 0.data[0]\n"
			   "copy 1.scratch[0] + 2.data[1] -> 2.data[2]\n",
		      &a, &err) == RC_OK,
		"%s", err.text))
		return;
	b = &a->rank[0].block[2];
	ok(b->nstep == 2 && b->step[0].kind == ALGO_NOP && b->step[0].dep_block == 1 &&
	       b->step[1].kind == ALGO_RECV && b->step[1].dep_block == 0,
	   "a write waits for all who read before it, with a nop for each but the last");
	b = &a->rank[2].block[1];
	ok(b->step[0].kind == ALGO_RRC && b->step[0].src_at == 1 && b->step[0].dst_at == 2,
	   "a sum of two places is one step");
	algo_free(a);
}

static void
test_steps(void)
{
	struct err err = {0};
	struct algo *a = NULL;
	const struct algo_step *s;

	if (!ok(parse("collective custom\nranks 2\nchunks 4\nproto LL\nbytes 1..4096\n"
		      "for r in 0..1\n"
		      "  rank r in 3 out 2 scratch 1\n"
		      "  block send 1 - r recv 1 - r\n"
		      "    s in[0:2] after 1.0\n"
		      "    r scratch[0]\n"
		      "    rrc in[1] -> out[1]\n"
		      "  block\n"
		      "    nop\n"
		      "    cpy scratch[0] -> out[0]\n"
		      "end\n",
		      &a, &err) == RC_OK,
		"blocks and steps are read %s", err.text))
		return;
	s = a->rank[1].block[0].step;
	ok(a->custom && a->rank[1].chunks[ALGO_IN] == 3 && a->rank[1].block[0].send == 0 &&
	       s[0].kind == ALGO_SEND && s[0].count == 2 && s[0].dep_block == 1 &&
	       s[0].dep_step == 0 && s[2].kind == ALGO_RRC && s[2].dst == ALGO_OUT &&
	       a->rank[0].block[1].step[0].kind == ALGO_NOP && strcmp(a->proto, "LL") == 0 &&
	       a->min_bytes == 1 && a->max_bytes == 4096,
	   "each as it was written");
	algo_free(a);
}

static int64_t
value(const char *expression)
{
	struct err err = {0};
	struct algo *a = NULL;
	int64_t v = -999;
	char text[256];

	snprintf(text, sizeof text,
		 "collective custom\nranks 9\nchunks 99\nlet v = %s\nrank 0 in 1000 + v\n",
		 expression);
	if (parse(text, &a, &err) == RC_OK)
		v = (int64_t)a->rank[0].chunks[ALGO_IN] - 1000;
	else
		printf("# %s\n", err.text);
	algo_free(a);
	return v;
}

static void
test_expressions(void)
{
	static const struct {
		const char *text;
		int64_t value;
	} cases[] = {
	    {"1 + 2 * 3", 7},
	    {"(1 + 2) * 3", 9},
	    {"10 - 3 - 2", 5},
	    {"-1 % 8", 7},
	    {"-7 / 2", -4},
	    {"7 / -2", -4},
	    {"-7 % -4", -3},
	    {"1 << 3 + 1", 16},
	    {"5 ^ 1", 4},
	    {"6 & 3 | 8", 10},
	    {"ranks * chunks", 891},
	    {"3 == 1 + 2", 1},
	    {"3 != 3", 0},
	    {"2 <= 1", 0},
	    {"2 > 1", 1},
	    {"255 >> 4", 15},
	    {"- - 3", 3},
	    {"4 < 5 == 1", 1},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		ok(value(cases[i].text) == cases[i].value, "%s is %lld", cases[i].text,
		   (long long)cases[i].value);
}

static void
test_choices(void)
{
	struct err err = {0};
	struct algo *a = NULL;
	size_t n = 0;

	ok(parse(HEAD "for r in 0..3\n if r % 2 == 0\n  if r == 0\n  else\n   let q = r + 1\n"
		      "   copy r.in[0] -> q.out[0]\n  end\n else\n  let q = 3\n"
		      "  copy r.in[0:2] -> q.out[0]\n end\nend\nfor r in 3..2\n nonsense\nend\n",
		 &a, &err) == RC_OK,
	   "if, else, and a loop that is never done %s", err.text);
	for (uint32_t r = 0; a && r < 4; r++)
		for (size_t b = 0; b < a->rank[r].nblock; b++)
			for (size_t i = 0; i < a->rank[r].block[b].nstep; i++)
				n += a->rank[r].block[b].step[i].kind != ALGO_NOP;
	ok(n == 2 + 2 + 1, "three transfers");
	algo_free(a);
}

static void
test_refused(void)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
	    {"", "f:1: a line 'collective' must come before this"},
	    {"ranks 4\nchunks 4\ncopy 0.in[0] -> 1.out[0]\n",
	     "f:3: a line 'collective' must come before this"},
	    {"collective sum\n", "f:1: unknown collective 'sum': must be"},
	    {"algorithm -x\n", "f:1: '-x' is not a legal name"},
	    {"ranks 4\nranks 4\n", "f:2: 'ranks' occurs twice"},
	    {"ranks 1025\n", "f:1: the number of ranks 1025: must be 1 to 1024"},
	    {"collective allgather\nranks 4\nchunks 6\ncopy 0.in[0] -> 1.out[0]\n",
	     "6 chunks are not a multiple of 4 ranks"},
	    {HEAD "root 4\n", "f:4: root 4, but 4 ranks"},
	    {HEAD "copy 0.in[0] -> 4.out[0]\n", "f:4: rank 4: must be 0 to 3"},
	    {HEAD "copy 0.in[0] -> 1.out[3:2]\n",
	     "f:4: rank 1 has 4 chunks of output; this line uses number 4"},
	    {HEAD "copy 0.in[0:2] -> 1.out[0:3]\n", "f:4: the places have 2 and 3 chunks"},
	    {HEAD "copy 0.in[0] -> 1.data[0]\n", "this line uses data, line 4 uses in and out"},
	    {HEAD "copy 0.in[0] -> 1.out\n", "f:4: the line ends, expected '['"},
	    {HEAD "copy 0.in[0] 1.out[0]\n", "f:4: '1' found, expected '->'"},
	    {HEAD "copy 0.in[0] -> 1.out[0] 7\n", "f:4: '7' found, expected the line's end"},
	    {HEAD "copy 0.in[0] -> 1.out[0] channel 64\n", "channel 64: must be 0 to 63"},
	    {HEAD "copy 0.mem[0] -> 1.out[0]\n", "'mem' must be in, out, data or scratch"},
	    {HEAD "copy 0.in[0] + 0.in[1] -> 1.out[0]\n", "the second operand is at rank 0"},
	    {HEAD "copy 1.in[0] + 1.in[1] -> 1.out[0]\n", "both operands are at rank 1"},
	    {HEAD "copy 1.data[0:2] -> 1.data[1]\n", "f:4: the two places overlap"},
	    {HEAD "rank 0\nblock send 1\nstep s in[0]\n",
	     "f:6: a line cannot begin with 'step'; transfers are 'copy' and 'reduce', steps begin "
	     "with s, r,"},
	    {HEAD "move 0.in[0] -> 1.out[0]\n", "a line cannot begin with 'move'"},
	    {HEAD "chunks 3\n", "'chunks' occurs twice"},
	    {HEAD "copy 0.in[0] -> 1.out[0]\nroot 1\n", "f:5: 'root' belongs to the head"},
	    {HEAD "for r in 0..3\n", "f:4: no line 'end' closes this one"},
	    {HEAD "end\n", "f:4: this end has neither for nor if"},
	    {HEAD "for r in 0..3\nelse\nend\n", "f:5: this else has no if"},
	    {HEAD "for ranks in 0..3\nend\n", "f:4: 'ranks' is a keyword"},
	    {HEAD "let a = 1\nlet a = 2\n", "f:5: 'a' already has a value, from line 4"},
	    {HEAD "let a = a\n", "f:4: 'a' has no value"},
	    {HEAD "let a = 1 / 0\n", "f:4: 1 is divided by 0"},
	    {HEAD "let a = 1 << 60\n", "f:4: 1 << 60 is too large"},
	    {HEAD "let a = -1 & 1\n", "bit operation on a negative number"},
	    {HEAD "let a = 99999999999999999\n", "is too large"},
	    {HEAD "let a = 9007199254740992 * 9007199254740992\n", "a number beyond 2^53"},
	    {HEAD "let a = 3x\n", "'3x' is neither a number nor a name"},
	    {HEAD "let a = $\n", "'$' is not allowed here"},
	    {HEAD "let a = \xff\n", "a byte of value 255 is not allowed here"},
	    {HEAD "for i in 0..99999999999\nend\n", "f:4: the loops take too long"},
	    {HEAD "for i in 0..99999999\ncopy 0.data[0] -> 1.data[0]\nend\n",
	     "f:4: this loop runs at least 100000000 lines: at most 4194304 are allowed"},
	    {HEAD "for i in 0..1999\nfor j in 0..1999 + i\ncopy 0.data[0] -> 1.data[0]\nend\nend\n",
	     "f:6: more than 1048576 steps"},
	    {HEAD "block\n", "f:4: a line 'rank' must come before this block"},
	    {HEAD "rank 0\ns in[0]\n", "f:5: lines 'rank' and 'block' must come before this step"},
	    {HEAD "rank 0\nblock\ns in[0]\n",
	     "f: line 6: rank 0 block 0 step 0 (s) sends, but its block has no peer"},
	    {HEAD "rank 0\nblock\nnop after 1.0\n", "waits for a block that does not exist"},
	    {HEAD "rank 0\nblock send 0\ns in[0]\n", "sends to rank 0, which is itself"},
	    {HEAD "rank 0\nblock\ncopy 0.in[0] -> 1.in[0]\n", "f:6: a file has either transfers"},
	    {HEAD "copy 0.in[0] -> 1.in[0]\nrank 0\n", "f:5: a file has either transfers"},
	    {"collective custom\nranks 2\nchunks 2\ncopy 0.data[0] -> 1.data[0]\n",
	     "f:4: custom algorithms have in and out, not data"},
	    {HEAD "scratch 2\ncopy 0.in[0] -> 1.scratch[2]\n", "has 2 chunks of scratch"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct err err = {0};
		struct algo *a = NULL;
		enum rc rc = parse(cases[i].text, &a, &err);

		if (!ok(rc == RC_BADDATA && !a && strstr(err.text, cases[i].why), "refused: %s",
			cases[i].why))
			printf("# rc %d: %s\n", rc, err.text);
		algo_free(a);
	}
}

/* What somebody who cannot wait lets a parser do. */
static void
test_budget(void)
{
	struct algo_budget few = {.max_steps = 7, .max_work = 1 << 20},
			   none = {.max_steps = 7, .max_work = 200},
			   nested = {.max_steps = 7, .max_work = 1 << 20}, stopped = nested;
	static const char four[] = HEAD "for i in 0..3\ncopy 0.data[0] -> 1.data[0]\nend\n";
	struct buf deep = {0};
	atomic_bool stop = true;
	struct err err = {0};
	struct algo *a = NULL;

	ok(algo_parse(four, strlen(four), "f", &few, &a, &err) == RC_BADDATA &&
	       strcmp(err.text, "f:5: more than 7 steps") == 0,
	   "so many steps (%s)", err.text);
	ok(algo_parse(four, strlen(four), "f", &none, &a, &err) == RC_INVAL &&
	       strncmp(err.text, "f:2: too much work: more than 200 units", 39) == 0,
	   "so much work (%s)", err.text);
	buf_addf(&deep, HEAD);
	for (int i = 0; i < 20; i++)
		buf_addf(&deep, "for v%d in 0..2\n", i);
	buf_addf(&deep, "copy 0.data[0] -> 1.data[0]\n");
	for (int i = 0; i < 20; i++)
		buf_addf(&deep, "end\n");
	ok(algo_parse(deep.data, deep.len, "f", &nested, &a, &err) == RC_BADDATA &&
	       strncmp(err.text, "f:4: this loop runs at least ", 29) == 0 && nested.work < 100000,
	   "20 loops in each other are counted, not done (%s, %u units)", err.text,
	   (unsigned)nested.work);
	stopped.stop = &stop;
	ok(algo_parse(four, strlen(four), "f", &stopped, &a, &err) == RC_ABORTED, "it is stopped");
	deep.len = 0;
	buf_addf(&deep,
		 HEAD "for i in 0..9999\nif i == 0\nfor j in 0..9999\nlet k = j\nend\nend\nend\n"
		      "copy 0.data[0] -> 1.data[0]\n");
	ok(algo_parse(deep.data, deep.len, "f", NULL, &a, &err) == RC_OK,
	   "what an if keeps back does not count (%s)", err.text);
	algo_free(a);
	buf_fini(&deep);
}

/* Printed in both forms and read again, it has the same digest. */
static bool
survives(const struct algo *a)
{
	char was[17], is[17] = "";
	bool same = true;

	algo_digest(a, was);
	for (int form = 0; form < 2; form++) {
		struct algo *again = NULL;
		struct err err = {0};
		struct buf out = {0};

		if ((form ? msccl_print : text_print)(a, &out) &&
		    algo_parse(out.data, out.len, "again", NULL, &again, &err) == RC_OK)
			algo_digest(again, is);
		if (strcmp(was, is) != 0) {
			printf("# %s: %s\n", form ? "XML" : "text", err.text);
			same = false;
		}
		algo_free(again);
		buf_fini(&out);
	}
	return same;
}

static bool
built_in_survives(const struct plan_algo *row, uint32_t p, uint64_t nelem, uint64_t chunk)
{
	struct plan_args args = {.coll = row->coll, .nranks = p, .nelem = nelem, .chunk = chunk};
	struct algo *a = NULL;
	struct err err = {0};
	struct buf out = {0};
	struct proof proof;
	bool good;

	args.root = coll_has_root(row->coll) ? p / 2 : 0;
	good = text_print_plans(&args, row->name, &out, &err) == RC_OK &&
	       algo_parse(out.data, out.len, "printed", NULL, &a, &err) == RC_OK &&
	       algo_prove(a, &proof, &err) == RC_OK && proof.min_slots <= 1 && survives(a);
	if (!good)
		printf("# %s %s of %u: %s\n", coll_name(row->coll), row->name, p, err.text);
	algo_free(a);
	buf_fini(&out);
	return good;
}

static void
test_hierarchical(void)
{
	/* Two hosts of four: sums within hosts, between them, and back. */
	static const char text[] =
	    "algorithm hierarchical\ncollective allreduce\nranks 8\nchunks 4\n"
	    "for h in 0..1\n for l in 0..3\n  for d in 1..3\n"
	    "   let peer = h * 4 + (l + d) % 4\n"
	    "   reduce peer.data[l] -> (h * 4 + l).data[l]\n  end\n end\nend\n"
	    "for l in 0..3\n copy l.data[l] -> (4 + l).scratch[0]\n"
	    " copy (4 + l).data[l] -> l.scratch[0]\n"
	    " reduce l.scratch[0] -> l.data[l]\n"
	    " reduce (4 + l).scratch[0] -> (4 + l).data[l]\nend\n"
	    "for h in 0..1\n for l in 0..3\n  for d in 1..3\n"
	    "   copy (h * 4 + l).data[l] -> (h * 4 + (l + d) % 4).data[l]\n  end\n end\nend\n";
	struct algo *a = NULL;
	struct err err = {0};
	struct proof proof;

	ok(parse(text, &a, &err) == RC_OK && algo_prove(a, &proof, &err) == RC_OK &&
	       proof.min_slots == 1 && survives(a),
	   "a hierarchical all-reduce is proven %s", err.text);
	algo_free(a);
}

static bool
has_a_form(const struct plan_algo *row)
{
	struct algo a = {0};

	return !plan_algo_mapped(row) && algo_coll_parse(coll_name(row->coll), &a, NULL) == RC_OK;
}

static void
test_built_in(void)
{
	struct plan_args args = {.nranks = 4, .nelem = 4};
	struct err err = {0};
	struct buf out = {0};

	for (const struct plan_algo *row = plan_algos; row->name; row++) {
		bool good = true;

		if (!has_a_form(row)) {
			args.coll = row->coll;
			ok(text_print_plans(&args, row->name, &out, &err) == RC_INVAL && !out.len,
			   "%s %s has no form: %s", coll_name(row->coll), row->name, err.text);
			continue;
		}
		for (uint32_t p = 1; p <= 9 && good; p++)
			good =
			    built_in_survives(row, p, p, 0) && built_in_survives(row, p, 4 * p, 3);
		ok(good, "%s %s is printed, read, proven, and the same again", coll_name(row->coll),
		   row->name);
	}
	buf_fini(&out);
}

int
main(void)
{
	test_transfers();
	test_hazards();
	test_steps();
	test_expressions();
	test_choices();
	test_refused();
	test_budget();
	test_hierarchical();
	test_built_in();
	return tap_done();
}
