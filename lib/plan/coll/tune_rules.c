/* tune_rules.c - the text of a tuner file: rules, and costs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"
#include "coll/tune_impl.h"

void
tune_rules_free(struct tuner *t)
{
	for (size_t i = 0; i < t->nrules; i++)
		free(t->rule[i].file);
	free(t->rule);
	t->rule = NULL;
	t->nrules = 0;
}

enum column {
	COL_COLL,
	COL_MIN,
	COL_MAX,
	COL_ALGO,
	COL_PROTOCOL,
	COL_CHANNELS,
	COL_NODES,
	COL_RANKS,
	COL_PIPE_OPS,
	COL_REG_BUFF,
	NCOLS,
};

static const char *const columns[NCOLS] = {"collType",	 "minBytes", "maxBytes", "algorithm",
					   "protocol",	 "channels", "nNodes",	 "nRanks",
					   "numPipeOps", "regBuff"};

/* Parse a size; -1 gives `any`. */
static enum rc
number(const char *word, uint64_t any, uint64_t *out, struct err *err)
{
	if (strcmp(word, "-1") == 0) {
		*out = any;
		return RC_OK;
	}
	return parse_size(word, out, err);
}

/* NCCL's protocols between GPUs, which mean any transport here, and algorithms that only GPUs have. */
static const char *const any_protocol[] = {"-1", "ll", "ll128", "simple", NULL};
static const char *const of_gpus[] = {"collnet_direct", "collnet_chain", "nvls",
				      "nvls_tree",	"pat",		 NULL};

static bool
is_one_of(const char *word, const char *const *words)
{
	while (*words && strcmp(word, *words) != 0)
		words++;
	return *words != NULL;
}

/* -1: none. */
static int
transport_named(const char *word)
{
	return strcmp(word, "net") == 0 ? TUNE_NET : strcmp(word, "p2p") == 0 ? TUNE_P2P : -1;
}

static enum rc
set_column(const struct tuner *t, struct tune_rule *r, int col, const char *word, bool *fits,
	   struct err *err)
{
	struct err why = {0};
	uint64_t n = 0;
	enum rc rc;

	switch (col) {
	case COL_COLL:
		return coll_parse(word, &r->coll, err);
	case COL_MIN:
		return number(word, 0, &r->min_bytes, err);
	case COL_MAX:
		return number(word, UINT64_MAX, &r->max_bytes, err);
	case COL_ALGO:
		if (!*word || strcmp(word, "auto") == 0)
			return err_set(err, RC_BADDATA, "must name an algorithm, not '%s'", word);
		if (is_one_of(word, of_gpus)) {
			*fits = false;
			return RC_OK;
		}
		/* A built-in one, or one of a file if the tuner accepts those. */
		if (plan_algo_find(r->coll, word, &r->algo, &why) == RC_OK)
			return RC_OK;
		if (!t->takes_files || !tune_is_name(word) || plan_algo_is_built_in(word))
			return (*err = why).rc;
		free(r->file);
		r->file = strdup(word);
		r->algo = &plan_algo_file;
		return r->file ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
	case COL_PROTOCOL:
		r->transport = transport_named(word);
		if (r->transport < 0 && !is_one_of(word, any_protocol))
			return err_set(err, RC_BADDATA,
				       "'%s' is not net, p2p, ll, ll128, simple or -1", word);
		return RC_OK;
	default:
		rc = number(word, UINT64_MAX, &n, err);
		if (rc == RC_OK && col == COL_NODES && n != 1 && n != UINT64_MAX)
			*fits = false;
		if (rc != RC_OK || col != COL_RANKS || n == UINT64_MAX)
			return rc;
		if (n == 0 || n > PLAN_MAX_RANKS)
			return err_set(err, RC_BADDATA, "'%s' is not 1..%u or -1", word,
				       PLAN_MAX_RANKS);
		r->nranks = (uint32_t)n;
		return RC_OK;
	}
}

/* Copy the column's text, without blanks around it; *line moves past its comma, or becomes NULL. */
static enum rc
next_column(const char **line, const char *end, char word[static TUNE_WORD_MAX], struct err *err)
{
	const char *p = *line, *comma = memchr(p, ',', (size_t)(end - p)), *stop;

	stop = comma ? comma : end;
	*line = comma ? comma + 1 : NULL;
	while (p < stop && strchr(" \t", *p))
		p++;
	while (stop > p && strchr(" \t\r", stop[-1]))
		stop--;
	if (stop - p >= TUNE_WORD_MAX)
		return err_set(err, RC_BADDATA, "value too long");
	memcpy(word, p, (size_t)(stop - p));
	word[stop - p] = '\0';
	return RC_OK;
}

/* ---- costs */

static const struct {
	const char *name;
	size_t at;
	double unit; /* the model's units per unit of the name */
} costs[] = {
    {"alpha_us", offsetof(struct cost_model, alpha_us), 1},
    {"host_us", offsetof(struct cost_model, host_us), 1},
    {"beta_ns", offsetof(struct cost_model, beta_us), 1e-3},
    {"gamma_ns", offsetof(struct cost_model, gamma_us), 1e-3},
};

#define COST_MAX 1e12

static enum rc
set_cost(struct cost_model *m, char *word, struct err *err)
{
	char *value = strchr(word, '=');
	double x;

	for (size_t i = 0; value && i < sizeof costs / sizeof *costs; i++) {
		if (strlen(costs[i].name) != (size_t)(value - word) ||
		    strncmp(word, costs[i].name, (size_t)(value - word)) != 0)
			continue;
		if (parse_double(value + 1, 0, COST_MAX, &x, err) != RC_OK)
			return err_prefix(err, "%s", costs[i].name);
		*(double *)((char *)m + costs[i].at) = x * costs[i].unit;
		return RC_OK;
	}
	return err_set(err, RC_BADDATA,
		       "'%s' is not alpha_us, host_us, beta_ns or gamma_ns with = and a number",
		       word);
}

/* "cost,TRANSPORT,NAME=VALUE,..." */
static enum rc
parse_costs(const char *line, const char *end, struct tuner *t, struct err *err)
{
	char word[TUNE_WORD_MAX];
	int by = -1;

	for (int col = 0; line; col++) {
		enum rc rc = next_column(&line, end, word, err);

		if (rc == RC_OK && col == 1 && (by = transport_named(word)) < 0)
			rc = err_set(err, RC_BADDATA, "'%s' is not net or p2p", word);
		else if (rc == RC_OK && col > 1)
			rc = set_cost(&t->model[by], word, err);
		if (rc != RC_OK)
			return rc;
	}
	if (by < 0)
		return err_set(err, RC_BADDATA, "the second column must be net or p2p");
	t->measured[by] = true;
	return RC_OK;
}

/* ---- lines */

/* r->file is the caller's to free, on failure too. */
static enum rc
parse_rule(const struct tuner *t, const char *line, const char *end, struct tune_rule *r,
	   bool *fits, struct err *err)
{
	char word[TUNE_WORD_MAX];
	int col = 0;

	*r = (struct tune_rule){.transport = -1};
	*fits = true;
	for (; line; col++) {
		enum rc rc;

		if (col == NCOLS)
			return err_set(err, RC_BADDATA, "more than %d columns", NCOLS);
		rc = next_column(&line, end, word, err);
		if (rc == RC_OK)
			rc = set_column(t, r, col, word, fits, err);
		if (rc != RC_OK)
			return err_prefix(err, "%s", columns[col]);
	}
	if (col <= COL_ALGO)
		return err_set(err, RC_BADDATA, "%s is missing", columns[col]);
	if (r->min_bytes > r->max_bytes)
		return err_set(err, RC_BADDATA, "minBytes is more than maxBytes");
	return RC_OK;
}

/* A rule, or costs. */
static enum rc
take_line(const struct tuner *t, const char *line, const char *end, struct tuner *new,
	  struct err *err)
{
	size_t n = strlen("cost");
	struct tune_rule r, *v;
	bool fits;
	enum rc rc;

	if ((size_t)(end - line) >= n && strncmp(line, "cost", n) == 0 &&
	    (line + n == end || strchr(", \t", line[n])))
		return parse_costs(line, end, new, err);
	rc = parse_rule(t, line, end, &r, &fits, err);
	if (rc == RC_OK && fits && new->nrules == TUNE_MAX_RULES)
		rc = err_set(err, RC_BADDATA, "more than %d lines", TUNE_MAX_RULES);
	if (rc == RC_OK && fits && !(v = alloc_resize(new->rule, new->nrules + 1, sizeof *v)))
		rc = err_set(err, RC_NOMEM, "out of memory");
	if (rc != RC_OK || !fits) {
		free(r.file);
		return rc;
	}
	new->rule = v;
	v[new->nrules++] = r;
	return RC_OK;
}

enum rc
tuner_rules(struct tuner *t, const char *text, const char *name, struct err *err)
{
	struct tuner new = {0};
	struct err why = {0};
	unsigned line = 1;
	enum rc rc = RC_OK;

	memcpy(new.model, t->model, sizeof new.model);
	memcpy(new.measured, t->measured, sizeof new.measured);
	for (const char *p = text, *end; *p; p = *end ? end + 1 : end, line++) {
		end = p + strcspn(p, "\n");
		p += strspn(p, " \t\r");
		if (p >= end || *p == '#')
			continue;
		rc = take_line(t, p, end, &new, &why);
		if (rc != RC_OK)
			break;
	}
	if (rc != RC_OK) {
		tune_rules_free(&new);
		return err_set(err, rc == RC_NOMEM ? rc : RC_BADDATA, "%s:%u: %s", name, line,
			       why.text);
	}
	tune_rules_free(t);
	t->rule = new.rule;
	t->nrules = new.nrules;
	memcpy(t->model, new.model, sizeof t->model);
	memcpy(t->measured, new.measured, sizeof t->measured);
	return RC_OK;
}
