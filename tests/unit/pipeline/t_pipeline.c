/* t_pipeline.c - schedules that are made have the bubbles and peaks of their papers; text is read as PyTorch writes
 * it; each rule of the proof refuses what breaks it. */
#include "pipeline/pipeline.h"

#include <math.h>
#include <string.h>

#include "tap.h"

#define MOST (SANITIZED ? 4u : 8u) /* ranks */

static struct pipeline_facts facts;

static bool
near(double a, double b)
{
	return fabs(a - b) < 1e-9;
}

static uint32_t
most(const struct pipeline *p)
{
	uint32_t peak = 0;

	for (uint32_t r = 0; r < p->nranks; r++)
		peak = facts.peak[r] > peak ? facts.peak[r] : peak;
	return peak;
}

/* A right schedule is the same after it was printed, with its sends, and read. */
static bool
lasts(const struct pipeline *p)
{
	struct pipeline_facts before = facts;
	struct pipeline *again = NULL;
	struct buf text = {0}, twice = {0};
	struct err e;
	bool good = pipeline_print(p, &text) && !pipeline_parse(text.data, text.len, &again, &e) &&
		    !pipeline_check(again, &facts, &e) && pipeline_print(again, &twice) &&
		    strcmp(text.data, twice.data) == 0 &&
		    memcmp(&before, &facts, sizeof facts) == 0;

	pipeline_free(again);
	buf_fini(&text);
	buf_fini(&twice);
	return good;
}

/* Made, proved, and the same after it was printed and read, with sends too. */
static struct pipeline *
proved(enum pipeline_scheme s, uint32_t p, uint32_t m, uint32_t v)
{
	struct pipeline *made = NULL, *again = NULL;
	struct buf text = {0}, twice = {0};
	struct err e = {0};
	bool good = !pipeline_make(s, p, m, v, &made, &e) && pipeline_print(made, &text) &&
		    !pipeline_check(made, &facts, &e);

	good = good && !pipeline_parse(text.data, text.len, &again, &e) && !again->sends &&
	       pipeline_print(again, &twice) && strcmp(text.data, twice.data) == 0;
	pipeline_free(again);
	buf_fini(&text);
	buf_fini(&twice);
	good = good && made->sends && lasts(made);
	if (!good)
		printf("# %s, p %u, m %u, v %u: %s\n", pipeline_scheme_name(s), p, m, v, e.text);
	return good ? made : NULL;
}

static const struct pipeline_costs costs[] = {
    {1, 1, 1, 0}, {2, 3, 1, 0}, {1, 1.5, 0.5, 0}, {1, 1.25, 1, 0}, {1, 1, 1.5, 0}};

/* The most microbatches in progress, or stages' microbatches, and the number of messages. */
static bool
counts(enum pipeline_scheme s, const struct pipeline *made, uint32_t v)
{
	uint32_t p = made->nranks, m = made->nmicro, peak = m, sent = 0,
		 total = 2 * (p * v - 1) * m;

	if (s == PIPELINE_1F1B || s == PIPELINE_INTERLEAVED || s == PIPELINE_ZB_H1)
		peak = p < m ? p : m;
	if (s == PIPELINE_INTERLEAVED &&
	    v > 1) /* 2 (p - 1) + (v - 1) p passes first, then one forward and one back */
		peak = p * v + p - 1 < m * v ? p * v + p - 1 : m * v;
	if (s == PIPELINE_ZB_H2)
		peak = 2 * p - 1;
	if (s == PIPELINE_ZB_V) {
		peak = 2 * p;
		total = 2 * (2 * p - 2) * m;
	}
	for (uint32_t r = 0; r < p; r++)
		sent += facts.messages[r];
	return most(made) == peak && sent == (p > 1 ? total : 0);
}

/* What the papers say. */
static double
bubble_of(enum pipeline_scheme s, uint32_t p, const struct pipeline_costs *c)
{
	if (s == PIPELINE_ZB_H1)
		return (p - 1) *
		       fmax(c->f + c->b - c->w, c->b); /* its memory allows no less for W > F */
	if (s == PIPELINE_ZB_H2)
		return fmax(0, (p - 1) * (c->f + c->b - 2 * c->w));
	return s == PIPELINE_ZB_V ? 0 : (p - 1) * (c->f + c->b + c->w);
}

static bool
as_published(enum pipeline_scheme s, uint32_t p, uint32_t m, uint32_t v)
{
	struct pipeline *made = proved(s, p, m, v);
	bool good = made && counts(s, made, v);

	for (size_t i = 0; good && i < (s == PIPELINE_ZB_V ? 1 : sizeof costs / sizeof *costs);
	     i++) {
		struct pipeline_times t;
		struct err e;

		good = !pipeline_time(made, &costs[i], &t, &e) &&
		       near(t.bubble, bubble_of(s, p, &costs[i]));
		pipeline_times_fini(&t);
	}
	if (!good)
		printf("# %s, p %u, m %u, v %u\n", pipeline_scheme_name(s), p, m, v);
	pipeline_free(made);
	return good;
}

static void
formulas(void)
{
	static const uint32_t least[] = {
	    [PIPELINE_ZB_H1] = 1, [PIPELINE_ZB_H2] = 2, [PIPELINE_ZB_V] = 2};

	for (unsigned s = 0; s < PIPELINE_NSCHEMES; s++) {
		bool good = true;

		for (uint32_t p = 1; p <= MOST; p++)
			for (uint32_t m = 1; m <= 4 * p; m++) {
				if (m < least[s] * p - (least[s] == 2) ||
				    (s == PIPELINE_INTERLEAVED && m % p))
					continue;
				for (uint32_t v = 1; v <= (s == PIPELINE_INTERLEAVED ? 3u : 1u);
				     v++)
					good &= as_published((enum pipeline_scheme)s, p, m, v);
			}
		ok(good,
		   "%s has the bubble, the peak and the messages of its formulas, for 1 to %u "
		   "ranks",
		   pipeline_scheme_name((enum pipeline_scheme)s), MOST);
	}
}

/* ---- the text, and the rules: cases as data */

struct a_case {
	const char *text, *error; /* NULL: right */
};

#define TWO "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n" /* 1F1B of two ranks, without sends */

static const struct a_case cases[] = {
    /* As PyTorch prints: empty cells at either end, \r\n, quotes; I, W and B mixed; FSDP's actions; several stages. */
    {"0F0,0F1,,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1,,\r\n", NULL},
    {"\"0F0\", 0F1 ,,0I0,0W0,,0B1\n,1F0,1B0,1F1,,1I1,1W1\n\n", NULL},
    {"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
     "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n",
     NULL},
    {"0UNSHARD,0F0,0SEND_F0,0F1,0RECV_B0,0SEND_F1,0I0,0RECV_B1,0I1,0W0,0W1,0REDUCE_GRAD,0RESHARD\n"
     "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1REDUCE_GRAD,1SEND_B1,1RESHARD\n",
     NULL},
    {"0F0,3F0,3I0,0I0,3W0,0W0\n1F0,2F0,2I0,1I0,2W0,1W0\n", NULL},
    {"0F0,0F1,3F0,(0F2;3B0)OVERLAP_F_B,( 3F1 ; 0B0 )OVERLAP_F_B,3B1,3F2,3B2,0B1,0B2\n"
     "1F0,2F0,1F1,2B0,1F2,2F1,1B0,2B1,2F2,2B2,1B1,1B2\n",
     NULL},
    {"0F0,0B0\n", NULL}, /* one rank */

    /* Not a schedule. */
    {"", "no row: a schedule has one for each rank"},
    {"\n\n", "no row: a schedule has one for each rank"},
    {"0F0,0B0\n\n1F0,1B0\n", "row 2 has no action: each rank needs a stage"},
    {"0F0,X,0B0\n",
     "row 1, column 2: 'X': no action; one begins with the number of its stage, below 4096"},
    {"0F0,0Q0\n", "row 1, column 2: '0Q0': no action; there are F, B, I, W, SEND_F, RECV_F, "
		  "SEND_B, RECV_B, UNSHARD, RESHARD and "
		  "REDUCE_GRAD"},
    {"0F0,0B\n", "row 1, column 2: '0B': needs the number of a microbatch, below 4096"},
    {"0F4096\n", "row 1, column 1: '0F4096': needs the number of a microbatch, below 4096"},
    {"99999999999999999999F0\n", "row 1, column 1: '99999999999999999999F0': no action; one begins "
				 "with the number of its stage, below 4096"},
    {"0F0x\n", "row 1, column 1: '0F0x': has something behind it"},
    {"0UNSHARD1\n", "row 1, column 1: '0UNSHARD1': has something behind it"},
    {"0F0\n0B0\n", "row 2, column 1: '0B0': stage 0 is in row 1 already"},
    {"0F0,0B0\n2F0,2B0\n", "no row has stage 1, but row 2 has stage 2"},
    {"(0F0;0B0\n",
     "row 1, column 1: '(0F0;0B0': no action; actions that run together are (0F1;3B0)OVERLAP_F_B"},
    {"(0F0;)OVERLAP_F_B\n",
     "row 1, column 1: '': no action; one begins with the number of its stage, below 4096"},
    {"(0F0;0SEND_F0)OVERLAP_F_B\n",
     "row 1, column 1: '(0F0;0SEND_F0)OVERLAP_F_B': only F, B, I and W run together"},
    {"0UNSHARD\n", "no microbatch"},

    /* A row. */
    {"0F0,0B0,0F0\n", "row 1, column 3: 0F0 is there twice"},
    {"0F0,0B0,0B0\n", "row 1, column 3: 0B0 is there twice"},
    {"0F0,0I0,0B0,0W0\n", "row 1, column 3: 0B0 is a second pass back"},
    {"0B0,0F0\n", "row 1, column 1: 0B0 needs 0F0 in an earlier cell of its row"},
    {"0F0,0W0,0I0\n", "row 1, column 2: 0W0 needs 0I0 in an earlier cell of its row"},
    {"0F0,0B0,0W0\n", "row 1, column 3: 0W0 comes after 0B0, which has the weights' gradients too"},
    {"0F0,0I0\n", "row 1 lacks 0W0"},
    {"0F0\n", "row 1 lacks 0B0"},
    {"0F1,0B1\n", "row 1 lacks 0F0"},
    {"0F0,0B0,0F1\n", "row 1 lacks 0B1"},
    {"1F0,0F0,1B0,0B0\n", "row 1, column 1: 1F0 needs 0F0 in an earlier cell of its row"},
    {"0F0,1F0,0B0,1B0\n", "row 1, column 3: 0B0 needs 1B0 in an earlier cell of its row"},
    {"(0F0;0B0)OVERLAP_F_B\n", "row 1, column 1: 0B0 needs 0F0 in an earlier cell of its row"},
    {"(0F0;0F0)OVERLAP_F_B,0B0\n", "row 1, column 1: 0F0 is there twice"},

    /* Sends and receives. */
    {"0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0\n",
     "row 2, column 1: 1F0 needs 1RECV_F0 in an earlier cell of its row"},
    {"0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
     "row 1, column 1: 0SEND_F0 needs 0F0 in an earlier cell of its row"},
    {"0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", "row 1 lacks 0SEND_F0"},
    {"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0\n", "row 2 lacks 1SEND_B0"},
    {"0F0,0SEND_F0,0RECV_B0,0B0,0SEND_B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
     "row 1, column 5: 0SEND_B0 has no stage before it"},
    {"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0,1SEND_F0\n",
     "row 2, column 5: 1SEND_F0 has no stage after it"},
    {"0F0,0SEND_F0,1RECV_F0,1F0,1B0,0B0\n",
     "row 1, column 2: 0SEND_F0 is needless: stage 1 is in the same row"},
    {"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
     "1RECV_F1,1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n",
     "row 1, column 2: 0SEND_F0 is send 1 to row 2, where 1RECV_F0 is receive 2"},

    /* Parameters and gradients. */
    {"0F0,0UNSHARD,0B0\n", "row 1, column 1: 0F0 uses parameters that are not there: it needs "
			   "0UNSHARD before it, and no 0RESHARD between"},
    {"0UNSHARD,0F0,0I0,0RESHARD,0W0\n", "row 1, column 5: 0W0 uses parameters that are not there: "
					"it needs 0UNSHARD before it, and no 0RESHARD between"},
    {"0UNSHARD,0UNSHARD,0F0,0B0\n",
     "row 1, column 2: 0UNSHARD comes where the parameters are there already"},
    {"0RESHARD,0UNSHARD,0F0,0B0\n",
     "row 1, column 1: 0RESHARD comes where the parameters are not there"},
    {"0F0,0I0,0REDUCE_GRAD,0W0\n",
     "row 1, column 3: 0REDUCE_GRAD comes before the last pass back of its stage: 0 of 1 are done"},
    {"0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD\n", "row 1, column 4: 0REDUCE_GRAD is there twice"},
    {"0F0,1F0,1B0,0B0,0REDUCE_GRAD\n", "row 1 lacks 1REDUCE_GRAD"},

    /* Rows that wait for each other: without sends; and, with them, pytorch#172668, where both ranks send first, and
     * where one of two orders its sends and receives otherwise than its peer does. */
    {"0F0,3F0,3B0,0B0,0F1,3F1,3B1,0B1\n1F1,2F1,2B1,1B1,1F0,2F0,2B0,1B0\n",
     "row 1, column 2: 3F0 waits for ever: it waits for stage 2, in row 2"},
    {"0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2RECV_F1,2F1,2B0,2SEND_B0,2B1,2SEND_B1,0RECV_B0,0B0,"
     "0RECV_B1,0B1\n"
     "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,1RECV_B0,1B0,1SEND_B0,1RECV_B1,1B1,1SEND_B1\n",
     "row 1, column 4: 0SEND_F1 waits for ever: it waits for row 2; there column 3, 1SEND_F0, "
     "waits for row 1"},
    {"0F0,0SEND_F0,2RECV_F0,2F0,0F1,0SEND_F1,2RECV_F1,2F1,2SEND_F0,2SEND_F1,0F2,0SEND_F2,2RECV_B0,"
     "2B0,2RECV_B1,2B1,"
     "2SEND_B0,2SEND_B1,2RECV_F2,2F2,2SEND_F2,0RECV_B0,0B0,0RECV_B1,0B1,2RECV_B2,2B2,2SEND_B2,"
     "0RECV_B2,0B2\n"
     "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,3RECV_F0,3F0,3B0,3RECV_F1,3SEND_B0,3F1,3B1,1RECV_"
     "F2,3SEND_B1,1F2,"
     "1SEND_F2,1RECV_B0,1B0,1SEND_B0,1RECV_B1,1B1,1SEND_B1,3RECV_F2,3F2,3B2,3SEND_B2,1RECV_B2,1B2,"
     "1SEND_B2\n",
     "row 1, column 12: 0SEND_F2 waits for ever: it waits for row 2; there column 11, 3SEND_B0, "
     "waits for row 1"},
    {"0F0,0SEND_F0,2RECV_F0,0F1,0SEND_F1,2F0,2RECV_F1,2F1,2B0,2SEND_B0,2B1,0RECV_B0,2SEND_B1,0B0,"
     "0RECV_B1,0B1\n"
     "1RECV_F0,1F0,1RECV_F1,1SEND_F0,1F1,1SEND_F1,1RECV_B0,1B0,1RECV_B1,1SEND_B0,1B1,1SEND_B1\n",
     NULL}, /* the same stages in an order that ends */
};

static void
rules(void)
{
	unsigned bad = 0;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct pipeline *p = NULL;
		struct err e = {0};
		enum rc rc = pipeline_parse(cases[i].text, strlen(cases[i].text), &p, &e);
		bool good;

		if (!rc)
			rc = pipeline_check(p, &facts, &e);
		good = cases[i].error ? rc == RC_BADDATA && strcmp(e.text, cases[i].error) == 0
				      : !rc && lasts(p);
		pipeline_free(p);
		bad += !good;
		if (!good)
			printf("# %s#  %s, not %s\n", cases[i].text, rc ? e.text : "right",
			       cases[i].error ? cases[i].error : "right");
	}
	ok(bad == 0,
	   "each rule refuses what breaks it, with row and column, and accepts what does not");
}

/* Where sends and receives come, and what the training needs to know. */
static void
derived(void)
{
	static const char want[] = "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
				   "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n";
	struct pipeline_action recv = {.kind = PIPELINE_RECV_B, .stage = 0};
	struct pipeline *p;
	struct buf text = {0};
	struct err e;

	pipeline_parse(TWO, strlen(TWO), &p, &e);
	ok(!p->sends && !p->splits && p->nranks == 2 && p->nstages == 2 && p->nmicro == 2 &&
	       p->rank_of[1] == 1,
	   "a schedule without sends is read");
	ok(!pipeline_check(p, &facts, &e) && p->sends && pipeline_print(p, &text) &&
	       strcmp(text.data, want) == 0,
	   "sends stand right behind what makes their values, receives at the same moment");
	ok(pipeline_peer(p, &recv) == 1 && facts.peak[0] == 2 && facts.peak[1] == 1 &&
	       facts.messages[0] == 2,
	   "peers, peaks and messages");
	buf_fini(&text);
	pipeline_free(p);
}

/* A message takes its time; actions that run together begin when all their values are there. */
static void
times(void)
{
	static const char text[] =
	    "0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n";
	static const struct pipeline_costs late = {1, 1, 1, 0.5};
	struct pipeline_times t;
	struct pipeline *p;
	struct err e;
	bool good;

	pipeline_parse(text, strlen(text), &p, &e);
	good = !pipeline_check(p, &facts, &e) && !pipeline_time(p, &late, &t, &e);
	/* 0F0 0-1, 1F0 1.5-2.5, 1B0 2.5-4.5, (0F2;0B0) 5-8, 1F2 6.5.., 1B1 5.5-7.5, 1B2 8.5-10.5, 0B2 11-13 */
	ok(good && near(t.end, 13) && near(t.busy, 9) && near(t.idle[0], 4) && near(t.bubble, 4),
	   "the times of a schedule by hand: end %g, idle %g", t.end, t.idle[0]);
	pipeline_times_fini(&t);
	pipeline_free(p);
}

static void
named(void)
{
	static const char *const bad[] = {"2f2b", "interleaved=0", "interleaved=5000",
					  "interleaved=2x", "./no-such.csv"};
	struct pipeline *p = NULL;
	unsigned refused = 0;
	struct err e;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		refused += pipeline_named(bad[i], 4, 8, &p, &e) && !p;
	ok(refused == sizeof bad / sizeof *bad, "what is no schedule and no file is refused");
	ok(pipeline_named("zb-h1", 0, 8, &p, &e) == RC_INVAL,
	   "a scheme needs ranks and microbatches: %s", e.text);
	ok(pipeline_named("interleaved", 4, 6, &p, &e) == RC_INVAL, "%s", e.text);
	ok(pipeline_named("gpipe", 1024, 4096, &p, &e) == RC_INVAL, "%s", e.text);
	ok(!pipeline_named("interleaved=3", 4, 8, &p, &e) && p->nstages == 12 && p->rank_of[5] == 1,
	   "interleaved=3");
	pipeline_free(p);
	ok(!pipeline_named("zb-v", 4, 8, &p, &e) && p->nstages == 8 && p->rank_of[5] == 2 &&
	       p->splits,
	   "zb-v turns back");
	pipeline_free(p);
}

/* The largest are proved, timed and drawn; more is refused. */
static void
large(void)
{
	struct pipeline_times t;
	struct pipeline *p = NULL;
	struct buf out = {0};
	struct err e;

	ok(!pipeline_make(PIPELINE_1F1B, SANITIZED ? 64 : 1024, 341, 1, &p, &e) &&
	       !pipeline_check(p, &facts, &e) && !pipeline_time(p, &costs[0], &t, &e) &&
	       pipeline_show_text(p, &t, 80, false, &out),
	   "many ranks: %s", e.text);
	ok(SANITIZED || pipeline_show_svg(p, &t, &out, &e) == RC_INVAL,
	   "are too many for an SVG: %s", e.text);
	pipeline_times_fini(&t);
	pipeline_free(p);
	buf_fini(&out);
}

int
main(void)
{
	formulas();
	rules();
	derived();
	times();
	named();
	large();
	return tap_done();
}
