/* Which name a mistyped word stands for. */
#include "base/nearest.h"

#include <string.h>

#include "tap.h"

static const char *const names[] = {
    "allreduce", "allgather", "broadcast", "reduce", "reduce-scatter", "ring", "send", "seed",
    NULL,	 "barrier",   "lr",	   "x"};

static void
check(const char *word, const char *want)
{
	const char *got = nearest(word, names, sizeof names / sizeof names[0]);

	ok(got == want || (got && want && strcmp(got, want) == 0), "'%s': %s",
	   strlen(word) < 60 ? word : "long", got ? got : "none");
}

int
main(void)
{
	char longest[200];

	check("allreduce", "allreduce");
	check("ALLREDUCE", "allreduce");
	check("alreduce", "allreduce");
	check("allreduec", "allreduce");
	check("allredduce", "allreduce");
	check("alllgatherr", "allgather");
	check("brodcast", "broadcast");
	check("broad", "broadcast");
	check("bar", "barrier");
	check("rnig", "ring");
	check("rng", "ring");
	check("sed", "send");
	check("sede", "seed");
	check("reduce-scater", "reduce-scatter");
	check("reduc", "reduce");
	check("rl", "lr");

	check("", NULL);
	check("y", NULL);
	check("ab", NULL);
	check("frobnicate", NULL);
	check("abc", NULL);
	memset(longest, 'a', sizeof longest - 1);
	longest[sizeof longest - 1] = '\0';
	check(longest, NULL);
	longest[64] = '\0';
	check(longest, NULL);
	ok(nearest_same("all_reduce", "allreduce") && nearest_same("AllReduce", "all-reduce") &&
	       nearest_same("reduce_scatter", "reduce-scatter"),
	   "spellings of one name");
	ok(!nearest_same("reduce", "reducer") && !nearest_same("reducer", "reduce") &&
	       !nearest_same("", "a") && nearest_same("", "-_"),
	   "and of two");
	ok(nearest("x", NULL, 0) == NULL, "of no names none is near");
	return tap_done();
}
