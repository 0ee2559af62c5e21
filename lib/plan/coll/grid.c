#include "coll/grid.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"

/* "tp=2", len bytes, into its number. */
static enum rc
take(const char *p, size_t len, uint32_t most, struct grid *g, struct err *err)
{
	uint32_t *const to[] = {&g->dp, &g->tp, &g->pp};
	static const char *const names[] = {"dp=", "tp=", "pp="};
	char number[16];
	uint64_t n;

	for (unsigned i = 0; i < 3; i++) {
		if (len <= 3 || len - 3 >= sizeof number || strncmp(p, names[i], 3) != 0)
			continue;
		memcpy(number, p + 3, len - 3);
		number[len - 3] = '\0';
		if (*to[i])
			return err_set(err, RC_INVAL, "%.2s is there twice", names[i]);
		if (parse_u64(number, 1, most, &n, NULL) != RC_OK)
			break;
		*to[i] = (uint32_t)n;
		return RC_OK;
	}
	return err_set(err, RC_INVAL, "'%.*s' is not dp=N, tp=N or pp=N with N from 1 to %u",
		       (int)(len < 32 ? len : 32), p, most);
}

enum rc
grid_parse(const char *text, uint32_t most, struct grid *out, struct err *err)
{
	struct grid g = {0};
	const char *p = text;
	enum rc rc;

	for (;;) {
		size_t len = strcspn(p, ",");

		rc = take(p, len, most, &g, err);
		if (rc != RC_OK)
			return rc;
		if (p[len] == '\0')
			break;
		p += len + 1;
	}
	g.tp = g.tp ? g.tp : 1;
	g.pp = g.pp ? g.pp : 1;
	if ((uint64_t)(g.dp ? g.dp : 1) * g.tp * g.pp > most)
		return err_set(err, RC_INVAL, "'%.64s' is more than %u ranks", text, most);
	*out = g;
	return RC_OK;
}

const char *
grid_print(const struct grid *g, char out[GRID_TEXT])
{
	int n = g->dp ? snprintf(out, GRID_TEXT, "dp=%" PRIu32 ",", g->dp) : 0;

	snprintf(out + n, GRID_TEXT - (size_t)n, "tp=%" PRIu32 ",pp=%" PRIu32, g->tp, g->pp);
	return out;
}

enum rc
grid_parse_for(const char *text, uint32_t n, struct grid *out, struct err *err)
{
	struct grid g;
	bool named;
	enum rc rc = grid_parse(text, GRID_MAX, &g, err);

	if (rc != RC_OK)
		return rc;
	named = g.dp != 0;
	g.dp = named ? g.dp : n / (g.tp * g.pp);
	if (named ? grid_size(&g) != n : g.dp == 0)
		return err_set(err, RC_INVAL, "'%.64s' is not a grid of %" PRIu32 " rank%s", text,
			       n, n == 1 ? "" : "s");
	*out = g;
	return RC_OK;
}

bool
grid_place_print(const char *grid, uint32_t rank, char out[GRID_TEXT])
{
	struct grid_place at;
	struct grid g;

	if (grid_parse(grid, GRID_MAX, &g, NULL) != RC_OK || rank >= grid_size(&g))
		return false;
	at = grid_at(&g, rank);
	snprintf(out, GRID_TEXT, "d%" PRIu32 " t%" PRIu32 " p%" PRIu32, at.d, at.t, at.p);
	return true;
}
