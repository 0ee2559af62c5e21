#include "bench/baseline.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/buf.h"

static double
number(const cJSON *object, const char *name)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(object, name);

	return cJSON_IsNumber(v) ? v->valuedouble : 0;
}

/* Rows into b, which has room for them; false: one has no size. */
static bool
take_rows(const cJSON *rows, struct baseline *b)
{
	static const char *const where[] = {
	    [BENCH_OUT_OF_PLACE] = "out_of_place", [BENCH_IN_PLACE] = "in_place"};
	const cJSON *row;

	cJSON_ArrayForEach(row, rows)
	{
		const cJSON *size = cJSON_GetObjectItemCaseSensitive(row, "size");
		struct baseline_row *r = &b->row[b->n++];

		if (!cJSON_IsNumber(size) ||
		    !(size->valuedouble >= 0 && size->valuedouble < 0x1p63))
			return false;
		r->nbytes = (uint64_t)size->valuedouble;
		for (int p = 0; p < BENCH_NPLACES; p++)
			r->us[p] =
			    number(cJSON_GetObjectItemCaseSensitive(row, where[p]), "time_us");
	}
	return b->n > 0;
}

enum rc
baseline_parse(const char *text, struct baseline *out, struct err *err)
{
	cJSON *root = cJSON_ParseWithOpts(text, NULL, true);
	const cJSON *rows = cJSON_GetObjectItemCaseSensitive(root, "rows");
	struct baseline b = {0};
	enum rc rc = RC_OK;

	b.row = alloc_zeroed((size_t)cJSON_GetArraySize(rows) + 1, sizeof *b.row);
	if (!b.row)
		rc = err_set(err, RC_NOMEM, "out of memory");
	else if (!cJSON_IsArray(rows) || !take_rows(rows, &b))
		rc = err_set(err, RC_BADDATA, "not what gpuctl bench --json prints");
	cJSON_Delete(root);
	if (rc == RC_OK)
		*out = b;
	else
		baseline_fini(&b);
	return rc;
}

void
baseline_fini(struct baseline *b)
{
	free(b->row);
	*b = (struct baseline){0};
}

double
baseline_ratio(const struct baseline *b, uint64_t nbytes, enum bench_place where, double us)
{
	for (size_t i = 0; i < b->n; i++)
		if (b->row[i].nbytes == nbytes && b->row[i].us[where] > 0)
			return us / b->row[i].us[where];
	return 0;
}
