/* Faults: as people type them, and the table of those that wait. */
#include <string.h>

#include "coll/fault.h"
#include "dev/inject.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Parse words as `gpuctl inject` does. */
static enum rc
parse(const char *words, struct gpusim_fault *f, struct err *err)
{
	char text[256], *save = NULL, *word;
	enum rc rc = RC_OK;

	*err = (struct err){0};
	snprintf(text, sizeof text, "%s", words);
	word = strtok_r(text, " ", &save);
	if (!word || !fault_kind_parse(word, f))
		return RC_NOTFOUND;
	while (rc == RC_OK && (word = strtok_r(NULL, " ", &save)))
		rc = fault_word(f, word, err);
	return rc == RC_OK ? fault_complete(f, err) : rc;
}

static void
test_good(void)
{
	static const char *const texts[][2] = {
	    {"kill", "kill at=now"},
	    {"kill at=now", "kill at=now"},
	    {"kill at=allreduce#7.step3", "kill at=allreduce#7.step3"},
	    {"kill at=all-reduce#next", "kill at=allreduce#next"},
	    {"stop at=any#0 for=2s", "stop at=any#0 for=2000ms"},
	    {"slow by=5ms for=1m count=12", "slow at=now for=60000ms by=5ms n=12"},
	    {"drop", "drop at=now n=1"},
	    {"drop p=0.25 seed=9", "drop at=now p=0.25 seed=9"},
	    {"drop n=3 p=0.5 peer=2", "drop at=now p=0.5 n=3 peer=2"},
	    {"corrupt at=send#next", "corrupt at=send#next n=1"},
	    {"cut for=1500us peer=0 at=reduce-scatter#18446744073709551615.step4194304",
	     "cut at=reduce-scatter#18446744073709551615.step4194304 for=1.5ms peer=0"},
	};
	struct gpusim_fault f, again;
	struct err err;
	char shown[GPUSIM_TEXT];

	for (size_t i = 0; i < COUNT(texts); i++) {
		enum rc rc = parse(texts[i][0], &f, &err);

		fault_show(&f, shown, sizeof shown);
		ok(rc == RC_OK && strcmp(shown, texts[i][1]) == 0, "%s: %s%s", texts[i][0], shown,
		   err.text);
		rc = parse(shown, &again, &err);
		ok(rc == RC_OK && memcmp(&f, &again, sizeof f) == 0, "what is shown is taken");
	}
}

static void
test_bad(void)
{
	static const char *const texts[] = {
	    "kill at=",
	    "kill at=allreduce",
	    "kill at=allreduce#",
	    "kill at=allreduce#-1",
	    "kill at=allreduce#7.step",
	    "kill at=allreduce#7.step0",
	    "kill at=allreduce#7x",
	    "kill at=sum#7",
	    "kill at=#7",
	    "kill for=2s",
	    "kill n=2",
	    "kill p=0.5",
	    "kill peer=1",
	    "kill by=2ms",
	    "slow",
	    "slow by=11s",
	    "slow by=5ms p=0.5",
	    "drop p=0",
	    "drop p=1.5",
	    "drop p=nan",
	    "drop n=0",
	    "drop for=2s",
	    "corrupt peer=-1",
	    "cut n=2",
	    "cut for=61m",
	    "stop for=x",
	    "stop seed=",
	    "kill at=allreduce#18446744073709551616",
	    "kill at=allreduce#1.step4194305",
	    "kill at=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa#1",
	};
	struct gpusim_fault f;
	struct err err;

	for (size_t i = 0; i < COUNT(texts); i++)
		ok(parse(texts[i], &f, &err) == RC_INVAL && err.text[0], "%s: %s", texts[i],
		   err.text);
	ok(parse("kill who=me", &f, &err) == RC_NOTFOUND && !err.text[0],
	   "a word that is no fault's is left to the caller");
	ok(!fault_kind_parse("bang", &f), "no such kind");
}

static struct inject_table table;

static void
arm(const char *words, uint64_t now_ns)
{
	struct gpusim_fault f;
	struct err err;

	if (parse(words, &f, &err) != RC_OK || inject_arm(&table, &f, now_ns, &err) != RC_OK)
		ok(false, "arm %s: %s", words, err.text);
}

/* Is a fault of this kind, and no other, due at communicator 4's step? */
static bool
due(enum gpusim_fault_kind kind, enum gpusim_coll coll, uint64_t op, uint32_t step)
{
	struct inject_point at = {.comm = 4, .coll = coll, .op = op, .step = step};
	struct gpusim_fault f;

	return inject_due(&table, &at, &f) && f.kind == kind && !inject_due(&table, &at, &f);
}

static bool
nothing(enum gpusim_coll coll, uint64_t op, uint32_t step)
{
	struct inject_point at = {.comm = 4, .coll = coll, .op = op, .step = step};
	struct gpusim_fault f;

	return !inject_due(&table, &at, &f);
}

static uint64_t
slow(uint64_t op, uint32_t step, uint64_t now_ns)
{
	struct inject_point at = {.comm = 4, .coll = GPUSIM_ALLREDUCE, .op = op, .step = step};

	return inject_slow_ns(&table, &at, now_ns);
}

static void
test_points(void)
{
	inject_init(&table);
	ok(!inject_any(&table) && !inject_any(NULL), "an empty table, or none, has nothing");
	arm("kill at=allreduce#7.step3", 0);
	ok(inject_any(&table), "one that waits shows");
	ok(nothing(GPUSIM_ALLREDUCE, 6, 3) && nothing(GPUSIM_ALLREDUCE, 7, 2) &&
	       nothing(GPUSIM_BROADCAST, 7, 3),
	   "another operation, step or collective is not its point");
	ok(due(GPUSIM_FAULT_KILL, GPUSIM_ALLREDUCE, 7, 3), "its point is");
	ok(!inject_any(&table), "and then it is gone");
	arm("drop at=any#next", 0);
	arm("corrupt at=allreduce#next.step2", 0);
	ok(due(GPUSIM_FAULT_DROP, GPUSIM_GATHER, 9, 5), "any collective, any step");
	ok(due(GPUSIM_FAULT_CORRUPT, GPUSIM_ALLREDUCE, 11, 2), "whichever comes next");
	inject_clear(&table);
}

static void
test_comm(void)
{
	struct gpusim_fault f = {
	    .kind = GPUSIM_FAULT_KILL, .comm = {5}, .at = 1, .coll = -1, .next = 1};
	struct err err = {0};
	struct gpusim_fault listed[2];
	uint64_t fired;
	int armed = 1;

	inject_arm(&table, &f, 0, &err);
	inject_fired(&table, 2);
	ok(nothing(GPUSIM_ALLREDUCE, 1, 1), "that of another communicator waits");
	ok(inject_list(&table, 0, listed, 2, &fired) == 1 && listed[0].comm.id == 5 && fired == 2,
	   "what waits is listed, what took place is counted");
	while (armed <= GPUSIM_FAULTS_MAX && inject_arm(&table, &f, 0, &err) == RC_OK)
		armed++;
	ok(armed == GPUSIM_FAULTS_MAX && err.rc == RC_BUSY, "so many and no more: %s", err.text);
	inject_clear(&table);
	ok(!inject_any(&table), "all are forgotten");
}

static void
test_slow(void)
{
	arm("slow by=2ms", 100);
	ok(slow(1, 1, 100) == 2000000 && slow(2, 9, 1ull << 60) == 2000000, "from now, for ever");
	arm("slow by=1ms count=2", 100);
	ok(slow(3, 1, 200) == 3000000 && slow(3, 2, 200) == 3000000 && slow(3, 3, 200) == 2000000,
	   "two add up, and one has had its steps");
	inject_clear(&table);
	arm("slow by=1ms for=1us", 100);
	ok(slow(1, 1, 1099) == 1000000 && slow(1, 2, 1100) == 0 && !inject_any(&table),
	   "until its time is over");
	arm("slow by=1ms at=allreduce#next.step2", 100);
	ok(slow(4, 1, 0) == 0 && slow(4, 2, 0) == 1000000 && slow(4, 3, 0) == 1000000,
	   "from its point on");
	ok(slow(5, 1, 0) == 0 && !inject_any(&table), "until the operation has ended");
	arm("slow by=1ms at=allreduce#6 count=3", 100);
	ok(slow(5, 1, 0) == 0 && slow(6, 1, 0) && slow(7, 1, 0) && slow(8, 1, 0) && !slow(9, 1, 0),
	   "or for its steps, whosever they are");
	inject_fini(&table);
}

int
main(void)
{
	test_good();
	test_bad();
	test_points();
	test_comm();
	test_slow();
	return tap_done();
}
