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

/* -1 is `any`. */
static enum rc
number(const char *word, uint64_t any, uint64_t *out, struct err *err)
{
	if (strcmp(word, "-1") == 0) {
		*out = any;
		return RC_OK;
	}
	return parse_size(word, out, err);
}

/* Protocols of NCCL between GPUs, which mean any transport here, and algorithms that only GPUs have. */
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

/* Of a rule: what is built in, or a name of a file's where those are taken. */
static enum rc
set_algo(const struct tuner *t, struct tune_rule *r, const char *word, struct err *err)
{
	struct err why = {0};

	if (plan_algo_find(r->coll, word, &r->algo, &why) == RC_OK)
		return RC_OK;
	if (!t->takes_files || !tune_is_name(word) || plan_algo_is_built_in(word))
		return (*err = why).rc;
	free(r->file);
	r->file = strdup(word);
	r->algo = &plan_algo_file;
	return r->file ? RC_OK : err_set(err, RC_NOMEM, "out of memory");
}

static enum rc
set_column(const struct tuner *t, struct tune_rule *r, int col, const char *word, bool *fits,
	   struct err *err)
{
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
			return err_set(err, RC_BADDATA, "no algorithm '%s'", word);
		if (is_one_of(word, of_gpus)) {
			*fits = false;
			return RC_OK;
		}
		return set_algo(t, r, word, err);
	case COL_PROTOCOL:
		r->transport = strcmp(word, "net") == 0	  ? TUNE_NET
			       : strcmp(word, "p2p") == 0 ? TUNE_P2P
							  : -1;
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

/* The column's text, without blanks around it; *line moves past its comma, or becomes NULL. */
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
		return err_set(err, RC_BADDATA, "longer than any value");
	memcpy(word, p, (size_t)(stop - p));
	word[stop - p] = '\0';
	return RC_OK;
}

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

static enum rc
add_rule(struct tuner *t, const struct tune_rule *r, struct err *err)
{
	struct tune_rule *v;

	if (t->nrules == TUNE_MAX_RULES)
		return err_set(err, RC_BADDATA, "more than %d lines", TUNE_MAX_RULES);
	v = alloc_resize(t->rule, t->nrules + 1, sizeof *v);
	if (!v)
		return err_set(err, RC_NOMEM, "out of memory");
	t->rule = v;
	v[t->nrules++] = *r;
	return RC_OK;
}

enum rc
tuner_rules(struct tuner *t, const char *text, const char *name, struct err *err)
{
	struct tuner new = {0};
	struct err why = {0};
	unsigned line = 1;
	enum rc rc = RC_OK;

	for (const char *p = text, *end; *p; p = *end ? end + 1 : end, line++) {
		struct tune_rule r;
		bool fits;

		end = p + strcspn(p, "\n");
		p += strspn(p, " \t\r");
		if (p >= end || *p == '#')
			continue;
		rc = parse_rule(t, p, end, &r, &fits, &why);
		if (rc == RC_OK && fits)
			rc = add_rule(&new, &r, &why);
		if (rc != RC_OK || !fits)
			free(r.file);
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
	return RC_OK;
}
