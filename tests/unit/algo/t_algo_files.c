/* Algorithms from MSCCL's XML: what is read, what is refused and in which words, and that what is printed is
 * read again. */
#include <string.h>

#include "algo/algo.h"
#include "tap.h"

/* The all-reduce of two ranks, in place: each sends a chunk, adds the other, and sends it back. */
static const char pair[] =
    "<?xml version=\"1.0\"?>\n"
    "<algo name=\"pair\" proto=\"LL\" nchannels=\"1\" nchunksperloop=\"2\" ngpus=\"2\""
    " coll=\"allreduce\" inplace=\"1\" outofplace=\"0\" minBytes=\"0\" maxBytes=\"0\">\n"
    " <gpu id=\"0\" i_chunks=\"2\" o_chunks=\"0\" s_chunks=\"1\">\n"
    "  <tb id=\"7\" send=\"1\" recv=\"1\" chan=\"0\">\n"
    "   <step s=\"0\" type=\"s\" srcbuf=\"i\" srcoff=\"1\" dstbuf=\"s\" dstoff=\"0\" cnt=\"1\""
    " depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n"
    "   <step s=\"1\" type=\"r\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"s\" dstoff=\"0\" cnt=\"1\""
    " depid=\"-1\" deps=\"-1\" hasdep=\"1\"/>\n"
    "   <step s=\"2\" type=\"nop\" srcbuf=\"i\" srcoff=\"-1\" dstbuf=\"o\" dstoff=\"-1\" cnt=\"0\""
    " depid=\"3\" deps=\"0\" hasdep=\"0\"/>\n"
    "   <step s=\"3\" type=\"s\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"i\" dstoff=\"0\" cnt=\"1\""
    " depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n"
    "   <step s=\"4\" type=\"r\" srcbuf=\"i\" srcoff=\"1\" dstbuf=\"o\" dstoff=\"1\" cnt=\"1\""
    " depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n"
    "  </tb>\n"
    "  <tb id=\"3\" send=\"-1\" recv=\"-1\" chan=\"0\">\n"
    "   <step s=\"0\" type=\"re\" srcbuf=\"s\" srcoff=\"0\" dstbuf=\"i\" dstoff=\"0\" cnt=\"1\""
    " depid=\"7\" deps=\"1\" hasdep=\"1\"/>\n"
    "  </tb>\n"
    " </gpu>\n"
    " <gpu id=\"1\" i_chunks=\"2\" o_chunks=\"0\" s_chunks=\"1\">\n"
    "  <tb id=\"0\" send=\"0\" recv=\"0\" chan=\"0\">\n"
    "   <step s=\"0\" type=\"s\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"s\" dstoff=\"0\" cnt=\"1\"/>\n"
    "   <step s=\"1\" type=\"rrc\" srcbuf=\"i\" srcoff=\"1\" dstbuf=\"i\" dstoff=\"1\" "
    "cnt=\"1\"/>\n"
    "   <step s=\"2\" type=\"s\" srcbuf=\"i\" srcoff=\"1\" dstbuf=\"i\" dstoff=\"1\" cnt=\"1\"/>\n"
    "   <step s=\"3\" type=\"r\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"i\" dstoff=\"0\" cnt=\"1\"/>\n"
    "  </tb>\n"
    " </gpu>\n"
    "</algo>\n";

static enum rc
parse(const char *text, struct algo **out, struct err *err)
{
	return algo_parse(text, strlen(text), "f", NULL, out, err);
}

static void
test_read(void)
{
	struct err err = {0};
	struct algo *a = NULL;
	const struct algo_step *s;

	if (!ok(parse(pair, &a, &err) == RC_OK, "MSCCL's XML is read %s", err.text))
		return;
	ok(strcmp(a->name, "pair") == 0 && strcmp(a->proto, "LL") == 0 && !a->custom &&
	       a->coll == GPUSIM_ALLREDUCE && a->in_place && !a->out_of_place && a->nranks == 2 &&
	       a->nchunks == 2 && a->nchannels == 1,
	   "its head");
	ok(a->rank[0].nblock == 2 && a->rank[0].block[0].id == 7 && a->rank[0].block[0].send == 1 &&
	       a->rank[0].block[1].recv == ALGO_NONE && a->rank[0].block[0].nstep == 5,
	   "its thread blocks");
	s = a->rank[0].block[0].step;
	ok(s[0].kind == ALGO_SEND && s[0].src_at == 1 && s[0].dst == ALGO_IN && s[0].line == 5 &&
	       s[2].kind == ALGO_NOP && s[2].dep_block == 1 && s[2].dep_step == 0 &&
	       s[4].dst == ALGO_OUT && s[1].dep_block == ALGO_NONE,
	   "its steps; blocks that steps wait for by index");
	ok(algo_chunks(a, 0, ALGO_OUT) == 2 && algo_chunks(a, 0, ALGO_SCRATCH) == 1,
	   "in place input and output are one buffer");
	algo_free(a);
}

static void
test_printed(void)
{
	struct err err = {0};
	struct algo *a = NULL, *again = NULL;
	char one[17] = "", two[17] = "";
	struct buf out = {0};

	if (parse(pair, &a, &err) == RC_OK && msccl_print(a, &out)) {
		algo_digest(a, one);
		if (parse(out.data, &again, &err) == RC_OK)
			algo_digest(again, two);
	}
	ok(*one && strcmp(one, two) == 0, "what is printed as XML is the same algorithm %s",
	   err.text);
	if (again) {
		again->rank[1].block[0].step[3].dst_at = 1;
		algo_digest(again, two);
	}
	ok(strcmp(one, two) != 0, "another step, another digest");
	algo_free(a);
	algo_free(again);
	buf_fini(&out);
}

/* The pair with the first `was` replaced. */
static char *
mutated(const char *was, const char *becomes)
{
	static char text[2 * sizeof pair];
	const char *at = strstr(pair, was);

	if (!at)
		tap_bail(was);
	snprintf(text, sizeof text, "%.*s%s%s", (int)(at - pair), pair, becomes, at + strlen(was));
	return text;
}

static void
test_refused(void)
{
	static const struct {
		const char *was, *becomes, *why;
	} cases[] = {
	    {"coll=\"allreduce\"", "coll=\"barrier\"",
	     "f:2: unknown collective 'barrier': must be"},
	    {"ngpus=\"2\"", "ngpus=\"3\"", "f: gpu 2 of ngpus=\"3\" is missing"},
	    {"ngpus=\"2\"", "ngpus=\"0\"", "f:2: algo: ngpus=\"0\" must be 1 to 1024"},
	    {"ngpus=\"2\"", "ngpus=\"2x\"", "algo: ngpus=\"2x\" is not a number"},
	    {"ngpus=\"2\"", "ngpus=\" 2\"", "is not a number"},
	    {"ngpus=\"2\"", "ngpus=\"99999999999999999999\"", "must be 1 to 1024"},
	    {" ngpus=\"2\"", "", "f:2: algo has no ngpus"},
	    {"proto=\"LL\"", "proto=\"fast\"", "proto=\"fast\" must be Simple, LL or LL128"},
	    {"inplace=\"1\"", "inplace=\"0\"", "must work in place or out of place"},
	    {"nchunksperloop=\"2\"", "nchunksperloop=\"4\"",
	     "rank 0 has 2 chunks of input; allreduce of 4 chunks wants 4"},
	    {"coll=\"allreduce\"", "coll=\"broadcast\" root=\"2\"", "root 2, but 2 ranks"},
	    {"maxBytes=\"0\"", "maxBytes=\"-1\"", "maxBytes=\"-1\" must be 0"},
	    {"<gpu id=\"1\"", "<gpu id=\"0\"", "f:15: gpu 0 occurs twice"},
	    {"<gpu id=\"1\"", "<gpu id=\"2\"", "gpu 2, but ngpus=\"2\""},
	    {"<tb id=\"3\"", "<tb id=\"7\"", "tb 7 occurs twice"},
	    {"send=\"1\"", "send=\"0\"", "rank 0 block 7 sends to rank 0, which is itself"},
	    {"send=\"1\"", "send=\"2\"", "rank 0 block 7 sends to rank 2, which does not exist"},
	    {"send=\"1\"", "send=\"-1\"",
	     "line 5: rank 0 block 7 step 0 (s) sends, but its block has no peer to send to"},
	    {"send=\"-1\"", "send=\"1\"", "rank 0 block 3 sends to rank 1 over channel 0, as an"},
	    {"chan=\"0\"", "chan=\"1\"", "has channel 1, but there are 1"},
	    {"type=\"nop\"", "type=\"wait\"", "f:7: step: type=\"wait\" must be"},
	    {"srcbuf=\"s\"", "srcbuf=\"x\"", "srcbuf=\"x\" must be i, o or s"},
	    {"srcoff=\"1\"", "srcoff=\"2\"", "step 0 reads input 2, but there are 2"},
	    {"srcoff=\"1\"", "srcoff=\"-1\"", "step has no srcoff"},
	    {"dstoff=\"0\" cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"1\"",
	     "dstoff=\"0\" cnt=\"3\" depid=\"-1\" deps=\"-1\" hasdep=\"1\"",
	     "step 1 writes scratch 0 to 2, but there are 1"},
	    {"cnt=\"1\"", "cnt=\"0\"", "step 0 (s) has no chunks"},
	    {" s=\"2\"", " s=\"3\"", "step s=\"3\" is number 2 of its tb"},
	    {"depid=\"3\"", "depid=\"4\"", "f:7: depid=\"4\" is not a tb of gpu 0"},
	    {"deps=\"0\"", "deps=\"1\"",
	     "line 7: rank 0 block 7 step 2 waits for step 1 of block 3, which has 1"},
	    {"deps=\"0\"", "deps=\"-1\"", "depid=\"3\" and deps=\"-1\": only one of them is set"},
	    {"hasdep=\"1\"", "hasdep=\"0\"", "it would wait forever"},
	    {"coll=\"allreduce\"", "coll=\"custom\"", "writes output 1, but there are 0"},
	    {"<tb id=\"3\"", "<pipe id=\"3\"", "<pipe> cannot be in <gpu>"},
	    {"<algo", "<plan", "<plan> is not <algo>"},
	    {"</algo>", "", "f:24: no element found"},
	    {"</algo>", "</algo><algo/>", "f:23: junk after document element"},
	    {"<algo", "<!DOCTYPE a [<!ENTITY b \"bb\">]>\n<algo", "a DOCTYPE is not allowed"},
	    {"name=\"pair\"", "name=\"&pair;\"", "f:2: undefined entity"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct err err = {0};
		struct algo *a = NULL;
		enum rc rc = parse(mutated(cases[i].was, cases[i].becomes), &a, &err);

		if (!ok(rc == RC_BADDATA && !a && strstr(err.text, cases[i].why), "refused: %s",
			cases[i].why))
			printf("# rc %d: %s\n", rc, err.text);
		algo_free(a);
	}
}

static void
test_tolerated(void)
{
	static const struct {
		const char *was, *becomes, *name;
	} cases[] = {
	    {"proto=\"LL\"", "colour=\"blue\" redop=\"sum\"", "pair"},
	    {"hasdep=\"0\"", "hasdep=\"1\"", "pair"},
	    {"name=\"pair\"", "name=\"two of (8)\"", "two_of__8_"},
	    {"name=\"pair\"", "name=\"-x\"", "x-x"},
	    {"name=\"pair\"", "", "unnamed"},
	    {"coll=\"allreduce\"", "coll=\"all-reduce\"", "pair"},
	    {"<gpu", "<!-- the first --><gpu", "pair"},
	    {"outofplace=\"0\"", "", "pair"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct err err = {0};
		struct algo *a = NULL;
		enum rc rc = parse(mutated(cases[i].was, cases[i].becomes), &a, &err);

		ok(rc == RC_OK && strcmp(a->name, cases[i].name) == 0, "taken: %s %s",
		   cases[i].becomes, err.text);
		algo_free(a);
	}
}

static void
test_collectives(void)
{
	static const struct {
		const char *coll;
		unsigned in, out;
		bool good;
	} cases[] = {
	    {"allreduce", 4, 4, true},	    {"allreduce", 4, 0, false},
	    {"allgather", 2, 4, true},	    {"allgather", 4, 4, false},
	    {"reduce-scatter", 4, 2, true}, {"reducescatter", 4, 4, false},
	    {"alltoall", 4, 4, true},	    {"alltoall", 2, 4, false},
	    {"broadcast", 4, 4, true},	    {"broadcast", 0, 4, false},
	    {"reduce", 4, 4, true},	    {"reduce", 4, 0, false},
	    {"custom", 0, 9, true},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct err err = {0};
		struct algo *a = NULL;
		char text[600];
		enum rc rc;

		snprintf(text, sizeof text,
			 "<algo coll=\"%s\" ngpus=\"2\" nchannels=\"1\" nchunksperloop=\"4\">"
			 "<gpu id=\"1\" i_chunks=\"%u\" o_chunks=\"%u\" s_chunks=\"0\"/>"
			 "<gpu id=\"0\" i_chunks=\"%u\" o_chunks=\"%u\" s_chunks=\"0\"/></algo>",
			 cases[i].coll, cases[i].in, cases[i].out, cases[i].in, cases[i].out);
		rc = parse(text, &a, &err);
		ok((rc == RC_OK) == cases[i].good, "%s of 4 chunks with %u in, %u out %s",
		   cases[i].coll, cases[i].in, cases[i].out, err.text);
		algo_free(a);
	}
}

int
main(void)
{
	test_read();
	test_printed();
	test_refused();
	test_tolerated();
	test_collectives();
	return tap_done();
}
