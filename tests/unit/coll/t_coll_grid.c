/* A grid's text, and the places of its ranks. */
#include "coll/grid.h"

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

/* Of communicators. */
static void
fits(void)
{
	static const struct {
		const char *text;
		uint32_t n, dp, tp, pp; /* dp 0: refused */
	} row[] = {
	    {"dp=2,tp=2,pp=2", 8, 2, 2, 2},
	    {"pp=3,dp=2", 6, 2, 1, 3},
	    {"tp=2", 8, 4, 2, 1},
	    {"tp=2,pp=2", 7, 1, 2, 2}, /* three ranks are outside */
	    {"dp=1024", 1024, 1024, 1, 1},
	    {"tp=2,pp=2", 3, 0, 0, 0},
	    {"dp=2,tp=2", 8, 0, 0, 0},
	    {"dp=2,tp=2,pp=2", 7, 0, 0, 0},
	    {"dp=1024,tp=1024,pp=1024", 1024, 0, 0, 0},
	    {"", 4, 0, 0, 0},
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct grid g = {7, 7, 7};
		enum rc rc = grid_parse_for(row[i].text, row[i].n, &g, &err);

		if (row[i].dp)
			ok(rc == RC_OK && g.dp == row[i].dp && g.tp == row[i].tp &&
			       g.pp == row[i].pp,
			   "'%s' of %u ranks", row[i].text, row[i].n);
		else
			ok(rc == RC_INVAL && *err.text && g.dp == 7, "not '%s' of %u ranks: %s",
			   row[i].text, row[i].n, err.text);
	}
}

static void
place_names(void)
{
	char place[GRID_TEXT];

	ok(grid_place_print("dp=3,tp=2,pp=4", 23, place) && strcmp(place, "d2 t1 p3") == 0 &&
	       grid_place_print("dp=3,tp=2,pp=4", 2, place) && strcmp(place, "d1 t0 p0") == 0,
	   "a rank's place");
	ok(!grid_place_print("dp=3,tp=2,pp=4", 24, place) && !grid_place_print("", 0, place),
	   "a rank outside has none, nor has one without a grid");
}

int
main(void)
{
	parse();
	print();
	places();
	fits();
	place_names();
	return tap_done();
}
