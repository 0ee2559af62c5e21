/* gpuctl algo - manage the algorithms from files that the coordinator keeps. */
#include "algo.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/must.h"
#include "coll/plan.h"

/* The coordinator's algorithms, fetched once. */
static struct {
	struct gpusim_algo *v;
	size_t n;
} kept;

/* Algorithms of --algo-file. They are never freed: options point to their names. */
static struct added {
	struct added *next;
	struct gpusim_algo algo;
} * added;

/* ---- --algo and --algo-file */

static enum rc
add_text(struct cli *cli, const char *path, struct gpusim_algo_config *cfg, struct gpusim_algo *out,
	 struct err *err)
{
	struct buf text = {0};
	enum rc rc = file_text(path, "an algorithm's file", &text, err);

	cfg->path = path;
	if (rc == RC_OK)
		rc = cli_open(cli, err);
	if (rc == RC_OK)
		rc = api(gpusim_algo_add(cli->g, text.data, strlen(text.data), cfg, out), err);
	buf_fini(&text);
	return rc;
}

/* Add a file's algorithm for the life of this program; *name is its name. */
static enum rc
add_leased(struct cli *cli, const char *path, const char **name, struct err *err)
{
	struct gpusim_algo_config cfg = {GPUSIM_ALGO_CONFIG_INIT, .life = GPUSIM_LEASE};
	struct added *new = must_alloc(1, sizeof *new);
	enum rc rc = add_text(cli, path, &cfg, &new->algo, err);

	if (rc != RC_OK) {
		free(new);
		return rc;
	}
	new->next = added;
	added = new;
	*name = new->algo.name;
	return RC_OK;
}

/* The first of "NAME,NAME" that is not built in for any collective; NULL: none. */
static const char *
first_foreign(const char *names)
{
	char word[GPUSIM_ALGO_NAME];
	size_t n;

	for (const char *p = names; p; p = p[n] ? p + n + 1 : NULL) {
		n = strcspn(p, ",");
		if (n == 0 || n >= sizeof word)
			continue;
		snprintf(word, sizeof word, "%.*s", (int)n, p);
		if (!plan_algo_is_built_in(word))
			return p;
	}
	return NULL;
}

static enum rc
ask(struct cli *cli, struct err *err)
{
	enum rc rc = cli_open(cli, err);

	return rc == RC_OK ? api(gpusim_algo_list(cli->g, &kept.v, &kept.n), err) : rc;
}

enum rc
algo_take(struct cli *cli, struct args *a, struct err *err)
{
	struct err why = {0};

	if (a->algo && a->algo_file)
		return err_set(err, RC_INVAL, "--algo-file: cannot be combined with --algo");
	if (a->algo_file && add_leased(cli, a->algo_file, &a->algo, err) != RC_OK)
		return err->rc;
	/* Without a coordinator, algo_check reports the name as unknown. */
	if (a->algo && !kept.v && first_foreign(a->algo))
		ask(cli, &why);
	return RC_OK;
}

static bool
is_added(const char *name)
{
	for (const struct added *a = added; a; a = a->next)
		if (strcmp(a->algo.name, name) == 0)
			return true;
	return false;
}

enum rc
algo_check(enum gpusim_coll coll, const char *name, struct err *err)
{
	const struct plan_algo *built_in;
	const char *before = "; from files: ";

	if (name && is_added(name))
		return RC_OK;
	for (size_t i = 0; name && i < kept.n; i++)
		if (kept.v[i].coll == coll && strcmp(kept.v[i].name, name) == 0)
			return RC_OK;
	if (plan_algo_find(coll, name, &built_in, err) == RC_OK)
		return RC_OK;
	for (size_t i = 0; i < kept.n; i++) {
		size_t at = strlen(err->text);

		if (kept.v[i].coll != coll)
			continue;
		snprintf(err->text + at, sizeof err->text - at, "%s%s", before, kept.v[i].name);
		before = ", ";
	}
	return err->rc;
}

void
algo_names(struct cli *cli, void (*offer)(const void *arg, const struct gpusim_algo *a),
	   const void *arg)
{
	struct err err = {0};

	if (!cli_open_at_once(cli) || ask(cli, &err) != RC_OK)
		return;
	for (size_t i = 0; i < kept.n; i++)
		offer(arg, &kept.v[i]);
}

/* ---- the verb */

/* "1K-64M", "any". */
static void
print_range(const struct gpusim_algo *a)
{
	char most[24] = "";

	if (a->max_bytes)
		snprintf(most, sizeof most, "%" PRIu64, a->max_bytes);
	if (a->min_bytes || a->max_bytes)
		printf("%" PRIu64 "-%s", a->min_bytes, most);
	else
		printf("any");
}

static void
print_text(const struct gpusim_algo *a)
{
	printf("%-24s  %-14s  %5" PRIu32 "  %6" PRIu32 "  %7" PRIu64 "  %5" PRIu32 "  %-7s  %s  ",
	       a->name, coll_name(a->coll), a->nranks, a->chunks, a->steps, a->slots,
	       a->leased ? "leased" : "kept", a->digest);
	print_range(a);
	putchar('\n');
}

static void
print_json(struct json *j, const struct gpusim_algo *a)
{
	json_put(j, "{collective:%s ranks:%" PRIu32 " name:%s", coll_name(a->coll), a->nranks,
		 a->name);
	if (coll_has_root(a->coll))
		json_put(j, "root:%" PRIu32, a->root);
	json_put(j,
		 "chunks:%" PRIu32 " steps:%" PRIu64 " messages:%" PRIu64 " slots:%" PRIu32
		 " min_bytes:%" PRIu64 " max_bytes:%" PRIu64 " leased:%hhu digest:%s}",
		 a->chunks, a->steps, a->messages, a->slots, a->min_bytes, a->max_bytes,
		 (bool)a->leased, a->digest);
}

static enum rc
list(struct cli *cli, const struct args *a, struct err *err)
{
	struct json j = {stdout, false};
	enum rc rc = ask(cli, err);

	if (rc != RC_OK)
		return rc;
	if (a->json)
		json_put(&j, "[");
	else
		printf("%-24s  %-14s  %5s  %6s  %7s  %5s  %-7s  %-16s  %s\n", "name", "collective",
		       "ranks", "chunks", "steps", "slots", "life", "digest", "bytes");
	for (size_t i = 0; i < kept.n; i++)
		if (a->json)
			print_json(&j, &kept.v[i]);
		else
			print_text(&kept.v[i]);
	if (a->json)
		json_put(&j, "]\n");
	return RC_OK;
}

static enum rc
add(struct cli *cli, const struct args *a, struct err *err)
{
	struct gpusim_algo_config cfg = {GPUSIM_ALGO_CONFIG_INIT, .replace = a->replace};
	struct gpusim_algo out;

	if (a->nrest < 2)
		return err_set(err, RC_INVAL, "add: needs a FILE");
	cfg.name = a->nrest == 3 ? a->rest[1] : NULL;
	if (add_text(cli, a->rest[a->nrest - 1], &cfg, &out, err) != RC_OK)
		return err->rc;
	if (a->json) {
		print_json(&(struct json){stdout, false}, &out);
		putchar('\n');
	} else {
		puts(out.name);
	}
	return RC_OK;
}

enum rc
run_algo(struct cli *cli, const struct args *a, struct err *err)
{
	const char *what = a->rest[0];
	bool is_add = strcmp(what, "add") == 0, is_list = strcmp(what, "list") == 0;
	enum rc rc;

	if (!is_add && !is_list && strcmp(what, "remove") != 0)
		return err_set(err, RC_INVAL, "must be add, list or remove, not '%.64s'", what);
	if (a->replace && !is_add)
		return err_set(err, RC_INVAL, "--replace: only for add");
	if (is_add)
		return add(cli, a, err);
	if (a->nrest != (is_list ? 1 : 2))
		return err_set(err, RC_INVAL,
			       is_list ? "list: takes no operand" : "remove: needs a NAME");
	if (is_list)
		return list(cli, a, err);
	rc = cli_open(cli, err);
	return rc == RC_OK ? api(gpusim_algo_remove(cli->g, a->rest[1]), err) : rc;
}
