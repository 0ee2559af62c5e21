/* gpuctl comm-split - create a communicator for each color, like ncclCommSplit. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/parse.h"
#include "cli.h"
#include "table.h"

#define WORD_CHARS 16 /* longest number, and its NUL */

/* Parse n numbers, separated by commas; the word `none` becomes -1. The caller frees *out. */
static enum rc
parse_list(const char *text, const char *none, uint32_t n, int **out, struct err *err)
{
	int *v = must_alloc(n, sizeof *v);
	char word[WORD_CHARS];
	uint64_t x;
	uint32_t k = 0;
	enum rc rc = RC_OK;

	for (const char *p = text; rc == RC_OK && p; k++) {
		size_t len = strcspn(p, ",");

		snprintf(word, sizeof word, "%.*s", (int)(len < WORD_CHARS ? len : WORD_CHARS), p);
		if (none && strcmp(word, none) == 0)
			x = 0;
		else
			rc = parse_u64(word, 0, INT32_MAX, &x, err);
		if (rc == RC_OK && k < n)
			v[k] = none && strcmp(word, none) == 0 ? -1 : (int)x;
		p = p[len] ? p + len + 1 : NULL;
	}
	if (rc == RC_OK && k != n)
		rc = err_set(err, RC_INVAL, "%" PRIu32 " given for %" PRIu32 " rank%s", k, n,
			     n == 1 ? "" : "s");
	if (rc == RC_OK)
		*out = v;
	else
		free(v);
	return rc;
}

static enum rc
parse_lists(const struct args *a, uint32_t n, int **color, int **key, struct err *err)
{
	enum rc rc = parse_list(a->rest[1], "-", n, color, err);

	if (rc != RC_OK)
		return err_prefix(err, "colors");
	if (!a->keys)
		return rc;
	rc = parse_list(a->keys, NULL, n, key, err);
	return rc == RC_OK ? rc : err_prefix(err, "--keys");
}

/* Print each color and its communicator, one per line. */
static void
print_split(const struct args *a, const struct gpusim_split *made, size_t n)
{
	struct json j = {stdout, false};

	for (size_t i = 0; i < n && !a->json; i++)
		printf("%d %" PRIu64 "\n", made[i].color, gpusim_comm_id(made[i].comm).id);
	for (size_t i = 0; i < n && a->json; i++) {
		json_put(&j, i ? "{color:%d" : "[{color:%d", made[i].color);
		json_members(&j, made[i].comm);
		json_put(&j, "}");
	}
	if (a->json)
		json_put(&j, "]\n");
}

enum rc
run_comm_split(struct cli *cli, const struct args *a, struct err *err)
{
	const struct gpusim_comm_config config = cli_config(a, GPUSIM_PERSIST);
	struct gpusim_comm *comm = NULL;
	struct gpusim_split *made = NULL;
	int *color = NULL, *key = NULL;
	size_t n = 0;
	enum rc rc = cli_named_comm(cli, a, &comm, err);

	if (rc == RC_OK)
		rc = parse_lists(a, gpusim_comm_count(comm), &color, &key, err);
	if (rc == RC_OK)
		rc = api(gpusim_comm_split_all(comm, color, key, &config, &made, &n), err);
	if (rc == RC_OK)
		print_split(a, made, n);
	gpusim_split_free(made, n);
	gpusim_comm_free(comm);
	free(color);
	free(key);
	return rc;
}
