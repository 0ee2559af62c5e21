/* A grid's text, and the places of its ranks. */
#include "grid/grid.h"

#include <string.h>

#include "tap.h"

static struct err err;

static bool
reads(const char *text, uint32_t dp, uint32_t tp, uint32_t pp)
{
	struct grid g = {7, 7, 7};

	return grid_parse(text, GRID_MAX, &g, &err) == RC_OK && g.dp == dp && g.tp == tp &&
	       g.pp == pp;
}

static bool
refuses(const char *text, uint32_t most, const char *says)
{
	struct grid g = {7, 7, 7};
	bool good = grid_parse(text, most, &g, &err) == RC_INVAL && strstr(err.text, says) &&
		    g.dp == 7 && g.tp == 7 && g.pp == 7;

	if (!good)
		printf("# '%s': %s\n", text, err.text);
	return good;
}

static void
parse(void)
{
	static const char *const bad[] = {
	    "",
	    ",",
	    "dp",
	    "dp=",
	    "dp=0",
	    "dp=-1",
	    "dp=1.5",
	    "dp=2,",
	    ",dp=2",
	    "dp=2,,",
	    "xp=2",
	    " dp=2",
	    "dp =2",
	    "dp=2 ",
	    "dp=2;tp=2",
	    "DP=2",
	    "dp=2,3",
	    "dp=1025",
	    "dp=4294967297",
	    "dp=18446744073709551617",
	    "dp=00000000000000000000000000000000000000000000000000000000000000000000000000000001"};
	bool good = true;

	ok(reads("dp=2,tp=3,pp=4", 2, 3, 4) && reads("pp=4,dp=2,tp=3", 2, 3, 4), "in any order");
	ok(reads("dp=5", 5, 1, 1) && reads("tp=2", 0, 2, 1) && reads("pp=1024", 0, 1, 1024),
	   "what is not named is 1; dp is left open");
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		good = refuses(bad[i], GRID_MAX, "is not dp=N, tp=N or pp=N") && good;
	ok(good, "refuses all else");
	ok(refuses("dp=2,tp=2,dp=2", GRID_MAX, "dp is there twice"), "a name twice");
	ok(refuses("dp=32,tp=32,pp=2", GRID_MAX, "more than 1024 ranks") &&
	       reads("dp=32,tp=16,pp=2", 32, 16, 2) &&
	       refuses("dp=1000000,tp=1000000,pp=1000000", 1000000, "more than 1000000 ranks"),
	   "the most ranks are the caller's");
}

static void
print(void)
{
	static const struct grid grids[] = {
	    {2, 3, 4}, {0, 2, 1}, {1, 1, 1}, {1024, 1, 1}, {UINT32_MAX, UINT32_MAX, UINT32_MAX}};
	char text[GRID_TEXT];
	bool good = true;

	for (size_t i = 0; i < 4; i++) {
		struct grid g;

		good = grid_parse(grid_print(&grids[i], text), GRID_MAX, &g, &err) == RC_OK &&
		       memcmp(&g, &grids[i], sizeof g) == 0 && good;
	}
	ok(good, "what is printed is read as the same, also without dp");
	ok(strcmp(grid_print(&grids[4], text), "dp=4294967295,tp=4294967295,pp=4294967295") == 0,
	   "the longest text has room");
}

/* Every rank has one place; tensor-parallel neighbours come first, stages are runs. */
static void
places(void)
{
	bool good = true;

	for (uint32_t dp = 1; dp <= 4; dp++)
		for (uint32_t tp = 1; tp <= 4; tp++)
			for (uint32_t pp = 1; pp <= 4; pp++) {
				const struct grid g = {dp, tp, pp};
				uint32_t rank = 0;

				for (uint32_t p = 0; p < pp; p++)
					for (uint32_t d = 0; d < dp; d++)
						for (uint32_t t = 0; t < tp; t++, rank++) {
							struct grid_place at = grid_at(&g, rank);

							good = good &&
							       grid_rank(&g, d, t, p) == rank &&
							       at.d == d && at.t == t && at.p == p;
						}
				good = good && rank == grid_size(&g);
			}
	ok(good, "ranks and places are inverse, for up to 4 x 4 x 4");
}

int
main(void)
{
	parse();
	print();
	places();
	return tap_done();
}
