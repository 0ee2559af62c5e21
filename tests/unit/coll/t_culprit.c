/* The culprits of an operation that makes no progress. */
#include <stdio.h>
#include <string.h>

#include "coll/culprit.h"
#include "tap.h"

#define MAX 6

/* "0>1 1>2 2": rank 0 waits for 1, 1 for 2, 2 for none; "x" lost, "e" ended; "@5": at step 5. Ranks in
 * order. The culprits, one letter per rank: "." not, L lost, S stuck, A apart. */
static bool
blames(const char *ranks, const char *expected)
{
	struct culprit_rank v[MAX] = {0};
	enum culprit why[MAX];
	char got[MAX + 1] = "";
	uint32_t n = 0, nblamed = 99, count = 0;

	for (const char *p = ranks; *p; p++) {
		struct culprit_rank *b = &v[n];

		if (*p == '>')
			b->waits_for = (uint32_t)(*++p - '0') + 1;
		else if (*p == '@')
			b->step = (uint32_t)(*++p - '0');
		else if (*p == '#')
			b->seq = (uint64_t)(*++p - '0');
		else if (*p == 'x')
			b->lost = true;
		else if (*p == 'e')
			b->ended = true;
		n += *p == ' ';
	}
	n++;
	if (culprits_find(v, n, why, &nblamed, NULL) != RC_OK)
		return false;
	for (uint32_t r = 0; r < n; r++) {
		got[r] = ".LSA"[why[r]];
		count += why[r] != CULPRIT_NOT;
	}
	if (strcmp(got, expected) != 0)
		printf("# %s: %s, not %s\n", ranks, got, expected);
	return strcmp(got, expected) == 0 && nblamed == count;
}

int
main(void)
{
	ok(blames("0>1 1>2 2", "..S"), "the end of a chain of ranks that wait is stuck");
	ok(blames("0 1>0 2>1 3>2", "S..."), "in any order");
	ok(blames("0>2 1>2 2 3>1", "..S."), "also when several wait for it");
	ok(blames("0 1>0 2 3>2", "S.S."), "two chains have two ends");
	ok(blames("0 1 2", "..."), "no rank waits: there is no culprit");
	ok(blames("0>1", "."), "waiting for a rank that does not exist makes no culprit");
	ok(blames("0>0 1>0", "S."), "a rank that waits for itself is stuck");
	ok(blames("0>1 1>2 2x", "..L"), "the end of a chain that is lost is lost, and not stuck");
	ok(blames("0x 1 2>1", "LS."), "a lost rank does not excuse a stuck one");
	ok(blames("0>1 1e", ".."), "a rank that has ended is not a culprit");
	ok(blames("0x>1 1", "L."), "the rank that a lost rank waited for is not a culprit");
	ok(blames("0>1@2 1>0@1", "AA"), "two that wait for each other are apart");
	ok(blames("0>3@4 1>0@3 2>1@1 3>2@2", ".AA."),
	   "in a ring, the one with the least progress, and the one it waits for");
	ok(blames("0>2#2@1 1>0#1@9 2>1#2@2", "AA."), "progress is first a matter of operations");
	ok(blames("0>1@1 1>2@2 2>1@3 3>2@1", ".AA."),
	   "chains that lead to a ring are not part of it");
	ok(blames("0x", "L") && blames("0", "."), "a rank alone");
	return tap_done();
}
